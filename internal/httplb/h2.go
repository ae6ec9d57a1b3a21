package httplb

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"fairlead/internal/h1"
	"fairlead/internal/loop"
)

// h2stream is one HTTP/2 stream, as golang.org/x/net/http2 hands it out. The
// request's head is written down in HTTP/1.1 and read by the same parser as any
// other, so that there is one interpretation of requests.
type h2stream struct {
	ln  *listener
	set *settings
	w   http.ResponseWriter
	r   *http.Request
	rc  *http.ResponseController
	x   exchange

	req  h1.Request
	buf  []byte
	pace pace

	done    atomic.Bool // the whole body was read
	stopped atomic.Bool // the body is not wanted any more
	aborted bool        // the stream is to be reset
	writeBy time.Time   // until when the write under way has to be done
	in, out int64
}

// readPreface reads what HTTP/2 connections begin with.
func readPreface(c loop.Conn, deadline loop.Time) ([]byte, error) {
	var b []byte
	c.SetReadDeadline(deadline)
	for len(b) < len(http2.ClientPreface) {
		var err error
		if b, err = c.Read(b); err != nil {
			return nil, err
		}
	}
	b = bytes.Clone(b)
	c.Release()
	c.SetReadDeadline(0)
	if !bytes.HasPrefix(b, []byte(http2.ClientPreface)) {
		return nil, errors.New("no HTTP/2 preface, although HTTP/2 was agreed")
	}
	return b, nil
}

// serveHTTP2 serves a connection on which HTTP/2 was agreed and begun.
func (l *listener) serveHTTP2(k *client, set *settings, read []byte) {
	tc := &ahead{Conn: k.c.(interface{ NetConn() net.Conn }).NetConn().(*tls.Conn), b: read[len(http2.ClientPreface):]}
	c := h2conn{k.c, set.http}
	l.enter(c)
	defer l.leave(c)
	set.h2.ServeConn(tc, &http2.ServeConnOpts{
		Context:          context.Background(),
		BaseConfig:       baseConfig(set.http),
		SawClientPreface: true,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s := &h2stream{ln: l, set: l.set.Load(), w: w, r: r, rc: http.NewResponseController(w)}
			s.x.init(s)
			s.x.attach(l, k.d, k.peer)
			s.x.secure, s.x.tls = true, k.tls
			defer l.resetStream()
			s.serve()
		}),
	})
}

// resetStream keeps a defect that one stream meets from ending more than it. It
// is deferred.
func (l *listener) resetStream() {
	v := recover()
	if v == nil {
		return
	}
	if v != http.ErrAbortHandler {
		l.defect(v)
	}
	panic(http.ErrAbortHandler)
}

// serve answers the stream's request.
func (s *h2stream) serve() {
	s.x.begin(loop.Now())
	head := s.head1()
	lim := s.set.heads
	n, err := s.req.Parse(head, &lim)
	if err == nil && n != len(head) {
		err = h1.ErrControl
	}
	if err != nil {
		var e *h1.Error
		errors.As(err, &e)
		s.ln.stats.countRefused(e)
		s.x.fail(refusal(e.Status), err)
	} else {
		s.done.Store(s.req.Body == h1.BodyNone)
		s.pace.start(s.set)
		if s.run() == outcomeCut {
			s.aborted = true
		}
	}
	s.x.finish(s.in, s.out)
	if s.aborted {
		panic(http.ErrAbortHandler) // resets the stream
	}
}

// earlyBody is up to where a body is read before an endpoint is asked. A body
// that was stopped cannot be read on here, so a request whose endpoint closes a
// kept connection could not be sent again while its body is under way; with
// short bodies there is nothing under way. It also saves the task that would
// send the body.
const earlyBody = 16 << 10

// run reads a short body whole and then has the request answered.
func (s *h2stream) run() outcome {
	var first []byte
	for s.req.Body == h1.BodyLength && s.req.Length <= earlyBody && !s.done.Load() {
		b, err := s.nextBody()
		switch {
		case err == io.EOF:
		case err == errSlowBody:
			s.x.note(&s.req)
			return s.x.fail(failTimeout, err)
		case err != nil:
			s.x.note(&s.req)
			return s.x.clientLost(err)
		}
		first = append(first, b...)
	}
	return s.x.run(&s.req, first, s.done.Load())
}

