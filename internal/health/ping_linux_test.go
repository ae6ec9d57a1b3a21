package health

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"fairlead/internal/model"
)

// TestPingPermissions pings as processes with other permissions than ours: each
// is this test in a user namespace of its own.
func TestPingPermissions(t *testing.T) {
	const child = "FAIRLEAD_TEST_PING"
	cases := map[string]struct {
		flags uintptr
		run   func(*testing.T)
	}{
		// A namespace of users alone has no say over this network.
		"neither": {syscall.CLONE_NEWUSER, func(t *testing.T) {
			r := once(t, pinged(model.MonitorICMPPing, "127.0.0.1", 0))
			if r.Passed() {
				t.Skip("net.ipv4.ping_group_range lets every process ping here")
			}
			if r.Failure != FailureConfig || r.Cause != errNoPing.Error() {
				t.Errorf("result = %+v, want %s: %v", r, FailureConfig, errNoPing)
			}
		}},
		"ping group": {syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, func(t *testing.T) {
			if err := os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 0"), 0); err != nil {
				t.Skipf("ping_group_range cannot be set here: %v", err)
			}
			pingOwnNetwork(t, false)
		}},
		"raw": {syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, func(t *testing.T) {
			pingOwnNetwork(t, true) // a new network lets no group ping
		}},
	}
	if name := os.Getenv(child); name != "" {
		cases[name].run(t)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(self, "-test.run=^TestPingPermissions$", "-test.v", "-test.timeout=1m")
			cmd.Env = append(os.Environ(), child+"="+name)
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  c.flags,
				UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
			}
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			if cmd.Process == nil {
				t.Skipf("no user namespaces here: %v", err)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// pingOwnNetwork pings and probes UDP in a network that has a loopback alone.
func pingOwnNetwork(t *testing.T, raw bool) {
	if err := loopbackUp(); err != nil {
		t.Skipf("the loopback cannot be brought up here: %v", err)
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		s, err := openPing(t.Context(), netip.MustParseAddr(host), netip.Addr{})
		if err != nil {
			t.Fatal(err)
		}
		if s.raw != raw {
			t.Errorf("%s: raw = %v, want %v", host, s.raw, raw)
		}
		s.close()
		if r := once(t, pinged(model.MonitorICMPPing, host, 0)); !r.Passed() {
			t.Errorf("%s: result = %+v, want one that passed", host, r)
		}
	}
	port, _ := udpServer(t, 1)
	if r := once(t, pinged(model.MonitorUDPICMP, "127.0.0.1", port)); !r.Passed() {
		t.Errorf("result = %+v, want one that passed", r)
	}
	if r := once(t, pinged(model.MonitorUDPICMP, "127.0.0.1", port+1)); r.Failure != FailureRefused {
		t.Errorf("result = %+v, want %s", r, FailureRefused)
	}
	if r := once(t, pinged(model.MonitorICMPPing, "192.0.2.1", 0)); r.Failure != FailureUnreachable {
		t.Errorf("result = %+v without a route, want %s", r, FailureUnreachable)
	}
}

// loopbackUp is what `ip link set lo up` does.
func loopbackUp() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	request := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(request.name[:], "lo")
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("SIOCSIFFLAGS: %w", errno)
	}
	for range 100 { // ::1 takes a moment
		if conn, err := net.ListenPacket("udp", "[::1]:0"); err == nil {
			return conn.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}
