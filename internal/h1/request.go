package h1

// Request is the head of a request. The zero value is ready for use.
type Request struct {
	Message

	Method, Target []byte // as received

	// Scheme is that of an absolute-form target, as received, else nil.
	Scheme []byte

	// Path is the target without its query: as received in origin-form, the
	// path part of an absolute-form ("/" if it is empty), or "*". An OPTIONS
	// for an absolute-form without path and query is for the server as a
	// whole, so Path is "*" (RFC 9112 section 3.2.4).
	Path     []byte
	Query    []byte // without the '?'
	HasQuery bool   // there was a '?'

	// Host is what the request is routed by, in the case received, without
	// port; HostPort is the same with the port received. They come from an
	// absolute-form target if that is what there is (RFC 9112 section 3.2.2;
	// the Host line is then to be replaced by HostPort), else from the Host
	// line, and are nil in an HTTP/1.0 request with neither.
	Host, HostPort []byte

	// Expect100: the client waits for 100 (Continue) before it sends the
	// body, which there is.
	Expect100 bool

	// TETrailers: the client accepts trailers.
	TETrailers bool

	skip int // bytes of empty lines before the request line

	// What was found in the request line, as offsets into Head: the slices
	// above are made when the head is complete, since b may move until then.
	methodEnd, targetEnd int
	hostStart, hostEnd   int // the authority of an absolute-form
	pathStart, pathEnd   int
}

var (
	slash    = []byte("/")
	asterisk = []byte("*")
)

// Reset forgets an unfinished parse and all that was borrowed.
func (r *Request) Reset() {
	r.Message.reset()
	*r = Request{Message: r.Message}
}

// Parse reads a request head from the start of b. It returns how many bytes the
// head takes, or 0 if it is not complete: then Parse is to be called again with
// the same bytes and more behind them, at any address, and goes on where it
// stopped. After a head or an error the next Parse starts anew. An error is
// always an *Error, after which the connection cannot be used for reading.
//
// Up to two empty lines before the request line are skipped (RFC 9112 section
// 2.2). They count in n and are not part of Head.
func (r *Request) Parse(b []byte, lim *Limits) (n int, err error) {
	if r.done {
		r.Reset()
	}
	n, e := r.parse(b, lim)
	if e != nil {
		r.done = true
		return 0, e
	}
	return n, nil
}

func (r *Request) parse(b []byte, lim *Limits) (int, *Error) {
	if r.pos == 0 && r.look == 0 {
		more, err := r.skipEmptyLines(b)
		if more || err != nil {
			return 0, err
		}
	}
	b = b[r.skip:]
	most := lim.headBytes()
	full := len(b) >= most
	if full {
		b = b[:most]
	}
	if r.pos == 0 {
		end, found, err := lineEnd(b, r.look)
		if err != nil {
			return 0, err
		}
		if !found {
			r.look = end
			if full {
				return 0, ErrTargetLong
			}
			return 0, nil
		}
		if err := r.requestLine(b, end); err != nil {
			return 0, err
		}
		r.pos, r.look = end+2, end+2
	}
	done, err := r.parseFields(b, lim.fields())
	if err != nil {
		return 0, err
	}
	if !done {
		if full {
			return 0, ErrHeadLong
		}
		return 0, nil
	}
	if err := r.finish(); err != nil {
		return 0, err
	}
	r.done = true
	return r.skip + len(r.Head), nil
}

// skipEmptyLines moves r.skip past empty lines. more says that b ends before it is
// clear whether another follows.
func (r *Request) skipEmptyLines(b []byte) (more bool, err *Error) {
	for {
		if r.skip >= len(b) {
			return true, nil
		}
		if b[r.skip] != '\r' {
			return false, nil
		}
		if r.skip == 2*maxEmptyLines {
			return false, ErrEmptyLines
		}
		if r.skip+1 == len(b) {
			return true, nil
		}
		if b[r.skip+1] != '\n' {
			return false, ErrBareCR
		}
		r.skip += 2
	}
}

// requestLine checks and takes apart the request line b[:end].
func (r *Request) requestLine(b []byte, end int) *Error {
	const suffix = len(" HTTP/1.1")
	line := b[:end]
	m := 0
	for m < len(line) && class[line[m]]&isToken != 0 {
		m++
	}
	switch {
	case m == len(line), m > 0 && line[m] == '\t':
		return ErrRequestLine
	case m == 0, line[m] != ' ':
		return ErrMethod
	case m > maxMethod:
		return ErrMethodLong
	}
	// The shortest target is one byte.
	e := len(line) - suffix
	if e < m+2 || line[e] != ' ' {
		return shapeError(line[m+1:])
	}
	http10, err := version(line[e+1:])
	if err != nil {
		return err
	}
	r.HTTP10 = http10
	r.methodEnd, r.targetEnd = m, e
	if string(line[:m]) == "CONNECT" {
		return ErrConnect
	}
	t := m + 1
	switch c := line[t]; {
	case c == '/':
		r.pathStart = t
	case c == '*' && e == t+1:
		if string(line[:m]) != "OPTIONS" {
			return ErrAsterisk
		}
		r.pathStart, r.pathEnd = t, e
		return nil
	default:
		if err := r.absoluteForm(line[:e], t); err != nil {
			return err
		}
	}
	i := r.pathStart
	for i < e && class[line[i]]&isTarget != 0 {
		i++
	}
	r.pathEnd = i
	if i < e && line[i] == '?' {
		for i++; i < e && (class[line[i]]&isTarget != 0 || line[i] == '?'); i++ {
		}
	}
	if i != e {
		if line[i] == ' ' || line[i] == '\t' {
			return ErrRequestLine
		}
		return ErrTarget
	}
	return nil
}