// head1 writes the request's head down in HTTP/1.1.
func (s *h2stream) head1() []byte {
	r := s.r
	b := append(s.buf, r.Method...)
	b = append(b, ' ')
	b = append(b, r.RequestURI...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, r.Host...)
	b = append(b, h1.CRLF...)
	for name, values := range r.Header {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade":
			continue // HTTP/2 has its own way for each, or forbids it
		}
		for _, v := range values {
			b = h1.AppendField(b, name, v)
		}
	}
	switch {
	case r.ContentLength > 0:
		b = h1.AppendField(b, "Content-Length", strconv.FormatInt(r.ContentLength, 10))
	case r.ContentLength < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case r.Method == "POST" || r.Method == "PUT" || r.Method == "PATCH":
		// RFC 9110 section 8.6: a method that expects content says that
		// there is none.
		b = append(b, "Content-Length: 0\r\n"...)
	}
	if len(r.Trailer) > 0 {
		var names []string
		for n := range r.Trailer {
			names = append(names, n)
		}
		b = h1.AppendField(b, "Trailer", strings.Join(names, ", "))
	}
	b = append(b, h1.CRLF...)
	s.in = int64(len(b))
	return b
}

const h2Buffer = 32 << 10

func (s *h2stream) nextBody() ([]byte, error) {
	if s.done.Load() {
		return nil, io.EOF
	}
	if cap(s.buf) < h2Buffer {
		s.buf = make([]byte, h2Buffer)
	}
	s.pace.resume()
	s.rc.SetReadDeadline(time.Now().Add(s.set.BodyTimeout))
	n, err := s.r.Body.Read(s.buf[:h2Buffer-2]) // room for CRLF behind a chunk
	s.rc.SetReadDeadline(time.Time{})           // it would break the body while nobody reads
	s.in += int64(n)
	s.pace.add(n)
	switch {
	case err == io.EOF:
		s.done.Store(true)
		if n == 0 {
			return nil, io.EOF
		}
	case errors.Is(err, os.ErrDeadlineExceeded), err == nil && s.pace.behind():
		s.ln.stats.limits[limitBodyTimeout].Inc()
		return nil, errSlowBody
	case err != nil && s.stopped.Load():
		return nil, errStopped
	case err != nil:
		return nil, errClientGone
	}
	return s.buf[:n], nil
}

func (s *h2stream) moveBody(loop.Conn, func()) (int64, error, error) { return 0, nil, nil }
func (s *h2stream) bodyDone() bool                                   { return s.done.Load() }

func (s *h2stream) bodyTrailer() []byte {
	var b []byte
	for name, values := range s.r.Trailer {
		if !h1.ValidTrailer([]byte(name)) {
			continue
		}
		for _, v := range values {
			b = h1.AppendField(b, name, v)
		}
	}
	return b
}

func (s *h2stream) stopBody(error) {
	s.stopped.Store(true)
	s.r.Body.Close()
}

// resumeBody reports false: a body that was closed stays so.
func (s *h2stream) resumeBody() bool { return false }

func (s *h2stream) release()         {}
func (s *h2stream) alive() bool      { return s.r.Context().Err() == nil }
func (s *h2stream) protocol() string { return "HTTP/2" }
func (s *h2stream) cut()             { s.aborted = true }

// takeOver is never called: HTTP/2 knows no Upgrade.
func (s *h2stream) takeOver() (loop.Conn, []byte) { return nil, nil }

func (s *h2stream) interim(res *h1.Response) error {
	if res.Status == http.StatusContinue {
		return nil // sent by the library once the body is read
	}
	h := s.w.Header()
	s.fields(h, res)
	s.limitWrite()
	s.w.WriteHeader(res.Status)
	clear(h)
	return s.wrote(nil, false)
}

// fields copies the fields that may be forwarded.
func (s *h2stream) fields(h http.Header, res *h1.Response) {
	for i := range res.Fields {
		f := &res.Fields[i]
		if !f.Hop {
			h.Add(string(res.Name(f)), string(res.Value(f)))
		}
	}
	s.countHead(h)
}

