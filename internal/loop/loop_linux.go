package loop

import (
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// eventLoop is a driver whose tasks are fibers that share one thread of
// execution. A task runs until it has to wait; then the loop resumes whichever
// can go on. No two tasks of a loop ever run at the same time, so that they
// share what belongs to the loop without locks. Nothing that runs on a loop may
// block: all its connections would stand still.
type eventLoop struct {
	index   int
	options *Options

	poller, wakeup int // descriptors: epoll and eventfd
	events         []syscall.EpollEvent
	conns          []*fiberConn // by descriptor
	acceptors      []*acceptor
	generation     int32        // of the last connection
	open           int          // connections
	clients        atomic.Int32 // connections that were accepted
	stopped        bool         // dialling is over

	now      Time   // when this round began
	yielded  Time   // to the scheduler, last
	looked   Time   // when all events were taken last
	current  *fiber // that runs; nil while the loop itself does
	queue    []*fiber
	running  []*fiber // the queue of this round, resumed up to at
	yielding yielding
	at       int
	free     []*fiber
	made     int // fibers, free ones included
	wheel    wheel

	buf    []byte   // lent by reads
	join   []byte   // where small writes of TLS are put together
	cork   []byte   // what TLS writes at once
	stash  [][]byte // free room for prefixes that outlive a wait
	spills spills   // free room for what did not fit into a socket
	lent   []byte   // for tests, see lending
	lender Conn

	asleep atomic.Bool
	filled atomic.Bool // there are posts
	mu     sync.Mutex  // guards posts and ended
	posts  []post
	ended  bool
	spare  []post
	ending bool
	rounds int // left for tasks that outlive the engine
	done   chan struct{}

	turns uint64        // of fibers, times two
	turn  atomic.Uint64 // the same for the watchdog, with turnBusy while one runs
	counts
}

// post is something that is run on a loop although it comes from elsewhere.
type post interface{ posted() }

// turnBusy says that a fiber runs.
const turnBusy = 1

type postFunc func()

func (f postFunc) posted() { f() }

const (
	// loopBuffer is what one read of a loop can bring.
	loopBuffer = 2 * gatherMark
	// lastRounds bounds what is done for tasks that outlive their engine.
	lastRounds = 100
	// eventBatch is how many events are taken at once.
	eventBatch = 512
	// epollEvents are those of connections: both directions are registered
	// once, edge-triggered, and nothing has to be changed for a request.
	epollEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
)

func newEventLoop(index int, options *Options) (*eventLoop, error) {
	l := &eventLoop{
		index: index, options: options, rounds: lastRounds,
		events: make([]syscall.EpollEvent, eventBatch),
		buf:    make([]byte, loopBuffer),
		join:   make([]byte, joinSize),
		done:   make(chan struct{}),
	}
	var err error
	if l.poller, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if l.wakeup, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		syscall.Close(l.poller)
		return nil, os.NewSyscallError("eventfd", err)
	}
	// Each write to it is an event of its own, so that it is never read.
	if err := l.watch(l.wakeup, unix.EPOLLIN|unix.EPOLLET, 0); err != nil {
		syscall.Close(l.poller)
		syscall.Close(l.wakeup)
		return nil, err
	}
	l.now = Now()
	l.looked = l.now
	l.wheel.start(l.now)
	return l, nil
}

// watch registers a descriptor.
func (l *eventLoop) watch(fd int, events uint32, generation int32) error {
	ev := syscall.EpollEvent{Events: events, Fd: int32(fd), Pad: generation}
	return os.NewSyscallError("epoll_ctl", syscall.EpollCtl(l.poller, syscall.EPOLL_CTL_ADD, fd, &ev))
}

// run is the loop. Each round takes what was posted, then polls, so that
// whatever happened before something was posted is known when that runs; then
// come the events, what was posted, the timers, and the fibers that can go on.
// What becomes ready meanwhile is left for the next round, behind the events
// that have come by then.
func (l *eventLoop) run() {
	ended := false
	defer func() {
		if !ended { // a task has called runtime.Goexit
			l.current = nil
			go l.run()
		}
	}()
	l.resumeAll()
	for !l.ending {
		posts := l.takePosts()
		n := l.poll(len(posts) == 0 && len(l.queue) == 0 && len(l.yielding.queue) == 0)
		l.now = Now()
		l.take(n)
		for i, p := range posts {
			p.posted()
			posts[i] = nil
		}
		l.wheel.advance(l.now)
		l.letGo(l.quota())
		l.running, l.queue, l.at = l.queue, l.running[:0], 0
		l.resumeAll()
		l.publish()
		if l.now.Sub(l.yielded) >= yieldAfter {
			l.yield()
		}
	}
	l.end()
	ended = true
}

// take handles n events. There may be more, if they are as many as it asks for.
func (l *eventLoop) take(n int) {
	for i := range l.events[:n] {
		l.event(&l.events[i])
	}
	if n < len(l.events) {
		l.looked = l.now
	}
}

// resumeAll resumes what is left of the running queue.
func (l *eventLoop) resumeAll() {
	for l.at < len(l.running) {
		f := l.running[l.at]
		l.running[l.at] = nil
		l.at++
		f.queued, f.steps = false, 0
		l.turns += 2
		l.turn.Store(l.turns | turnBusy)
		l.current = f
		f.next()
	}
	l.current = nil
	l.turn.Store(l.turns)
}

// ready lets a fiber be resumed.
func (l *eventLoop) ready(f *fiber) {
	if !f.queued {
		f.queued = true
		l.queue = append(l.queue, f)
	}
}

