package loop

// room returns a buffer with room behind n bytes: the loop's own, unless those
// are too many, as only long heads are, where limits allow them.
func (l *eventLoop) room(n int) []byte {
	if n+minRoom <= len(l.buf) {
		return l.buf
	}
	return make([]byte, 2*n+minRoom)
}

// maxStash bounds the room for prefixes that a loop keeps, and maxKept the size
// of each.
const (
	maxStash = 64
	maxKept  = 16 << 10
)

// keep returns a copy of a prefix, which may be borrowed, that outlives a wait.
func (l *eventLoop) keep(prefix []byte) []byte {
	if len(prefix) == 0 {
		return nil
	}
	var room []byte
	if n := len(l.stash); n > 0 {
		room = l.stash[n-1]
		l.stash = l.stash[:n-1]
	}
	return append(room[:0], prefix...)
}

// drop gives back what keep returned.
func (l *eventLoop) drop(kept []byte) {
	if kept != nil && cap(kept) <= maxKept && len(l.stash) < maxStash {
		l.stash = append(l.stash, kept)
	}
}

// lend returns b, which c has read, and tells tests so.
func (l *eventLoop) lend(c Conn, b []byte) []byte {
	if lending != nil {
		if l.lent != nil {
			lending(nil, true) // b may be in the same place
		}
		l.lent, l.lender = b, c
		lending(b, false)
	}
	return b
}

// endLoan says that what was lent is not valid any more, which only tests need
// to know.
func (l *eventLoop) endLoan() {
	if lending != nil && l.lent != nil {
		lending(l.lent, true)
		l.lent, l.lender = nil, nil
	}
}

// release ends the loan of a connection.
func (l *eventLoop) release(c Conn) {
	if lending != nil && l.lender == c {
		l.endLoan()
	}
}
