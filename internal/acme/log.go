package acme

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// quiet returns a logger for libraries that log each step, and a failure at each
// level that it passes: what matters of that is logged here, once. Their lines are
// of level debug, and those that are so already, with whole requests, are left out.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(demoted{log.Handler()}) }

type demoted struct{ to slog.Handler }

// Enabled implements slog.Handler.
func (d demoted) Enabled(ctx context.Context, _ slog.Level) bool {
	return d.to.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler.
func (d demoted) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo && strings.HasPrefix(r.Message, "http request") {
		return nil
	}
	r.Level = slog.LevelDebug
	return d.to.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (d demoted) WithAttrs(attrs []slog.Attr) slog.Handler { return demoted{d.to.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (d demoted) WithGroup(name string) slog.Handler { return demoted{d.to.WithGroup(name)} }

// zapLogger returns log as the logger that certmagic wants.
func zapLogger(log *slog.Logger) *zap.Logger { return zap.New(zapCore{log: log}) }

// zapCore hands what is logged to slog.
type zapCore struct {
	log    *slog.Logger
	fields []zapcore.Field
}

// Enabled implements zapcore.Core. What is of level debug shows whole objects.
func (c zapCore) Enabled(l zapcore.Level) bool {
	return l >= zapcore.InfoLevel && c.log.Enabled(context.Background(), slog.LevelDebug)
}

// With implements zapcore.Core.
func (c zapCore) With(fields []zapcore.Field) zapcore.Core {
	c.fields = append(slices.Clip(c.fields), fields...)
	return c
}

// Check implements zapcore.Core.
func (c zapCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// Write implements zapcore.Core.
func (c zapCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	all := zapcore.NewMapObjectEncoder()
	for _, f := range append(slices.Clip(c.fields), fields...) {
		f.AddTo(all)
	}
	var detail strings.Builder
	for i, key := range slices.Sorted(maps.Keys(all.Fields)) {
		if i > 0 {
			detail.WriteByte(' ')
		}
		fmt.Fprintf(&detail, "%s=%q", key, fmt.Sprint(all.Fields[key]))
	}
	c.log.Debug("certmagic: "+e.Message, "detail", detail.String())
	return nil
}

// Sync implements zapcore.Core.
func (zapCore) Sync() error { return nil }
