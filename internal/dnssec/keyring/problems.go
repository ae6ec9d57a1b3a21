package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"fairlead/internal/model"
)

// Problems returns what is wrong with the keys of the zones of c, as far as there
// are any: files that do not make a set to sign with, state that cannot be read, and
// a zone that stops being signed while its parent may have DS records.
func Problems(c *model.Config, now time.Time) (problems []model.Problem) {
	for i := range c.Zones {
		m := &c.Zones[i]
		at := model.Place{}.Key("zones").Item(i, m.Name)
		name := model.CanonicalHost(m.Name)
		if !m.DNSSEC {
			at = at.Key("dnssec")
			if s, err := loadState(zoneDir(c.DataDir, name), name); err == nil && s.anchored() {
				problems = append(problems, model.Problem{Path: at.Path, Warning: true,
					Text: at.Text + ": false, though the parent may have DS records of the zone's keys, with which resolvers refuse unsigned answers: " +
						"sign it, set dnssec_options.withdraw, and wait until its KSK is unanchored"})
			}
			continue
		}
		o := m.Signing()
		if len(o.KeyFiles) > 0 {
			at = at.Key("dnssec_options").Key("key_files")
			list, err := readGiven(o.KeyFiles, name)
			if err == nil {
				_, err = keysOf(list, &o, now)
			}
			if err != nil {
				problems = append(problems, model.Problem{Path: at.Path, Text: fmt.Sprintf("%s: %v", at.Text, err)})
				continue
			}
			if k := abandoned(zoneDir(c.DataDir, name), name, list); k != nil {
				problems = append(problems, model.Problem{Path: at.Path, Warning: true, Text: fmt.Sprintf(
					"%s: without key %d, of which the parent may have DS records, and which is in data_dir: name it too until the parent has those of the others", at.Text, k.key.Tag())})
			}
			continue
		}
		s, err := loadState(zoneDir(c.DataDir, name), name)
		if err != nil {
			if !errors.Is(err, errNoState) {
				at = at.Key("dnssec")
				problems = append(problems, model.Problem{Path: at.Path, Text: fmt.Sprintf("%s: %v", at.Text, err)})
			}
			continue
		}
		p := policyOf(c, m)
		if i := slices.IndexFunc(s.Keys, func(k *key) bool { return k.key.Algorithm() != p.algorithm }); i >= 0 {
			// A key of one algorithm beside one of another makes answers bogus that
			// are not signed by both (RFC 6840 section 5.11).
			at = at.Key("dnssec_options").Key("algorithm")
			problems = append(problems, model.Problem{Path: at.Path, Text: fmt.Sprintf(
				"%s: %v, but the zone has keys of %v: not available in this version: a rollover to another algorithm; keep the algorithm, or withdraw the zone first and delete its keys",
				at.Text, p.algorithm, s.Keys[i].key.Algorithm())})
		}
	}
	return problems
}

// abandoned returns a key that was made here, that caches may need, and that is not
// among given ones; nil if there is none.
func abandoned(dir, zone string, given []givenKey) *key {
	s, err := loadState(dir, zone)
	if err != nil {
		return nil // nothing was made, or it is not what signs from now on
	}
	for _, k := range s.in(ksk, ready, active, retired, withdrawn) {
		if !slices.ContainsFunc(given, func(g givenKey) bool { return bytes.Equal(g.key.Record(), k.key.Record()) }) {
			return k
		}
	}
	return nil
}
