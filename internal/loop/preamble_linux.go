package loop

import "io"

// Preamble implements Driver.
func (l *eventLoop) Preamble(c Conn, deadline Time, parse func(b []byte) (lacks int, err error)) error {
	fc := c.(*fiberConn)
	var b []byte
	for {
		lacks, err := parse(b)
		if err != nil || lacks == 0 {
			return err
		}
		have := len(b)
		b = append(b, make([]byte, lacks)...)
		for have < len(b) {
			if err := fc.wait(&fc.in, deadline); err != nil {
				return err
			}
			n, err := fc.recv(b[have:])
			if err == io.EOF {
				return io.ErrUnexpectedEOF
			}
			if err != nil {
				return err
			}
			have += n
		}
	}
}
