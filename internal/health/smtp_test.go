package health

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead/internal/model"
)

// mailServer is a mail server as the test wants it. Each field is what it
// says, in whole lines; "" is what a usual one says.
type mailServer struct {
	greeting, ehlo, helo, starttls, quit string
	ehloOverTLS                          string
	config                               *tls.Config // of STARTTLS, or from the first byte
	implicit                             bool
	mute                                 string // the command that it closes the connection on

	mu   sync.Mutex
	said []string // by the client
}

// heard returns the commands of all clients.
func (s *mailServer) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.said, " | ")
}

func (s *mailServer) serve(c net.Conn) {
	overTLS := false
	secure := func() bool {
		secured := tls.Server(c, s.config)
		overTLS = secured.Handshake() == nil
		c = secured
		return overTLS
	}
	if s.implicit && !secure() {
		return
	}
	say := func(own, usual string) bool {
		if own == "" {
			own = usual
		}
		_, err := io.WriteString(c, own)
		return err == nil
	}
	if !say(s.greeting, "220 mail.example.test ESMTP\r\n") {
		return
	}
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSuffix(line, "\r\n")
		s.mu.Lock()
		s.said = append(s.said, line)
		s.mu.Unlock()
		command, _, _ := strings.Cut(line, " ")
		if command == s.mute {
			return
		}
		switch command {
		case "EHLO":
			offer := "250-mail.example.test\r\n250-SIZE 1000\r\n250 8BITMIME\r\n"
			if s.config != nil && !overTLS {
				offer = "250-mail.example.test\r\n250-starttls\r\n250 8BITMIME\r\n"
			}
			if overTLS && s.ehloOverTLS != "" {
				say(s.ehloOverTLS, "")
			} else {
				say(s.ehlo, offer)
			}
		case "HELO":
			say(s.helo, "250 mail.example.test\r\n")
		case "STARTTLS":
			say(s.starttls, "220 go ahead\r\n")
			if s.starttls != "" {
				c.Read(make([]byte, 4096))
				say("502 what?\r\n", "")
				return
			}
			if !secure() {
				return
			}
			in = bufio.NewReader(c)
		case "QUIT":
			say(s.quit, "221 bye\r\n")
			return
		default:
			say("502 what?\r\n", "")
		}
	}
}

