package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"fairlead/internal/dnssec"
	"fairlead/internal/model"
)

// Demand is what an operator wants, or knows, about the keys of a zone.
type Demand string

// The demands.
const (
	RollZSK     Demand = "roll-zsk"     // replace the ZSK now
	RollKSK     Demand = "roll-ksk"     // replace the KSK now
	DSPublished Demand = "ds-published" // the parent has the DS record of the key that is ready
	DSGone      Demand = "ds-gone"      // and has none of those on their way out any more
)

var demands = []Demand{RollZSK, RollKSK, DSPublished, DSGone}

// Ask leaves a demand for the node that has the keys of a zone, which takes it up
// within a minute.
func Ask(c *model.Config, m *model.Zone, d Demand) error {
	if len(m.Signing().KeyFiles) > 0 {
		return errors.New("the zone has key_files, whose times say when each is used: want dnssec-settime")
	}
	dir := zoneDir(c.DataDir, model.CanonicalHost(m.Name))
	if _, err := os.Stat(filepath.Join(dir, stateFile)); errors.Is(err, fs.ErrNotExist) {
		return errNoState
	} else if err != nil {
		return err
	}
	return dnssec.WriteFile(demandFile(dir, d), nil)
}

func demandFile(dir string, d Demand) string { return filepath.Join(dir, "ask-"+string(d)) }

// demanded returns what was left in a directory.
func demanded(dir string) (d demand, err error) {
	for _, want := range demands {
		_, err := os.Stat(demandFile(dir, want))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return d, err
		}
		switch want {
		case RollZSK:
			d.rollZSK = true
		case RollKSK:
			d.rollKSK = true
		case DSPublished:
			d.dsPublished = true
		case DSGone:
			d.dsGone = true
		}
	}
	return d, nil
}

// settled removes demands that were taken up. What comes of them is on the disk.
func settled(dir string, d demand) error {
	for want, there := range map[Demand]bool{RollZSK: d.rollZSK, RollKSK: d.rollKSK, DSPublished: d.dsPublished, DSGone: d.dsGone} {
		if !there {
			continue
		}
		if err := os.Remove(demandFile(dir, want)); err != nil {
			return fmt.Errorf("%s: %w", want, err)
		}
	}
	return nil
}
