package health

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"fairlead/internal/model"
)

// zoneServer serves the given versions of HTTP, over TLS where there is a
// configuration, and returns its port.
func zoneServer(t *testing.T, h http.HandlerFunc, cfg *tls.Config, http1, http2 bool) int {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(testWriter{t}, "", 0)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(http1)
	if cfg == nil {
		s.Config.Protocols.SetUnencryptedHTTP2(http2)
		s.Start()
	} else {
		s.Config.Protocols.SetHTTP2(http2)
		s.EnableHTTP2 = http2
		s.TLS = cfg.Clone()
		if http2 && !http1 {
			s.TLS.NextProtos = []string{"h2"}
		}
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// simulated returns a target whose monitor asks as requests to a pool do.
func simulated(port int, p model.PoolProtocol, edit func(*model.Monitor)) Target {
	target := at(port, func(m *model.Monitor) {
		m.SimulateZone = true
		if p.OverTLS() {
			m.Type = model.MonitorHTTPS
		}
		if edit != nil {
			edit(m)
		}
	})
	target.Protocol, target.TLS = p, p.OverTLS()
	return target
}

// TestSimulateZone asks endpoints by the pool's protocol.
func TestSimulateZone(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.certificate(t, time.Now().Add(time.Hour), "www.example.test", "127.0.0.1")
	secure := &tls.Config{Certificates: []tls.Certificate{*cert}}
	for _, c := range []struct {
		name         string
		protocol     model.PoolProtocol
		cfg          *tls.Config
		http1, http2 bool
		want         string // failure
		proto        string // that the endpoint has seen
	}{
		{"http", model.PoolHTTP, nil, true, true, "", "HTTP/1.1"},
		{"h2c", model.PoolH2C, nil, true, true, "", "HTTP/2.0"},
		{"h2c alone", model.PoolH2C, nil, false, true, "", "HTTP/2.0"},
		{"h2c, and the endpoint has HTTP/1.1", model.PoolH2C, nil, true, false, FailureInvalid, ""},
		{"https", model.PoolHTTPS, secure, true, true, "", "HTTP/1.1"},
		{"h2", model.PoolH2, secure, true, true, "", "HTTP/2.0"},
		{"h2 alone", model.PoolH2, secure, false, true, "", "HTTP/2.0"},
		{"h2, and the endpoint has HTTP/1.1", model.PoolH2, secure, true, false, FailureHandshake, ""},
		{"h2, and the endpoint does not choose", model.PoolH2, &tls.Config{Certificates: secure.Certificates, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return secure, nil // without protocols
		}}, true, false, FailureTLSProtocol, ""},
		{"auto", model.PoolAuto, secure, true, true, "", "HTTP/2.0"},
		{"auto, and the endpoint has HTTP/1.1", model.PoolAuto, secure, true, false, "", "HTTP/1.1"},
		{"auto, and the endpoint has HTTP/2", model.PoolAuto, secure, false, true, "", "HTTP/2.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := make(chan *http.Request, 10)
			port := zoneServer(t, func(w http.ResponseWriter, r *http.Request) {
				seen <- r
				io.WriteString(w, "All Is Well")
			}, c.cfg, c.http1, c.http2)
			target := simulated(port, c.protocol, func(m *model.Monitor) {
				m.Path, m.ExpectedBody = "/healthz?x=1", "all is well"
				m.Header = map[string][]string{"X-Probe": {"1"}}
			})
			target.RootCAs, target.ServerName, target.Zone = ca.pool(), "127.0.0.1", "www.example.test"
			r := once(t, target)
			if r.Failure == FailureReset && c.want == FailureInvalid {
				return // its answer was lost with what it did not read
			}
			if r.Failure != c.want || r.Passed() && (r.Code != 200 || r.RTT <= 0) {
				t.Fatalf("result = %+v, want %q", r, c.want)
			}
			if !r.Passed() {
				return
			}
			req := <-seen
			if req.Proto != c.proto || req.Host != "www.example.test" || req.RequestURI != "/healthz?x=1" || req.Header.Get("X-Probe") != "1" ||
				!strings.Contains(req.UserAgent(), "Fairlead-Monitor") || req.Header.Get("Accept-Encoding") != "" {
				t.Errorf("the endpoint saw %s %s of %s with %v, want %s", req.Proto, req.RequestURI, req.Host, req.Header, c.proto)
			}
			target.Zone, target.HostHeader = "www.example.test", "own.example.test"
			if r := once(t, target); !r.Passed() {
				t.Fatalf("result = %+v", r)
			}
			if req := <-seen; req.Host != "own.example.test" {
				t.Errorf("Host %q, want the endpoint's own", req.Host)
			}
		})
	}
}

