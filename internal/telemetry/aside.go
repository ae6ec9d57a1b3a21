package telemetry

import (
	"context"
	"log/slog"
	"sync"
)

// asideQueue bounds the records that wait to be written.
const asideQueue = 1000

// Aside writes log records beside whoever logs them, in their order: where a log
// goes may be slow, and some code must not wait for it. When too many wait,
// further ones are dropped and counted.
type Aside struct {
	queue   chan asideRecord
	dropped Counter
	closing sync.Once
	done    chan struct{}

	mu     sync.RWMutex // held for reading while queue is written to
	closed bool
}

type asideRecord struct {
	to     slog.Handler
	record slog.Record
}

// NewAside starts an Aside.
func NewAside() *Aside {
	a := &Aside{queue: make(chan asideRecord, asideQueue), done: make(chan struct{})}
	go func() {
		defer close(a.done)
		for r := range a.queue {
			_ = r.to.Handle(context.Background(), r.record) // whoever logged has gone on
		}
	}()
	return a
}

// Logger returns a logger that writes what log would, aside.
func (a *Aside) Logger(log *slog.Logger) *slog.Logger {
	return slog.New(asideHandler{log.Handler(), a})
}

// Close writes what waits. What is logged after that is dropped.
func (a *Aside) Close() {
	a.closing.Do(func() {
		a.mu.Lock()
		a.closed = true
		close(a.queue)
		a.mu.Unlock()
	})
	<-a.done
}

var descAsideDropped = &Desc{Name: "fairlead_log_dropped_total", Help: "Log records of the data planes that were dropped because the log is too slow.", Kind: CounterKind}

// Collect implements Source.
func (a *Aside) Collect(e *Emitter) { e.Counter(descAsideDropped, a.dropped.Load()) }

type asideHandler struct {
	slog.Handler
	a *Aside
}

func (h asideHandler) Handle(_ context.Context, r slog.Record) error {
	h.a.mu.RLock()
	defer h.a.mu.RUnlock()
	if !h.a.closed {
		select {
		case h.a.queue <- asideRecord{h.Handler, r.Clone()}:
			return nil
		default:
		}
	}
	h.a.dropped.Inc()
	return nil
}

func (h asideHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return asideHandler{h.Handler.WithAttrs(attrs), h.a}
}

func (h asideHandler) WithGroup(name string) slog.Handler {
	return asideHandler{h.Handler.WithGroup(name), h.a}
}
