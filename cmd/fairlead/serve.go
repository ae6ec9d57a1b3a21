package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"fairlead/internal/node"
)

type serveCmd struct {
	Config    string     `required:"" short:"c" placeholder:"FILE" help:"Configuration file. It is read again when it changes and on SIGHUP; one with an error is refused and the running configuration stays."`
	LogLevel  slog.Level `default:"info" placeholder:"LEVEL" help:"Least level that is logged: debug, info, warn or error. Default: ${default}."`
	LogFormat string     `default:"auto" enum:"auto,text,json" placeholder:"FORMAT" help:"text, json, or auto: text where a person is watching, else json. Default: ${default}."`
}

// Help is shown by serve --help.
func (serveCmd) Help() string {
	return `Listeners open once every pool has been probed. SIGTERM and SIGINT stop
accepting, let requests in flight finish within shutdown_timeout and exit with
status 0; a second signal ends at once. SIGHUP reads the file again and opens
the access log anew. The log goes to standard error.`
}

func (c *serveCmd) Run(ctx context.Context, s streams) error {
	return node.Run(ctx, secondSignal(ctx), node.Config{File: c.Config, Log: c.logger(s), Version: programVersion()})
}

func (c *serveCmd) logger(s streams) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.LogLevel}
	f, isFile := s.err.(*os.File)
	if c.LogFormat == "text" || c.LogFormat == "auto" && isFile && term.IsTerminal(int(f.Fd())) {
		return slog.New(slog.NewTextHandler(s.err, opts))
	}
	return slog.New(slog.NewJSONHandler(s.err, opts))
}

// secondSignal returns a context that ends with the first signal after ctx is
// done.
func secondSignal(ctx context.Context) context.Context {
	now, cancel := context.WithCancel(context.Background())
	go func() {
		<-ctx.Done()
		again := make(chan os.Signal, 1)
		signal.Notify(again, os.Interrupt, syscall.SIGTERM)
		<-again
		cancel()
	}()
	return now
}