// TestSimulateZoneJudges: answers over HTTP/2 are judged like others.
func TestSimulateZoneJudges(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/503", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/well", 302) })
	mux.HandleFunc("/well", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "all is well by %s", r.Proto) })
	mux.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(103)
		io.WriteString(w, "all is well")
	})
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			w.Write(make([]byte, 16<<10))
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/head", func(w http.ResponseWriter, _ *http.Request) {
		for i := range 200 {
			w.Header().Set(fmt.Sprintf("X-Filler-%d", i), strings.Repeat("x", 1000))
		}
	})
	mux.HandleFunc("/abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	port := zoneServer(t, mux.ServeHTTP, nil, false, true)
	for _, c := range []struct {
		path string
		edit func(*model.Monitor)
		want string
		code int
	}{
		{"/well", func(m *model.Monitor) { m.ExpectedBody = "well by http/2.0" }, "", 200},
		{"/well", func(m *model.Monitor) { m.Method = "HEAD" }, "", 200},
		{"/well", func(m *model.Monitor) { m.Method = "POST" }, "", 200},
		{"/well", func(m *model.Monitor) { m.ExpectedBody = "lost" }, FailureBody, 200},
		{"/early", func(m *model.Monitor) { m.ExpectedBody = "well" }, "", 200},
		{"/503", nil, FailureCode, 503},
		{"/moved", nil, FailureCode, 302},
		{"/moved", func(m *model.Monitor) { m.FollowRedirects, m.ExpectedBody = true, "well by http/2.0" }, "", 200},
		{"/silent", func(m *model.Monitor) { m.Timeout = 100 * time.Millisecond }, FailureTimeout, 0},
		{"/endless", func(m *model.Monitor) { m.ExpectedBody = "x" }, FailureBody, 200},
		{"/endless", nil, "", 200},
		{"/head", nil, FailureInvalid, 0},
		{"/abort", nil, FailureInvalid, 0},
	} {
		t.Run(c.path, func(t *testing.T) {
			r := once(t, simulated(port, model.PoolH2C, func(m *model.Monitor) {
				m.Path = c.path
				if c.edit != nil {
					c.edit(m)
				}
			}))
			if r.Failure != c.want || r.Code != c.code || (r.RTT > 0) != r.Passed() {
				t.Errorf("result = %+v, want %q with code %d", r, c.want, c.code)
			}
		})
	}
}

