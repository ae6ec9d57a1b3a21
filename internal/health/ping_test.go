package health

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"

	"fairlead/internal/model"
)

// needPing skips a test where this process may not ping.
func needPing(t *testing.T, to string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	s, err := openPing(ctx, netip.MustParseAddr(to), netip.Addr{})
	if err != nil {
		t.Skipf("pings of %s are not permitted here: %v", to, err)
	}
	s.close()
}

// pinged returns a target at an address that is probed by a type.
func pinged(typ model.MonitorType, host string, port int) Target {
	target := at(port, func(m *model.Monitor) {
		m.Type = typ
		m.Timeout = time.Second
	})
	target.Host = host
	return target
}

func TestPing(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"} {
		t.Run(host, func(t *testing.T) {
			needPing(t, host)
			if r := once(t, pinged(model.MonitorICMPPing, host, 0)); !r.Passed() || r.RTT <= 0 || r.RTT > time.Second {
				t.Errorf("result = %+v, want one that passed", r)
			}
		})
	}
	t.Run("from a source address", func(t *testing.T) {
		needPing(t, "127.0.0.1")
		target := pinged(model.MonitorICMPPing, "127.0.0.1", 0)
		target.SourceAddresses = []netip.Addr{netip.MustParseAddr("127.0.0.9")}
		if r := once(t, target); !r.Passed() {
			t.Errorf("result = %+v, want one that passed", r)
		}
		target.SourceAddresses[0] = netip.MustParseAddr("192.0.2.1") // not ours
		if r := once(t, target); r.Failure != FailureOther {
			t.Errorf("result = %+v from an address that this machine does not have, want %s", r, FailureOther)
		}
	})
	t.Run("many at a time", func(t *testing.T) {
		needPing(t, "127.0.0.1")
		results := make(chan Result)
		for range 50 {
			go func() {
				target := pinged(model.MonitorICMPPing, "127.0.0.1", 0)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				results <- probe(ctx, &target)
			}()
		}
		for range 50 {
			if r := <-results; !r.Passed() {
				t.Errorf("result = %+v", r)
			}
		}
	})
}

// TestPingUnanswered: silence is a time-out, which may be retried.
func TestPingUnanswered(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0") // nobody answers its echo requests
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s := &pingSocket{conn: conn, to: conn.LocalAddr()}
	_, err = s.exchange(ctx, netip.MustParseAddr("127.0.0.1"))
	if r := pingFailure(ctx, err); r.Failure != FailureTCPTimeout || r.Cause != "no echo reply in time" || !r.timedOut() {
		t.Errorf("result = %+v, want %s", r, FailureTCPTimeout)
	}
	if r := pingFailure(t.Context(), err); r.Failure != FailureTCPTimeout { // the share of one address
		t.Errorf("result = %+v, want %s", r, FailureTCPTimeout)
	}
}

// foreign is a socket that says what the test wants.
type foreign struct {
	net.PacketConn
	say  []foreignPacket
	sent []byte
}

type foreignPacket struct {
	from string
	edit func(reply []byte) []byte
}

func (f *foreign) LocalAddr() net.Addr { return &net.UDPAddr{Port: 4242} }

func (f *foreign) WriteTo(b []byte, _ net.Addr) (int, error) {
	f.sent = append([]byte(nil), b...)
	return len(b), nil
}

func (f *foreign) ReadFrom(b []byte) (int, net.Addr, error) {
	if len(f.say) == 0 {
		return 0, nil, os.ErrDeadlineExceeded
	}
	p := f.say[0]
	f.say = f.say[1:]
	reply := append([]byte(nil), f.sent...)
	reply[0] = byte(ipv4.ICMPTypeEchoReply)
	return copy(b, p.edit(reply)), &net.UDPAddr{IP: net.ParseIP(p.from)}, nil
}

func (f *foreign) SetDeadline(time.Time) error { return nil }

// TestForeignPackets: only the very reply ends the wait.
func TestForeignPackets(t *testing.T) {
	same := func(b []byte) []byte { return b }
	at := func(i int, xor byte) func([]byte) []byte {
		return func(b []byte) []byte {
			b[i] ^= xor
			return b
		}
	}
	for _, c := range []struct {
		name string
		from string
		edit func([]byte) []byte
		want bool
	}{
		{"the reply", "192.0.2.1", same, true},
		{"another checksum", "192.0.2.1", at(2, 0xff), true},
		{"from another address", "192.0.2.2", same, false},
		{"a request", "192.0.2.1", at(0, byte(ipv4.ICMPTypeEcho)), false},
		{"unreachable", "192.0.2.1", at(0, byte(ipv4.ICMPTypeDestinationUnreachable)), false},
		{"another code", "192.0.2.1", at(1, 1), false},
		{"another identifier", "192.0.2.1", at(5, 1), false},
		{"another sequence number", "192.0.2.1", at(7, 1), false},
		{"other data", "192.0.2.1", at(23, 1), false},
		{"shorter", "192.0.2.1", func(b []byte) []byte { return b[:len(b)-1] }, false},
		{"longer", "192.0.2.1", func(b []byte) []byte { return append(b, 0) }, false},
		{"empty", "192.0.2.1", func([]byte) []byte { return nil }, false},
		{"garbage", "192.0.2.1", func(b []byte) []byte { return make([]byte, 1500) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &foreign{say: []foreignPacket{{c.from, c.edit}}}
			_, err := (&pingSocket{conn: f}).exchange(t.Context(), netip.MustParseAddr("192.0.2.1"))
			if (err == nil) != c.want {
				t.Errorf("taken for the reply: %v, want %v (%v)", err == nil, c.want, err)
			}
			if m, err := icmp.ParseMessage(1, f.sent); err != nil || m.Type != ipv4.ICMPTypeEcho || checksum(f.sent) != 0 {
				t.Errorf("the request is %v, %v, checksum %x", m, err, checksum(f.sent))
			}
			if id := int(f.sent[4])<<8 | int(f.sent[5]); id != 4242 {
				t.Errorf("identifier %d, want the socket's, 4242", id)
			}
		})
	}
	t.Run("among others", func(t *testing.T) {
		f := &foreign{say: []foreignPacket{{"192.0.2.2", same}, {"192.0.2.1", at(9, 1)}, {"192.0.2.1", same}}}
		if _, err := (&pingSocket{conn: f}).exchange(t.Context(), netip.MustParseAddr("192.0.2.1")); err != nil {
			t.Error(err)
		}
	})
}

