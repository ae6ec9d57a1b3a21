package rules

import "bytes"

// wildcard matches a whole value with a text in which * stands for anything.
type wildcard struct {
	fold   bool
	pieces [][]byte // what stands between the stars, in lower case if fold
}

// checkWildcard reads the pattern in l.
func checkWildcard(c *checker, l *literal) *Error {
	w := &wildcard{}
	piece := []byte{}
	at := func(i int) int {
		if l.exact {
			return l.at + i
		}
		return l.pos
	}
	for i := 0; i < len(l.text); i++ {
		switch ch := l.text[i]; ch {
		case '\\':
			if i+1 == len(l.text) || l.text[i+1] != '*' && l.text[i+1] != '\\' {
				return c.fail(at(i), `a backslash in a wildcard: want \* or \\, and in quotes each backslash twice`)
			}
			i++
			piece = append(piece, l.text[i])
		case '*':
			if i+1 < len(l.text) && l.text[i+1] == '*' {
				return c.fail(at(i), `** in a wildcard: want one *, or \* for the character`)
			}
			w.pieces = append(w.pieces, piece)
			piece = []byte{}
		default:
			piece = append(piece, ch)
		}
	}
	w.pieces = append(w.pieces, piece)
	l.wild = w
	return nil
}

// folded makes w ignore the case of ASCII letters.
func (w *wildcard) folded() {
	w.fold = true
	for _, p := range w.pieces {
		for i, c := range p {
			p[i] = lowerByte(c)
		}
	}
}

// match is missing only where there is no memory for a copy in lower case.
func (w *wildcard) match(s *Scratch, v []byte) (is, ok bool) {
	if w.fold {
		mark := len(s.buf)
		v, ok = lower(s, v)
		s.buf = s.buf[:mark] // v stays readable until something else is made
		if !ok {
			return false, false
		}
	}
	return w.fits(v), true
}

func (w *wildcard) fits(v []byte) bool {
	first, last := w.pieces[0], w.pieces[len(w.pieces)-1]
	if len(w.pieces) == 1 {
		return bytes.Equal(v, first)
	}
	if len(v) < len(first)+len(last) || !bytes.HasPrefix(v, first) || !bytes.HasSuffix(v, last) {
		return false
	}
	v = v[len(first) : len(v)-len(last)]
	// Each piece where it comes first: what is left is then longest.
	for _, p := range w.pieces[1 : len(w.pieces)-1] {
		i := bytes.Index(v, p)
		if i < 0 {
			return false
		}
		v = v[i+len(p):]
	}
	return true
}
