package httplb

import (
	"context"
	"log/slog"
)

// asideHandler writes records beside the task that logs them: where a log goes
// may be slow, and a task that waits holds up all others of its event loop.
type asideHandler struct{ slog.Handler }

func (h asideHandler) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	go h.Handler.Handle(ctx, r)
	return nil
}

func (h asideHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return asideHandler{h.Handler.WithAttrs(attrs)}
}

func (h asideHandler) WithGroup(name string) slog.Handler {
	return asideHandler{h.Handler.WithGroup(name)}
}
