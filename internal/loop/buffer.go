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

// withPrefix returns a buffer that starts with prefix and has room behind it.
// It is old, when that is not nil and large enough.
func withPrefix(old *buffer, prefix []byte) *buffer {
	if old != nil && len(prefix)+minRoom <= len(old.b) {
		copy(old.b, prefix) // prefix may lie in old: copy moves overlapping bytes rightly
		return old
	}
	n := buffers.Get().(*buffer)
	if len(prefix)+minRoom > len(n.b) {
		buffers.Put(n)
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
	if len(b.b) == bufferSize {
		buffers.Put(b)
	}
}
