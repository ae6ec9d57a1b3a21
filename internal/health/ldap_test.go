package health

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"

	"fairlead/internal/model"
)

// directory is a directory as the test wants it: it answers by the kind of
// request, with a result code each.
type directory struct {
	bind, search, extended int64
	password               string // that lets a bind pass
	text                   string // behind each result
	config                 *tls.Config
	implicit               bool
	searches, binds        atomic.Int32
	overTLS                atomic.Bool
}

func (d *directory) serve(c net.Conn) {
	secure := func() bool {
		s := tls.Server(c, d.config)
		c = s
		d.overTLS.Store(s.Handshake() == nil)
		return d.overTLS.Load()
	}
	if d.implicit && !secure() {
		return
	}
	for {
		request, err := ber.ReadPacket(c)
		if err != nil || len(request.Children) < 2 {
			return
		}
		id, op := request.Children[0].Value.(int64), request.Children[1]
		switch op.Tag {
		case ldap.ApplicationBindRequest:
			d.binds.Add(1)
			result := d.bind
			if d.password != "" && op.Children[2].Data.String() != d.password {
				result = ldap.LDAPResultInvalidCredentials
			}
			c.Write(ldapResult(id, ldap.ApplicationBindResponse, result, d.text))
		case ldap.ApplicationSearchRequest:
			d.searches.Add(1)
			if d.search == 0 {
				entry := ber.Encode(ber.ClassApplication, ber.TypeConstructed, ldap.ApplicationSearchResultEntry, nil, "")
				entry.AppendChild(ber.NewString(ber.ClassUniversal, ber.TypePrimitive, ber.TagOctetString, "", ""))
				entry.AppendChild(ber.NewSequence(""))
				c.Write(ldapMessage(id, entry))
			}
			c.Write(ldapResult(id, ldap.ApplicationSearchResultDone, d.search, d.text))
		case ldap.ApplicationExtendedRequest:
			c.Write(ldapResult(id, ldap.ApplicationExtendedResponse, d.extended, d.text))
			if d.extended == 0 && !secure() {
				return
			}
		default:
			return // unbind
		}
	}
}

func ldapMessage(id int64, op *ber.Packet) []byte {
	m := ber.NewSequence("")
	m.AppendChild(ber.NewInteger(ber.ClassUniversal, ber.TypePrimitive, ber.TagInteger, id, ""))
	m.AppendChild(op)
	return m.Bytes()
}

func ldapResult(id int64, tag ber.Tag, code int64, text string) []byte {
	op := ber.Encode(ber.ClassApplication, ber.TypeConstructed, tag, nil, "")
	op.AppendChild(ber.NewInteger(ber.ClassUniversal, ber.TypePrimitive, ber.TagEnumerated, code, ""))
	op.AppendChild(ber.NewString(ber.ClassUniversal, ber.TypePrimitive, ber.TagOctetString, "", ""))
	op.AppendChild(ber.NewString(ber.ClassUniversal, ber.TypePrimitive, ber.TagOctetString, text, ""))
	return ldapMessage(id, op)
}

const ldapPassword = "s3cret"

