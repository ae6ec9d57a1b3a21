package dnssec

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"fairlead/internal/dnswire"
	"fairlead/internal/telemetry"
)

// Reasons why there is no signature.
var (
	// ErrBusy says that more new signatures are wanted than the zone's limit
	// allows. Over UDP the response should be empty and truncated, so that whoever
	// did not make up its address asks again over TCP; there it is SERVFAIL.
	ErrBusy = errors.New("too many new signatures are wanted: the limit of the zone is reached")
	// ErrNoKeys says that the zone has no keys yet.
	ErrNoKeys = errors.New("the zone has no keys")
)

const (
	// backdate makes signatures valid before they are made, for validators whose
	// clocks are behind.
	backdate = time.Hour
	// slack is how far the clock of this node may go back before what it has
	// signed is signed again.
	slack = backdate / 2
)

// Signer signs for the zones of one node.
type Signer struct {
	cache *cache
	zones atomic.Uint64 // made so far
	works atomic.Uint64 // made so far
	count [countShards]counts
}

// countShards is how many goroutines count apart from each other.
const countShards = 64

// DefaultCacheSize is for how many answers signatures are kept. One takes about 400
// bytes.
const DefaultCacheSize = 1 << 16

// NewSigner returns a signer that keeps about size signatures; 0 means
// DefaultCacheSize.
func NewSigner(size int) *Signer {
	if size == 0 {
		size = DefaultCacheSize
	}
	return &Signer{cache: newCache(size)}
}

// counts is what goroutines have counted.
type counts struct {
	hits, misses telemetry.Counter
	_            [48]byte // other shards are written by other processors
}

// NewWork returns memory to sign in for a goroutine.
func (s *Signer) NewWork() *Work {
	return &Work{count: &s.count[s.works.Add(1)%countShards]}
}

// Options are the settings of a zone. Zero values mean the defaults.
type Options struct {
	// Validity is how long a signature is valid from when it is made. Default 14
	// days.
	Validity time.Duration
	// Limit is how many answers per second that were never given before are
	// signed. Default 5000.
	Limit int
}

func (o Options) withDefaults() Options {
	if o.Validity == 0 {
		o.Validity = 14 * 24 * time.Hour
	}
	if o.Limit == 0 {
		o.Limit = 5000
	}
	return o
}

// Zone signs for one zone.
type Zone struct {
	signer  *Signer
	name    []byte // wire form, lower case
	text    string
	salt    uint64 // tells the sets of zones apart in the cache
	options atomic.Pointer[Options]
	keys    atomic.Pointer[keySet]

	allowed atomic.Int64 // when the limit is reached no more; see admit

	changing sync.Mutex // serialises SetKeys
	longest  atomic.Uint32
	made     [len(causes)]telemetry.Counter
	refused  telemetry.Counter
}

// causes are the reasons for which signatures are made.
var causes = [...]string{"new_answer", "refresh", "new_keys"}

const (
	causeNew = iota
	causeRefresh
	causeKeys
)

// NewZone returns a zone that has no keys yet.
func (s *Signer) NewZone(name string, o Options) (*Zone, error) {
	wire, err := WireName(name)
	if err != nil {
		return nil, err
	}
	z := &Zone{signer: s, name: wire, text: name, salt: s.zones.Add(1) * 0x9e3779b97f4a7c15}
	z.SetOptions(o)
	return z, nil
}

// SetOptions changes the settings.
func (z *Zone) SetOptions(o Options) {
	o = o.withDefaults()
	z.options.Store(&o)
}

// Keys says which keys a zone has and what for.
type Keys struct {
	// Published are all keys in the DNSKEY record set.
	Published []*Key
	// Key are those that sign the DNSKEY, CDS and CDNSKEY records, Zone those that
	// sign everything else.
	Key, Zone []*Key
	// TTL is that of the three record sets at the apex.
	TTL uint32
	// Announce are the keys that CDS and CDNSKEY ask the parent to point to: none
	// makes no such records. Withdraw asks it to point to none (RFC 8078 section
	// 4).
	Announce []*Key
	Withdraw bool
}

// keySet is Keys made ready. It is never written once it is stored.
type keySet struct {
	key, zone *signers
	before    *signers // whose signatures hold as well, while they are made anew
	apex      [3]Apex  // DNSKEY, CDS, CDNSKEY
}

// signers are the keys that a signature is made with. Who they are is told by the
// pointer.
type signers struct{ keys []*Key }

func (s *signers) same(keys []*Key) bool {
	if s == nil || len(s.keys) != len(keys) {
		return false
	}
	for i, k := range keys {
		if !bytes.Equal(s.keys[i].record, k.record) {
			return false
		}
	}
	return true
}

