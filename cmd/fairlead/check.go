package main

import (
	"fmt"

	"fairlead/internal/config"
	"fairlead/internal/plan"
)

type checkCmd struct {
	Config string `required:"" short:"c" placeholder:"FILE" help:"Configuration file."`
}

// Help is shown by check --help.
func (checkCmd) Help() string {
	return `Errors and warnings are printed as FILE:LINE:COLUMN: what is wrong. Exit status
1 means that there are errors. What is right and cannot be served by this
version is told as a note; serve refuses such a file.`
}

// Run checks a file and the files that it names.
func (c *checkCmd) Run(s streams) error {
	doc, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	for _, w := range doc.Warnings {
		fmt.Fprintf(s.err, "%s:%d:%d: warning: %s\n", w.File, w.Line, w.Column, w.Text)
	}
	if errs := config.CheckFiles(doc); len(errs) > 0 {
		return errs
	}
	for _, e := range doc.Errors(plan.Unbuilt(doc.Config)) {
		fmt.Fprintf(s.err, "%s:%d:%d: note: %s\n", e.File, e.Line, e.Column, e.Text)
	}
	d := doc.Config
	fmt.Fprintf(s.out, "%s: ok: %d listeners, %d load balancers, %d pools, %d monitors, %d zones\n",
		c.Config, len(d.Listeners), len(d.LoadBalancers), len(d.Pools), len(d.Monitors), len(d.Zones))
	return nil
}
