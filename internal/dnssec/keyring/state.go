package keyring

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fairlead/internal/dnssec"
)

// role is what a key signs.
type role string

const (
	ksk role = "ksk" // the DNSKEY, CDS and CDNSKEY records
	zsk role = "zsk" // all others
)

func (r role) flags() uint16 {
	if r == ksk {
		return dnssec.FlagsKSK
	}
	return dnssec.FlagsZSK
}

// phase is how far a key has come; see the package comment.
type phase string

const (
	published phase = "published"
	ready     phase = "ready"
	active    phase = "active"
	retired   phase = "retired"
	// withdrawn is a KSK whose DS records the parent is asked to remove;
	// unanchored is one that no cache has a DS record of any more.
	withdrawn  phase = "withdrawn"
	unanchored phase = "unanchored"
)

var phases = map[role][]phase{
	ksk: {published, ready, active, retired, withdrawn, unanchored},
	zsk: {published, active, retired},
}

// key is what is remembered of a key.
type key struct {
	// File is how its files are called, without .key and .private.
	File  string `json:"file"`
	Role  role   `json:"role"`
	Phase phase  `json:"state"`
	// Since is when the phase began, and Wait how long it lasts at least.
	Since time.Time `json:"since"`
	Wait  seconds   `json:"wait"`
	// Signs is since when it is the one that signs, or that the parent names; its
	// lifetime counts from then.
	Signs time.Time `json:"signs,omitzero"`
	// Gone is since when the parent is known not to have its DS record, of a key
	// that is on its way out, and GoneBy who said so.
	Gone   time.Time `json:"ds_gone,omitzero"`
	GoneBy string    `json:"ds_gone_by,omitempty"`

	key *dnssec.Key
}

// over reports whether the phase has lasted as long as it must.
func (k *key) over(now time.Time) bool { return !now.Before(k.end()) }

func (k *key) end() time.Time { return k.Since.Add(k.Wait.duration()) }

func (k *key) enter(p phase, now time.Time, wait time.Duration) {
	k.Phase, k.Since, k.Wait = p, now, seconds((wait+time.Second-1)/time.Second)
	k.Gone, k.GoneBy = time.Time{}, ""
}

// seconds is a duration in a file that people read.
type seconds int64

func (s seconds) duration() time.Duration { return time.Duration(s) * time.Second }

// state is what is remembered of a zone.
type state struct {
	Version int    `json:"version"`
	Zone    string `json:"zone"`
	// LongestTTL is the greatest that was ever signed.
	LongestTTL seconds `json:"longest_ttl"`
	// DNSKEYTTL is that of the DNSKEY records. Where it was greater before, caches
	// may have those from then until LongUntil.
	DNSKEYTTL seconds   `json:"dnskey_ttl"`
	LongUntil time.Time `json:"dnskey_ttl_was_greater_until,omitzero"`
	// ParentTTL is the greatest TTL that the parent's DS records were seen with.
	ParentTTL seconds `json:"parent_ds_ttl"`
	Keys      []*key  `json:"keys"`
	// Removed are keys that are not used any more, whose files are to be deleted.
	Removed []string `json:"removed,omitempty"`
}

const stateVersion = 1

func (s *state) clone() *state {
	c := *s
	c.Keys = make([]*key, len(s.Keys))
	for i, k := range s.Keys {
		copied := *k
		c.Keys[i] = &copied
	}
	c.Removed = slices.Clone(s.Removed)
	return &c
}

// in returns the keys of a role in some phases.
func (s *state) in(r role, phases ...phase) (list []*key) {
	for _, k := range s.Keys {
		if k.Role == r && slices.Contains(phases, k.Phase) {
			list = append(list, k)
		}
	}
	return list
}

// keys returns what the keys are used for. Every KSK signs the keys for as long as
// it is published, as some cache may have a DS record of that one alone.
func (s *state) keys(withdraw bool) dnssec.Keys {
	out := dnssec.Keys{TTL: uint32(s.DNSKEYTTL), Withdraw: withdraw}
	for _, k := range s.Keys {
		out.Published = append(out.Published, k.key)
		if k.Role == ksk {
			out.Key = append(out.Key, k.key)
		}
	}
	for _, k := range s.in(zsk, active) {
		out.Zone = append(out.Zone, k.key)
	}
	announced := s.in(ksk, ready)
	if len(announced) == 0 {
		announced = s.in(ksk, active)
	}
	for _, k := range announced {
		out.Announce = append(out.Announce, k.key)
	}
	return out
}

// stateFile is the name of a zone's state in its directory.
const stateFile = "state.json"

// errNoState says that a zone has no keys yet.
var errNoState = errors.New("no keys were made for the zone yet")

// loadState reads the state in a zone's directory, and with it the keys. Commands
// that only show what is there need no private halves, but a node does.
func loadState(dir, zone string) (*state, error) {
	name := filepath.Join(dir, stateFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoState
	}
	if err != nil {
		return nil, err
	}
	s := new(state)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := s.check(zone); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, k := range s.Keys {
		if k.key, _, err = dnssec.ReadKey(filepath.Join(dir, k.File)); err != nil {
			return nil, fmt.Errorf("a key that %s names: %w", name, err)
		}
		if k.key.Zone() != zone || k.key.KSK() != (k.Role == ksk) {
			return nil, fmt.Errorf("%s: %s is not a %s of the zone %q", name, k.File, k.Role, zone)
		}
	}
	return s, nil
}

func (s *state) check(zone string) error {
	if s.Version != stateVersion {
		return fmt.Errorf("version %d: want %d; a newer version of Fairlead has written it", s.Version, stateVersion)
	}
	if s.Zone != zone {
		return fmt.Errorf("the state of the zone %q: want that of %q", s.Zone, zone)
	}
	for _, k := range s.Keys {
		switch {
		case k.File == "" || k.File != filepath.Base(k.File) || !strings.HasPrefix(k.File, "K"):
			return fmt.Errorf("key %q: want the name of a file here, as in Kexample.com.+013+12345", k.File)
		case !slices.Contains(phases[k.Role], k.Phase):
			return fmt.Errorf("key %s: a %s in the state %q is not known", k.File, k.Role, k.Phase)
		case k.Wait < 0 || k.Since.IsZero():
			return fmt.Errorf("key %s: since %v for %d s: want a time and 0 or more", k.File, k.Since, k.Wait)
		}
	}
	if len(s.in(ksk, phases[ksk]...)) == 0 || len(s.in(zsk, active)) == 0 {
		return errors.New("want a ksk, and a zsk that is active")
	}
	return nil
}

// save puts the state on the disk.
func (s *state) save(dir string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return dnssec.WriteFile(filepath.Join(dir, stateFile), append(text, '\n'))
}

// zoneDir is where the keys of a zone are.
func zoneDir(dataDir, zone string) string { return filepath.Join(dataDir, "dnssec", zone) }

// makeDir makes a directory and those that it lies in, for their owner alone. They
// are on the disk when it returns.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, d := range []string{filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
		if err := dnssec.SyncDir(d); err != nil {
			return err
		}
	}
	return nil
}

// deleteKey deletes the files of a key.
func deleteKey(dir, file string) error {
	for _, suffix := range []string{".key", ".private"} {
		if err := os.Remove(filepath.Join(dir, file+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return dnssec.SyncDir(dir)
}