// shapeError says what is wrong with a request line that does not end in a space
// and eight bytes; rest is what follows the method and its space.
func shapeError(rest []byte) *Error {
	for i, c := range rest {
		if c == ' ' && i > 0 && i+1 < len(rest) && rest[i+1] != ' ' {
			return ErrVersion
		}
	}
	return ErrRequestLine
}

// absoluteForm takes the scheme and the authority off the target that starts at
// line[t], and sets where the path starts.
func (r *Request) absoluteForm(line []byte, t int) *Error {
	i := t
	switch {
	case len(line)-t > 7 && foldEqual(line[t:t+7], "http://"):
		i += 7
	case len(line)-t > 8 && foldEqual(line[t:t+8], "https://"):
		i += 8
	case class[line[t]]&isTarget == 0:
		if line[t] == ' ' || line[t] == '\t' {
			return ErrRequestLine
		}
		return ErrTarget
	default:
		return ErrTargetForm
	}
	r.hostStart = i
	for i < len(line) && line[i] != '/' && line[i] != '?' {
		i++
	}
	r.hostEnd = i
	r.pathStart = i
	if !ValidHost(line[r.hostStart:i]) {
		return ErrTargetHost
	}
	return nil
}

// finish reads what the fields of a complete head mean together, and fills in the
// slices.
func (r *Request) finish() *Error {
	h := r.Head
	r.Method = h[:r.methodEnd:r.methodEnd]
	t := r.methodEnd + 1
	r.Target = h[t:r.targetEnd:r.targetEnd]
	r.Path = h[r.pathStart:r.pathEnd:r.pathEnd]
	if r.pathEnd < r.targetEnd {
		r.HasQuery = true
		r.Query = h[r.pathEnd+1 : r.targetEnd : r.targetEnd]
	}
	if r.hostEnd > 0 {
		r.Scheme = h[t : r.hostStart-3 : r.hostStart-3]
		r.HostPort = h[r.hostStart:r.hostEnd:r.hostEnd]
		if len(r.Path) == 0 {
			r.Path = slash
			if !r.HasQuery && string(r.Method) == "OPTIONS" {
				r.Path = asterisk
			}
		}
	}

	var c framing
	r.collect(&c)
	if err := r.host(&c); err != nil {
		return err
	}
	if err := r.frame(&c); err != nil {
		return err
	}
	var o connectionOptions
	if c.connections > 0 {
		if err := r.connection(&o); err != nil {
			return err
		}
		if o.malformed {
			return ErrOption
		}
	}
	r.Close = o.close || r.HTTP10 && !o.keepAlive
	if o.upgrade && c.upgrades == 1 && !r.HTTP10 && len(r.Value(c.upgrade)) > 0 {
		r.Upgrade = r.Value(c.upgrade)
	}
	if c.te {
		r.TETrailers = r.acceptsTrailers()
	}
	if c.expects > 0 {
		return r.expectation(&c)
	}
	return nil
}

// host checks the Host line and decides Host and HostPort.
func (r *Request) host(c *framing) *Error {
	if c.hosts > 1 {
		return ErrHosts
	}
	if c.hosts == 0 {
		if !r.HTTP10 {
			return ErrNoHost
		}
		if r.HostPort != nil {
			r.Host, _ = splitHost(r.HostPort)
		}
		return nil
	}
	// RFC 9110 section 4.2.1 has an http URI without a host refused, so an
	// empty Host, which the grammar of the field allows, is invalid too. A
	// Host line that the target overrides must be valid all the same.
	v := r.Value(c.host)
	host, ok := splitHost(v)
	if !ok {
		return ErrHost
	}
	if r.HostPort != nil {
		r.Host, _ = splitHost(r.HostPort)
		return nil
	}
	r.Host, r.HostPort = host, v
	return nil
}

// expectation reads Expect. It is refused if it is anything but 100-continue,
// ignored in HTTP/1.0 (RFC 9110 section 10.1.1) and without a body, where there is
// nothing to wait for; ignored lines are not forwarded either.
func (r *Request) expectation(c *framing) *Error {
	if !r.HTTP10 {
		if c.expects > 1 || !foldEqual(r.Value(c.expect), "100-continue") {
			return ErrExpect
		}
		if r.Body != BodyNone {
			r.Expect100 = true
			return nil
		}
	}
	for i := range r.Fields {
		if f := &r.Fields[i]; f.Kind == KindExpect {
			f.Hop = true
		}
	}
	return nil
}

// acceptsTrailers looks for "trailers" in the TE lines.
func (r *Request) acceptsTrailers() bool {
	for i := range r.Fields {
		f := &r.Fields[i]
		if f.Kind != KindTE {
			continue
		}
		for rest := r.Value(f); len(rest) > 0; {
			var e []byte
			e, rest = element(rest)
			if foldEqual(e, "trailers") {
				return true
			}
		}
	}
	return false
}
