package rules

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
)

var modes = []Mode{ModeHTTP, ModeDNS, ModeL4}

// FuzzCompile gives the compiler anything. What it refuses it refuses with a
// place in the text; what it accepts means the same when it is printed.
func FuzzCompile(f *testing.F) {
	for _, expr := range seeds(f) {
		f.Add(expr, uint8(0))
	}
	f.Fuzz(func(t *testing.T, expr string, mode uint8) {
		p, err := Compile(expr, modes[int(mode)%len(modes)])
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("Compile(%q): %v, want an *Error", expr, err)
			}
			if e.Offset < 0 || e.Offset > len(expr) || e.Position != positionOf(expr, e.Offset) || e.Message == "" {
				t.Fatalf("Compile(%q): %+v is not in it", expr, e)
			}
			return
		}
		for _, n := range p.Notes() {
			if n.Position != positionOf(expr, n.Offset) {
				t.Errorf("note %+v is not in %q", n, expr)
			}
		}
		checkPrinted(t, p)
	})
}

// FuzzMatch evaluates an expression for an Env made of data. The result must be
// the same when it is evaluated again with the same Scratch, when the expression
// was printed, and when it is explained.
func FuzzMatch(f *testing.F) {
	for i, expr := range seeds(f) {
		f.Add(expr, uint8(i%2*i), []byte("\x03abc\x00\x07Accept\xff\x09text/html\x00%2e%u2601+{\"a\":[1,\"\\u00e9\"]}"))
	}
	f.Fuzz(func(t *testing.T, expr string, mode uint8, data []byte) {
		p, err := Compile(expr, modes[int(mode)%len(modes)])
		if err != nil {
			return
		}
		env := fuzzEnv(data)
		var s Scratch
		want := p.Match(env, &s)
		if got := p.Match(env, &s); got != want {
			t.Fatalf("%s is %v, and %v the second time", expr, want, got)
		}
		if len(s.buf) > maxMade+1024 {
			t.Fatalf("%s made %d bytes", expr, len(s.buf))
		}
		step := p.Explain(env)
		if step.Result != want {
			t.Fatalf("%s is %v, explained it is %v", expr, want, step.Result)
		}
		checkStep(t, step)
		if text := p.String(); len(text) <= MaxLength {
			if got := compileFor(t, text, p.mode).Match(env, &s); got != want {
				t.Fatalf("%s is %v, printed as %s it is %v", expr, want, text, got)
			}
		}
		negated := compileFor(t, "not ("+p.String()+")", p.mode)
		if negated != nil && negated.Match(env, &s) == want {
			t.Fatalf("%s and its opposite are both %v", expr, want)
		}
	})
}

// compileFor compiles what must be right, or returns nil if it grew over a
// limit.
func compileFor(t *testing.T, expr string, mode Mode) *Program {
	t.Helper()
	p, err := Compile(expr, mode)
	if err != nil {
		var e *Error
		if errors.As(err, &e) && (len(expr) > MaxLength || e.Message == "nested deeper than 128") {
			return nil
		}
		t.Fatalf("Compile(%s): %v", expr, err)
	}
	return p
}

// checkStep fails unless the result of each part follows from its parts.
func checkStep(t *testing.T, s Step) {
	t.Helper()
	if len(s.Parts) == 0 {
		return
	}
	is := s.Op == "and"
	for _, part := range s.Parts {
		checkStep(t, part)
		switch s.Op {
		case "and":
			is = is && part.Result
		case "or":
			is = is || part.Result
		case "xor":
			is = is != part.Result
		case "not":
			is = !part.Result
		}
	}
	if is != s.Result {
		t.Errorf("%s is %v, which does not follow from its parts", s.Text, s.Result)
	}
}

// fuzzEnv makes an Env of data: each field is missing or has a part of it.
func fuzzEnv(data []byte) *testEnv {
	env := &testEnv{
		bools: map[Field]bool{}, ints: map[Field]int64{}, ips: map[Field]netip.Addr{}, strs: map[Field][]byte{}, maps: map[Field][]entry{},
	}
	take := func() []byte {
		if len(data) == 0 {
			return nil
		}
		n := min(int(data[0]&0x1f), len(data)-1)
		v := data[1 : 1+n]
		data = data[1+n:]
		return v
	}
	for f := range numFields {
		v := take()
		if v == nil {
			continue
		}
		switch schema[f].Type {
		case Bool:
			env.bools[f] = len(v)%2 == 0
		case Int:
			var b [8]byte
			copy(b[:], v)
			env.ints[f] = int64(binary.LittleEndian.Uint64(b[:]))
		case IP:
			var b [16]byte
			copy(b[:], v)
			if env.ips[f] = netip.AddrFrom16(b); len(v) < 8 {
				env.ips[f] = netip.AddrFrom4([4]byte(b[:4]))
			}
		case String:
			env.strs[f] = v
		case StringMap:
			for range len(v) % 8 {
				env.maps[f] = append(env.maps[f], entry{string(take()), string(take())})
			}
		}
	}
	return env.ready()
}
