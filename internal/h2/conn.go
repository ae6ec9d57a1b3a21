package h2

import (
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"

	"fairlead/internal/fields"
	"fairlead/internal/loop"
)

// conn is a connection of either side. What is not said to be the reading
// task's alone is guarded by mu.
type conn struct {
	bounds

	d      loop.Driver
	nc     loop.Conn
	server bool
	handle func(*Stream) // of a server

	// The reading task's own.
	part         []byte    // what has come of a frame that is not complete
	partBy       loop.Time // until when the rest of it is to come
	prefaceLeft  int       // bytes of the client's preface still to come
	needSettings bool      // the first frame has to be SETTINGS
	data         dataFrame
	block        headerBlock
	dec          *hpack.Decoder
	reading      *fields.Block // where the decoder puts fields
	decoded      int           // size of the fields of a block so far
	fresh        []*Stream     // whose tasks are to be started
	stillborn    *Stream       // one of them that was reset by the frame at hand
	floods       floods
	flooded      func(error)   // told of the flood that ends the connection; may be nil
	now          loop.Time     // when the last bytes came
	worked       time.Duration // on what came, since the last Yield
	workedAt     loop.Time
	bell         loop.Bell // what the reading task waits on when it does not read

	mu sync.Mutex

	// Writing.
	out          *output
	enc          encoder
	control      int    // bytes of frames in out that answer the other end's
	queued       uint64 // bytes that were ever appended
	handed       uint64 // bytes of those that were handed to the connection
	writerOn     bool   // there is a writing task, or is to be one
	writerStart  bool   // it is to be started when mu is unlocked
	writerWaits  bool
	writerLeaves bool // it is to end when nothing is left to write
	writing      bool // it is inside Write
	writerBell   loop.Bell
	writeFunc    func()
	readerWaits  bool // the reading task waits on bell

	// Waking the reading task from outside; see wakeReader.
	wake, interrupted, noWake bool

	// Streams.
	streams  map[uint32]*Stream
	live     int       // streams that are not over, with those opened and not sent yet
	spent    int       // those of them that both ends have ended
	idle     loop.Time // since when there are none
	rested   bool      // what streams need was given up
	lastID   uint32    // the highest that the client has opened
	nextID   uint32    // of a client
	closed   []closedStream
	closedAt int
	free     []*Stream
	// Streams that wait for room in out, those with data also for the
	// connection's window. The first of a queue stays in it until it has got
	// something, so that none overtakes it.
	waitingHeads, waiting streamQueue
	sent                  uint32 // frames of data, ever

	// Flow control.
	sendWindow, recvWindow int64
	credited               int // bytes taken off recvWindow that it is to be given back
	peerWindow             int64
	peerStreams            uint32
	peerConnect            bool // the server takes extended CONNECT
	peerSettings           bool // the other end's SETTINGS have come
	settingsWait           []loop.Bell

	// The end.
	drain     drainState
	drainBy   loop.Time
	goneLast  uint32 // of the GOAWAY that was sent last
	peerGone  bool   // GOAWAY has come
	closing   bool   // nothing more is written
	err       error  // why it ended
	ackBy     loop.Time
	pings     int       // those that are yet to be answered
	pingBy    loop.Time // until when something has to come because of them; 0 if it has
	settingUp loop.Time // until when preface and SETTINGS are to come; 0 once they have
	lastRead  loop.Time
}

type drainState uint8

const (
	drainNone    drainState = iota
	drainWanted             // the reading task is to begin
	drainRound              // the first GOAWAY and a PING are on their way
	drainRefused            // the last GOAWAY was sent; streams behind it are refused
)

func (c *conn) start(d loop.Driver, nc loop.Conn, cfg *Config) {
	c.fill(cfg)
	c.d, c.nc = d, nc
	c.bell, c.writerBell = d.Bell(), d.Bell()
	c.writeFunc = c.write
	c.enc.init()
	c.dec = hpack.NewDecoder(4096, c.emit)
	// Strings cannot be longer than this in a block of that size (the shortest
	// Huffman code has 5 bits), so that no block that is taken is undecodable.
	c.dec.SetMaxStringLength(2 * c.blockBytes())
	c.streams = make(map[uint32]*Stream)
	c.sendWindow, c.recvWindow = initialWindow, initialWindow
	c.peerWindow, c.peerStreams = initialWindow, 100
	c.needSettings = true
	c.nextID = 1
	c.now = loop.Now()
	c.idle, c.lastRead = c.now, c.now
	c.settingUp = by(c.now, c.HeaderTimeout)
	c.ackBy = c.now.Add(settingsTimeout)
	if c.WriteTimeout > 0 {
		nc.SetWriteTimeout(c.WriteTimeout)
	}
}

