package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"

	"golang.org/x/net/http2"

	"fairlead/internal/model"
)

// errNoHTTP2 says that an endpoint does not speak what its pool is declared to.
var errNoHTTP2 = errors.New("endpoint did not agree to speak HTTP/2")

// offers returns what an endpoint is offered to speak over TLS, as requests to
// a pool of a protocol do.
func offers(p model.PoolProtocol) []string {
	switch p {
	case model.PoolH2:
		return []string{"h2"}
	case model.PoolAuto:
		return []string{"h2", "http/1.1"}
	}
	return []string{"http/1.1"}
}

// maxFrames bounds the frames of an answer. The body that is searched takes
// seven of the usual size; those that the library does not know it logs.
const maxFrames = 1000

// frameGuard bounds the frames that are read, beside the bytes.
type frameGuard struct {
	*guardedConn
	head    [9]byte // of the frame that is being read
	have    int     // bytes of it
	payload int     // bytes of the frame before it that are to come
	frames  int
}

// Read implements net.Conn.
func (g *frameGuard) Read(b []byte) (int, error) {
	n, err := g.guardedConn.Read(b)
	for rest := b[:n]; len(rest) > 0; {
		if g.payload > 0 {
			skip := min(g.payload, len(rest))
			g.payload -= skip
			rest = rest[skip:]
			continue
		}
		k := copy(g.head[g.have:], rest)
		g.have += k
		rest = rest[k:]
		if g.have == len(g.head) {
			g.have = 0
			g.payload = int(g.head[0])<<16 | int(g.head[1])<<8 | int(g.head[2])
			g.frames++
		}
	}
	if g.frames > maxFrames {
		return 0, g.end(fmt.Errorf("the endpoint sends more than %d frames", maxFrames))
	}
	return n, err
}

// requestHTTP2 is request over a connection that speaks HTTP/2. What may be
// read is bounded as a whole, whatever the frames are.
func (p *httpProbe) requestHTTP2(ctx context.Context, conn net.Conn, req *http.Request, follow bool) (Result, *url.URL, error) {
	g := &frameGuard{guardedConn: guard(conn, maxHead+8*maxBody)}
	t := &http2.Transport{AllowHTTP: true, DisableCompression: true, MaxHeaderListSize: maxHead}
	client, err := t.NewClientConn(g)
	if err != nil {
		return Result{}, nil, err
	}
	defer client.Close()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: p.answered})
	req = req.WithContext(ctx)
	req.Close = false // a field of HTTP/1.1
	resp, err := client.RoundTrip(req)
	if err != nil {
		switch ended := g.ended(); {
		case ended == io.EOF:
			err = errors.New("connection closed without an answer")
		case ended != nil:
			err = ended
		}
		return Result{}, nil, err
	}
	defer resp.Body.Close()
	r, to, err := p.judgeOrFollow(resp, follow)
	if ended := g.ended(); err != nil && ended != nil && ended != io.EOF {
		err = ended
	}
	return r, to, err
}
