//go:build linux

package loadtest

import (
	be "encoding/binary"
	"math/rand/v2"

	"fairlead/test/process"
)

// largeMessage is the size of a large message: 16 MiB, but where the race detector looks
// at each byte.
var largeMessage = 16 << 20

func init() {
	if process.Race {
		largeMessage = 4 << 20
	}
}

// theEnd is the text of the last message that is said before one of the ends closes.
// No other text is as short.
const theEnd = "end"

// script is what one end of a WebSocket says. Both ends draw it, one to say it and one
// to know what has to come.
type script struct {
	rnd   *rand.Rand
	large bool // the next message is
}

// newScript makes a script. One seed of eight begins with a large message.
func newScript(seed uint64, byClient bool) *script {
	side := uint64(0)
	if byClient {
		side = 1
	}
	return &script{rand.New(rand.NewPCG(seed, side)), seed%8 == 5}
}

// message is one message of a script.
type message struct {
	op     byte
	size   int
	pieces []piece
	filler *rand.ChaCha8 // makes its bytes, in their order
}

// piece is a frame of a message, which may have a ping before it.
type piece struct {
	size int
	ping bool
}

// next draws the next message.
func (s *script) next() message {
	m := message{op: opBinary}
	switch n := s.rnd.IntN(1000); {
	case n == 0 || s.large:
		s.large = false
		m.size = largeMessage
	case n < 50:
		m.size = 64<<10 + s.rnd.IntN(256<<10)
	case n < 300:
		m.size = s.rnd.IntN(16 << 10)
	default:
		m.size = s.rnd.IntN(200) // 0 is one
	}
	if m.size > len(theEnd) && s.rnd.IntN(2) == 0 {
		m.op = opText
	}
	rest := m.size
	for range s.rnd.IntN(6) {
		n := s.rnd.IntN(rest + 1)
		m.pieces = append(m.pieces, piece{size: n})
		rest -= n
	}
	m.pieces = append(m.pieces, piece{size: rest})
	for i := range m.pieces {
		m.pieces[i].ping = s.rnd.IntN(20) == 0
	}
	var seed [32]byte
	be.BigEndian.PutUint64(seed[:], s.rnd.Uint64())
	m.filler = rand.NewChaCha8(seed)
	return m
}

// head returns what the first byte of the frame with a piece is: which kind, and
// whether it is the last.
func (m *message) head(i int) byte {
	op := m.op
	if i > 0 {
		op = opContinuation
	}
	if i == len(m.pieces)-1 {
		op |= final
	}
	return op
}

// fill makes the message's next bytes.
func (m *message) fill(b []byte) {
	m.filler.Read(b)
	if m.op != opText {
		return
	}
	const ascii = 0x7f7f7f7f7f7f7f7f // which is UTF-8, whatever it is
	for ; len(b) >= 8; b = b[8:] {
		be.NativeEndian.PutUint64(b, be.NativeEndian.Uint64(b)&ascii)
	}
	for i := range b {
		b[i] &= 0x7f
	}
}

// quiet takes the pings out, for who is closed and cannot answer.
func (m *message) quiet() {
	for i := range m.pieces {
		m.pieces[i].ping = false
	}
}