// greet appends what each side begins with.
func (c *conn) greet() {
	c.mu.Lock()
	defer c.unlock()
	o := c.output()
	list := make([]setting, 0, 4)
	if c.server {
		list = append(list, setting{settingMaxStreams, c.MaxStreams})
		if c.ExtendedConnect {
			list = append(list, setting{settingConnectProtocol, 1})
		}
	} else {
		o.b = append(o.b, Preface...)
		list = append(list, setting{settingEnablePush, 0})
	}
	list = append(list, setting{settingInitialWindow, uint32(c.StreamWindow)},
		setting{settingMaxHeaderListSize, uint32(c.HeaderBytes)})
	o.b = appendSettings(o.b, list...)
	if more := c.ConnWindow - initialWindow; more > 0 {
		o.b = appendWindowUpdate(o.b, 0, more)
		c.recvWindow += int64(more)
	}
	c.queued += uint64(len(o.b))
	c.kick()
}

// unlock unlocks mu and starts the writing task if that is due: Start may run it
// at once.
func (c *conn) unlock() {
	start := c.writerStart
	c.writerStart = false
	c.mu.Unlock()
	if start {
		c.d.Start(c.writeFunc)
	}
}

// pause waits for a bell, with mu unlocked meanwhile.
func (c *conn) pause(b loop.Bell, deadline loop.Time) error {
	c.unlock()
	defer c.mu.Lock()
	return b.Wait(deadline)
}

// run is the reading task. It returns when the connection is over and all
// streams have ended. A panic, which is a defect of ours, goes on once that is so.
func (c *conn) run(already []byte) error {
	over := false
	defer func() {
		if !over {
			c.collapse()
		}
	}()
	err := c.finish(c.read(already))
	over = true
	return err
}

// read reads and handles frames until there is an error, or nothing more to do.
func (c *conn) read(b []byte) error {
	for {
		if len(b) > 0 {
			rest, err := c.take(b)
			c.work()
			if err == nil {
				// Nothing that is lent outlives Spawn, or a read that ends
				// without bytes.
				c.part = append(c.part[:0], rest...)
				b = c.part
			}
			c.spawnFresh()
			if err != nil {
				return err
			}
			if c.worked > longInput {
				c.worked = 0
				c.d.Yield()
			}
		}
		var err error
		if b, err = c.more(b); err != nil {
			return err
		}
	}
}

// work adds up the time that what came has taken, but for one who has been still for
// longer than that.
func (c *conn) work() {
	now := loop.Now()
	if c.now.Sub(c.workedAt) > stillInput {
		c.worked = 0
	}
	c.worked += now.Sub(c.now)
	c.workedAt = now
}

// take is input with mu locked.
func (c *conn) take(b []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.unlock()
	rest, err := c.input(b)
	if len(rest) < len(b) {
		c.partBy = 0
	}
	if len(rest) > 0 && c.partBy == 0 {
		c.partBy = by(c.now, c.HeaderTimeout)
	}
	if err == nil && c.control > controlBound {
		err = &ConnError{Code: CodeEnhanceYourCalm, Reason: "answers are not read", event: EventControlFlood}
	}
	c.readyFresh()
	return rest, err
}

// more waits for more bytes behind prefix.
func (c *conn) more(prefix []byte) ([]byte, error) {
	for {
		deadline, err := c.due(len(prefix) == 0)
		if err != nil {
			return nil, err
		}
		c.nc.SetReadDeadline(deadline)
		b, err := c.nc.Read(prefix)
		switch {
		case err == nil || err == errWake:
			c.came(err == nil)
			if err == nil {
				return b, nil
			}
		case err != loop.ErrTimeout:
			return nil, err
		}
	}
}

