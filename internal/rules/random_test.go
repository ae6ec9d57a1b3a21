package rules

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// sample is an expression whose value is known. op is the operator that holds
// it together, opAnd+1 if nothing does.
type sample struct {
	text string
	op   logicOp
	is   bool
}

// known returns the expressions of the table that hold no logic of their own.
func known() []sample {
	var leaves []sample
	for group, cases := range matches {
		for _, c := range cases {
			if group != "logic" {
				leaves = append(leaves, sample{c.expr, opAnd + 1, c.want})
			}
		}
	}
	return leaves
}

// random makes an expression of known ones, with the parentheses that it needs
// and some that it does not.
func random(r *rand.Rand, leaves []sample, depth int) sample {
	if depth == 0 || r.IntN(4) == 0 {
		return leaves[r.IntN(len(leaves))]
	}
	space := func() string { return []string{" ", "  ", "\n", "\r\n "}[r.IntN(4)] }
	inner := func(s sample, within logicOp) string {
		if s.op <= within || r.IntN(4) == 0 {
			return "(" + s.text + ")"
		}
		return s.text
	}
	if r.IntN(5) == 0 {
		s := random(r, leaves, depth-1)
		not := []string{"not ", "!", "! ", "not\n"}[r.IntN(4)]
		return sample{not + inner(s, opAnd), opAnd + 1, !s.is}
	}
	op := []logicOp{opOr, opXor, opAnd}[r.IntN(3)]
	name := []string{logicNames[op], map[logicOp]string{opOr: "||", opXor: "^^", opAnd: "&&"}[op]}[r.IntN(2)]
	s := random(r, leaves, depth-1)
	s.text = inner(s, op-1) // a chain of the same operator needs none on the left
	for range 1 + r.IntN(3) {
		next := random(r, leaves, depth-1)
		s.text += space() + name + space() + inner(next, op)
		switch op {
		case opAnd:
			s.is = s.is && next.is
		case opOr:
			s.is = s.is || next.is
		default:
			s.is = s.is != next.is
		}
	}
	s.op = op
	return s
}

// TestRandomLogic: logic over comparisons of known value has the value that
// follows, as it is written and as it is printed.
func TestRandomLogic(t *testing.T) {
	r, leaves, env := seeded(), known(), httpEnv()
	counts := map[bool]int{}
	for range 100 {
		c := random(r, leaves, 3)
		if len(c.text) > MaxLength {
			continue
		}
		p := compile(t, c.text)
		checkPrinted(t, p)
		var s Scratch
		if got := p.Match(env, &s); got != c.is {
			t.Fatalf("%s\nis %v, want %v", c.text, got, c.is)
		}
		step := p.Explain(env)
		if checkStep(t, step); step.Result != c.is {
			t.Fatalf("%s\nis explained as %v, want %v", c.text, step.Result, c.is)
		}
		counts[c.is]++
	}
	if min(counts[true], counts[false]) < 20 {
		t.Errorf("%v: want more of the rarer", counts)
	}
}

// TestTokenSoup: tokens in any order are read without harm, and what happens to
// be an expression is printed as what it is.
func TestTokenSoup(t *testing.T) {
	tokens := strings.Fields(`not ! and && or || xor ^^ ( ) ( ) ssl true http.host ip.src tcp.dstport http.request.headers http.request.headers.names
		any( all( lower( len( concat( starts_with( [*] [*] [0] ["a"] , eq == ne in { } contains matches wildcard strict & < 1 0x1f -1 80..90 1.2.3.4 10.0.0.0/8
		::1 01:2e "a" "*" r"[a]" r#"a"# "\x00" $list a`)
	r := seeded()
	good := 0
	for range 10000 {
		var b strings.Builder
		for range 1 + r.IntN(9) {
			b.WriteString(tokens[r.IntN(len(tokens))])
			if r.IntN(4) > 0 {
				b.WriteByte(' ')
			}
		}
		p, err := Compile(b.String(), ModeHTTP)
		if err != nil {
			continue
		}
		good++
		checkPrinted(t, p)
	}
	if good < 20 {
		t.Errorf("%d expressions, want more", good)
	}
}

// TestShared: one Program serves many goroutines, each with its Scratch.
func TestShared(t *testing.T) {
	p := compile(t, `any(lower(http.request.headers["content-type"][*])[*] matches "json$") and `+
		`is_timed_hmac_valid_v0("mysecrettoken", http.request.headers["x-token"][0], 10800, http.request.timestamp.sec, 8) and `+
		`concat(http.host, http.request.uri.path) wildcard "www.EXAMPLE.com/*"`)
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			env := httpEnv()
			var s Scratch
			for range 200 {
				if !p.Match(env, &s) {
					t.Error("false, want true")
					return
				}
			}
		})
	}
	running.Wait()
}