// Apex is a record set that the keys of a zone make. It is not to be written to.
type Apex struct {
	Type dnswire.Type
	TTL  uint32
	Data [][]byte
}

// Apex returns the DNSKEY, CDS or CDNSKEY records of the zone, and false when there
// are none.
func (z *Zone) Apex(kind dnswire.Type) (*Apex, bool) {
	ks := z.keys.Load()
	if ks == nil {
		return nil, false
	}
	for i := range ks.apex {
		if a := &ks.apex[i]; a.Type == kind {
			return a, len(a.Data) > 0
		}
	}
	return nil, false
}

// SetKeys makes k the keys of the zone. When the keys that sign the zone are others
// than before, it returns once what is in the cache is signed by them: until then
// signatures of those before are given, so that nobody waits. They must still be
// published.
func (z *Zone) SetKeys(k Keys) error {
	z.changing.Lock()
	defer z.changing.Unlock()
	if len(k.Key) == 0 || len(k.Zone) == 0 {
		return fmt.Errorf("zone %s: %w", z.text, ErrNoKeys)
	}
	old := z.keys.Load()
	ks := &keySet{key: &signers{k.Key}, zone: &signers{k.Zone}, apex: apexOf(k)}
	if old != nil {
		if old.key.same(k.Key) {
			ks.key = old.key
		}
		if old.zone.same(k.Zone) {
			ks.zone = old.zone
		} else {
			ks.before = old.zone
		}
	}
	z.keys.Store(ks)
	if ks.before == nil {
		return nil
	}
	now := time.Now()
	z.signer.cache.all(func(e *entry, replace func(*entry)) {
		if e.zone == z && e.by == ks.before {
			replace(z.again(e, ks.zone, now, causeKeys))
		}
	})
	only := *ks
	only.before = nil
	z.keys.Store(&only)
	return nil
}

func apexOf(k Keys) [3]Apex {
	apex := [3]Apex{{Type: dnswire.TypeDNSKEY}, {Type: dnswire.TypeCDS}, {Type: dnswire.TypeCDNSKEY}}
	for i := range apex {
		apex[i].TTL = k.TTL
	}
	for _, key := range k.Published {
		apex[0].Data = append(apex[0].Data, key.record)
	}
	if k.Withdraw {
		apex[1].Data = [][]byte{{0, 0, 0, 0, 0}}
		apex[2].Data = [][]byte{{0, 0, 3, 0, 0}}
		return apex
	}
	for _, key := range k.Announce {
		// One digest: parents take the record over as it is, and SHA-256 is the
		// one that all must know (RFC 8624).
		ds, _ := key.DS(DigestSHA256)
		apex[1].Data = append(apex[1].Data, ds.Data())
		apex[2].Data = append(apex[2].Data, key.record)
	}
	return apex
}

// Sign returns the data of the RRSIG records of a set, one for each key that signs
// it. It is not to be written to. Nothing is allocated when the signature is known.
func (z *Zone) Sign(w *Work, set *RRset, now time.Time) ([][]byte, error) {
	canon := w.canonical(set)
	ks := z.keys.Load()
	if ks == nil {
		return nil, ErrNoKeys
	}
	by := ks.signersOf(set.Type)
	hash := z.signer.cache.hash(z, canon)
	if e := z.signer.cache.get(hash, z, canon); e != nil && (e.by == by || e.by == ks.before && ks.before != nil && by == ks.zone) && e.good(now) {
		w.count.hits.Inc()
		return e.data, nil
	}
	w.count.misses.Inc()
	if !z.admit(now) {
		z.refused.Inc()
		return nil, ErrBusy
	}
	if len(set.Data) == 0 || !bytes.HasSuffix(canon[:len(set.Owner)], z.name) {
		return nil, fmt.Errorf("zone %s: defect: asked to sign %d records of %s", z.text, len(set.Data), textName(set.Owner))
	}
	for _, data := range set.Data {
		if len(data) > 0xffff {
			return nil, fmt.Errorf("zone %s: defect: a record of %d bytes at %s", z.text, len(data), textName(set.Owner))
		}
	}
	e, err := z.sign(hash, append([]byte(nil), canon...), set.Type, by, now, causeNew)
	if err != nil {
		return nil, err
	}
	z.signer.cache.put(e)
	return e.data, nil
}

// signersOf returns who signs sets of a type.
func (ks *keySet) signersOf(kind dnswire.Type) *signers {
	switch kind {
	case dnswire.TypeDNSKEY, dnswire.TypeCDS, dnswire.TypeCDNSKEY:
		return ks.key
	}
	return ks.zone
}