func TestSMTP(t *testing.T) {
	ca := newAuthority(t)
	hour := time.Now().Add(time.Hour)
	good := &tls.Config{Certificates: []tls.Certificate{*ca.certificate(t, hour, "127.0.0.1", "mail.example.test")}}
	other := &tls.Config{Certificates: []tls.Certificate{*ca.certificate(t, hour, "other.example.test")}}
	untrusted := &tls.Config{Certificates: []tls.Certificate{*newAuthority(t).certificate(t, hour, "127.0.0.1")}}
	insecure := func(m *model.Monitor) { m.AllowInsecure = true }
	way := func(w model.MonitorTLS) func(*model.Monitor) { return func(m *model.Monitor) { m.TLS = w } }
	long := strings.Repeat("x", 2000)
	const hello = "EHLO [127.0.0.1]"
	for _, c := range []struct {
		name   string
		server *mailServer
		edit   func(*model.Monitor)
		want   string // failure
		code   int
		heard  string // "" is not looked at
	}{
		{"usual", &mailServer{}, nil, "", 0, hello + " | QUIT"},
		{"greeting of several lines", &mailServer{greeting: "220-mail.example.test\r\n220-no spam\r\n220 ready\r\n"}, nil, "", 0, ""},
		{"greeting without a text", &mailServer{greeting: "220\r\n"}, nil, "", 0, ""},
		{"one line for EHLO", &mailServer{ehlo: "250 mail.example.test\r\n"}, nil, "", 0, ""},
		{"no EHLO", &mailServer{ehlo: "502 no\r\n"}, nil, "", 0, hello + " | HELO [127.0.0.1] | QUIT"},
		{"neither EHLO nor HELO", &mailServer{ehlo: "502 no\r\n", helo: "550 no\r\n"}, nil, FailureCode, 550, hello + " | HELO [127.0.0.1]"},
		{"not now", &mailServer{ehlo: "421 later\r\n"}, nil, FailureCode, 421, hello},
		{"busy", &mailServer{greeting: "421 too many\r\n"}, nil, FailureCode, 421, ""},
		{"refusing", &mailServer{greeting: "554 no\r\n"}, nil, FailureCode, 554, ""},
		{"rude", &mailServer{quit: "250 ok\r\n"}, nil, FailureCode, 250, ""},
		{"gone before goodbye", &mailServer{mute: "QUIT"}, nil, FailureInvalid, 0, ""},
		{"gone before hello", &mailServer{mute: "EHLO"}, nil, FailureInvalid, 0, ""},

		{"STARTTLS", &mailServer{config: good}, nil, "", 0, hello + " | STARTTLS | " + hello + " | QUIT"},
		{"STARTTLS that is asked for", &mailServer{config: good}, way(model.MonitorTLSStartTLS), "", 0, ""},
		{"STARTTLS that is not wanted", &mailServer{config: good}, way(model.MonitorTLSNone), "", 0, hello + " | QUIT"},
		{"no STARTTLS", &mailServer{}, way(model.MonitorTLSStartTLS), FailureTLSProtocol, 0, hello},
		{"no STARTTLS without EHLO", &mailServer{ehlo: "502 no\r\n"}, way(model.MonitorTLSStartTLS), FailureTLSProtocol, 0, ""},
		{"a host that is called so", &mailServer{ehlo: "250 STARTTLS\r\n"}, nil, "", 0, ""},
		{"a keyword that begins so", &mailServer{ehlo: "250-x\r\n250 STARTTLSX\r\n"}, nil, "", 0, ""},
		{"STARTTLS refused", &mailServer{config: good, starttls: "454 no\r\n"}, nil, FailureCode, 454, ""},
		{"more in the clear", &mailServer{config: good, starttls: "220 go\r\n250 injected\r\n"}, nil, FailureInvalid, 0, ""},
		{"no TLS behind it", &mailServer{config: good, starttls: "220 go\r\n"}, nil, FailureTLSProtocol, 0, ""},
		{"no EHLO over TLS", &mailServer{config: good, ehloOverTLS: "502 no\r\n"}, nil, FailureCode, 502, ""},
		{"unknown authority", &mailServer{config: untrusted}, nil, FailureUntrusted, 0, hello + " | STARTTLS"},
		{"other name", &mailServer{config: other}, nil, FailureName, 0, ""},
		{"unknown authority, allowed", &mailServer{config: untrusted}, insecure, "", 0, ""},
		{"TLS from the first byte", &mailServer{config: good, implicit: true}, way(model.MonitorTLSImplicit), "", 0, hello + " | QUIT"},
		{"no TLS from the first byte", &mailServer{}, way(model.MonitorTLSImplicit), FailureTLSProtocol, 0, ""},

		{"LF alone", &mailServer{greeting: "220 mail\n"}, nil, FailureInvalid, 0, ""},
		{"CR within", &mailServer{greeting: "220 ma\ril\r\n"}, nil, FailureInvalid, 0, ""},
		{"NUL within", &mailServer{greeting: "220 ma\x00il\r\n"}, nil, FailureInvalid, 0, ""},
		{"two codes", &mailServer{greeting: "220-mail\r\n221 mail\r\n"}, nil, FailureInvalid, 0, ""},
		{"no code", &mailServer{greeting: "mail\r\n"}, nil, FailureInvalid, 0, ""},
		{"a code of two digits", &mailServer{greeting: "22 mail\r\n"}, nil, FailureInvalid, 0, ""},
		{"a code out of range", &mailServer{greeting: "620 mail\r\n"}, nil, FailureInvalid, 0, ""},
		{"no space", &mailServer{greeting: "220mail\r\n"}, nil, FailureInvalid, 0, ""},
		{"HTTP", &mailServer{greeting: "HTTP/1.1 400 Bad Request\r\n\r\n"}, nil, FailureInvalid, 0, ""},
		{"long line", &mailServer{greeting: "220 " + long + "\r\n"}, nil, FailureInvalid, 0, ""},
		{"many lines", &mailServer{greeting: strings.Repeat("220-mail\r\n", maxReplyLines) + "220 mail\r\n"}, nil, FailureInvalid, 0, ""},
		{"just so many lines", &mailServer{greeting: strings.Repeat("220-mail\r\n", maxReplyLines-1) + "220 mail\r\n"}, nil, "", 0, ""},
		{"long reply to EHLO", &mailServer{ehlo: "250-" + long + "\r\n250 x\r\n"}, nil, FailureInvalid, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := at(rawServer(t, c.server.serve), func(m *model.Monitor) {
				m.Type = model.MonitorSMTP
				if c.edit != nil {
					c.edit(m)
				}
			})
			target.RootCAs = ca.pool()
			r := once(t, target)
			if r.Failure != c.want || r.Code != c.code || (r.Cause == "") != r.Passed() || (r.RTT > 0) != r.Passed() {
				t.Errorf("result = %+v, want %q with code %d", r, c.want, c.code)
			}
			if heard := c.server.heard(); c.heard != "" && heard != c.heard {
				t.Errorf("the server has heard %q, want %q", heard, c.heard)
			}
		})
	}
}

