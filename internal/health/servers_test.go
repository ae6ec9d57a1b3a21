package health

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// rawServer answers each connection with serve and returns its port.
func rawServer(t *testing.T, serve func(net.Conn)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().(*net.TCPAddr).Port
}

// says answers every request with fixed bytes.
func says(answer string) func(net.Conn) {
	return func(c net.Conn) {
		readHead(c)
		io.WriteString(c, answer)
	}
}

// readHead reads a request up to its empty line.
func readHead(c net.Conn) {
	buf := make([]byte, 0, 4096)
	for !bytes.Contains(buf, []byte("\r\n\r\n")) && len(buf) < cap(buf) {
		n, err := c.Read(buf[len(buf):cap(buf)])
		if err != nil {
			return
		}
		buf = buf[:len(buf)+n]
	}
}

// never reads and says nothing until the client leaves.
func never(c net.Conn) { io.Copy(io.Discard, c) }

// httpServer returns the port of a server with a handler; certificate makes it
// speak TLS.
func httpServer(t *testing.T, h http.HandlerFunc, cfg *tls.Config) int {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(testWriter{t}, "", 0)
	if cfg != nil {
		s.TLS = cfg
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{key: newKey(t)}
	a.cert, _ = x509.ParseCertificate(a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}, a.key))
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (a *authority) sign(t *testing.T, c *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	parent := a.cert
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// certificate returns one for host names and addresses that is valid until end.
func (a *authority) certificate(t *testing.T, end time.Time, hosts ...string) *tls.Certificate {
	key := newKey(t)
	c := &x509.Certificate{Subject: pkix.Name{CommonName: "test"}, NotBefore: end.Add(-2 * time.Hour), NotAfter: end}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	return &tls.Certificate{Certificate: [][]byte{a.sign(t, c, key)}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// fullBacklog returns a port whose listener takes no further connection: SYNs
// are dropped.
func fullBacklog(t *testing.T) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := name.(*syscall.SockaddrInet4).Port
	for range 64 {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 200*time.Millisecond)
		if err != nil {
			return port
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal("the listener takes more than 64 connections that nobody accepts")
	return 0
}

// closedPort returns a port that nobody listens on.
func closedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func raw(serve func(net.Conn)) func(*testing.T) int {
	return func(t *testing.T) int { return rawServer(t, serve) }
}

func plain(h http.HandlerFunc) func(*testing.T) int {
	return func(t *testing.T) int { return httpServer(t, h, nil) }
}

func tlsPort(h http.HandlerFunc, cfg *tls.Config) func(*testing.T) int {
	return func(t *testing.T) int { return httpServer(t, h, cfg) }
}
