package dnslb

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// over sends a query over a network and waits for the answer.
func over(t testing.TB, network, address string, m *dns.Msg) *dns.Msg {
	t.Helper()
	c := dns.Client{Net: network, Timeout: 5 * time.Second, UDPSize: 4096, TLSConfig: &tls.Config{InsecureSkipVerify: true}}
	got, _, err := c.Exchange(m, address)
	if err != nil {
		t.Fatalf("%s %s: %v", network, address, err)
	}
	return got
}

// at returns the address of a listener.
func at(t testing.TB, p *Plane, name string) string {
	t.Helper()
	for _, l := range p.Listeners() {
		if l.Name == name {
			return l.Address.String()
		}
	}
	t.Fatalf("no listener %q", name)
	return ""
}

const wwwAnswer = "NOERROR aa\nanswer: www.example.com. AAAA 2001:db8::1"

func TestUDPAndTCP(t *testing.T) {
	for _, kind := range engines {
		t.Run(kind, func(t *testing.T) {
			p, _ := start(t, kind, listenerText("")+zoneText)
			address := at(t, p, "dns")
			for _, network := range []string{"udp", "tcp"} {
				if got := shown(over(t, network, address, query("www.example.com", "AAAA"))); got != wwwAnswer {
					t.Errorf("over %s: %s", network, got)
				}
			}
		})
	}
}

// An answer comes from the address that was asked, on listeners of all addresses.
func TestAnswersComeFromWhereWasAsked(t *testing.T) {
	for _, kind := range engines {
		for _, bind := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
			t.Run(kind+" "+bind, func(t *testing.T) {
				p, _ := start(t, kind, strings.Replace(listenerText(""), "127.0.0.1:0", bind, 1)+zoneText)
				port := netip.MustParseAddrPort(at(t, p, "dns")).Port()
				asked := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "::1"}
				switch bind {
				case "0.0.0.0:0":
					asked = asked[:3]
				case "[::]:0":
					asked = asked[3:]
				}
				for _, ip := range asked {
					// A connected socket takes answers from there only.
					if got := shown(over(t, "udp", netip.AddrPortFrom(netip.MustParseAddr(ip), port).String(), query("www.example.com", "AAAA"))); got != wwwAnswer {
						t.Errorf("%s: %s", ip, got)
					}
				}
			})
		}
	}
}

// Nobody else can take the address, nor is one taken that somebody has.
func TestAddressInUse(t *testing.T) {
	for _, kind := range engines {
		p, pl := start(t, kind, listenerText("")+zoneText)
		address := at(t, p, "dns")
		if c, err := net.ListenPacket("udp", address); err == nil {
			c.Close()
			t.Errorf("%s: another process takes the UDP address", kind)
		}
		for _, what := range []string{"TCP", "UDP"} {
			tcp, udp := freePort(t)
			where := tcp.Addr().String()
			taken := io.Closer(tcp)
			if what == "TCP" {
				udp.Close()
			} else {
				tcp.Close()
				taken = udp
			}
			text := strings.Replace(listenerText(""), "127.0.0.1:0", where, 1) + zoneText
			err := p.Apply(compile(t, text, pl), nil)
			if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), `listener "dns": `+what+" address "+where) {
				t.Errorf("%s: %s address that is taken: %v", kind, what, err)
			}
			taken.Close()
		}
		if got := shown(over(t, "udp", address, query("www.example.com", "AAAA"))); got != wwwAnswer {
			t.Errorf("%s: after plans that were refused: %s", kind, got)
		}
	}
}

// freePort takes a port that is free for both.
func freePort(t testing.TB) (net.Listener, net.PacketConn) {
	t.Helper()
	for range 100 {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if udp, err := net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			return tcp, udp
		}
		tcp.Close()
	}
	t.Fatal("no port is free for TCP and UDP")
	return nil, nil
}

