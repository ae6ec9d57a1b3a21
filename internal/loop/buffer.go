package loop

import "sync"

// bufferSize is what one read can bring. 64 KiB holds every usual head with
// the start of its body, and is where copying a bulk body costs no more calls
// than it must.
const bufferSize = 64 << 10

// minRoom is the least room behind a prefix that is worth a read.
const minRoom = 4 << 10

type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, bufferSize)} }}

// lending, if set by a test before anything runs, is told of each buffer that
// is taken and, with back set, given back: it can count them, and overwrite
// what nobody may read any more.
var lending func(b []byte, back bool)

func takeBuffer() *buffer {
	b := buffers.Get().(*buffer)
	if lending != nil {
		lending(b.b, false)
	}
	return b
}

// withPrefix returns a buffer that starts with prefix and has room behind it.
// It is old, when that is not nil and large enough.
func withPrefix(old *buffer, prefix []byte) *buffer {
	if old != nil && len(prefix)+minRoom <= len(old.b) {
		copy(old.b, prefix) // prefix may lie in old: copy moves overlapping bytes rightly
		return old
	}
	var n *buffer
	if len(prefix)+minRoom <= bufferSize {
		n = takeBuffer()
	} else {
		n = &buffer{b: make([]byte, 2*len(prefix)+minRoom)} // long heads only, where limits allow them
	}
	copy(n.b, prefix)
	if old != nil {
		old.free()
	}
	return n
}

// free gives the buffer back.
func (b *buffer) free() {
	if len(b.b) != bufferSize {
		return
	}
	if lending != nil {
		lending(b.b, true)
	}
	buffers.Put(b)
}
