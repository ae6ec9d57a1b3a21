package health

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"fairlead/internal/model"
)

// Bounds on what an endpoint's answer may make a probe do.
const (
	maxHead      = 64 << 10  // bytes of a response head, informational ones included
	maxBody      = 100 << 10 // bytes of a body that are searched
	maxRedirects = 10
)

// httpProbe is one attempt at an HTTP request: a connection of its own for each
// request, HTTP/1.1 unless requests to the pool are simulated, no proxy, no
// compression.
type httpProbe struct {
	*Target
	stage    stage
	own      string // the Host that the endpoint is asked for
	expected string // codes as written
	codes    model.Codes
	start    time.Time
	rtt      time.Duration
}

// probeHTTP passes when the answer has an expected code and, if asked for, the
// expected text. The round trip runs from the start of the connection to the
// first byte of the first answer, TCP and TLS handshakes included: that is
// what a new client would wait.
func probeHTTP(ctx context.Context, t *Target) Result {
	scheme, port := "http", 80
	if t.Monitor.Type == model.MonitorHTTPS {
		scheme, port = "https", 443
	}
	expected := cmp.Or(t.Monitor.ExpectedCodes, "2xx")
	codes, err := model.ParseCodes(expected)
	if err != nil {
		return failed(FailureConfig, err.Error())
	}
	path := cmp.Or(t.Monitor.Path, "/")
	u, err := url.ParseRequestURI(path)
	if err != nil || u.Host != "" {
		return failed(FailureConfig, fmt.Sprintf("path %q: want an absolute path", path))
	}
	p := &httpProbe{Target: t, own: t.host(port), expected: expected, codes: codes, start: time.Now()}
	u.Scheme, u.Host = scheme, p.own
	r, err := p.follow(ctx, u)
	if err != nil {
		return classify(ctx, p.stage, err)
	}
	if r.Passed() {
		r.RTT = p.rtt
	}
	return r
}

// follow asks for u, goes on where redirects lead if the monitor wants that,
// and judges the last answer.
func (p *httpProbe) follow(ctx context.Context, u *url.URL) (Result, error) {
	method := cmp.Or(p.Monitor.Method, http.MethodGet)
	for hops := 0; ; hops++ {
		more := p.Monitor.FollowRedirects && hops < maxRedirects
		result, location, err := p.request(ctx, method, u, more)
		if err != nil || location == nil {
			return result, err
		}
		if result.Code == http.StatusSeeOther && method != http.MethodHead {
			method = http.MethodGet
		}
		u = location
	}
}

// request asks for u. It judges the answer, or, where redirects are followed
// and the answer is one, returns where it leads.
func (p *httpProbe) request(ctx context.Context, method string, u *url.URL, follow bool) (Result, *url.URL, error) {
	req := (&http.Request{Method: method, URL: u, Host: u.Host, Header: p.header(u), Close: true}).WithContext(ctx)
	var head bytes.Buffer
	if err := req.Write(&head); err != nil {
		return failed(FailureConfig, err.Error()), nil, nil
	}
	conn, overHTTP2, err := p.connect(ctx, u)
	if err != nil {
		return Result{}, nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()

	p.stage = stageAnswer
	if overHTTP2 {
		return p.requestHTTP2(ctx, conn, req, follow)
	}
	// An endpoint may answer before it has read all, and close: what it said
	// counts more than that it did not listen.
	_, writeErr := conn.Write(head.Bytes())
	in := &io.LimitedReader{R: conn, N: maxHead}
	br := bufio.NewReader(in)
	if _, err := br.Peek(1); err != nil {
		if writeErr != nil {
			err = writeErr
		} else if err == io.EOF {
			err = errors.New("connection closed without an answer")
		}
		return Result{}, nil, err
	}
	p.answered()
	resp, err := readResponse(br, req)
	if err != nil {
		if in.N <= 0 {
			err = fmt.Errorf("response head longer than %d bytes", maxHead)
		}
		return Result{}, nil, err
	}
	in.N = 8 * maxBody // a chunk of one byte takes six
	return p.judgeOrFollow(resp, follow)
}

// answered notes the first byte of the first answer.
func (p *httpProbe) answered() {
	if p.rtt == 0 {
		p.rtt = time.Since(p.start)
	}
}

// judgeOrFollow judges an answer or, where redirects are followed and it is
// one, returns where it leads.
func (p *httpProbe) judgeOrFollow(resp *http.Response, follow bool) (Result, *url.URL, error) {
	if follow {
		if to := redirect(resp); to != nil {
			return Result{Code: resp.StatusCode}, to, nil
		}
	}
	r, err := p.judge(resp)
	return r, nil, err
}

// readResponse reads the first response that is not informational.
func readResponse(br *bufio.Reader, req *http.Request) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(br, req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
	}
}