// TestHTTP2Hostile: whatever frames come, a check ends in time.
func TestHTTP2Hostile(t *testing.T) {
	frame := func(typ http2.FrameType, flags http2.Flags, stream uint32, payload []byte) []byte {
		h := make([]byte, 9)
		binary.BigEndian.PutUint32(h, uint32(len(payload))<<8|uint32(typ))
		h[4] = byte(flags)
		binary.BigEndian.PutUint32(h[5:], stream)
		return append(h, payload...)
	}
	settings := frame(http2.FrameSettings, 0, 0, nil)
	head := func(fields ...string) []byte {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		for i := 0; i < len(fields); i += 2 {
			e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		return b.Bytes()
	}
	endless := func(b []byte) func(net.Conn) {
		return func(c net.Conn) {
			go io.Copy(io.Discard, c)
			c.Write(settings)
			many := bytes.Repeat(b, 100)
			for {
				if _, err := c.Write(many); err != nil {
					return
				}
			}
		}
	}
	said := new(bytes.Buffer) // by the library
	log.SetOutput(said)
	defer func() {
		log.SetOutput(os.Stderr)
		if lines := bytes.Count(said.Bytes(), []byte("\n")); lines > 2*maxFrames {
			t.Errorf("%d lines were logged", lines)
		}
	}()
	for _, c := range []struct {
		name  string
		serve func(net.Conn)
		want  []string
	}{
		{"silent", never, []string{FailureTimeout}},
		{"HTTP/1.1", says("HTTP/1.1 400 Bad Request\r\n\r\n"), []string{FailureInvalid}},
		{"gone", func(c net.Conn) { c.Read(make([]byte, 4096)) }, []string{FailureInvalid, FailureReset}},
		{"PING without end", endless(frame(http2.FramePing, 0, 0, make([]byte, 8))), []string{FailureInvalid, FailureTimeout}},
		{"SETTINGS without end", endless(settings), []string{FailureInvalid, FailureTimeout}},
		{"unknown frames without end", endless(frame(99, 0, 0, make([]byte, 1000))), []string{FailureInvalid, FailureTimeout}},
		{"CONTINUATION without end", func(c net.Conn) {
			c.Write(frame(http2.FrameHeaders, 0, 1, head(":status", "200")))
			endless(frame(http2.FrameContinuation, 0, 1, head("x", strings.Repeat("y", 1000))))(c)
		}, []string{FailureInvalid, FailureTimeout}},
		{"informational answers without end", endless(frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, head(":status", "103"))), []string{FailureInvalid, FailureTimeout}},
		{"GOAWAY", func(c net.Conn) {
			c.Write(append(bytes.Clone(settings), frame(http2.FrameGoAway, 0, 0, make([]byte, 8))...))
			never(c)
		}, []string{FailureInvalid, FailureTimeout}},
		{"garbage", endless([]byte("\xff\xfe\x00garbage")), []string{FailureInvalid, FailureTimeout, FailureReset}},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin := time.Now()
			r := once(t, simulated(rawServer(t, c.serve), model.PoolH2C, func(m *model.Monitor) { m.Timeout = 500 * time.Millisecond }))
			found := false
			for _, w := range c.want {
				found = found || r.Failure == w
			}
			if d := time.Since(begin); !found || r.Cause == "" || d > 3*time.Second {
				t.Errorf("result = %+v after %v, want one of %q", r, d, c.want)
			}
		})
	}
}

// TestFrameGuard: frames are counted wherever reads end.
func TestFrameGuard(t *testing.T) {
	for _, size := range []int{1, 2, 8, 9, 10, 4096} {
		for _, frames := range []int{maxFrames, maxFrames + 1} {
			var stream bytes.Buffer
			for i := range frames {
				payload := i % 20
				stream.Write([]byte{0, 0, byte(payload), 99, 0, 0, 0, 0, 0})
				stream.Write(make([]byte, payload))
			}
			ours, theirs := net.Pipe()
			go func() {
				theirs.Write(stream.Bytes())
				theirs.Close()
			}()
			g := &frameGuard{guardedConn: guard(ours, 1<<20)}
			var err error
			for err == nil {
				_, err = g.Read(make([]byte, size))
			}
			if more := frames > maxFrames; (err != io.EOF) != more || g.frames > maxFrames+1 {
				t.Errorf("%d frames, read by %d bytes: %v after %d", frames, size, err, g.frames)
			}
			ours.Close()
		}
	}
}

// TestClientCertificate: it is shown to every endpoint that asks for one, as in
// traffic, also where that does not list its issuer.
func TestClientCertificate(t *testing.T) {
	ca := newAuthority(t)
	hour := time.Now().Add(time.Hour)
	shown := ca.certificate(t, hour, "probe.example.test")
	other := newAuthority(t)
	port := zoneServer(t, ok, &tls.Config{
		Certificates: []tls.Certificate{*ca.certificate(t, hour, "127.0.0.1")},
		ClientAuth:   tls.RequireAnyClientCert, ClientCAs: other.pool(),
	}, true, true)
	for _, p := range []model.PoolProtocol{model.PoolHTTPS, model.PoolH2, model.PoolAuto} {
		target := simulated(port, p, nil)
		target.RootCAs, target.Certificate = ca.pool(), shown
		if r := once(t, target); !r.Passed() {
			t.Errorf("%s: result = %+v, want one that passed", p, r)
		}
	}
}
