package h1

// Message is what requests and responses share. Its slices borrow from the bytes
// that were given to Parse and are valid as long as those.
type Message struct {
	Head   []byte  // first line to blank line, both included
	Fields []Field // the field lines in order; the array is reused by the next Parse

	HTTP10 bool  // version 1.0; any other 1.x is read as 1.1
	Body   Body  // how the body ends
	Length int64 // what Content-Length says, in decimal whatever zeros lead it; -1 without one

	// Close: the sender does not keep the connection open after this
	// exchange (Connection: close, or HTTP/1.0 without keep-alive, or a body
	// that lasts until close).
	Close bool

	// Upgrade is the value of Upgrade where Connection lists it, else nil.
	// Several Upgrade lines, and HTTP/1.0, count as none (RFC 9110 section
	// 7.8 lets a server ignore it). The bytes are not judged: whether they
	// name a protocol worth forwarding is for the caller.
	Upgrade []byte

	// NamesFields: Connection lists names of fields other than the known
	// ones. They are to be removed from the trailer section too, but the
	// head is gone when that comes: set Chunked.Discard.
	NamesFields bool

	pos  int  // start of the line being read
	look int  // how far lineEnd has looked in it
	done bool // the next Parse starts anew
}

// Name returns the name of a field as it was received.
func (m *Message) Name(f *Field) []byte { return m.Head[f.start:f.nameEnd] }

// Value returns the value of a field without white space around it.
func (m *Message) Value(f *Field) []byte { return m.Head[f.valueStart:f.valueEnd] }

// Line returns a field line with its CRLF. Lines that follow each other in Fields
// follow each other in Head, so a run of them can be copied at once; see Lines.
func (m *Message) Line(f *Field) []byte { return m.Head[f.start:f.end] }

// Lines returns the lines of first to last, which point into Fields, as one slice.
func (m *Message) Lines(first, last *Field) []byte { return m.Head[first.start:last.end] }

// Get returns the value of the first field called name, which is given in lower
// case, or nil. A field that is there but empty gives an empty slice that is not
// nil.
func (m *Message) Get(name string) []byte {
	for i := range m.Fields {
		f := &m.Fields[i]
		if int(f.nameEnd-f.start) == len(name) && foldEqual(m.Name(f), name) {
			return m.Value(f)
		}
	}
	return nil
}

func (m *Message) reset() {
	*m = Message{Fields: m.Fields[:0]}
}

// parseFields reads field lines from m.pos on, until the blank line. Field offsets
// count from the start of b, which is Head once its end is known.
func (m *Message) parseFields(b []byte, maxFields int) (done bool, err *Error) {
	pos, look := m.pos, m.look
	for {
		end, found, err := lineEnd(b, look)
		if err != nil {
			return false, err
		}
		if !found {
			m.pos, m.look = pos, end
			return false, nil
		}
		if end == pos {
			m.Head = b[: end+2 : end+2]
			return true, nil
		}
		if len(m.Fields) >= maxFields {
			return false, ErrTooManyFields
		}
		// The field is written in place: building it elsewhere and copying it
		// costs a third of the whole parse.
		n := len(m.Fields)
		if n == cap(m.Fields) {
			m.Fields = append(m.Fields, Field{})
		}
		m.Fields = m.Fields[:n+1]
		if err := parseField(b, pos, end, &m.Fields[n]); err != nil {
			m.Fields = m.Fields[:n]
			if err == ErrFold && n == 0 {
				err = ErrLeadingSpace
			}
			return false, err
		}
		pos = end + 2
		look = pos
	}
}

// framing is what a pass over the fields of a complete head collects before
// anything is judged. Pointers are into Fields.
type framing struct {
	host, length, coding, upgrade, expect *Field

	hosts, lengths, codings, upgrades, expects, connections int

	te bool
}

func (m *Message) collect(c *framing) {
	for i := range m.Fields {
		f := &m.Fields[i]
		switch f.Kind {
		case KindOther:
		case KindHost:
			c.host = f
			c.hosts++
		case KindContentLength:
			c.length = f
			c.lengths++
		case KindTransferEncoding:
			c.coding = f
			c.codings++
		case KindConnection:
			c.connections++
		case KindUpgrade:
			c.upgrade = f
			c.upgrades++
		case KindExpect:
			c.expect = f
			c.expects++
		case KindTE:
			c.te = true
		}
	}
}

