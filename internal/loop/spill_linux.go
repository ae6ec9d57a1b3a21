package loop

// A write that has to wait keeps what the socket did not take, as that may be
// borrowed. Readers that are slow come in thousands, so that the room for it is
// as small as it can be: it has one of a few sizes, and a loop keeps some of
// each for the next one.

// spillSizes are the sizes. The second holds a buffer, or the records of TLS
// that it becomes.
var spillSizes = [...]int{16 << 10, bufferSize + 8<<10, 256 << 10, 512 << 10}

// spillsKept is how many of each size a loop keeps: some 5 MB in all.
var spillsKept = [len(spillSizes)]int{32, 32, 4, 2}

type spills [len(spillSizes)][][]byte

// takeSpill returns room for n bytes.
func (l *eventLoop) takeSpill(n int) []byte {
	for i, size := range spillSizes {
		if n > size {
			continue
		}
		free := l.spills[i]
		last := len(free) - 1
		if last < 0 {
			return make([]byte, size)
		}
		b := free[last]
		free[last] = nil
		l.spills[i] = free[:last]
		return b
	}
	return make([]byte, n)
}

// freeSpill gives back what takeSpill returned, or nil.
func (l *eventLoop) freeSpill(b []byte) {
	for i, size := range spillSizes {
		if len(b) == size && len(l.spills[i]) < spillsKept[i] {
			l.spills[i] = append(l.spills[i], b)
		}
	}
}