// udpServer answers each packet with so many bytes; with a negative number, not
// at all. It returns the port and counts the packets.
func udpServer(t *testing.T, answer int) (int, <-chan int) {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	packets := make(chan int, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 100)
		for {
			n, from, err := conn.ReadFromUDP(buf)
			if err != nil {
				return
			}
			packets <- n
			if answer >= 0 {
				conn.WriteToUDP(make([]byte, answer), from)
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return conn.LocalAddr().(*net.UDPAddr).Port, packets
}

func TestUDP(t *testing.T) {
	needPing(t, "127.0.0.1")
	t.Run("a port that is open and silent", func(t *testing.T) {
		port, packets := udpServer(t, -1)
		begin := time.Now()
		r := once(t, pinged(model.MonitorUDPICMP, "127.0.0.1", port))
		if d := time.Since(begin); !r.Passed() || d < 900*time.Millisecond || r.RTT <= 0 || r.RTT > 500*time.Millisecond {
			t.Errorf("result = %+v after %v, want one that passed at the end of the time-out, with the round trip of the ping", r, d)
		}
		if len(packets) != 2 || <-packets+<-packets != 0 {
			t.Errorf("%d packets, want two empty ones", len(packets))
		}
	})
	for _, answer := range []int{0, 1, 1400} {
		t.Run("a port that answers", func(t *testing.T) {
			port, _ := udpServer(t, answer)
			target := pinged(model.MonitorUDPICMP, "127.0.0.1", port)
			target.Monitor.Timeout = time.Minute
			begin := time.Now()
			if r := once(t, target); !r.Passed() || time.Since(begin) > 30*time.Second {
				t.Errorf("result = %+v after %v, want one that passed at once", r, time.Since(begin))
			}
		})
	}
	t.Run("a closed port", func(t *testing.T) {
		conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		port := conn.LocalAddr().(*net.UDPAddr).Port
		conn.Close()
		if r := once(t, pinged(model.MonitorUDPICMP, "127.0.0.1", port)); r.Failure != FailureRefused || r.Cause == "" {
			t.Errorf("result = %+v, want %s", r, FailureRefused)
		}
	})
	t.Run("the monitor's port", func(t *testing.T) {
		port, packets := udpServer(t, 1)
		target := pinged(model.MonitorUDPICMP, "127.0.0.1", 9)
		target.Monitor.Port = port
		if r := once(t, target); !r.Passed() || len(packets) == 0 {
			t.Errorf("result = %+v and %d packets", r, len(packets))
		}
	})
	t.Run("no time is left after the ping", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context()) // and none is known
		defer cancel()
		port, packets := udpServer(t, -1)
		target := pinged(model.MonitorUDPICMP, "127.0.0.1", port)
		if r := probe(ctx, &target); r.Failure != FailureTCPTimeout || len(packets) != 0 {
			t.Errorf("result = %+v and %d packets, want %s and none", r, len(packets), FailureTCPTimeout)
		}
	})
}

func TestForbidden(t *testing.T) {
	for err, want := range map[error]bool{
		os.NewSyscallError("socket", syscall.EACCES):          true,
		os.NewSyscallError("socket", syscall.EPERM):           true,
		os.NewSyscallError("socket", syscall.EPROTONOSUPPORT): true,
		os.NewSyscallError("socket", syscall.EMFILE):          false,
		os.NewSyscallError("bind", syscall.EADDRNOTAVAIL):     false,
	} {
		if got := forbidden(err); got != want {
			t.Errorf("forbidden(%v) = %v, want %v", err, got, want)
		}
	}
	r := pingFailure(t.Context(), errNoPing)
	if r.Failure != FailureConfig || !strings.Contains(r.Cause, "ping_group_range") || !strings.Contains(r.Cause, "CAP_NET_RAW") {
		t.Errorf("result = %+v, want %s and what to do", r, FailureConfig)
	}
	if r := pingFailure(t.Context(), errors.New("x")); r.Failure != FailureOther {
		t.Errorf("result = %+v, want %s", r, FailureOther)
	}
}
