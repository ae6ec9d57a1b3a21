package main

import (
	"fmt"
	"time"

	"fairlead/internal/config"
	"fairlead/internal/dnssec/keyring"
	"fairlead/internal/plan"
)

type checkCmd struct {
	Config string `required:"" short:"c" placeholder:"FILE" help:"Configuration file."`
}

// Help is shown by check --help.
func (checkCmd) Help() string {
	return `Looks at the file and at the certificates, keys and databases that it names,
and at the keys of sessions in data_dir where they are needed and there.
Opens no port and sends no probe. What it finds goes to standard error, one
line each, as FILE:LINE:COLUMN:

  lb.yaml:31:20: pool "eu": endpoint "a": weight 1.5: want 0 to 1
  lb.yaml:12:5: warning: ...   doubtful; serve starts, and logs it
  lb.yaml:44:5: note: ...      right, and not available in this version:
                               serve refuses the file

Exit status: 0 with warnings and notes alone, 1 when there is an error.`
}

// Run checks a file and the files that it names.
func (c *checkCmd) Run(s streams) error {
	doc, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	if errs := doc.Judge(plan.Conditions(doc.Config)); len(errs) > 0 {
		return errs
	}
	errs := config.CheckFiles(doc, plan.CheckSessionKeys(doc.Config)...)
	if len(errs) == 0 {
		errs = doc.Judge(plan.Zones(doc.Config))
	}
	if len(errs) == 0 {
		errs = doc.Judge(keyring.Problems(doc.Config, time.Now()))
	}
	if len(errs) > 0 {
		err = errs
	} else {
		_, err = openDatabases(doc)
	}
	for _, w := range doc.Warnings {
		fmt.Fprintf(s.err, "%s:%d:%d: warning: %s\n", w.File, w.Line, w.Column, w.Text)
	}
	if err != nil {
		return err
	}
	for _, e := range doc.Judge(plan.Unbuilt(doc.Config)) {
		fmt.Fprintf(s.err, "%s:%d:%d: note: %s\n", e.File, e.Line, e.Column, e.Text)
	}
	d := doc.Config
	_, err = fmt.Fprintf(s.out, "%s: ok: %s, %s, %s, %s, %s\n", c.Config,
		count(len(d.Listeners), "listener"), count(len(d.LoadBalancers), "load balancer"),
		count(len(d.Pools), "pool"), count(len(d.Monitors), "monitor"), count(len(d.Zones), "zone"))
	return err
}

// count returns "1 pool" or "2 pools".
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
