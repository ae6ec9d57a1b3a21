package keyring

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"fairlead/internal/dnssec"
	"fairlead/internal/model"
)

// givenKey is a key from a file, with the times that the file has.
type givenKey struct {
	key   *dnssec.Key
	times dnssec.Times
}

// readGiven reads the keys of a zone from files.
func readGiven(files []string, zone string) (list []givenKey, err error) {
	for _, file := range files {
		k, times, err := dnssec.ReadKey(file)
		if err != nil {
			return nil, err
		}
		if k.Zone() != zone {
			return nil, fmt.Errorf("%s: a key of the zone %q: want one of %q", file, k.Zone(), zone)
		}
		list = append(list, givenKey{k, times})
	}
	return list, nil
}

// within reports whether now lies from one time on to another; one that is zero is
// no bound.
func within(now, from, to time.Time) bool {
	return !now.Before(from) && (to.IsZero() || now.Before(to))
}

// keysOf returns what given keys are used for now. Without a ZSK the KSK signs all
// records (RFC 6781 section 3.1), as with combined signing keys.
func keysOf(list []givenKey, o *model.DNSSEC, now time.Time) (dnssec.Keys, error) {
	out := dnssec.Keys{TTL: uint32(o.DNSKEYTTL / time.Second), Withdraw: o.Withdraw}
	var algorithms []dnssec.Algorithm
	for _, g := range list {
		t := g.times
		if !within(now, t.Publish, t.Delete) {
			continue
		}
		out.Published = append(out.Published, g.key)
		if !slices.Contains(algorithms, g.key.Algorithm()) {
			algorithms = append(algorithms, g.key.Algorithm())
		}
		active := within(now, t.Activate, t.Inactive)
		switch {
		case active && g.key.KSK():
			out.Key = append(out.Key, g.key)
		case active:
			out.Zone = append(out.Zone, g.key)
		}
		if g.key.KSK() && active && within(now, t.SyncPublish, t.SyncDelete) {
			out.Announce = append(out.Announce, g.key)
		}
	}
	if len(out.Zone) == 0 && !slices.ContainsFunc(list, func(g givenKey) bool { return !g.key.KSK() }) {
		out.Zone = out.Key
	}
	switch {
	case len(algorithms) > 1:
		return out, fmt.Errorf("keys of %v and %v: a zone is signed with one algorithm", algorithms[0], algorithms[1])
	case len(out.Key) == 0:
		return out, errors.New("no KSK (flags 257) among key_files is published and active now: look at its times with dnssec-settime -p all")
	case len(out.Zone) == 0:
		return out, errors.New("no ZSK (flags 256) among key_files is published and active now: look at its times with dnssec-settime -p all")
	}
	return out, nil
}
