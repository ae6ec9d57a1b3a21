package rules

import (
	"cmp"
	"net/netip"
	"slices"
)

// span is a range with both its ends.
type span[T any] struct{ low, high T }

// intSet holds integers as ranges that are sorted and do not meet.
type intSet struct{ spans []span[int64] }

func newIntSet(members []*literal) *intSet {
	spans := make([]span[int64], 0, len(members))
	for _, m := range members {
		spans = append(spans, span[int64]{m.num, m.numMax})
	}
	slices.SortFunc(spans, func(a, b span[int64]) int { return cmp.Compare(a.low, b.low) })
	kept := spans[:1]
	for _, s := range spans[1:] {
		last := &kept[len(kept)-1]
		// The difference cannot overflow where low is over high.
		if s.low <= last.high || s.low-1 == last.high {
			last.high = max(last.high, s.high)
			continue
		}
		kept = append(kept, s)
	}
	return &intSet{kept}
}

func (set *intSet) has(v int64) bool {
	i, j := 0, len(set.spans) // the first whose high is not under v
	for i < j {
		m := int(uint(i+j) / 2)
		if set.spans[m].high < v {
			i = m + 1
		} else {
			j = m
		}
	}
	return i < len(set.spans) && set.spans[i].low <= v
}

// ipSet holds addresses as ranges that are sorted and do not overlap, all of
// IPv4 before those of IPv6.
type ipSet struct{ spans []span[netip.Addr] }

func newIPSet(members []*literal) *ipSet {
	spans := make([]span[netip.Addr], 0, len(members))
	for _, m := range members {
		spans = append(spans, span[netip.Addr]{m.ip, m.ipMax})
	}
	slices.SortFunc(spans, func(a, b span[netip.Addr]) int { return a.low.Compare(b.low) })
	kept := spans[:1]
	for _, s := range spans[1:] {
		last := &kept[len(kept)-1]
		if !last.high.Less(s.low) {
			if last.high.Less(s.high) {
				last.high = s.high
			}
			continue
		}
		kept = append(kept, s)
	}
	return &ipSet{kept}
}

func (set *ipSet) has(v netip.Addr) bool {
	i, j := 0, len(set.spans)
	for i < j {
		m := int(uint(i+j) / 2)
		if set.spans[m].high.Less(v) {
			i = m + 1
		} else {
			j = m
		}
	}
	return i < len(set.spans) && !v.Less(set.spans[i].low)
}

// stringSet holds strings: a few one beside the other, as comparing is faster
// than hashing, more in a map.
type stringSet struct {
	few  []string
	many map[string]struct{}
}

const fewStrings = 8

func newStringSet(members []*literal) *stringSet {
	set := &stringSet{}
	for _, m := range members {
		if !slices.Contains(set.few, m.bytes) {
			set.few = append(set.few, m.bytes)
		}
		if len(set.few) > fewStrings {
			break
		}
	}
	if len(set.few) <= fewStrings {
		return set
	}
	set.few, set.many = nil, make(map[string]struct{}, len(members))
	for _, m := range members {
		set.many[m.bytes] = struct{}{}
	}
	return set
}

func (set *stringSet) has(v []byte) bool {
	if set.many != nil {
		_, ok := set.many[string(v)]
		return ok
	}
	for _, s := range set.few {
		if string(v) == s {
			return true
		}
	}
	return false
}
