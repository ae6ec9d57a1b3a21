package main

import (
	"fmt"
	"io"
	"time"

	"fairlead/internal/config"
	"fairlead/internal/dnssec"
	"fairlead/internal/dnssec/keyring"
	"fairlead/internal/model"
)

// dnssecCmd is about the keys of signed zones.
type dnssecCmd struct {
	DS   dnssecDSCmd   `cmd:"" name:"ds" help:"Print the DS records that the parent of a zone needs."`
	Keys dnssecKeysCmd `cmd:"" help:"Print the keys of a zone, and what comes next."`
	Roll dnssecRollCmd `cmd:"" help:"Begin to replace a key of a zone."`
	Tell dnssecTellCmd `cmd:"" help:"Tell a node what the parent has, where it cannot be asked."`
}

// signedZone is a zone of a configuration file.
type signedZone struct {
	Config string `required:"" short:"c" placeholder:"FILE" help:"Configuration file of the node."`
	Zone   string `arg:"" help:"Name of the zone."`
}

func (s *signedZone) find() (*model.Config, *model.Zone, error) {
	doc, err := config.Load(s.Config)
	if err != nil {
		return nil, nil, err
	}
	for i := range doc.Config.Zones {
		z := &doc.Config.Zones[i]
		if model.CanonicalHost(z.Name) != model.CanonicalHost(s.Zone) {
			continue
		}
		if !z.DNSSEC {
			return nil, nil, fmt.Errorf("%s: zone %q is not signed: want dnssec: true", s.Config, z.Name)
		}
		return doc.Config, z, nil
	}
	return nil, nil, fmt.Errorf("%s: no zone %q", s.Config, s.Zone)
}

func (s *signedZone) read() (*keyring.Report, error) {
	c, z, err := s.find()
	if err != nil {
		return nil, err
	}
	r, err := keyring.Read(c, z, time.Now())
	if err != nil {
		return nil, fmt.Errorf("zone %q: %w", z.Name, err)
	}
	return r, nil
}

type dnssecDSCmd struct{ signedZone }

// Help is shown by dnssec ds --help.
func (dnssecDSCmd) Help() string {
	return `Prints the DS records of the key-signing keys that the parent should have, in
zone file format, each with the DNSKEY record that some registries want instead.
A node has made the keys, in data_dir; a command on the same machine reads them.

  fairlead dnssec ds -c fairlead.yaml example.com

A key that is published, and not yet ready, may not be known to all resolvers: a
comment says when it is.`
}

// Run prints DS records.
func (c *dnssecDSCmd) Run(s streams) error {
	r, err := c.read()
	if err != nil {
		return err
	}
	printed := false
	for _, k := range r.Keys {
		if !k.Key.KSK() || k.State == "retired" || k.State == "withdrawn" || k.State == "unanchored" {
			continue
		}
		printed = true
		ds, _ := k.Key.DS(dnssec.DigestSHA256)
		fmt.Fprintf(s.out, "; key %d, %s\n", k.Key.Tag(), k.State)
		if k.State == "published" {
			fmt.Fprintln(s.out, "; not yet: give it to the parent once the key is ready"+next(r))
		}
		fmt.Fprintf(s.out, "%s. IN DS %s\n", r.Zone, ds)
		fmt.Fprintf(s.out, "; %s. IN DNSKEY %s\n", r.Zone, k.Key.RecordText())
	}
	if !printed {
		return fmt.Errorf("zone %q: the parent should have no DS records: all keys that it may name are on their way out", r.Zone)
	}
	return nil
}

// next says what comes next, and when.
func next(r *keyring.Report) string {
	if r.Next.IsZero() {
		return ""
	}
	return fmt.Sprintf("; next, at %s: %s", r.Next.UTC().Format(time.RFC3339), r.What)
}

type dnssecKeysCmd struct{ signedZone }

// Run prints the keys of a zone.
func (c *dnssecKeysCmd) Run(s streams) error {
	r, err := c.read()
	if err != nil {
		return err
	}
	for _, k := range r.Keys {
		writeKey(s.out, k)
	}
	if text := next(r); text != "" {
		fmt.Fprintln(s.out, text[2:])
	}
	return nil
}

func writeKey(w io.Writer, k keyring.KeyStatus) {
	kind := "zsk"
	if k.Key.KSK() {
		kind = "ksk"
	}
	fmt.Fprintf(w, "%s %5d %s %s", kind, k.Key.Tag(), k.Key.Algorithm(), k.State)
	if !k.Since.IsZero() {
		fmt.Fprintf(w, " since %s", k.Since.UTC().Format(time.RFC3339))
	}
	if k.Announced {
		fmt.Fprint(w, ", announced by CDS")
	}
	fmt.Fprintln(w)
}

type dnssecRollCmd struct {
	signedZone
	Key string `required:"" enum:"zsk,ksk" help:"Which key: zsk or ksk."`
}

// Run leaves the demand for the node.
func (c *dnssecRollCmd) Run(s streams) error {
	d := keyring.RollZSK
	if c.Key == "ksk" {
		d = keyring.RollKSK
	}
	return c.ask(s.out, d)
}

type dnssecTellCmd struct {
	signedZone
	DS string `required:"" name:"ds" enum:"published,gone" help:"published: the parent has the DS record of the key that is ready; gone: it has none of keys on their way out any more."`
}

// Run leaves the demand for the node.
func (c *dnssecTellCmd) Run(s streams) error {
	d := keyring.DSPublished
	if c.DS == "gone" {
		d = keyring.DSGone
	}
	return c.ask(s.out, d)
}

func (s *signedZone) ask(out io.Writer, d keyring.Demand) error {
	c, m, err := s.find()
	if err != nil {
		return err
	}
	if err := keyring.Ask(c, m, d); err != nil {
		return fmt.Errorf("zone %q: %w", m.Name, err)
	}
	fmt.Fprintln(out, "left for the node, which takes it up within a minute; its log says what comes of it")
	return nil
}
