package h2

import "fairlead/internal/loop"

// output returns where frames are appended.
func (c *conn) output() *output {
	if c.out == nil {
		c.out = outputs.Get().(*output)
	}
	return c.out
}

// append takes the output with frames appended to it, to be written.
func (c *conn) append(b []byte) {
	o := c.output()
	c.queued += uint64(len(b) - len(o.b))
	o.b = b
	c.kick()
}

// answer is append for frames that answer one of the other end's.
func (c *conn) answer(b []byte) {
	c.control += len(b) - len(c.output().b)
	c.append(b)
}

// kick has the writing task write.
func (c *conn) kick() {
	switch {
	case c.closing:
		c.drop()
	case !c.writerOn:
		c.writerOn, c.writerStart, c.writerLeaves = true, true, false
	case c.writerWaits:
		c.writerWaits, c.writerLeaves = false, false
		c.writerBell.Ring()
	}
}

// drop forgets output that nobody will write.
func (c *conn) drop() {
	if c.out != nil {
		c.out.free()
		c.out = nil
	}
	c.control = 0
}

// room reports whether streams may add to the output.
func (c *conn) room() bool { return c.out == nil || len(c.out.b) < outBound }

// write is the writing task. A panic in it, which is a defect of ours, ends the
// connection.
func (c *conn) write() {
	over := false
	defer func() {
		if !over {
			c.giveUp(true)
		}
	}()
	for {
		o := c.nextOutput()
		if o == nil {
			over = true
			return
		}
		err := c.nc.Write(o.b)
		o.free()
		c.wrote(err)
	}
}

// nextOutput waits for something to write. It returns nil when the task is to
// end.
func (c *conn) nextOutput() *output {
	c.mu.Lock()
	defer c.unlock()
	for c.closing || c.out == nil || c.interrupted {
		if c.closing || c.out == nil && c.writerLeaves {
			c.drop()
			c.writerOn, c.writerLeaves = false, false
			c.tellReader()
			return nil
		}
		c.tellReader() // it may wait for what was written
		c.writerWaits = true
		_ = c.pause(c.writerBell, 0) // without a deadline it does not fail
		c.writerWaits = false
	}
	o := c.out
	c.out, c.control = nil, 0
	c.handed += uint64(len(o.b))
	c.writing = true
	c.wakeWaiting()
	return o
}

// wrote notes the end of a write.
func (c *conn) wrote(err error) {
	c.mu.Lock()
	defer c.unlock()
	c.writing = false
	if err != nil {
		if err == loop.ErrStalled && c.err == nil {
			c.count(EventWriteTimeout)
		}
		c.cut(err) // wakes the reading task
	}
	if c.wake && !c.interrupted && !c.noWake {
		c.wakeReader()
	}
}
