package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"fairlead/internal/admin"
	"fairlead/internal/config"
	"fairlead/internal/geo"
)

// databases opens the databases of geography that a document names; those that are
// open already stay so, as they follow their files by themselves.
func (n *Node) databases(doc *config.Document) (*geo.Databases, error) {
	c := doc.Config
	if p := n.plan.Load(); p != nil && slices.Equal(p.Config.Geo.Databases, c.Geo.Databases) {
		return p.Geo, nil
	}
	if len(c.Geo.Databases) > 0 {
		if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
			return nil, fmt.Errorf("data_dir: %w", err)
		}
	}
	d, err := geo.Open(geo.Config{Files: c.Geo.Databases, Dir: c.DataDir, Busy: beingWritten, Log: n.log})
	var errs geo.Errors
	if errors.As(err, &errs) {
		return nil, doc.Judge(errs.Problems())
	}
	return d, err
}

// watchDatabases follows the files of the databases in force, and no others.
func (n *Node) watchDatabases(d *geo.Databases) {
	if n.unwatch != nil {
		n.unwatch()
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.unwatch = cancel
	n.watching.Go(func() { d.Watch(ctx) })
}

// databaseStatus returns the databases in force.
func (n *Node) databaseStatus() []admin.DatabaseStatus {
	p := n.plan.Load()
	if p == nil {
		return nil
	}
	var list []admin.DatabaseStatus
	for _, s := range p.Geo.Status() {
		list = append(list, admin.DatabaseStatus{
			File: s.File, Type: s.Type, Built: s.Built.UTC(), Loaded: s.Loaded.UTC(), Facts: s.Gives.Names(), Error: s.Problem,
			LookupFailures: s.Failures, Reloads: s.Loads, Refusals: s.Refusals,
		})
	}
	return list
}
