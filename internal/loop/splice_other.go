//go:build !linux

package loop

func canSplice(Conn, Conn) bool { return false }

func splice(_, _ Conn, _ int64, _ bool, _ Moving) (int64, error, error) {
	return 0, errCannotSplice, nil
}
