//go:build !linux

package loop

func canSplice(Sink, Conn) bool { return false }

func splice(_ Sink, _ Conn, _ int64, _ bool, _ Moving) (int64, error, error) {
	return 0, errCannotSplice, nil
}
