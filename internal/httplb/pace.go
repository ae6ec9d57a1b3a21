package httplb

import (
	"time"

	"fairlead/internal/loop"
)

// pace judges how fast a client sends a body. In each window of the body
// time-out it has to bring what the least rate asks for, and at least one
// byte: that ends clients that drip while a slow but honest upload may take as
// long as it needs. Time in which we did not read does not count.
type pace struct {
	timeout time.Duration
	need    int64 // bytes in a window
	from    loop.Time
	left    loop.Time // when reading was left, 0 while it goes on
	got     int64
}

func (p *pace) start(set *settings) {
	now := loop.Now()
	*p = pace{timeout: set.BodyTimeout, need: max(1, int64(float64(set.BodyMinRate)*set.BodyTimeout.Seconds())), from: now, left: now}
}

// resume is called when reading begins again.
func (p *pace) resume() {
	if p.left != 0 {
		p.from = p.from.Add(loop.Now().Sub(p.left))
		p.left = 0
	}
}

// add counts bytes that came, and leaves reading.
func (p *pace) add(n int) {
	p.got += int64(n)
	p.left = loop.Now()
	if p.left.Sub(p.from) > p.timeout && p.got >= p.need {
		p.from, p.got = p.left, 0
	}
}

// deadline is the end of the window.
func (p *pace) deadline() loop.Time { return p.from.Add(p.timeout) }

// slow says, at the end of a window, whether too little came in it; if not, the
// next begins.
func (p *pace) slow() bool {
	if p.got < p.need {
		return true
	}
	p.from, p.got = loop.Now(), 0
	return false
}

// arrived is add for bodies that are moved; it fails when they are slow.
func (p *pace) arrived(n int) error {
	p.add(n)
	if p.behind() {
		return errSlowBody
	}
	return nil
}

// behind says whether the window is over and too little came in it.
func (p *pace) behind() bool { return p.left.Sub(p.from) > p.timeout && p.got < p.need }
