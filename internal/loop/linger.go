package loop

import "time"

// Linger ends the stream to the other end and reads what it still sends, for at
// most a time and a number of bytes: closing a connection with unread bytes
// would reset it, and the reset overtakes what was written last (RFC 9112 section
// 9.6). The connection is still to be closed.
func Linger(c Conn, within time.Duration, most int) {
	if c.CloseWrite() != nil {
		return
	}
	c.SetReadDeadline(Now().Add(within))
	for n := 0; n < most; {
		b, err := c.Read(nil)
		if err != nil {
			return
		}
		n += len(b)
	}
}
