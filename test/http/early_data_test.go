package http_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"fairlead/test/lab"
)

// What comes in 0-RTT data could be sent again by anybody. Tickets of TLS do not
// allow it, and of a client that sends some all the same nothing reaches an endpoint.
func TestNoEarlyDataInTLS(t *testing.T) {
	t.Parallel()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	o := lab.NewOrigin(t, lab.Echo)
	s := site{endpoints: []string{o.Addr}, tls: true}.start(t)
	dir := t.TempDir()
	session, early := filepath.Join(dir, "session.pem"), filepath.Join(dir, "early")
	run := func(input string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), openssl, args...)
		cmd.Stdin = strings.NewReader(input)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run() // what it prints says more
		return out.String()
	}
	client := func(args ...string) string {
		t.Helper()
		return run(get("/usual", "Connection: close\r\n"), append([]string{"s_client", "-connect", s.addr, "-servername", host,
			"-CAfile", s.ca.File, "-verify_return_error", "-ign_eof", "-tls1_3"}, args...)...)
	}
	const served = "HTTP/1.1 200 OK"
	got := client("-sess_out", session)
	offers := regexp.MustCompile(`Max Early Data: (\d+)`).FindAllStringSubmatch(got, -1)
	if !strings.Contains(got, served) || len(offers) == 0 {
		t.Fatalf("s_client prints\n%s\nwant an answer and tickets", got)
	}
	for _, offer := range offers {
		equal(t, "early data that a ticket offers", offer[1], "0")
	}
	if got := client("-sess_in", session); !strings.Contains(got, "Reused, TLSv1.3") || !strings.Contains(got, served) {
		t.Fatalf("s_client resumes and prints\n%s", got)
	}

	// The client is made to believe that its ticket offers early data.
	allowEarlyData(t, session)
	if text := run("", "sess_id", "-in", session, "-noout", "-text"); !strings.Contains(text, "Max Early Data: 16384\n") {
		t.Fatalf("openssl understands the session as\n%s", text)
	}
	if err := os.WriteFile(early, []byte(get("/early", "Connection: close\r\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	got = client("-sess_in", session, "-early_data", early)
	for _, bad := range []string{served, "Early data was accepted", "Early data was not sent"} {
		if strings.Contains(got, bad) {
			t.Errorf("s_client sends early data and prints %q:\n%s", bad, got)
		}
	}
	s.AwaitMetric(1, "fairlead_http_tls_failed_total")
	if seen := o.Received(); strings.Count(seen, "GET /usual ") != 2 || strings.Contains(seen, "/early") {
		t.Errorf("the endpoint has seen\n%s", seen)
	}
}

// allowEarlyData changes a session of openssl as if its ticket had allowed 16 KiB of
// early data: field 15 of its SSL_SESSION, which it leaves out for none.
func allowEarlyData(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("session is no PEM: %q", data)
	}
	var fields []asn1.RawValue
	if _, err := asn1.Unmarshal(block.Bytes, &fields); err != nil {
		t.Fatal(err)
	}
	const maxEarlyData = 15
	number, err := asn1.Marshal(16384)
	if err != nil {
		t.Fatal(err)
	}
	field := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: maxEarlyData, IsCompound: true, Bytes: number}
	at := slices.IndexFunc(fields, func(f asn1.RawValue) bool { return f.Class == asn1.ClassContextSpecific && f.Tag > maxEarlyData })
	if at < 0 {
		at = len(fields)
	}
	block.Bytes, err = asn1.Marshal(slices.Insert(fields, at, field))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
}

// In QUIC a client that would send its request early resumes its session, and has to
// send it once more after the handshake.
func TestNoEarlyDataInQUIC(t *testing.T) {
	t.Parallel()
	e := lab.NewEndpoint(t, "A")
	s := site{endpoints: []string{e.Addr}, tls: true}.start(t)
	tlsConfig := s.ca.Client(host, "h3")
	tickets := make(chan struct{}, 16)
	tlsConfig.ClientSessionCache = told{tls.NewLRUClientSessionCache(10), tickets}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, resumes := range []bool{false, true, true} {
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		tr := &quic.Transport{Conn: udp}
		defer udp.Close()
		defer tr.Close()
		c, err := tr.DialEarly(ctx, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(s.addr)), tlsConfig, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := &h3conn{c, t, tr}
		st := h.open(h3head("GET", "/"))
		st.Close()
		equal(t, "answer", st.status(), "200")
		select {
		case <-c.HandshakeComplete():
		case <-ctx.Done():
			t.Fatal("the handshake does not end")
		}
		state := c.ConnectionState()
		equal(t, "session is resumed", state.TLS.DidResume, resumes)
		equal(t, "0-RTT data is taken", state.Used0RTT, false)
		select {
		case <-tickets:
		case <-ctx.Done():
			t.Fatal("no ticket comes")
		}
		c.CloseWithError(0x100, "")
	}
	equal(t, "requests at the endpoint", e.Requests(), 3)
}

// told is a cache of sessions that tells when there is one.
type told struct {
	tls.ClientSessionCache
	put chan<- struct{}
}

func (c told) Put(key string, s *tls.ClientSessionState) {
	c.ClientSessionCache.Put(key, s)
	if s != nil {
		c.put <- struct{}{}
	}
}
