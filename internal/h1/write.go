package h1

import "strconv"

// What messages are made of.
const (
	CRLF      = "\r\n"
	LastChunk = "0\r\n" // to be followed by trailer lines, if any, and CRLF
)

// AppendStatusLine appends a status line.
func AppendStatusLine(dst []byte, status int, reason string) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	dst = append(dst, reason...)
	return append(dst, CRLF...)
}

// AppendField appends a field line. Neither name nor value is checked.
func AppendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, CRLF...)
}

// AppendUint appends n in decimal.
func AppendUint(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 10) }

// AppendChunkHeader appends the size line of a chunk of n bytes, n > 0. The data
// and CRLF follow it.
func AppendChunkHeader(dst []byte, n int) []byte {
	dst = strconv.AppendUint(dst, uint64(n), 16)
	return append(dst, CRLF...)
}
