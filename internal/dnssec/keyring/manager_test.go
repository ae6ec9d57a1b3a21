package keyring

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fairlead/internal/dnssec"
	"fairlead/internal/model"
)

var quiet = slog.New(slog.DiscardHandler)

// signedConfig declares example.com with keys that are replaced often.
func signedConfig(dir string) *model.Config {
	c := &model.Config{DataDir: dir}
	z := model.Zone{Name: "example.com", DNSSEC: true, DNSSECOptions: new(model.DNSSEC)}
	z.SetDefaults()
	z.DNSSECOptions.SetDefaults()
	z.DNSSECOptions.ZSKLifetime, z.DNSSECOptions.KSKLifetime = 24*time.Hour, 168*time.Hour
	z.DNSSECOptions.ParentDSTTL = 6 * time.Hour
	c.Zones = []model.Zone{z}
	return c
}

// tagsOf returns the tags of DNSKEY records.
func tagsOf(data [][]byte) (list []uint16) {
	for _, d := range data {
		list = append(list, dnssec.KeyTag(d))
	}
	return list
}

// signersOf returns the tags of the keys that have signed something.
func signersOf(t *testing.T, z *dnssec.Zone, w *dnssec.Work, set *dnssec.RRset) (list []uint16) {
	t.Helper()
	signatures, err := z.Sign(w, set, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range signatures {
		list = append(list, uint16(s[16])<<8|uint16(s[17]))
	}
	return list
}

// A node replaces its keys for sixty days, over restarts and a parent that takes its
// time, and no resolver that has kept anything finds its answers bogus. What is
// looked at is what is served.
func TestManagerRollsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := signedConfig(dir)
		start := time.Now()
		w := world{now: start,
			ds: history{ttl: 6 * time.Hour, lag: time.Hour}, dnskey: history{ttl: time.Hour, lag: time.Hour}, data: history{ttl: time.Hour, lag: time.Hour}}
		w.ds.set(start, version{})
		w.dnskey.set(start, version{})
		w.data.set(start, version{signers: []uint16{0}})
		var have atomic.Pointer[[]dnssec.DS] // of the parent, which may be asked in the moment that it changes
		have.Store(new([]dnssec.DS))
		parent := func(context.Context, string, []string) (*observation, error) {
			return &observation{sets: [][]dnssec.DS{*have.Load()}, ttl: 6 * time.Hour}, nil
		}
		began := func() *Manager {
			m := newForTest(quiet, dnssec.NewSigner(64), parent)
			if err := m.Ensure(c, nil); err != nil {
				t.Fatal(err)
			}
			return m
		}
		m := began()
		defer func() { m.Close() }()
		name, _ := dnssec.WireName("example.com")
		zsks, ksks := make(map[uint16]bool), make(map[uint16]bool)
		for hour := range 60 * 24 {
			z, work := m.Zone("example.com"), m.NewWork()
			w.now = time.Now()
			keys, _ := z.Apex(48)
			set := &dnssec.RRset{Owner: name, Type: 48, TTL: keys.TTL, Data: keys.Data}
			w.dnskey.set(w.now, version{keys: tagsOf(keys.Data), signers: signersOf(t, z, work, set)})
			signers := signersOf(t, z, work, &dnssec.RRset{Owner: name, Type: 1, TTL: 3600, Data: [][]byte{{192, 0, 2, 1}}})
			w.data.set(w.now, version{signers: signers})
			zsks[signers[0]] = true
			if cds, ok := z.Apex(59); ok && hour%5 == 0 {
				var records []dnssec.DS
				var tags []uint16
				for _, d := range cds.Data {
					tag := uint16(d[0])<<8 | uint16(d[1])
					records = append(records, dnssec.DS{Tag: tag, Algorithm: dnssec.Algorithm(d[2]), DigestType: d[3], Digest: d[4:]})
					tags, ksks[tag] = append(tags, tag), true
				}
				have.Store(&records)
				w.ds.set(w.now, version{keys: tags})
			}
			if bad := w.bogus(); bad != "" {
				t.Fatalf("after %v: %s", w.now.Sub(start), bad)
			}
			if hour%100 == 99 {
				m.Close()
				m = began()
			}
			time.Sleep(time.Hour)
			synctest.Wait()
		}
		if len(zsks) < 40 || len(ksks) < 5 {
			t.Errorf("%d ZSKs and %d KSKs in sixty days", len(zsks), len(ksks))
		}
		// Files of keys that are gone are gone, and the others are for the owner.
		files, err := filepath.Glob(filepath.Join(zoneDir(dir, "example.com"), "*"))
		if err != nil || len(files) > 2*5+1 {
			t.Errorf("%d files: %v %v", len(files), files, err)
		}
		for _, f := range files {
			if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v %v", info, err)
			}
		}
	})
}

