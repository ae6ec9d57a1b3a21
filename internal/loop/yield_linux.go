package loop

// Newcomers and long work are let in by the round. A TLS handshake costs as much
// as ten or twenty requests, and the frames of a client that means ill can cost
// any amount. In a storm of either, everybody else would wait, in each round, for
// all that have come; so one goes on, and a share of the work that is there
// besides, and the others wait in order.

// othersPer is for how many tasks of a round one more newcomer, and one more task
// that yields, is let in: the busier the loop is with others, the longer its
// rounds are, and the more must be done in one.
const othersPer = 16

// quota returns how many connections are accepted in a round, and how many tasks
// that yielded go on.
func (l *eventLoop) quota() int { return 1 + len(l.running)/othersPer }

// yielding are the tasks that let others run.
type yielding struct {
	went  int // on, in this round
	queue []*yielder
}

type yielder struct {
	fiber *fiber
	next  bool // it goes on
}

// Yield implements Driver.
func (l *eventLoop) Yield() {
	me := yielder{fiber: l.current}
	l.yielding.queue = append(l.yielding.queue, &me)
	for !me.next {
		l.current.park()
	}
}

// begin is for what is long and has not begun: it yields if this round has had
// its share.
func (l *eventLoop) begin() {
	if y := &l.yielding; len(y.queue) > 0 || y.went >= l.quota() {
		l.Yield()
	} else {
		y.went++
	}
}

// letGo lets up to n tasks that yielded go on, at the beginning of a round.
func (l *eventLoop) letGo(n int) {
	y := &l.yielding
	y.went = min(n, len(y.queue))
	for i, next := range y.queue[:y.went] {
		next.next = true
		l.ready(next.fiber)
		y.queue[i] = nil
	}
	if y.queue = y.queue[y.went:]; len(y.queue) == 0 {
		y.queue = nil
	}
}