// countHead counts a head as long as it would be in HTTP/1.1.
func (s *h2stream) countHead(h http.Header) {
	s.out += int64(len("HTTP/2 200\r\n\r\n"))
	for name, values := range h {
		for _, v := range values {
			s.out += int64(len(name) + len(v) + len(": \r\n"))
		}
	}
}

// limitWrite bounds the next write.
func (s *h2stream) limitWrite() {
	s.writeBy = time.Now().Add(s.set.BodyTimeout)
	s.rc.SetWriteDeadline(s.writeBy)
}

// wrote ends what limitWrite began, unless the library is still to write the
// last bytes: the bound is for writing, not for the time between two parts of
// an answer. err is that of the write.
func (s *h2stream) wrote(err error, last bool) error {
	switch {
	case err == nil && !last:
		s.rc.SetWriteDeadline(time.Time{})
	case err != nil && !time.Now().Before(s.writeBy):
		s.ln.stats.limits[limitSendTimeout].Inc()
		return loop.ErrStalled
	}
	return err
}

func (s *h2stream) head(res *h1.Response, body h1.Body, length int64, data []byte, last bool) error {
	h := s.w.Header()
	s.fields(h, res)
	if body == h1.BodyChunked {
		h.Del("Content-Length")
	}
	// The library would add what the endpoint did not say.
	for _, name := range [...]string{"Date", "Content-Type"} {
		if _, ok := h[name]; !ok {
			h[name] = nil
		}
	}
	s.goAway(h)
	s.limitWrite()
	s.w.WriteHeader(res.Status)
	if len(data) > 0 {
		return s.write(data, last)
	}
	if last {
		return nil
	}
	return s.wrote(s.rc.Flush(), false)
}

// goAway has the library send GOAWAY with an answer, once the listener closes.
func (s *h2stream) goAway(h http.Header) {
	if s.ln.draining.Load() {
		h.Set("Connection", "close")
	}
}

func (s *h2stream) body(data []byte) error { return s.write(data, false) }

func (s *h2stream) write(data []byte, last bool) error {
	// Each piece has the whole time-out, so that a slow reader is not cut off
	// while it makes progress.
	const piece = 16 << 10
	var err error
	for len(data) > 0 && err == nil {
		s.limitWrite()
		var n int
		n, err = s.w.Write(data[:min(len(data), piece)])
		if err == nil && len(data) > piece {
			err = s.rc.Flush()
		}
		s.out += int64(n)
		data = data[n:]
	}
	if err == nil && !last {
		err = s.rc.Flush()
	}
	return s.wrote(err, last)
}

func (s *h2stream) move(from loop.Conn, n int64, how loop.Moving) (moved int64, endpointErr, clientErr error) {
	return loop.Move(h2sink{s, from}, from, n, how)
}

// h2sink takes the bytes that are moved to a stream.
type h2sink struct {
	s *h2stream
	loop.Conn
}

func (k h2sink) Write(b []byte) error { return k.s.write(b, false) }

func (s *h2stream) end(trailer []byte) error {
	h := s.w.Header()
	for len(trailer) > 0 {
		line, rest, _ := strings.Cut(string(trailer), h1.CRLF)
		trailer = []byte(rest)
		if name, value, ok := strings.Cut(line, ":"); ok {
			h.Add(http.TrailerPrefix+name, strings.TrimSpace(value))
		}
	}
	return nil
}

func (s *h2stream) page(f *failure) error {
	h := s.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	body := f.page()
	h.Set("Content-Length", strconv.Itoa(len(body)))
	s.countHead(h)
	s.goAway(h)
	s.limitWrite()
	s.w.WriteHeader(f.status)
	if s.x.isHead {
		return nil
	}
	return s.write([]byte(body), true)
}

// h2conn is an HTTP/2 connection. The library ends it in order when its server
// is shut down, so there is nothing to interrupt.
type h2conn struct {
	c      loop.Conn
	server *http.Server
}

func (c h2conn) interrupt() {}
func (c h2conn) abort()     { c.c.Abort() }

// ahead is a connection of which bytes were read already.
type ahead struct {
	*tls.Conn
	b []byte
}

func (a *ahead) Read(b []byte) (int, error) {
	if len(a.b) > 0 {
		n := copy(b, a.b)
		a.b = a.b[n:]
		return n, nil
	}
	return a.Conn.Read(b)
}