// start lets a fiber run f. t, if given, is told when that ends.
func (l *eventLoop) start(f func(), t *fiberTask) {
	var x *fiber
	if n := len(l.free); n > 0 {
		x = l.free[n-1]
		l.free[n-1] = nil
		l.free = l.free[:n-1]
	} else {
		x = newFiber(l)
	}
	x.run, x.task = f, t
	l.ready(x)
}

// post runs p on the loop, outside of fibers. It may be called by anyone, and
// reports false, and does nothing, once the loop has ended.
func (l *eventLoop) post(p post) bool {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return false
	}
	l.posts = append(l.posts, p)
	l.filled.Store(true)
	l.mu.Unlock()
	if l.asleep.CompareAndSwap(true, false) { // one write wakes it for all posts
		one := uint64(1)
		_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(l.wakeup), uintptr(unsafe.Pointer(&one)), 8)
	}
	return true
}

func (l *eventLoop) takePosts() []post {
	if !l.filled.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.filled.Store(false)
	l.posts, l.spare = l.spare[:0], l.posts
	return l.spare
}

// event notes what epoll tells and wakes who waits for it.
func (l *eventLoop) event(ev *syscall.EpollEvent) {
	fd := int(ev.Fd)
	var c *fiberConn
	if fd < len(l.conns) {
		c = l.conns[fd]
	}
	if c == nil { // the wake-up, a listener, or of a connection that was closed
		for _, a := range l.acceptors {
			if a.fd == fd {
				a.wake()
			}
		}
		return
	}
	if c.generation != ev.Pad {
		return // of a connection that had this descriptor before
	}
	const (
		broken = unix.EPOLLHUP | unix.EPOLLERR
		ended  = unix.EPOLLRDHUP | broken
	)
	if ev.Events&(unix.EPOLLOUT|broken) != 0 {
		c.out.ready = true
		c.out.wake()
	}
	if ev.Events&(unix.EPOLLIN|ended) != 0 {
		c.ended = c.ended || ev.Events&ended != 0
		c.in.ready = true
		c.in.wake()
	}
}

// end gives everything back. It begins again when a task calls runtime.Goexit.
func (l *eventLoop) end() {
	l.mu.Lock()
	l.ended = true
	posts := l.posts
	l.posts = nil
	l.mu.Unlock()
	for _, p := range posts {
		if h, ok := p.(*handover); ok {
			h.drop()
		}
	}
	for _, a := range slices.Clone(l.acceptors) { // each leaves the list
		a.close()
	}
	// Tasks that should have ended before see that their connections are
	// closed, and are given some rounds to end.
	for ; l.rounds > 0; l.rounds-- {
		for _, c := range l.conns {
			if c != nil {
				c.shut()
			}
		}
		l.letGo(len(l.yielding.queue))
		if len(l.queue) == 0 {
			break
		}
		l.running, l.queue, l.at = l.queue, l.running[:0], 0
		l.resumeAll()
	}
	for _, f := range l.free {
		f.stop()
	}
	l.free = nil
	syscall.Close(l.poller)
	syscall.Close(l.wakeup)
	l.publish()
	close(l.done)
}

// Spawn implements Driver.
func (l *eventLoop) Spawn(f func()) Task {
	t := &fiberTask{loop: l}
	l.start(f, t)
	return t
}

// Start implements Driver.
func (l *eventLoop) Start(f func()) { l.start(f, nil) }

// Go implements Driver.
func (l *eventLoop) Go(f func()) { l.post(postFunc(func() { l.start(f, nil) })) }

// Do implements Driver. What f panics with, the task panics with.
func (l *eventLoop) Do(f func()) {
	me := l.current
	var done, returned bool
	var v any
	go func() {
		defer func() {
			if !returned {
				if v = recover(); v != nil {
					me.origin = append([]byte("\nin Do:\n"), debug.Stack()...)
				}
			}
			l.post(postFunc(func() {
				done = true
				l.ready(me)
			}))
		}()
		f()
		returned = true
	}()
	for !done {
		me.park()
	}
	switch {
	case v != nil:
		panic(v)
	case !returned:
		runtime.Goexit()
	}
}

// Sleep implements Driver. To sleep for no time lets others run.
func (l *eventLoop) Sleep(d time.Duration) {
	if d <= 0 {
		l.current.rest()
		return
	}
	l.current.sleep(Now().Add(d))
}

// Bell implements Driver.
func (l *eventLoop) Bell() Bell { return &fiberBell{loop: l} }

// Idle implements Driver.
func (l *eventLoop) Idle(c Conn, f func()) bool {
	if c, ok := c.(interface{ idle(f func()) bool }); ok {
		return c.idle(f)
	}
	return true
}

// Index implements Driver.
func (l *eventLoop) Index() int { return l.index }

// register makes the connection of a descriptor, which must not block.
func (l *eventLoop) register(fd int, remote, local netip.AddrPort) (*fiberConn, error) {
	l.generation++
	c := &fiberConn{l: l, fd: fd, generation: l.generation, remote: remote, local: local}
	c.in.conn, c.out.conn = c, c
	c.in.timer.on, c.out.timer.on = &c.in, &c.out
	for fd >= len(l.conns) {
		l.conns = append(l.conns, make([]*fiberConn, 64+len(l.conns))...)
	}
	if err := l.watch(fd, epollEvents&0xffffffff, c.generation); err != nil {
		return nil, err
	}
	l.conns[fd] = c
	l.open++
	return c, nil
}
