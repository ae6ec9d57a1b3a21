package h1

// Error is the refusal of a message. There is one value for each reason, so
// that Reason can be a metric label and no refusal allocates.
type Error struct {
	Status int    // what a client is to be answered; a bad response is the caller's 502 or 520
	Reason string // what was wrong, in a few words that never contain input
}

// Error returns the reason.
func (e *Error) Error() string { return e.Reason }

// The reasons for which a message is refused.
var (
	// Lines, in heads and trailers.
	ErrBareCR  = &Error{400, "CR without LF"}
	ErrBareLF  = &Error{400, "LF without CR"}
	ErrControl = &Error{400, "control byte in head"}

	// The request line.
	ErrEmptyLines    = &Error{400, "too many empty lines before the request line"}
	ErrMethod        = &Error{400, "method is not a token"}
	ErrMethodLong    = &Error{501, "method is too long"}
	ErrRequestLine   = &Error{400, "request line is not method, target and version with single spaces"}
	ErrVersion       = &Error{400, "malformed HTTP version"}
	ErrVersionMajor  = &Error{505, "HTTP version is not 1.0 or 1.1"}
	ErrConnect       = &Error{405, "CONNECT is not served"}
	ErrTarget        = &Error{400, "target has a space, control, non-ASCII or # byte"}
	ErrTargetForm    = &Error{400, "target is neither a path nor an http or https URI"}
	ErrAsterisk      = &Error{400, "target * is for OPTIONS only"}
	ErrTargetLong    = &Error{414, "request line exceeds the limit"}
	ErrHeadLong      = &Error{431, "head exceeds the limit of bytes"}
	ErrTooManyFields = &Error{431, "head exceeds the limit of fields"}

	// The status line.
	ErrStatusLine = &Error{400, "malformed status line"}

	// Field lines.
	ErrLeadingSpace = &Error{400, "space before the first field"}
	ErrFold         = &Error{400, "folded field line"}
	ErrEmptyName    = &Error{400, "empty field name"}
	ErrNoColon      = &Error{400, "field line has no colon"}
	ErrSpaceInName  = &Error{400, "space before the colon of a field"}
	ErrName         = &Error{400, "field name is not a token"}

	// What fields say.
	ErrNoHost      = &Error{400, "no Host"}
	ErrHosts       = &Error{400, "several Host lines"}
	ErrHost        = &Error{400, "invalid Host"}
	ErrTargetHost  = &Error{400, "invalid host in target"}
	ErrLengths     = &Error{400, "several Content-Length lines"}
	ErrLength      = &Error{400, "Content-Length is not one decimal number"}
	ErrLengthLong  = &Error{400, "Content-Length has over 18 digits"}
	ErrLengthCoded = &Error{400, "both Content-Length and Transfer-Encoding"}
	ErrCodings     = &Error{400, "several Transfer-Encoding lines"}
	ErrCodingOld   = &Error{400, "Transfer-Encoding in HTTP/1.0"}
	ErrCoding      = &Error{400, "malformed Transfer-Encoding"}
	ErrCodingOther = &Error{501, "Transfer-Encoding is not chunked alone"}
	ErrExpect      = &Error{417, "Expect is not 100-continue"}
	ErrOption      = &Error{400, "malformed Connection"}
	ErrOptions     = &Error{400, "too many Connection options"}

	// Chunked bodies.
	ErrChunkSize    = &Error{400, "malformed chunk size"}
	ErrChunkBig     = &Error{400, "chunk size is out of range"}
	ErrChunkExt     = &Error{400, "malformed chunk extension"}
	ErrChunkExtLong = &Error{400, "chunk extensions exceed the limit"}
	ErrChunkEnd     = &Error{400, "chunk data does not end in CRLF"}
	ErrTrailerLong  = &Error{431, "trailer section exceeds the limit of bytes"}
	ErrTrailers     = &Error{431, "trailer section exceeds the limit of fields"}
)