func passwordFile(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestLDAP(t *testing.T) {
	ca := newAuthority(t)
	hour := time.Now().Add(time.Hour)
	good := &tls.Config{Certificates: []tls.Certificate{*ca.certificate(t, hour, "127.0.0.1")}}
	other := &tls.Config{Certificates: []tls.Certificate{*ca.certificate(t, hour, "other.example.test")}}
	untrusted := &tls.Config{Certificates: []tls.Certificate{*newAuthority(t).certificate(t, hour, "127.0.0.1")}}
	way := func(w model.MonitorTLS) func(*model.Monitor) { return func(m *model.Monitor) { m.TLS = w } }
	bind := func(password string) func(*model.Monitor) {
		file := passwordFile(t, password)
		return func(m *model.Monitor) { m.LDAP = model.LDAPBind{BindDN: "cn=probe,dc=example", PasswordFile: file} }
	}
	for _, c := range []struct {
		name            string
		server          *directory
		edits           []func(*model.Monitor)
		want            string
		code            int
		binds, searches int32
		overTLS         bool
	}{
		{"root entry", &directory{}, nil, "", 0, 0, 1, false},
		{"root entry that is not for everybody", &directory{search: ldap.LDAPResultInsufficientAccessRights, text: "no"}, nil, FailureCode, 50, 0, 1, false},
		{"busy", &directory{search: ldap.LDAPResultBusy}, nil, FailureCode, 51, 0, 1, false},
		{"referral to another server", &directory{search: ldap.LDAPResultReferral}, nil, FailureCode, 10, 0, 1, false},
		{"sign in, at another server", &directory{bind: ldap.LDAPResultReferral}, []func(*model.Monitor){bind(ldapPassword)}, FailureCode, 10, 1, 0, false},
		{"sign in", &directory{password: ldapPassword}, []func(*model.Monitor){bind(ldapPassword)}, "", 0, 1, 0, false},
		{"sign in, line break in the file", &directory{password: ldapPassword}, []func(*model.Monitor){bind(ldapPassword + "\r\n")}, "", 0, 1, 0, false},
		{"wrong password", &directory{password: ldapPassword}, []func(*model.Monitor){bind("other")}, FailureCode, 49, 1, 0, false},
		{"empty password", &directory{}, []func(*model.Monitor){bind("\n")}, FailureConfig, 0, 0, 0, false},
		{"too long a password", &directory{}, []func(*model.Monitor){bind(strings.Repeat("x", model.MaxPassword+1))}, FailureConfig, 0, 0, 0, false},
		{"no file", &directory{}, []func(*model.Monitor){func(m *model.Monitor) { m.LDAP = model.LDAPBind{BindDN: "cn=x", PasswordFile: "/nowhere"} }}, FailureConfig, 0, 0, 0, false},
		{"a directory for a file", &directory{}, []func(*model.Monitor){func(m *model.Monitor) { m.LDAP = model.LDAPBind{BindDN: "cn=x", PasswordFile: "/"} }}, FailureConfig, 0, 0, 0, false},
		{"server down", &directory{bind: ldap.LDAPResultUnavailable}, []func(*model.Monitor){bind(ldapPassword)}, FailureCode, 52, 1, 0, false},

		{"StartTLS", &directory{config: good}, []func(*model.Monitor){way(model.MonitorTLSStartTLS)}, "", 0, 0, 1, true},
		{"StartTLS and sign in", &directory{config: good, password: ldapPassword}, []func(*model.Monitor){way(model.MonitorTLSStartTLS), bind(ldapPassword)}, "", 0, 1, 0, true},
		{"TLS from the first byte", &directory{config: good, implicit: true}, []func(*model.Monitor){way(model.MonitorTLSImplicit)}, "", 0, 0, 1, true},
		{"no StartTLS", &directory{extended: ldap.LDAPResultProtocolError, text: "what?"}, []func(*model.Monitor){way(model.MonitorTLSStartTLS)}, FailureCode, 2, 0, 0, false},
		{"unknown authority", &directory{config: untrusted}, []func(*model.Monitor){way(model.MonitorTLSStartTLS)}, FailureUntrusted, 0, 0, 0, false},
		{"unknown authority, from the first byte", &directory{config: untrusted, implicit: true}, []func(*model.Monitor){way(model.MonitorTLSImplicit)}, FailureUntrusted, 0, 0, 0, false},
		{"other name", &directory{config: other}, []func(*model.Monitor){way(model.MonitorTLSStartTLS)}, FailureName, 0, 0, 0, false},
		{"allowed", &directory{config: other}, []func(*model.Monitor){way(model.MonitorTLSStartTLS), func(m *model.Monitor) { m.AllowInsecure = true }}, "", 0, 0, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := at(rawServer(t, c.server.serve), func(m *model.Monitor) {
				m.Type = model.MonitorLDAP
				for _, e := range c.edits {
					e(m)
				}
			})
			target.RootCAs = ca.pool()
			r := once(t, target)
			if r.Failure != c.want || r.Code != c.code || (r.Cause == "") != r.Passed() || (r.RTT > 0) != r.Passed() {
				t.Errorf("result = %+v, want %q with code %d", r, c.want, c.code)
			}
			if b, s := c.server.binds.Load(), c.server.searches.Load(); b != c.binds || s != c.searches || c.server.overTLS.Load() != c.overTLS {
				t.Errorf("the server saw %d binds and %d searches, over TLS %v; want %d, %d, %v", b, s, c.server.overTLS.Load(), c.binds, c.searches, c.overTLS)
			}
		})
	}
}

