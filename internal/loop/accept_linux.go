package loop

import (
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// acceptor is a listening socket of one loop.
type acceptor struct {
	l       *eventLoop
	ln      *loopListener
	fd      int
	local   netip.AddrPort // of what it accepts; invalid if that differs
	accept  func(Driver, Conn)
	trouble func(error)

	queued   bool  // accepting is to come
	troubled bool  // the last try failed
	paused   bool  // not registered, until the timer
	drainBy  Time  // accepting ends then; 0 is never
	timer    timer // of the pause, or for drainBy
}

// serve begins to accept. It is called on the loop.
func (a *acceptor) serve() {
	a.timer.on = a
	a.l.acceptors = append(a.l.acceptors, a)
	// Level-triggered, as a round may leave some in the queue.
	if err := a.l.watch(a.fd, unix.EPOLLIN, 0); err != nil {
		a.pause(err)
	}
}

// wake starts a task that accepts, which must not be done by the loop itself:
// whoever gets the connections runs in a task.
func (a *acceptor) wake() {
	if !a.queued {
		a.queued = true
		a.l.start(a.acceptNext, nil)
	}
}

// acceptNext accepts as many connections as a round lets in. There may be more in
// the queue, which are told of again in the next round.
func (a *acceptor) acceptNext() {
	a.queued = false
	for n := a.l.quota(); n > 0 && a.fd >= 0 && !a.paused && a.acceptOne(); n-- {
	}
}

// acceptOne reports whether there may be another one to accept.
func (a *acceptor) acceptOne() bool {
	fd, sa, err := unix.Accept4(a.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	switch err {
	case nil:
	case unix.EAGAIN:
		return false
	case unix.EINTR, unix.ECONNABORTED:
		return true
	default:
		a.pause(err)
		return false
	}
	to := a.lightest()
	to.l.clients.Add(1)
	if to == a {
		return a.welcome(fd, addrPortOf(sa))
	}
	a.ln.left.Add(1) // the listener is not closed before this is done
	if h := (&handover{to, fd, addrPortOf(sa)}); !to.l.post(h) {
		h.drop()
	}
	return true
}

// welcome makes a connection of a socket that was accepted and counted, and
// reports whether it could.
func (a *acceptor) welcome(fd int, remote netip.AddrPort) bool {
	c, err := a.l.register(fd, remote, a.local)
	if err != nil {
		closeSocket(fd)
		a.l.clients.Add(-1)
		a.pause(err)
		return false
	}
	c.accepted = true
	a.troubled = false
	a.accept(a.l, c)
	return true
}

// lightest returns the acceptor of the loop that is to serve the next client:
// its own, or that with the fewest if these are notably fewer. The kernel spreads
// connections by a hash, which leaves the loops uneven when these are few and
// stay; the clients of the fuller loop would wait longer than the others.
func (a *acceptor) lightest() *acceptor {
	to, least := a, a.l.clients.Load()
	least -= 1 + least/16 // else it is not worth to wake the other loop
	for _, b := range a.ln.acceptors {
		if n := b.l.clients.Load(); n < least {
			to, least = b, n
		}
	}
	return to
}

// handover is a socket that was accepted on another loop.
type handover struct {
	to     *acceptor
	fd     int
	remote netip.AddrPort
}

func (h *handover) posted() {
	h.to.l.start(func() {
		h.to.welcome(h.fd, h.remote)
		h.to.ln.oneClosed()
	}, nil)
}

// drop ends what did not get to its loop before that ended.
func (h *handover) drop() {
	closeSocket(h.fd)
	h.to.l.clients.Add(-1)
	h.to.ln.oneClosed()
}

// pause rests from accepting, when descriptors or memory are short: it will
// pass, and spinning would not help.
func (a *acceptor) pause(err error) {
	if !a.troubled {
		a.troubled = true
		a.trouble(err)
	}
	if a.fd < 0 {
		return // trouble has closed it
	}
	a.paused = true
	_ = unix.EpollCtl(a.l.poller, unix.EPOLL_CTL_DEL, a.fd, nil)
	a.l.wheel.remove(&a.timer)
	at := a.l.now.Add(acceptPause)
	if a.drainBy != 0 {
		at = min(at, a.drainBy)
	}
	a.l.wheel.add(&a.timer, at)
}

// drain goes on accepting for a while, and then closes the socket. It is called
// on the loop, and no more can come.
func (a *acceptor) drain(grace time.Duration) {
	if a.fd < 0 || a.drainBy != 0 {
		return
	}
	a.drainBy = a.l.now.Add(grace)
	a.l.wheel.remove(&a.timer)
	a.paused = false
	a.l.wheel.add(&a.timer, a.drainBy)
	a.wake() // if it was paused
}

// expired implements expirer.
func (a *acceptor) expired() {
	switch {
	case a.drainBy != 0 && a.l.now >= a.drainBy:
		a.l.start(a.last, nil)
	case a.paused:
		a.paused = false
		if err := a.l.watch(a.fd, unix.EPOLLIN, 0); err != nil {
			a.pause(err)
		}
	}
}

// last accepts what has come, and closes the socket.
func (a *acceptor) last() {
	a.paused = false
	for a.fd >= 0 && !a.paused && a.acceptOne() {
		f := a.l.current
		if f.steps++; f.tired() {
			f.rest()
		}
	}
	a.close()
}

// close closes the socket, now.
func (a *acceptor) close() {
	if a.fd < 0 {
		return
	}
	if a.accept != nil { // it has begun, so that this is the loop
		a.l.wheel.remove(&a.timer)
		a.l.acceptors = slices.DeleteFunc(a.l.acceptors, func(b *acceptor) bool { return a == b })
	}
	closeSocket(a.fd)
	a.fd = -1
	a.ln.oneClosed()
}
