package h2

import "sync"

// Received data is kept in chunks, of which the large ones hold two frames.
// Small data goes into small chunks: otherwise a byte on each stream would cost
// a large chunk each.
const (
	chunkSmall = 1 << 10
	chunkLarge = 32 << 10

	// chunkFront and chunkBack are free space around the data, in which
	// Client.Conn writes the framing of the chunked coding.
	chunkFront = 10
	chunkBack  = 2
)

type chunk struct {
	next *chunk
	b    []byte // chunkFront bytes, then the data
}

func (k *chunk) data() []byte { return k.b[chunkFront:] }
func (k *chunk) room() int    { return cap(k.b) - len(k.b) - chunkBack }

var (
	smallChunks = sync.Pool{New: func() any { return newChunk(chunkSmall) }}
	largeChunks = sync.Pool{New: func() any { return newChunk(chunkLarge) }}
)

func newChunk(size int) *chunk {
	return &chunk{b: make([]byte, chunkFront, chunkFront+size+chunkBack)}
}

// takeChunk returns an empty chunk for at least n bytes, or else the largest.
func takeChunk(n int) *chunk {
	if n <= chunkSmall {
		return smallChunks.Get().(*chunk)
	}
	return largeChunks.Get().(*chunk)
}

func (k *chunk) free() {
	k.next, k.b = nil, k.b[:chunkFront]
	if cap(k.b) > chunkFront+chunkSmall+chunkBack {
		largeChunks.Put(k)
	} else {
		smallChunks.Put(k)
	}
}

// output holds bytes that wait to be written. Outputs are shared by all
// connections, so that one which has nothing to write owns none.
type output struct{ b []byte }

// keepOutput is the largest output that is kept for others: a full one, with a
// frame more and a head.
const keepOutput = outBound + 2*maxFrame

var outputs = sync.Pool{New: func() any { return &output{make([]byte, 0, 4<<10)} }}

func (o *output) free() {
	if cap(o.b) > keepOutput {
		return
	}
	o.b = o.b[:0]
	outputs.Put(o)
}
