package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
)

// slowHandler notes messages, and waits with each until it may go on.
type slowHandler struct {
	slog.Handler
	goOn chan struct{}
	got  *[]string
}

func (h slowHandler) Handle(_ context.Context, r slog.Record) error {
	<-h.goOn
	*h.got = append(*h.got, r.Message)
	return nil
}

func TestAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAside()
		var got []string
		slow := slowHandler{slog.DiscardHandler, make(chan struct{}), &got}
		log := a.Logger(slog.New(enabled{slow}))
		const extra = 7
		log.Info("0")
		synctest.Wait() // it is being written
		for i := range asideQueue + extra {
			log.Info(fmt.Sprint(i + 1)) // does not wait
		}
		if n := a.dropped.Load(); n != extra {
			t.Errorf("%d records were dropped, want %d", n, extra)
		}
		close(slow.goOn)
		a.Close()
		a.Close()
		if len(got) != asideQueue+1 {
			t.Fatalf("%d records were written, want %d", len(got), asideQueue+1)
		}
		for i, m := range got {
			if m != fmt.Sprint(i) {
				t.Fatalf("record %d is %q: not in order", i, m)
			}
		}
		log.Info("late")
		if n := a.dropped.Load(); n != extra+1 {
			t.Errorf("a record after Close was not counted")
		}
	})
}

type enabled struct{ slog.Handler }

func (enabled) Enabled(context.Context, slog.Level) bool { return true }