// TestSMTPHostile: whatever a server does, a check ends in time.
func TestSMTPHostile(t *testing.T) {
	endless := func(s string) func(net.Conn) {
		return func(c net.Conn) {
			for {
				if _, err := io.WriteString(c, s); err != nil {
					return
				}
			}
		}
	}
	for _, c := range []struct {
		name  string
		serve func(net.Conn)
		want  string
	}{
		{"silent", never, FailureTimeout},
		{"byte by byte", func(c net.Conn) {
			for {
				for _, b := range []byte("220-a line that is never the last\r\n") {
					if _, err := c.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(time.Millisecond)
				}
			}
		}, FailureTimeout},
		{"silent after the greeting", func(c net.Conn) {
			io.WriteString(c, "220 hello\r\n")
			never(c)
		}, FailureTimeout},
		{"silent handshake", func(c net.Conn) {
			io.WriteString(c, "220 hello\r\n")
			c.Read(make([]byte, 100))
			io.WriteString(c, "250-hello\r\n250 STARTTLS\r\n")
			c.Read(make([]byte, 100))
			io.WriteString(c, "220 go\r\n")
			never(c)
		}, FailureTimeout},
		{"endless line", endless("2"), FailureInvalid},
		{"endless lines", endless("220-more\r\n"), FailureInvalid},
		{"garbage", endless("\x00\xff\r\n"), FailureInvalid},
		{"half a line", func(c net.Conn) { io.WriteString(c, "220 he") }, FailureInvalid},
		{"half a reply", func(c net.Conn) { io.WriteString(c, "220-he\r\n") }, FailureInvalid},
		{"nothing at all", func(net.Conn) {}, FailureInvalid},
		{"hangs up with a reason", func(c net.Conn) {
			io.WriteString(c, "220 hello\r\n421 too busy\r\n")
			c.(*net.TCPConn).CloseWrite()
			never(c)
		}, FailureCode},
		{"reset", func(c net.Conn) {
			io.WriteString(c, "220 hello\r\n")
			c.Read(make([]byte, 1))
			c.(*net.TCPConn).SetLinger(0)
		}, FailureReset},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := at(rawServer(t, c.serve), func(m *model.Monitor) {
				m.Type = model.MonitorSMTP
				if c.want == FailureTimeout {
					m.Timeout = 200 * time.Millisecond
				}
			})
			begin := time.Now()
			r := once(t, target)
			if d := time.Since(begin); r.Failure != c.want || r.Cause == "" || d > 4*time.Second {
				t.Errorf("result = %+v after %v, want %s", r, d, c.want)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		if r := once(t, at(closedPort(t), func(m *model.Monitor) { m.Type = model.MonitorSMTP })); r.Failure != FailureRefused {
			t.Errorf("result = %+v, want %s", r, FailureRefused)
		}
	})
}

// TestSMTPCause: a server's words are quoted and cut.
func TestSMTPCause(t *testing.T) {
	r := once(t, at(rawServer(t, (&mailServer{greeting: "554 " + strings.Repeat("\xff\"", 400) + "\r\n"}).serve),
		func(m *model.Monitor) { m.Type = model.MonitorSMTP }))
	if len(r.Cause) > 300 || !strings.HasPrefix(r.Cause, `the greeting: got 554 "\xff\"`) {
		t.Errorf("cause = %q", r.Cause)
	}
}

// FuzzSMTPReply: a reply that is accepted is read again from what it was, and
// from what it says; and nothing behind its last line was looked at.
func FuzzSMTPReply(f *testing.F) {
	for _, s := range []string{
		"220 mail.example.test ESMTP\r\n", "220\r\n", "220 \r\n", "250-a\r\n250-STARTTLS\r\n250 b\r\n", "250-a\r\n251 b\r\n",
		"250-a\r\n", "220 a\n", "\r\n", "22", "999 x\r\n", "221 bye\r\n250 more\r\n", "250-" + strings.Repeat("x", maxReplyLine) + "\r\n250 x\r\n",
		"220 a\rb\r\n", "220-\r\n220-\r\n220\r\n", "220 \xc3\xa9\r\n",
	} {
		f.Add([]byte(s))
	}
	read := func(b []byte) (smtpReply, []byte, error) {
		br := bufio.NewReaderSize(bytes.NewReader(b), maxReplyLine)
		r, err := readReply(br)
		rest, _ := io.ReadAll(br)
		return r, rest, err
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, rest, err := read(b)
		if err != nil {
			if r.code != 0 || r.lines != nil {
				t.Errorf("%+v with %v", r, err)
			}
			return
		}
		if r.code < 200 || r.code > 559 || len(r.lines) == 0 || len(r.lines) > maxReplyLines {
			t.Fatalf("%+v", r)
		}
		var again bytes.Buffer
		for i, line := range r.lines {
			if strings.ContainsAny(line, "\r\n\x00") || len(line) > maxReplyLine {
				t.Fatalf("line %q", line)
			}
			between := "-"
			if i == len(r.lines)-1 {
				between = " "
			}
			fmt.Fprintf(&again, "%d%s%s\r\n", r.code, between, line)
		}
		if whole := b[:len(b)-len(rest)]; !bytes.Equal(again.Bytes(), whole) && !bytes.HasSuffix(whole, fmt.Appendf(nil, "%d\r\n", r.code)) {
			t.Errorf("%q says the same as %q", whole, again.Bytes())
		}
		if r2, rest2, err := read(append(again.Bytes(), rest...)); err != nil && again.Len() <= len(b) || err == nil && fmt.Sprint(r2) != fmt.Sprint(r) || err == nil && !bytes.Equal(rest2, rest) {
			t.Errorf("%+v, %q, %v; want %+v, %q", r2, rest2, err, r, rest)
		}
	})
}
