package loop

import (
	"net"

	"golang.org/x/sys/unix"
)

// stopConnecting makes the kernel drop further connection attempts at a
// listener, so that its queue can be emptied and no connection is lost when the
// listener closes. Who tries meanwhile tries again by itself, as after any lost
// packet, and then finds another listener at the address, or none. Where
// filters cannot be attached, closing may reset what came in the last moment.
func stopConnecting(ln *net.TCPListener) {
	if raw, err := ln.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { dropSYN(int(fd)) })
	}
}

// dropSYN is stopConnecting for a descriptor.
func dropSYN(fd int) {
	const flags, syn = 13, 0x02 // in the TCP header, which is where packets begin here
	program := [...]unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: syn, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},          // drop
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff}, // let it pass whole
	}
	_ = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
}
