package h1test

import "strings"

// MalformedResponse is a response head that must be refused: a bad endpoint.
type MalformedResponse struct {
	Name, Raw string
}

// GoodResponse is a response that must be accepted, and what is read from it.
type GoodResponse struct {
	Name   string
	Method string // of the request; empty means GET
	Raw    string // the response with its body, and nothing behind it

	Status  int
	Reason  string
	Kind    string // how the body ends, as h1.Body has it
	Body    string // decoded
	Trailer string
	Close   bool
	Hop     string
}

func ok(lines string) string { return "HTTP/1.1 200 OK\r\n" + lines + "\r\n" }

// MalformedResponses lists responses that must be refused.
var MalformedResponses = []MalformedResponse{
	{"bare LF ends status line", "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n"},
	{"bare LF throughout", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"},
	{"bare CR in reason", "HTTP/1.1 200 O\rK\r\n\r\n"},
	{"NUL in reason", "HTTP/1.1 200 O\x00K\r\n\r\n"},
	{"NUL in value", ok("X: \x00\r\n")},
	{"empty line first", "\r\n" + ok("Content-Length: 0\r\n")},
	{"version 2.0", "HTTP/2.0 200 OK\r\n\r\n"},
	{"lower-case version", "http/1.1 200 OK\r\n\r\n"},
	{"no version", "200 OK\r\n\r\n"},
	{"other protocol", "ICY 200 OK\r\n\r\n"},
	{"body instead of head", "<html>\r\n\r\n"},
	{"no status", "HTTP/1.1\r\n\r\n"},
	{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n"},
	{"status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"},
	{"status below 100", "HTTP/1.1 099 Low\r\n\r\n"},
	{"status with letter", "HTTP/1.1 2x0 OK\r\n\r\n"},
	{"signed status", "HTTP/1.1 +20 OK\r\n\r\n"},
	{"two spaces before status", "HTTP/1.1  200 OK\r\n\r\n"},
	{"tab before status", "HTTP/1.1\t200 OK\r\n\r\n"},
	{"tab behind status", "HTTP/1.1 200\tOK\r\n\r\n"},
	{"space before status line", " HTTP/1.1 200 OK\r\n\r\n"},
	{"space before colon", ok("X : a\r\n")},
	{"space before first field", ok(" X: a\r\n")},
	{"folded line", ok("X: a\r\n b\r\n")},
	{"empty name", ok(": a\r\n")},
	{"line without colon", ok("X\r\n")},
	{"equal lengths", ok("Content-Length: 2\r\nContent-Length: 2\r\n") + "ok"},
	{"different lengths", ok("Content-Length: 2\r\nContent-Length: 3\r\n") + "ok"},
	{"length list", ok("Content-Length: 2, 2\r\n") + "ok"},
	{"signed length", ok("Content-Length: +2\r\n") + "ok"},
	{"negative length", ok("Content-Length: -1\r\n")},
	{"hex length", ok("Content-Length: 0x2\r\n") + "ok"},
	{"empty length", ok("Content-Length:\r\n")},
	{"length of 19 digits", ok("Content-Length: 9999999999999999999\r\n")},
	{"length and coding", ok("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n"},
	{"unknown coding", ok("Transfer-Encoding: xchunked\r\n")},
	{"gzip then chunked", ok("Transfer-Encoding: gzip, chunked\r\n")},
	{"chunked twice", ok("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n"},
	{"coding in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"Connection with over 32 options", ok("Connection: " + strings.Repeat("x,", 33) + "\r\n")},
	{"bad length in 204", "HTTP/1.1 204 No Content\r\nContent-Length: x\r\n\r\n"},
}

// GoodResponses lists responses that must be accepted.
var GoodResponses = []GoodResponse{
	{Name: "length", Raw: ok("Content-Length: 2\r\n") + "ok", Status: 200, Reason: "OK", Kind: "length", Body: "ok"},
	{Name: "length zero", Raw: ok("Content-Length: 0\r\n"), Status: 200, Reason: "OK", Kind: "none"},
	{Name: "no reason", Raw: "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", Status: 200, Kind: "none"},
	{Name: "no reason nor space", Raw: "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", Status: 200, Kind: "none"},
	{Name: "reason of words", Raw: "HTTP/1.1 404 Not  Found \xe9\t!\r\nContent-Length: 0\r\n\r\n",
		Status: 404, Reason: "Not  Found \xe9\t!", Kind: "none"},
	{Name: "chunked", Raw: ok("Transfer-Encoding: chunked\r\n") + "2\r\nok\r\n0\r\nX-Sum: 1\r\nContent-Length: 1\r\n\r\n",
		Status: 200, Reason: "OK", Kind: "chunked", Body: "ok", Trailer: "X-Sum: 1\r\n", Hop: "Transfer-Encoding"},
	{Name: "until close", Raw: ok("") + "ok", Status: 200, Reason: "OK", Kind: "until close", Body: "ok", Close: true},
	{Name: "until close in HTTP/1.0", Raw: "HTTP/1.0 200 OK\r\n\r\nok", Status: 200, Reason: "OK", Kind: "until close", Body: "ok", Close: true},
	{Name: "HTTP/1.0 with length", Raw: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", Status: 200, Reason: "OK", Kind: "length", Body: "ok", Close: true},
	{Name: "HTTP/1.0 keep-alive", Raw: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
		Status: 200, Reason: "OK", Kind: "length", Body: "ok", Hop: "Connection"},
	{Name: "close", Raw: ok("Connection: close\r\nContent-Length: 2\r\n") + "ok",
		Status: 200, Reason: "OK", Kind: "length", Body: "ok", Close: true, Hop: "Connection"},
	{Name: "malformed option counts as close", Raw: ok("Connection: \"close\"\r\nContent-Length: 2\r\n") + "ok",
		Status: 200, Reason: "OK", Kind: "length", Body: "ok", Close: true, Hop: "Connection"},
	{Name: "first Connection line is empty", Raw: ok("Connection:\r\nConnection: X-Back\r\nX-Back: 1\r\nContent-Length: 2\r\n") + "ok",
		Status: 200, Reason: "OK", Kind: "length", Body: "ok", Hop: "Connection Connection X-Back"},
	{Name: "HEAD with length", Method: "HEAD", Raw: ok("Content-Length: 2\r\n"), Status: 200, Reason: "OK", Kind: "none"},
	{Name: "HEAD chunked", Method: "HEAD", Raw: ok("Transfer-Encoding: chunked\r\n"), Status: 200, Reason: "OK", Kind: "none", Hop: "Transfer-Encoding"},
	{Name: "HEAD without length", Method: "HEAD", Raw: ok(""), Status: 200, Reason: "OK", Kind: "none"},
	{Name: "204", Raw: "HTTP/1.1 204 No Content\r\n\r\n", Status: 204, Reason: "No Content", Kind: "none"},
	{Name: "204 with length", Raw: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", Status: 204, Reason: "No Content", Kind: "none", Hop: "Content-Length"},
	{Name: "304 with length", Raw: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Status: 304, Reason: "Not Modified", Kind: "none"},
	{Name: "100", Raw: "HTTP/1.1 100 Continue\r\n\r\n", Status: 100, Reason: "Continue", Kind: "none"},
	{Name: "103", Raw: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", Status: 103, Reason: "Early Hints", Kind: "none"},
	{Name: "101", Raw: "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		Status: 101, Reason: "Switching Protocols", Kind: "none", Hop: "Connection Upgrade"},
	{Name: "CONNECT", Method: "CONNECT", Raw: ok(""), Status: 200, Reason: "OK", Kind: "none"},
	{Name: "CONNECT refused", Method: "CONNECT", Raw: "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", Status: 403, Reason: "No", Kind: "length", Body: "no"},
	{Name: "proxy authentication", Raw: ok("Proxy-Authenticate: Basic\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n"),
		Status: 200, Reason: "OK", Kind: "none", Hop: "Proxy-Authenticate"},
	{Name: "status beyond 599", Raw: "HTTP/1.1 999 Request Denied\r\nContent-Length: 0\r\n\r\n", Status: 999, Reason: "Request Denied", Kind: "none"},
	{Name: "higher minor version is 1.1", Raw: "HTTP/1.9 200 OK\r\nContent-Length: 0\r\n\r\n", Status: 200, Reason: "OK", Kind: "none"},
}