// redirect returns where an answer leads; nil when it leads nowhere that a
// probe goes.
func redirect(resp *http.Response) *url.URL {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil
	}
	u, err := resp.Location()
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil
	}
	return u
}

// judge holds an answer against what the monitor expects.
func (p *httpProbe) judge(resp *http.Response) (Result, error) {
	r := Result{Code: resp.StatusCode}
	if !p.codes.Contains(resp.StatusCode) {
		r.Failure, r.Cause = FailureCode, fmt.Sprintf("got %d, want %s", resp.StatusCode, p.expected)
		return r, nil
	}
	if p.Monitor.ExpectedBody == "" {
		return r, nil
	}
	found, err := contains(io.LimitReader(resp.Body, maxBody), p.Monitor.ExpectedBody)
	if err != nil {
		return Result{}, err
	}
	if !found {
		r.Failure, r.Cause = FailureBody, fmt.Sprintf("expected_body is not in the first %d KiB", maxBody>>10)
	}
	return r, nil
}

// contains looks for text in r without regard to case, and stops at the first
// find: a body need not end.
func contains(r io.Reader, text string) (bool, error) {
	want := bytes.ToLower([]byte(text))
	var buf []byte
	searched := 0
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, make([]byte, max(4096, len(buf)))...)[:len(buf)]
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		// The text may have begun in what was searched already. A letter's
		// lower case is never longer than four of its bytes.
		from := max(0, searched-4*len(want))
		if n > 0 && bytes.Contains(bytes.ToLower(buf[from:]), want) {
			return true, nil
		}
		searched = len(buf)
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// header returns the headers of a request for u. Those of the monitor may hold
// secrets, so that other hosts do not get them.
func (p *httpProbe) header(u *url.URL) http.Header {
	h := make(http.Header)
	if p.isOwn(u) {
		for name, values := range p.Monitor.Header {
			if !strings.EqualFold(name, "Host") {
				h[http.CanonicalHeaderKey(name)] = values
			}
		}
	}
	h.Set("User-Agent", userAgent(p.Key.Pool))
	return h
}

// userAgent is how probes name themselves.
func userAgent(pool string) string {
	return "Mozilla/5.0 (compatible; Fairlead-Monitor/1.0; pool: " + pool + ")"
}

// isOwn reports whether u names the endpoint itself.
func (p *httpProbe) isOwn(u *url.URL) bool {
	return strings.EqualFold(u.Hostname(), hostname(p.own))
}

// connect opens a connection for a request for u, and tells whether it speaks
// HTTP/2. A name that a redirect leads to is looked up, unless it is the
// endpoint's own: that means the endpoint, at the probed port and by the
// probed protocol when the authority is the same.
func (p *httpProbe) connect(ctx context.Context, u *url.URL) (_ net.Conn, overHTTP2 bool, _ error) {
	p.stage = stageConnect
	port := 80
	if u.Scheme == "https" {
		port = 443
	}
	if s := u.Port(); s != "" {
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil {
			return nil, false, fmt.Errorf("redirect to %q: port out of range", u.Host)
		}
		port = int(n)
	}
	var conn net.Conn
	var err error
	protocol := model.PoolHTTP
	switch {
	case strings.EqualFold(u.Host, p.own) && u.Scheme == string(p.Monitor.Type):
		protocol = p.Protocol
		conn, err = p.dial(ctx, p.port())
	case p.isOwn(u):
		conn, err = p.dial(ctx, port)
	default:
		conn, err = (&net.Dialer{KeepAlive: -1}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), strconv.Itoa(port)))
	}
	if err != nil || u.Scheme != "https" {
		return conn, protocol == model.PoolH2C, err
	}
	p.stage = stageTLS
	cfg := p.tlsConfig(offers(protocol)...)
	if !p.isOwn(u) {
		cfg.ServerName, cfg.GetClientCertificate, cfg.VerifyConnection = u.Hostname(), nil, nil
	}
	c := tls.Client(conn, cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, false, err
	}
	overHTTP2 = c.ConnectionState().NegotiatedProtocol == "h2"
	if protocol == model.PoolH2 && !overHTTP2 {
		conn.Close()
		return nil, false, errNoHTTP2
	}
	return c, overHTTP2, nil
}