// due is timers with mu locked.
func (c *conn) due(between bool) (loop.Time, error) {
	c.mu.Lock()
	defer c.unlock()
	return c.timers(loop.Now(), between)
}

// came notes that bytes have come, or else that the reading task was woken.
func (c *conn) came(bytes bool) {
	c.mu.Lock()
	defer c.unlock()
	if bytes {
		c.now = loop.Now()
		c.lastRead, c.pingBy = c.now, 0 // whoever sends is alive
		return
	}
	c.awake()
}

// timers does what is due at now and returns when to look again. It may end the
// connection with an error.
func (c *conn) timers(now loop.Time, between bool) (loop.Time, error) {
	if c.err != nil {
		return 0, c.err
	}
	if c.drain == drainWanted {
		c.drain, c.drainBy = drainRound, now.Add(drainTimeout)
		c.append(appendGoAway(c.output().b, maxStreamID, CodeNo, ""))
		c.append(appendPing(c.output().b, 0, pingDrain))
	}
	if c.drain == drainRound && now >= c.drainBy {
		c.refuse()
	}
	if c.live == 0 && (c.drain == drainRefused || c.peerGone) {
		return 0, errDrained
	}
	next := earlier(earlier(c.settingUp, c.ackBy), c.partBy)
	if c.drain == drainRound {
		next = earlier(next, c.drainBy)
	}
	switch {
	case c.settingUp != 0 && now >= c.settingUp:
		return 0, &ConnError{Code: CodeProtocol, Reason: "no preface and SETTINGS in time", event: EventHeaderTimeout}
	case c.ackBy != 0 && now >= c.ackBy:
		return 0, &ConnError{Code: CodeSettingsTimeout, Reason: "SETTINGS were not acknowledged", event: EventSettingsTimeout}
	case c.partBy != 0 && now >= c.partBy:
		return 0, &ConnError{Code: CodeEnhanceYourCalm, Reason: "frame took too long", event: EventHeaderTimeout}
	case c.block.open && c.block.by != 0 && now >= c.block.by:
		return 0, &ConnError{Code: CodeEnhanceYourCalm, Reason: "header block took too long", event: EventHeaderTimeout}
	}
	if c.block.open {
		next = earlier(next, c.block.by)
	}
	if c.live == 0 {
		c.pingBy = 0
		if rest := c.idle.Add(restAfter); now < rest {
			next = earlier(next, rest)
		} else if between && !c.rested {
			c.rested = true
			c.rest()
		}
		end := by(c.idle, c.IdleTimeout)
		if end != 0 && now >= end {
			c.count(EventIdleTimeout)
			return 0, ErrIdle
		}
		return earlier(next, end), nil
	}
	// The last stream may end while this task waits: so look as early as it
	// could matter then.
	next = earlier(earlier(next, now.Add(lookAfter)), by(now, c.IdleTimeout))
	switch ask := by(c.lastRead, c.PingAfter); {
	case ask == 0:
	case c.pingBy != 0 && now >= c.pingBy:
		c.count(EventPingTimeout)
		return 0, errPingTimeout
	case c.pingBy != 0:
		next = earlier(next, c.pingBy)
	case now >= ask && c.PingTimeout > 0:
		c.pingBy = now.Add(c.PingTimeout)
		c.pings++
		c.append(appendPing(c.output().b, 0, pingAlive))
		next = earlier(next, c.pingBy)
	case c.PingTimeout > 0:
		next = earlier(next, ask)
	}
	return next, nil
}

// rest gives up what is only of use to streams.
func (c *conn) rest() {
	c.part, c.block.buf = nil, nil
	c.free, c.closed, c.closedAt = nil, nil, 0
	c.enc.lower = nil
	if len(c.streams) == 0 {
		c.streams = make(map[uint32]*Stream)
	}
	c.writerLeaves = true
	if c.writerWaits {
		c.writerWaits = false
		c.writerBell.Ring()
	}
}

// refuse ends a drain: streams that were not on their way are refused.
func (c *conn) refuse() {
	c.drain = drainRefused
	c.goneLast = c.lastID
	c.append(appendGoAway(c.output().b, c.lastID, CodeNo, ""))
}