// A new plan is answered from at once, on sockets that stay open.
func TestReload(t *testing.T) {
	for _, kind := range engines {
		t.Run(kind, func(t *testing.T) {
			p, pl := start(t, kind, listenerText("")+zoneText)
			address := at(t, p, "dns")
			c, err := dns.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(5 * time.Second))
			stream := func() string {
				t.Helper()
				if err := c.WriteMsg(query("www.example.com", "AAAA")); err != nil {
					t.Fatal(err)
				}
				m, err := c.ReadMsg()
				if err != nil {
					t.Fatal(err)
				}
				return shown(m)
			}
			if got := stream(); got != wwwAnswer {
				t.Fatal(got)
			}
			cookie := cookieOf(over(t, "udp", address, withCookie(query("www.example.com", "A"), "0102030405060708")))

			next := listenerText("dns: {nsid: x}") + strings.Replace(zoneText, "2001:db8::1\"", "2001:db8::2\"", 1)
			if err := p.Apply(compile(t, next, pl), nil); err != nil {
				t.Fatal(err)
			}
			want := strings.Replace(wwwAnswer, "db8::1", "db8::2", 1)
			if got := stream(); got != want {
				t.Errorf("on a connection from before: %s", got)
			}
			if got := shown(over(t, "udp", address, query("www.example.com", "AAAA"))); got != want {
				t.Errorf("over UDP: %s", got)
			}
			if again := cookieOf(over(t, "udp", address, withCookie(query("www.example.com", "A"), cookie))); again[:32] != cookie[:32] || again != cookie && again[32:40] == cookie[32:40] {
				t.Errorf("cookie %s became %s: a reload has thrown away the secret", cookie, again)
			}

			// The listener goes, and the address is free.
			if err := p.Apply(compile(t, strings.Replace(next, "name: dns,", "name: other,", 1), pl), nil); err != nil {
				t.Fatal(err)
			}
			if at(t, p, "other") == "" || len(p.Listeners()) != 1 {
				t.Errorf("listeners: %v", p.Listeners())
			}
			if _, err := c.ReadMsg(); err == nil {
				t.Error("an idle connection of a listener that is gone stays open")
			}
			text := strings.Replace(next, "127.0.0.1:0", address, 1)
			if err := p.Apply(compile(t, text, pl), nil); err != nil {
				t.Errorf("the address is not free: %v", err)
			}
			if got := shown(over(t, "udp", address, query("www.example.com", "AAAA"))); got != want {
				t.Errorf("on the address of before: %s", got)
			}
		})
	}
}

// Shutdown answers what has come, and ends.
func TestShutdown(t *testing.T) {
	for _, kind := range engines {
		p, pl := start(t, kind, listenerText("")+zoneText)
		address := at(t, p, "dns")
		idle, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer idle.Close()
		over(t, "tcp", address, query("www.example.com", "A"))
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if cut := p.Shutdown(ctx); cut > 0 || ctx.Err() != nil {
			t.Errorf("%s: %d connections cut, %v", kind, cut, ctx.Err())
		}
		cancel()
		if err := p.Apply(pl, nil); err == nil {
			t.Errorf("%s: a plan is put in force after the end", kind)
		}
		if c, err := net.ListenPacket("udp", address); err != nil {
			t.Errorf("%s: %v", kind, err)
		} else {
			c.Close()
		}
	}
}

// certificate writes a certificate and its key to files.
func certificate(t testing.TB) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"dns.example.com"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func TestTLS(t *testing.T) {
	cert, key := certificate(t)
	text := "listeners: [{name: dot, address: \"127.0.0.1:0\", protocol: dot, certificates: [{certificate: " + cert + ", key: " + key + "}]}]\n" + zoneText
	for _, kind := range engines {
		p, _ := start(t, kind, text)
		address := at(t, p, "dot")
		if got := shown(over(t, "tcp-tls", address, query("www.example.com", "AAAA"))); got != wwwAnswer {
			t.Errorf("%s: %s", kind, got)
		}
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"dot"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ConnectionState().NegotiatedProtocol; got != "dot" {
			t.Errorf("%s: ALPN %q, want dot", kind, got)
		}
		c.Close()
		// Who speaks no TLS is not answered.
		plain := dns.Client{Net: "tcp", Timeout: 5 * time.Second}
		if m, _, err := plain.Exchange(query("www.example.com", "A"), address); err == nil {
			t.Errorf("%s: answered without TLS: %v", kind, m)
		}
		await(t, "the failed handshake", func() bool { return p.current()[0].stats.handshakes.Load() == 1 })
	}
}

// await waits until something is so.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
