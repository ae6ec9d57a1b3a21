package main

import (
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"fairlead/internal/node"
)

type serveCmd struct {
	Config    string     `required:"" short:"c" placeholder:"FILE" help:"Configuration file."`
	LogLevel  slog.Level `default:"info" placeholder:"LEVEL" help:"Least level that is logged: debug, info, warn or error. Default: info."`
	LogFormat string     `default:"auto" enum:"auto,text,json" placeholder:"FORMAT" help:"text, json, or auto: text where standard error is a terminal, else json. Default: auto."`
}

// Help is shown by serve --help.
func (serveCmd) Help() string {
	return `Starting: the file is checked, the admin address (admin.address, by default
127.0.0.1:9090) opens, every pool gets its first verdicts, and the listeners
open. /readyz on the admin address answers 200 from then on. A file with an
error, or with something that this version does not do, ends the start with
every error as FILE:LINE:COLUMN and exit status 1.

Changing the configuration: a change of the file is taken up within two
seconds, whether it is written in place, renamed over or linked to. No
connection is cut by it and no verdict is forgotten. A file with an error is
refused with all its errors in the log; the running configuration stays.

Signals:

  SIGHUP           read the file again now, and open the access log anew
  SIGTERM, SIGINT  stop accepting, let requests in flight finish within
                   shutdown_timeout, exit with status 0
  a second one     cut what is left and exit

Connections run on event loops, one for each processor that Go may use
(GOMAXPROCS), where the system has them (Linux). FAIRLEAD_IO=goroutine in the
environment runs each on a goroutine of its own instead. GOGC and GOMEMLIMIT
tune the garbage collector, which otherwise leaves room for 48 MiB.

The log goes to standard error. The access log is access_log in the file.`
}

// Run runs a node until it is told to stop.
func (c *serveCmd) Run(s streams) error {
	stop, now := stopSignals()
	// Whoever reads the log may go away; that must not end the node.
	signal.Ignore(syscall.SIGPIPE)
	logger := c.logger(s)
	// What libraries say of peers by themselves is of no use to anybody but who
	// looks for it.
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(logger.Handler(), slog.LevelDebug).Writer())
	return node.Run(stop, now, node.Config{File: c.Config, Log: logger, Version: programVersion()})
}

func (c *serveCmd) logger(s streams) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.LogLevel}
	f, isFile := s.err.(*os.File)
	if c.LogFormat == "text" || c.LogFormat == "auto" && isFile && term.IsTerminal(int(f.Fd())) {
		return slog.New(slog.NewTextHandler(s.err, opts))
	}
	return slog.New(slog.NewJSONHandler(s.err, opts))
}