// wakeReader wakes the reading task from any other, be it of no driver. An
// interruption would tear a write that goes on, so then it comes behind it.
func (c *conn) wakeReader() {
	if c.noWake {
		return
	}
	c.wake = true
	if !c.writing && !c.interrupted {
		c.interrupted = true
		c.nc.Interrupt(errWake)
	}
}

// awake ends what wakeReader began, as the reading task.
func (c *conn) awake() {
	c.wake = false
	if c.interrupted {
		c.nc.Resume()
		c.interrupted = false
		if c.out != nil {
			c.kick()
		}
	}
}

// finish ends the connection for the reason err, and waits for its tasks.
func (c *conn) finish(err error) error {
	if c.lastWord(err) {
		loop.Linger(c.nc, lingerTimeout, lingerBytes) // lest a reset overtake the last frames
		c.nc.Close()
	} else {
		c.nc.Abort()
	}
	c.nc.Release()
	return c.join()
}

// lastWord ends all streams for the reason err. It reports whether the other end
// was told and can be left in order.
func (c *conn) lastWord(err error) bool {
	c.mu.Lock()
	defer c.unlock()
	c.awake()
	c.noWake = true
	inOrder := c.end(err)
	if inOrder {
		deadline := loop.Now().Add(closeTimeout)
		for (c.out != nil || c.writing) && c.waitReader(deadline) == nil {
			// The last frames are being written.
		}
		inOrder = c.out == nil && !c.writing
	}
	c.closing = true
	return inOrder
}

// join waits until the writing task has ended, and those of requests. It returns
// why the connection did.
func (c *conn) join() error {
	c.mu.Lock()
	defer c.unlock()
	c.writerLeaves = true
	if c.writerWaits {
		c.writerWaits = false
		c.writerBell.Ring()
	}
	for c.writerOn || c.server && c.live > 0 {
		_ = c.waitReader(0) // without a deadline it does not fail
	}
	if c.err == errDrained {
		return nil
	}
	return c.err
}

// collapse is what is left of finish when the reading task has panicked: no frame
// can be trusted any more, but the other tasks are to end.
func (c *conn) collapse() {
	c.giveUp(false)
	c.nc.Release()
	_ = c.join() // the panic says more
}

// giveUp ends the connection at once because one of its own two tasks has
// panicked.
func (c *conn) giveUp(writer bool) {
	c.mu.Lock()
	defer c.unlock()
	if writer {
		c.writerOn, c.writerWaits, c.writing = false, false, false
		c.tellReader()
	} else {
		c.noWake, c.readerWaits = true, false
	}
	c.cut(errDefect)
	if !writer {
		c.readyFresh() // forgets those that will not be started
	}
}

// cut ends all streams, and the connection with a reset.
func (c *conn) cut(err error) {
	c.closing = true
	c.drop()
	c.fail(err)
	c.nc.Abort() // wakes the tasks that use it
}

// end says the last word and ends all streams. It reports whether there is a
// word to be read.
func (c *conn) end(err error) (inOrder bool) {
	if c.err != nil {
		err = c.err
	}
	var e *ConnError
	switch {
	case errors.As(err, &e) && !e.Remote:
		event := e.event
		if event == 0 {
			event = EventProtocol
		}
		c.count(event)
		if c.flooded != nil && event.isFlood() {
			c.flooded(e)
		}
		c.append(appendGoAway(c.output().b, c.lastID, e.Code, e.Reason))
		inOrder = true
	case err == ErrIdle || err == errDrained:
		c.append(appendGoAway(c.output().b, c.lastID, CodeNo, ""))
		inOrder = true
	case err == io.EOF:
		err = errGone
	}
	c.fail(err)
	return inOrder
}

// fail ends all streams.
func (c *conn) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	for _, s := range c.streams {
		s.fail(s.processed(err))
	}
	for _, b := range c.settingsWait {
		b.Ring()
	}
	c.settingsWait = nil
}

// waitReader lets the reading task wait for a ring.
func (c *conn) waitReader(deadline loop.Time) error {
	c.readerWaits = true
	err := c.pause(c.bell, deadline)
	c.readerWaits = false
	return err
}

// tellReader rings for waitReader.
func (c *conn) tellReader() {
	if c.readerWaits {
		c.readerWaits = false
		c.bell.Ring()
	}
}
