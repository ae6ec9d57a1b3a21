package h1

// Response is the head of a response. The zero value is ready for use.
type Response struct {
	Message

	Status int    // 100 to 999
	Reason []byte // the reason phrase, which may be empty

	reasonStart, reasonEnd int
}

// Reset forgets an unfinished parse and all that was borrowed.
func (r *Response) Reset() {
	r.Message.reset()
	*r = Response{Message: r.Message}
}

// Parse reads a response head from the start of b, in the way of Request.Parse.
// method is that of the request: it decides whether a body follows. The Status of
// an error means nothing here, as it is not the client that did wrong.
//
// What stands behind a head with BodyNone belongs to the next response, and if
// nothing was asked for, to none: then the connection must not be used again.
func (r *Response) Parse(b, method []byte, lim *Limits) (n int, err error) {
	if r.done {
		r.Reset()
	}
	n, e := r.parse(b, method, lim)
	if e != nil {
		r.done = true
		return 0, e
	}
	return n, nil
}

func (r *Response) parse(b, method []byte, lim *Limits) (int, *Error) {
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
				return 0, ErrHeadLong
			}
			return 0, nil
		}
		if err := r.statusLine(b[:end]); err != nil {
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
	if err := r.finish(method); err != nil {
		return 0, err
	}
	r.done = true
	return len(r.Head), nil
}

// statusLine checks and takes apart the status line. The space behind the status
// may be missing with the reason, as many servers have it.
func (r *Response) statusLine(line []byte) *Error {
	const shortest = len("HTTP/1.1 200")
	if len(line) < shortest || line[8] != ' ' || len(line) > shortest && line[shortest] != ' ' {
		return ErrStatusLine
	}
	http10, err := version(line[:8])
	if err != nil {
		return err
	}
	r.HTTP10 = http10
	a, b, c := line[9], line[10], line[11]
	if class[a]&class[b]&class[c]&isDigit == 0 || a == '0' {
		return ErrStatusLine
	}
	r.Status = int(a-'0')*100 + int(b-'0')*10 + int(c-'0')
	r.reasonStart = min(shortest+1, len(line))
	r.reasonEnd = len(line)
	return nil
}

// finish reads what the fields of a complete head mean together.
func (r *Response) finish(method []byte) *Error {
	r.Reason = r.Head[r.reasonStart:r.reasonEnd:r.reasonEnd]
	var c framing
	r.collect(&c)
	if err := r.frame(&c); err != nil {
		return err
	}
	var o connectionOptions
	if c.connections > 0 {
		if err := r.connection(&o); err != nil {
			return err
		}
		if o.upgrade && c.upgrades == 1 && !r.HTTP10 && len(r.Value(c.upgrade)) > 0 {
			r.Upgrade = r.Value(c.upgrade)
		}
	}
	// An option that is not a token names no field. It is not worth refusing
	// a response for, but a sender that writes it may mean to close.
	r.Close = o.close || o.malformed || r.HTTP10 && !o.keepAlive

	// RFC 9112 section 6.3, in its order.
	switch {
	case r.Status < 200 || r.Status == 204:
		// Neither may have a Content-Length (RFC 9110 section 8.6). There
		// is no doubt where it ends, but passed on it might raise one.
		r.Body = BodyNone
		if c.lengths > 0 {
			c.length.Hop = true
		}
	case r.Status == 304 || string(method) == "HEAD":
		r.Body = BodyNone
	case r.Status < 300 && string(method) == "CONNECT":
		r.Body = BodyNone
	case c.codings == 0 && c.lengths == 0:
		r.Body = BodyUntilClose
		r.Close = true
	}
	return nil
}