// frame decides Body and Length from the fields (RFC 9112 section 6.3).
func (m *Message) frame(c *framing) *Error {
	m.Body, m.Length = BodyNone, -1
	if c.codings > 0 {
		switch {
		case c.lengths > 0:
			return ErrLengthCoded
		case c.codings > 1:
			return ErrCodings
		case m.HTTP10:
			// RFC 9112 section 6.1: framing to be taken as faulty.
			return ErrCodingOld
		}
		if v := m.Value(c.coding); !foldEqual(v, "chunked") {
			return codingError(v)
		}
		m.Body = BodyChunked
		return nil
	}
	if c.lengths == 0 {
		return nil
	}
	if c.lengths > 1 {
		return ErrLengths
	}
	v := m.Value(c.length)
	if len(v) == 0 {
		return ErrLength
	}
	n := int64(0)
	for _, d := range v {
		if class[d]&isDigit == 0 {
			return ErrLength
		}
		n = n*10 + int64(d-'0') // may wrap; then it is too long
	}
	if len(v) > maxLengthDigits {
		return ErrLengthLong
	}
	m.Length = n
	if n > 0 {
		m.Body = BodyLength
	}
	return nil
}

// codingError tells a coding that is not implemented from a value that is not to
// be understood at all: empty, not tokens, chunked twice, or chunked not last.
func codingError(v []byte) *Error {
	rest := v
	for first := true; first || rest != nil; first = false {
		var e []byte
		e, rest = element(rest)
		if !token(e) || foldEqual(e, "chunked") && rest != nil {
			return ErrCoding
		}
	}
	return ErrCodingOther
}

// connectionOptions is what the Connection lines say together.
type connectionOptions struct {
	close, keepAlive, upgrade, malformed bool
}

// connection reads all Connection lines as one list (RFC 9110 section 5.3) and
// marks the fields it names as hop-by-hop.
func (m *Message) connection(o *connectionOptions) *Error {
	count := 0
	for i := range m.Fields {
		f := &m.Fields[i]
		if f.Kind != KindConnection {
			continue
		}
		for rest := m.Value(f); len(rest) > 0; {
			var e []byte
			e, rest = element(rest)
			if len(e) == 0 {
				continue // RFC 9110 section 5.6.1.2 has empty elements ignored
			}
			if count++; count > maxOptions {
				return ErrOptions
			}
			switch {
			case foldEqual(e, "keep-alive"):
				o.keepAlive = true
			case foldEqual(e, "close"):
				o.close = true
			case foldEqual(e, "upgrade"):
				o.upgrade = true
			case foldEqual(e, "te"):
			case !token(e):
				o.malformed = true
			default:
				m.markHop(e)
			}
		}
	}
	return nil
}

// markHop marks the fields called name as hop-by-hop.
func (m *Message) markHop(name []byte) {
	k := kindOf(name)
	if vital[k] {
		return
	}
	if k == KindOther {
		m.NamesFields = true
	}
	for i := range m.Fields {
		f := &m.Fields[i]
		if f.Kind == k && !f.Hop && sameFold(m.Name(f), name) {
			f.Hop = true
		}
	}
}

// version reads the HTTP-version b, eight bytes long.
//
// A minor version above 1 is read as 1.1: RFC 9110 section 2.5 has a recipient
// process it as the highest minor version it knows, and since the message is
// forwarded as 1.1 nobody behind us can read it otherwise.
func version(b []byte) (http10 bool, err *Error) {
	switch {
	case string(b) == "HTTP/1.1":
		return false, nil
	case string(b[:5]) != "HTTP/" || class[b[5]]&isDigit == 0 || b[6] != '.' || class[b[7]]&isDigit == 0:
		return false, ErrVersion
	case b[5] != '1':
		return false, ErrVersionMajor
	}
	return b[7] == '0', nil
}
