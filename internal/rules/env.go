package rules

import "net/netip"

// Env answers what is known of one request, query or connection. A plane
// implements it by a pointer to what it has anyway, so that nothing is built
// for an expression that does not ask.
//
// Every method is called only with fields of its type that exist in the mode of
// the program, any number of times and in any order, by one goroutine at a
// time, and gives the same answer during one Match. ok is false where the value
// is missing. Bytes that are returned are only read, and must stay as they are
// until Match returns.
type Env interface {
	Bool(f Field) (v, ok bool)
	Int(f Field) (v int64, ok bool)
	IP(f Field) (v netip.Addr, ok bool)
	String(f Field) (v []byte, ok bool)

	// Next walks over the entries of a map, one for each value, in the order
	// of the request: the headers line by line, the arguments, the cookies.
	// at is 0 for the first entry, then the next of the entry before, which
	// is larger than its at: an index, or an offset, as suits the plane. When
	// there is no entry at that place next is 0. Arrays that are part of a
	// map (such as http.request.headers.names) are read from the map, so that
	// f is FieldHeaders, FieldCookies or FieldArgs.
	//
	// The names of headers are returned in the case received; they are
	// compared without it.
	Next(f Field, at int) (name, value []byte, next int)
}

// Scratch is the memory of an evaluation. Its zero value is ready. It belongs
// to one evaluation at a time and is meant to be used again, as the memory that
// functions need is kept in it (up to 64 KiB).
type Scratch struct {
	env     Env
	buf     []byte // what functions made, each behind the other
	cursors []int  // how far each array has been walked
}

func (s *Scratch) begin(env Env, cursors int) {
	s.env = env
	s.buf = s.buf[:0]
	if cap(s.cursors) < cursors {
		s.cursors = make([]int, cursors)
	}
	s.cursors = s.cursors[:cursors]
}

func (s *Scratch) end() {
	s.env = nil
	if cap(s.buf) > maxKept {
		s.buf = nil
	}
}

// grow tells whether functions may make n more bytes.
func (s *Scratch) grow(n int) bool { return len(s.buf)+n <= maxMade }

// keep copies v behind what was made before and returns the copy, to be changed
// in place. It must fit.
func (s *Scratch) keep(v []byte) []byte {
	start := len(s.buf)
	s.buf = append(s.buf, v...)
	return s.buf[start:]
}