// admit counts a new signature against the limit, which is one second's worth at
// once (GCRA).
func (z *Zone) admit(now time.Time) bool {
	each := int64(time.Second) / int64(z.options.Load().Limit)
	t := now.UnixNano()
	for {
		old := z.allowed.Load()
		if old > t+2*int64(time.Second) {
			// The clock was set back: what was counted in what is now the future
			// would refuse everything until then.
			if z.allowed.CompareAndSwap(old, t) {
				return true
			}
			continue
		}
		next := max(old, t) + each
		if next-t > int64(time.Second)+each {
			return false
		}
		if z.allowed.CompareAndSwap(old, next) {
			return true
		}
	}
}

// sign makes the signatures of a set in canonical form, which it keeps.
func (z *Zone) sign(hash uint64, canon []byte, kind dnswire.Type, by *signers, now time.Time, cause int) (*entry, error) {
	n, err := nameLength(canon)
	if err != nil {
		return nil, err
	}
	owner := canon[:n]
	ttl := binary.BigEndian.Uint32(canon[n+4:])
	for old := z.longest.Load(); ttl > old && !z.longest.CompareAndSwap(old, ttl); old = z.longest.Load() {
	}
	validity := z.options.Load().Validity
	// Spread, so that what was signed together does not expire together.
	expire := now.Add(validity - rand.N(validity/16+1))
	e := &entry{
		hash: hash, zone: z, canon: canon, kind: kind, by: by,
		from: now.Add(-slack).Unix(),
		// A cache that does not validate hands signatures on for as long as the TTL
		// says; they must hold for that long.
		until: expire.Add(-time.Duration(ttl)*time.Second - 5*time.Minute).Unix(),
	}
	ahead := max(validity/4, time.Hour)
	e.renew = max(now.Unix(), e.until-int64(ahead/time.Second))
	for _, k := range by.keys {
		data := k.rrsig(owner, kind, ttl, now.Add(-backdate), expire)
		message := append(append(make([]byte, 0, len(data)+len(canon)), data...), canon...)
		if data, err = k.sign(data, message); err != nil {
			return nil, fmt.Errorf("zone %s: key %d: %w", z.text, k.tag, err)
		}
		e.data = append(e.data, data)
		z.made[cause].Inc()
	}
	return e, nil
}

// rrsig returns the data of an RRSIG record up to its signature, which has room.
func (k *Key) rrsig(owner []byte, kind dnswire.Type, ttl uint32, inception, expire time.Time) []byte {
	data := make([]byte, 0, 18+len(k.zone)+64)
	data = binary.BigEndian.AppendUint16(data, uint16(kind))
	data = append(data, byte(k.algorithm), labels(owner))
	data = binary.BigEndian.AppendUint32(data, ttl)
	data = binary.BigEndian.AppendUint32(data, uint32(expire.Unix()))
	data = binary.BigEndian.AppendUint32(data, uint32(inception.Unix()))
	data = binary.BigEndian.AppendUint16(data, k.tag)
	return append(data, k.zone...)
}

// again signs anew what an entry holds; nil if that fails.
func (z *Zone) again(e *entry, by *signers, now time.Time, cause int) *entry {
	fresh, err := z.sign(e.hash, e.canon, e.kind, by, now, cause)
	if err != nil {
		return nil // the next who asks is told why
	}
	fresh.used.Store(cause == causeKeys && e.used.Load())
	return fresh
}

// LongestTTL returns the greatest TTL that was ever signed: for that long after a
// key has signed last, its signatures may be in caches.
func (z *Zone) LongestTTL() time.Duration { return time.Duration(z.longest.Load()) * time.Second }

// refreshInterval is how often signatures are looked through for those that are to
// be made again.
const refreshInterval = 30 * time.Second

// Run makes signatures that were used anew ahead of their expiry, and removes those
// that nobody wants, until ctx is done.
func (s *Signer) Run(ctx context.Context) {
	t := time.NewTicker(refreshInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.refresh(ctx, time.Now())
		}
	}
}

func (s *Signer) refresh(ctx context.Context, now time.Time) {
	s.cache.all(func(e *entry, replace func(*entry)) {
		ks := e.zone.keys.Load()
		by := ks.signersOf(e.kind)
		switch {
		case ctx.Err() != nil:
		case e.by != by && e.by != ks.before, !e.used.Load() && now.Unix() >= e.renew:
			replace(nil)
		case now.Unix() >= e.renew, now.Unix() < e.from:
			replace(e.zone.again(e, by, now, causeRefresh))
			runtime.Gosched() // this is nothing that queries should wait for
		}
	})
}

// Forget removes what is kept for a zone that is not served any more.
func (s *Signer) Forget(z *Zone) {
	s.cache.all(func(e *entry, replace func(*entry)) {
		if e.zone == z {
			replace(nil)
		}
	})
}
