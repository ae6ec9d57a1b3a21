//go:build linux

package loop

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"
)

// ask asks once, and copies the answer.
func (p *pair) ask(b []byte) (answer []byte, err error) {
	p.do(func() {
		var got []byte
		got, err = p.c.Ask(b)
		answer = bytes.Clone(got)
	})
	return answer, err
}

func TestAsk(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		for i := range 5 {
			question, answer := pattern(uint64(i), 10+i*1000), pattern(uint64(i)+50, 1+i*500)
			go func() {
				got := make([]byte, len(question))
				io.ReadFull(p.peer, got)
				if !bytes.Equal(got, question) {
					t.Errorf("question %d came changed", i)
				}
				p.peer.Write(answer)
			}()
			got, err := p.ask(question)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "answer", got, answer)
		}
	})
}

func TestAskAnswerComesInParts(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		var parts [][]byte
		var err error
		task := p.start(func() {
			var b []byte
			b, err = p.c.Ask([]byte("question"))
			for err == nil {
				parts = append(parts, bytes.Clone(b))
				b, err = p.c.Read(b)
			}
		})
		p.expect([]byte("question"))
		for _, part := range []string{"one ", "two ", "three"} {
			p.waited()
			p.peer.Write([]byte(part))
		}
		p.waited()
		p.peer.Close()
		task.Wait()
		if err != io.EOF || len(parts) == 0 || string(parts[len(parts)-1]) != "one two three" {
			t.Errorf("parts %q, %v", parts, err)
		}
	})
}

func TestAskStale(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause func(p *pair)
	}{
		{"closed", (*pair).ended},
		{"reset", (*pair).reset},
		{"something unasked", func(p *pair) {
			p.write([]byte("408"))
			until(p.t, "it has come", func() bool { return received(ownTCP(p.c)) > 0 })
		}},
		{"something unasked, closed", func(p *pair) {
			p.write([]byte("408"))
			p.ended()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, p *pair) {
				if p.pipe {
					return // nothing can be seen without reading
				}
				c.cause(p)
				for range 2 { // whoever looked first
					if b, err := p.ask([]byte("question")); err != ErrStale {
						t.Fatalf("Ask() = %q, %v; want ErrStale", b, err)
					}
				}
			})
		})
	}
}

// Nothing is written to a connection that is stale.
func TestAskStaleWritesNothing(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		if p.pipe {
			return
		}
		p.write([]byte("unasked"))
		until(t, "it has come", func() bool { return received(ownTCP(p.c)) > 0 })
		if _, err := p.ask([]byte("question")); err != ErrStale {
			t.Fatalf("Ask() = %v, want ErrStale", err)
		}
		p.wantRead([]byte("unasked")) // nothing of it was lost
		p.do(func() { p.c.CloseWrite() })
		if b, err := io.ReadAll(p.peer); len(b) > 0 || err != nil {
			t.Errorf("the other end got %q, %v", b, err)
		}
	})
}

// A request that does not fit into the socket, to an endpoint that reads it
// slowly, and answers at the end.
func TestAskLarge(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		question := pattern(5, 12<<20)
		var answer []byte
		var err error
		task := p.start(func() {
			p.c.SetReadDeadline(Now().Add(patience))
			p.c.SetWriteTimeout(patience)
			var b []byte
			b, err = p.c.Ask(question)
			answer = bytes.Clone(b)
		})
		p.waited()
		got := make([]byte, 0, len(question))
		for len(got) < len(question) {
			n, rerr := p.peer.Read(got[len(got):min(len(got)+99_991, cap(got))])
			if got = got[:len(got)+n]; rerr != nil {
				t.Fatal(rerr)
			}
		}
		same(t, "question", got, question)
		p.write([]byte("answer"))
		task.Wait()
		if string(answer) != "answer" || err != nil {
			t.Errorf("Ask() = %q, %v", answer, err)
		}
	})
}

// An endpoint may answer before it has read all, and go on reading.
func TestAskAnsweredEarly(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		if p.pipe {
			return // has no buffers for the answer
		}
		question := pattern(6, 12<<20)
		var answer []byte
		var err error
		task := p.start(func() {
			var b []byte
			b, err = p.c.Ask(question)
			answer = bytes.Clone(b)
		})
		p.expect(question[:1000])
		p.write([]byte("early"))
		p.expect(question[1000:])
		task.Wait()
		if string(answer) != "early" || err != nil {
			t.Errorf("Ask() = %q, %v", answer, err)
		}
	})
}

// An endpoint that answers and closes before it has read all resets the
// connection. Its answer is not lost where the system still has it.
func TestAskAnsweredEarlyAndClosed(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		if p.pipe {
			return
		}
		var answer []byte
		var err error
		task := p.start(func() {
			var b []byte
			b, err = p.c.Ask(make([]byte, 12<<20))
			answer = bytes.Clone(b)
		})
		p.waited() // the socket is full
		p.write([]byte("413"))
		p.peer.Close()
		task.Wait()
		if string(answer) != "413" || err != nil {
			t.Fatalf("Ask() = %q, %v", answer, err)
		}
		p.do(func() {
			_, err = p.c.Read(nil)
		})
		if err == nil || p.socket && !isReset(err) {
			t.Errorf("Read() after the cut answer = %v", err)
		}
		if _, err := p.ask([]byte("again")); err != ErrStale {
			t.Errorf("Ask() on a connection that is over = %v, want ErrStale", err)
		}
	})
}

// Whatever the deadline, after ErrTimeout the question has been written and its
// answer can be waited for.
func TestAskAfterTheDeadline(t *testing.T) {
	for name, in := range map[string]time.Duration{"long past": -time.Second, "just now": 0, "soon": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p *pair) {
				deadline := Now().Add(in)
				var asked, err error
				var answer []byte
				var returned atomic.Bool
				task := p.start(func() {
					p.c.SetReadDeadline(deadline)
					_, asked = p.c.Ask([]byte("question"))
					returned.Store(true)
					p.c.SetReadDeadline(0)
					var b []byte
					b, err = p.c.Read(nil)
					answer = bytes.Clone(b)
				})
				p.expect([]byte("question"))
				until(t, "Ask has returned", returned.Load)
				p.waited()
				p.write([]byte("answer"))
				task.Wait()
				if asked != ErrTimeout || string(answer) != "answer" {
					t.Errorf("Ask() = %v, want ErrTimeout; then Read() = %q, %v", asked, answer, err)
				}
			})
		})
	}
	t.Run("stale and past", func(t *testing.T) {
		each(t, func(t *testing.T, p *pair) {
			if p.pipe {
				return
			}
			p.ended()
			p.do(func() { p.c.SetReadDeadline(1) })
			if _, err := p.ask([]byte("question")); err != ErrStale {
				t.Errorf("Ask() = %v, want ErrStale", err)
			}
		})
	})
}

func TestAskStalls(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		p.do(func() {
			p.c.SetWriteTimeout(40 * time.Millisecond)
			if b, err := p.c.Ask(make([]byte, 32<<20)); !errors.Is(err, ErrStalled) {
				t.Errorf("Ask() = %d bytes, %v; want ErrStalled", len(b), err)
			}
		})
	})
}