// TestLDAPPasswordIsNotTold: also where the server repeats it.
func TestLDAPPasswordIsNotTold(t *testing.T) {
	file := passwordFile(t, ldapPassword)
	for name, serve := range map[string]func(net.Conn){
		"result":  (&directory{bind: 49, text: "no, not " + ldapPassword}).serve,
		"garbage": func(c net.Conn) { c.Read(make([]byte, 100)); io.WriteString(c, ldapPassword+ldapPassword) },
		"matched name": func(c net.Conn) {
			c.Read(make([]byte, 100))
			c.Write(ldapMessage(1, ber.NewString(ber.ClassApplication, ber.TypePrimitive, 1, ldapPassword, "")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := once(t, at(rawServer(t, serve), func(m *model.Monitor) {
				m.Type = model.MonitorLDAP
				m.LDAP = model.LDAPBind{BindDN: "cn=probe", PasswordFile: file}
			}))
			if r.Passed() || r.Cause == "" || strings.Contains(r.Cause, ldapPassword) {
				t.Errorf("result = %+v, want a failure that does not show the password", r)
			}
		})
	}
	t.Run("without a password its words are told", func(t *testing.T) {
		r := once(t, at(rawServer(t, (&directory{search: 53, text: "maintenance"}).serve), func(m *model.Monitor) { m.Type = model.MonitorLDAP }))
		if !strings.Contains(r.Cause, `"maintenance"`) {
			t.Errorf("result = %+v", r)
		}
	})
}

// ldapHostile are answers that no directory gives.
var ldapHostile = map[string][]byte{
	"text":                 []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
	"nothing":              nil,
	"empty sequence":       {0x30, 0},
	"half a header":        {0x30},
	"half a message":       {0x30, 0x0c, 2, 1, 1},
	"two gigabytes":        {0x30, 0x84, 0x7f, 0xff, 0xff, 0xff, 2, 1, 1},
	"a longer length":      {0x30, 0x88, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	"indefinite":           append([]byte{0x30, 0x80}, bytes.Repeat([]byte{0x30, 0x80}, 10_000)...),
	"deep":                 bytes.Repeat([]byte{0x30, 0x82, 0xff, 0xff}, 10_000),
	"another message":      ldapResult(7, ldap.ApplicationSearchResultDone, 0, ""),
	"another id's type":    {0x30, 5, 4, 1, 'x', 0x65, 0},
	"no result":            {0x30, 5, 2, 1, 1, 0x65, 0},
	"a result of a text":   {0x30, 0x0c, 2, 1, 1, 0x65, 7, 4, 1, 'x', 4, 0, 4, 0},
	"a result without end": {0x30, 0x0c, 2, 1, 1, 0x65, 7, 0x0a, 0, 4, 0, 4, 0},
	"an entry of nothing":  {0x30, 5, 2, 1, 1, 0x64, 0},
	"an entry of integers": {0x30, 0x0b, 2, 1, 1, 0x64, 6, 2, 1, 1, 2, 1, 1},
	"bad controls":         {0x30, 0x10, 2, 1, 1, 0x65, 7, 0x0a, 1, 0, 4, 0, 4, 0, 0xa0, 2, 0x30, 0},
	"a negative integer":   {0x30, 0x0c, 2, 1, 1, 0x65, 7, 0x0a, 1, 0xff, 4, 0, 4, 0},
}

// TestLDAPHostile: whatever comes, a check ends in time, with a failure, and
// leaves nothing running.
func TestLDAPHostile(t *testing.T) {
	before := runtime.NumGoroutine()
	probeAll := func(name string, want string, serve func(net.Conn)) {
		for _, signIn := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				target := at(rawServer(t, serve), func(m *model.Monitor) {
					m.Type = model.MonitorLDAP
					m.Timeout = 10 * time.Second
					if want == FailureTimeout {
						m.Timeout = 300 * time.Millisecond
					}
					if signIn {
						m.LDAP = model.LDAPBind{BindDN: "cn=probe", PasswordFile: passwordFile(t, ldapPassword)}
					}
				})
				begin := time.Now()
				r := once(t, target)
				if r.Passed() || want != "" && r.Failure != want || r.Cause == "" || time.Since(begin) > 9*time.Second {
					t.Errorf("result = %+v after %v, want a failure (%s)", r, time.Since(begin), want)
				}
			})
		}
	}
	for name, answer := range ldapHostile {
		probeAll(name, "", func(c net.Conn) {
			c.Read(make([]byte, 1000))
			c.Write(answer)
			c.(*net.TCPConn).CloseWrite()
			never(c)
		})
	}
	probeAll("silent", FailureTimeout, never)
	probeAll("byte by byte", FailureTimeout, func(c net.Conn) {
		for {
			for _, b := range ldapResult(9, ldap.ApplicationSearchResultDone, 0, "x") {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}
	})
	probeAll("endless messages", FailureInvalid, func(c net.Conn) {
		for {
			if _, err := c.Write(ldapResult(9, ldap.ApplicationSearchResultDone, 0, "x")); err != nil {
				return
			}
		}
	})
	probeAll("endless text", FailureInvalid, func(c net.Conn) {
		c.Write([]byte{0x30, 0x84, 0x7f, 0xff, 0xff, 0xff, 4, 0x84, 0x7f, 0xff, 0xff, 0xf0})
		for {
			if _, err := c.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	probeAll("reset", FailureReset, func(c net.Conn) {
		c.Read(make([]byte, 1))
		c.(*net.TCPConn).SetLinger(0)
	})
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	buf := make([]byte, 1<<20)
	t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
}

// FuzzLDAPAnswer: no answer ends the process or keeps a check for ever.
func FuzzLDAPAnswer(f *testing.F) {
	for _, answer := range ldapHostile {
		f.Add(answer, true)
		f.Add(answer, false)
	}
	f.Add(ldapResult(1, ldap.ApplicationBindResponse, 0, ""), true)
	f.Add(ldapResult(1, ldap.ApplicationSearchResultDone, 0, ""), false)
	f.Add(ldapResult(1, ldap.ApplicationExtendedResponse, 0, ""), false)
	f.Fuzz(func(t *testing.T, answer []byte, signIn bool) {
		for _, begin := range []func(*ldapProbe) error{
			func(p *ldapProbe) error { return startTLS(p.conn) },
			func(p *ldapProbe) error {
				if signIn {
					return p.ask(ldap.NewSimpleBindRequest("cn=probe", ldapPassword, nil))
				}
				return p.ask(nil)
			},
		} {
			ours, theirs := net.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				theirs.Read(make([]byte, 1000))
				theirs.Write(answer)
				theirs.Close()
			}()
			p := &ldapProbe{Target: &Target{Monitor: new(model.Monitor)}, conn: guard(ours, maxLDAP), stage: stageAnswer}
			err := func() (err error) {
				defer func() {
					if v := recover(); v != nil { // as probeLDAP does
						t.Logf("recovered: %v", v)
					}
				}()
				return begin(p)
			}()
			ours.Close()
			<-done
			if err != nil {
				if r := p.failure(t.Context(), err, !signIn); r.Passed() || r.Cause == "" || len(r.Cause) > 300 {
					t.Errorf("result = %+v of %v", r, err)
				}
			}
		}
	})
}