// What operators want, and know, is taken up within a minute, once.
func TestDemands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := signedConfig(t.TempDir())
		c.Zones[0].DNSSECOptions.ZSKLifetime, c.Zones[0].DNSSECOptions.KSKLifetime = 0, 0
		asked := 0
		m := newForTest(quiet, dnssec.NewSigner(64), func(context.Context, string, []string) (*observation, error) {
			asked++
			return nil, errors.New("nobody there")
		})
		defer m.Close()
		if err := Ask(c, &c.Zones[0], RollZSK); !errors.Is(err, errNoState) {
			t.Errorf("before there are keys: %v", err)
		}
		if err := m.Ensure(c, nil); err != nil {
			t.Fatal(err)
		}
		states := func() string {
			t.Helper()
			r, err := Read(c, &c.Zones[0], time.Now())
			if err != nil {
				t.Fatal(err)
			}
			var list []string
			for _, k := range r.Keys {
				kind := "zsk "
				if k.Key.KSK() {
					kind = "ksk "
				}
				list = append(list, kind+k.State)
			}
			slices.Sort(list)
			return strings.Join(list, ", ")
		}
		for _, step := range []struct {
			demand Demand
			after  time.Duration
			want   string
		}{
			{"", 0, "ksk published, zsk active"},
			{DSPublished, 2 * time.Minute, "ksk published, zsk active"}, // there is none yet that the parent could have
			{"", 3 * time.Hour, "ksk ready, zsk active"},
			{"", 48 * time.Hour, "ksk ready, zsk active"}, // nobody says that the parent has it
			{DSPublished, 2 * time.Minute, "ksk active, zsk active"},
			{RollZSK, 2 * time.Minute, "ksk active, zsk active, zsk published"},
			{"", 3 * time.Hour, "ksk active, zsk active, zsk retired"},
			{"", 3 * time.Hour, "ksk active, zsk active"},
			{RollKSK, 2 * time.Minute, "ksk active, ksk published, zsk active"},
			{"", 3 * time.Hour, "ksk active, ksk ready, zsk active"},
			{DSPublished, 2 * time.Minute, "ksk active, ksk retired, zsk active"},
			{"", 240 * time.Hour, "ksk active, ksk retired, zsk active"}, // while the parent may have its DS record
			{DSGone, 2 * time.Minute, "ksk active, ksk retired, zsk active"},
			{"", 8 * time.Hour, "ksk active, zsk active"},
		} {
			if step.demand != "" {
				if err := Ask(c, &c.Zones[0], step.demand); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(step.after)
			synctest.Wait()
			if got := states(); got != step.want {
				t.Fatalf("%s after %v: %s, want %s", step.demand, step.after, got, step.want)
			}
		}
		if asked == 0 || m.zones["example.com"].unasked.Load() != uint64(asked) {
			t.Errorf("asked %d times, %d failures", asked, m.zones["example.com"].unasked.Load())
		}
		if left, _ := filepath.Glob(filepath.Join(zoneDir(c.DataDir, "example.com"), "ask-*")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// Keys of files are used as their times say.
func TestGivenKeys(t *testing.T) {
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(days int) time.Time { return day.AddDate(0, 0, days) }
	makeKey := func(flags uint16) *dnssec.Key {
		k, err := dnssec.GenerateKey("example.com", flags, dnssec.Ed25519)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	ksk1, ksk2, zsk1, zsk2 := makeKey(257), makeKey(257), makeKey(256), makeKey(256)
	list := []givenKey{
		{ksk1, dnssec.Times{SyncDelete: at(5)}},
		{ksk2, dnssec.Times{Publish: at(3), Activate: at(3), SyncPublish: at(5)}},
		{zsk1, dnssec.Times{Inactive: at(10), Delete: at(12)}},
		{zsk2, dnssec.Times{Publish: at(8), Activate: at(10)}},
	}
	for _, c := range []struct {
		days                           int
		published, key, zone, announce []*dnssec.Key
	}{
		{0, []*dnssec.Key{ksk1, zsk1}, []*dnssec.Key{ksk1}, []*dnssec.Key{zsk1}, []*dnssec.Key{ksk1}},
		{4, []*dnssec.Key{ksk1, ksk2, zsk1}, []*dnssec.Key{ksk1, ksk2}, []*dnssec.Key{zsk1}, []*dnssec.Key{ksk1}},
		{6, []*dnssec.Key{ksk1, ksk2, zsk1}, []*dnssec.Key{ksk1, ksk2}, []*dnssec.Key{zsk1}, []*dnssec.Key{ksk2}},
		{9, []*dnssec.Key{ksk1, ksk2, zsk1, zsk2}, []*dnssec.Key{ksk1, ksk2}, []*dnssec.Key{zsk1}, []*dnssec.Key{ksk2}},
		{11, []*dnssec.Key{ksk1, ksk2, zsk1, zsk2}, []*dnssec.Key{ksk1, ksk2}, []*dnssec.Key{zsk2}, []*dnssec.Key{ksk2}},
		{12, []*dnssec.Key{ksk1, ksk2, zsk2}, []*dnssec.Key{ksk1, ksk2}, []*dnssec.Key{zsk2}, []*dnssec.Key{ksk2}},
	} {
		k, err := keysOf(list, &model.DNSSEC{DNSKEYTTL: time.Hour}, at(c.days))
		if err != nil || !slices.Equal(k.Published, c.published) || !slices.Equal(k.Key, c.key) || !slices.Equal(k.Zone, c.zone) || !slices.Equal(k.Announce, c.announce) || k.TTL != 3600 {
			t.Errorf("day %d: %+v, %v", c.days, k, err)
		}
	}
	if _, err := keysOf(list[2:], &model.DNSSEC{}, at(0)); err == nil || !strings.Contains(err.Error(), "no KSK") {
		t.Errorf("without a KSK: %v", err)
	}
	if _, err := keysOf([]givenKey{list[0], list[3]}, &model.DNSSEC{}, at(0)); err == nil || !strings.Contains(err.Error(), "no ZSK") {
		t.Errorf("without a ZSK that is active: %v", err)
	}
	if k, err := keysOf(list[:1], &model.DNSSEC{}, at(0)); err != nil || !slices.Equal(k.Zone, []*dnssec.Key{ksk1}) {
		t.Errorf("one key for all: %+v, %v", k, err)
	}
}

// Keys of files sign, no others are made, and what is wrong with them changes
// nothing.
func TestGivenKeyFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := signedConfig(dir)
		k, err := dnssec.GenerateKey("example.com", dnssec.FlagsKSK, dnssec.ECDSAP256SHA256)
		if err != nil {
			t.Fatal(err)
		}
		if err := dnssec.WriteKey(dir, k, time.Now()); err != nil {
			t.Fatal(err)
		}
		c.Zones[0].DNSSECOptions.KeyFiles = []string{filepath.Join(dir, k.FileBase()+".private")}
		m := newForTest(quiet, dnssec.NewSigner(64), nil)
		defer m.Close()
		if err := m.Ensure(c, nil); err != nil {
			t.Fatal(err)
		}
		served := func() []byte {
			a, ok := m.Zone("example.com").Apex(48)
			if !ok || len(a.Data) != 1 {
				t.Fatalf("%+v", a)
			}
			return a.Data[0]
		}
		if !bytes.Equal(served(), k.Record()) {
			t.Error("another key is served")
		}
		if _, err := os.Stat(zoneDir(dir, "example.com")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("keys were made: %v", err)
		}
		other := signedConfig(dir)
		other.Zones[0].DNSSECOptions.KeyFiles = []string{filepath.Join(dir, "Kother.private")}
		if err := m.Ensure(other, nil); err == nil || !strings.Contains(err.Error(), `zone "example.com"`) {
			t.Errorf("a file that is not there: %v", err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !bytes.Equal(served(), k.Record()) {
			t.Error("another key is served")
		}
		if err := Ask(c, &c.Zones[0], RollZSK); err == nil {
			t.Error("keys of files are not rolled here")
		}
		m.Keep(&model.Config{}, nil)
		if m.Zone("example.com") != nil {
			t.Error("the zone is kept")
		}
	})
}
