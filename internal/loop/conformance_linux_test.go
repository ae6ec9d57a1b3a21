package loop

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func (c *socket) system() system { return c.nc }

// States of a TCP socket, of <netinet/tcp.h>.
const (
	tcpClosed    = 7
	tcpCloseWait = 8
)

func tcpState(nc system) (state uint8) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return tcpClosed
	}
	raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			state = info.State
		}
	})
	return state
}

// descriptors returns how many the process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// freePipes returns how many pipes wait to be used again.
func freePipes() int {
	pipes.Lock()
	defer pipes.Unlock()
	return len(pipes.free)
}

// received returns how many bytes wait to be read.
func received(nc system) (n int) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ) })
	return n
}
