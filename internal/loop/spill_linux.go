package loop

// A write that has to wait keeps what the socket did not take, as that may be
// borrowed. Readers that are slow come in thousands, so that the room for it is
// as small as it can be: it has one of a few sizes, and a loop keeps some of
// each for the next one.

// spillSizes are the sizes. The second, a usual one, holds a buffer, or the
// records of TLS that it becomes.
var spillSizes = [...]int{16 << 10, bufferSize + 8<<10, 256 << 10, 512 << 10}

// spillsKept is how many of each size a loop keeps: some 5 MB in all.
var spillsKept = [len(spillSizes)]int{32, 32, 4, 2}

type spills struct {
	free [len(spillSizes)][][]byte
	held int // bytes of all above the usual size that are in use
}

// usualSpill is the size that is not counted as held.
var usualSpill = spillSizes[1]

// maxHeld is what a loop holds for writes of what large reads have brought before
// it reads no more than a buffer at a time. A wave of slow readers thus costs
// that, and a buffer each.
const maxHeld = 4 << 20

// takeSpill returns room for n bytes.
func (l *eventLoop) takeSpill(n int) []byte {
	for i, size := range spillSizes {
		if n > size {
			continue
		}
		if size > usualSpill {
			l.spills.held += size
		}
		free := l.spills.free[i]
		last := len(free) - 1
		if last < 0 {
			return make([]byte, size)
		}
		b := free[last]
		free[last] = nil
		l.spills.free[i] = free[:last]
		return b
	}
	l.spills.held += n
	return make([]byte, n)
}

// freeSpill gives back what takeSpill returned, or nil.
func (l *eventLoop) freeSpill(b []byte) {
	if len(b) > usualSpill {
		l.spills.held -= len(b)
	}
	for i, size := range spillSizes {
		if len(b) == size && len(l.spills.free[i]) < spillsKept[i] {
			l.spills.free[i] = append(l.spills.free[i], b)
		}
	}
}
