package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"fairlead/internal/config"
	"fairlead/internal/telemetry"
)

// follow takes up changes of the configuration file and the files of zones, and
// SIGHUP, until ctx is done.
func (n *Node) follow(ctx context.Context, w *watcher, hup <-chan os.Signal) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			n.log.Info("SIGHUP received")
			n.reopenLogs()
			w.force()
		case <-tick.C:
		}
		n.forgetDrained(ctx, time.Now())
		if n.zoneFiles.changed() {
			w.force()
		}
		if changed, forced := w.look(); changed {
			n.reload(ctx, forced)
		}
	}
}

// reload reads the file and puts it in force. What is wrong with it is logged,
// all of it, and the running plan stays.
func (n *Node) reload(ctx context.Context, force bool) {
	if !force && n.unchanged() {
		return
	}
	doc, databases, err := n.read()
	if err == nil {
		err = n.mayChange(doc)
	}
	if err == nil {
		err = n.apply(ctx, doc, databases)
	}
	if ctx.Err() != nil {
		return // the node stops; whatever came of it is of no interest
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		n.status.Reloads++
		return
	}
	n.status.Tried = time.Now()
	n.status.Refusals++
	n.status.Error = err.Error()
	var errs config.Errors
	if errors.As(err, &errs) {
		for _, e := range errs {
			n.log.Error("configuration is refused", "error", e.Error())
		}
	} else {
		n.log.Error("configuration is refused", "error", err)
	}
}

// unchanged reports whether the file holds what is in force already.
func (n *Node) unchanged() bool {
	data, err := config.Read(n.cfg.File)
	n.mu.Lock()
	defer n.mu.Unlock()
	return err == nil && n.status.Error == "" && bytes.Equal(data, n.document.Source)
}

// mayChange refuses what needs a new process.
func (n *Node) mayChange(doc *config.Document) error {
	if was := n.Plan().Config.Admin.Address; doc.Config.Admin.Address != was {
		p := doc.At("admin.address")
		return config.Errors{{File: p.File, Line: p.Line, Column: p.Column,
			Text: fmt.Sprintf("admin.address: cannot change from %q while the process runs; restart it", was)}}
	}
	return nil
}

// Collect implements telemetry.Source: what the node itself has to tell.
func (n *Node) Collect(e *telemetry.Emitter) {
	l := n.currentLogs()
	l.access.Collect(e)
	l.query.Collect(e)
	n.collectEngine(e)
	if p := n.plan.Load(); p != nil {
		p.Geo.Collect(e)
	}
}
