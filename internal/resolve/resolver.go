package resolve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config is what a Resolver needs to know. The zero value asks the name
// servers of this machine.
type Config struct {
	// Servers are asked in this order. Default: those of ResolvConf, which is
	// not read when Servers is given; then there are no search domains.
	Servers []netip.AddrPort
	// ResolvConf names a file in the format of resolv.conf(5). Default
	// /etc/resolv.conf.
	ResolvConf string
	// HostsFile names a file in the format of hosts(5). Default /etc/hosts.
	HostsFile string
	// Log is told of changes. Default: nobody.
	Log *slog.Logger
	// MinTTL and MaxTTL bound the time between look-ups of a name, whatever
	// its TTL. Default 1s and 1h.
	MinTTL, MaxTTL time.Duration
	// FailureRetry is the pause after the first look-up that failed. It
	// doubles up to a minute. Default 5s.
	FailureRetry time.Duration
	// KeepNotFound is how long a name keeps its last addresses once servers
	// say that it has none. Default 10m.
	KeepNotFound time.Duration
}

const (
	maxAddresses    = 64               // of one name
	maxLookups      = 32               // at once
	maxFailureRetry = time.Minute      // pause between look-ups that fail
	lookupTimeout   = 20 * time.Second // for one look-up with all its attempts
	primeTimeout    = 5 * time.Second
)

// Resolver keeps names current.
type Resolver struct {
	cfg      Config
	log      *slog.Logger
	lookup   func(ctx context.Context, host string) answer
	routable func(netip.Addr) bool

	ctx    context.Context // of all look-ups; ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // of look-ups in flight
	slots  chan struct{}

	mu      sync.Mutex
	closed  bool
	entries map[string]*entry
	stats   Stats
}

// entry is what the resolver knows about one name. Its lock guards it.
type entry struct {
	name     *Name
	timer    *time.Timer
	dropped  bool
	families [2][]netip.Addr // IPv4 and IPv6, as last answered
	gone     time.Time       // when answers began to say that there are no addresses
	failures int             // look-ups in a row that failed
	trouble  string          // what was logged about look-ups: "" for all is well
	first    chan struct{}   // closed when the first look-up is over
}

// answer is what one look-up found, by family: IPv4 and IPv6.
type answer [2]family

// family is what a look-up found for one address family.
type family struct {
	addrs []netip.Addr
	ttl   time.Duration // of the addresses, or of the answer that there are none
	err   error         // nil, errNotFound, or why the look-up failed
}

// errNotFound means that a server has answered, and there are no addresses.
var errNotFound = errors.New("no such name, or no address of it")

// New returns a resolver that looks nothing up yet.
func New(cfg Config) *Resolver {
	c := newClient(cfg)
	return newResolver(cfg, c.lookup, routable)
}

// newResolver lets tests bring the network.
func newResolver(cfg Config, lookup func(context.Context, string) answer, routable func(netip.Addr) bool) *Resolver {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&cfg.MinTTL, time.Second)
	def(&cfg.MaxTTL, time.Hour)
	def(&cfg.FailureRetry, 5*time.Second)
	def(&cfg.KeepNotFound, 10*time.Minute)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Resolver{
		cfg: cfg, log: cfg.Log, lookup: lookup, routable: routable,
		slots: make(chan struct{}, maxLookups), entries: make(map[string]*entry),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Close ends all look-ups and waits for them. Names keep their addresses.
func (r *Resolver) Close() {
	r.mu.Lock()
	r.closed = true
	for _, e := range r.entries {
		e.drop()
	}
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
}

// Name returns the name of host, which all who ask for it share, and starts
// looking it up if nobody has asked before. A trailing dot keeps search
// domains out.
func (r *Resolver) Name(host string) *Name {
	host = strings.ToLower(host)
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[host]; e != nil {
		return e.name
	}
	e := &entry{name: &Name{Host: host}, first: make(chan struct{})}
	r.entries[host] = e
	if fixed := withoutLookup(host); fixed != nil {
		e.name.set.Store(&fixed)
		close(e.first)
	} else if !r.closed {
		r.wakeIn(e, 0)
	}
	return e.name
}

// withoutLookup returns the addresses of what needs no look-up: an address,
// and localhost, which RFC 6761 wants nobody to be asked about.
func withoutLookup(host string) []netip.Addr {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}
	}
	h := strings.TrimSuffix(host, ".")
	if h == "localhost" || strings.HasSuffix(h, ".localhost") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	return nil
}

// Keep stops looking up the names for which used is false and forgets them.
// Who still holds one keeps its last addresses.
func (r *Resolver) Keep(used func(host string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for host, e := range r.entries {
		if !used(host) {
			e.drop()
			delete(r.entries, host)
		}
	}
}

// Prime waits until the first look-up of each name is over, whatever it
// found, for five seconds at most.
func (r *Resolver) Prime(ctx context.Context, names ...*Name) {
	ctx, cancel := context.WithTimeout(ctx, primeTimeout)
	defer cancel()
	for _, n := range names {
		r.mu.Lock()
		e := r.entries[n.Host]
		r.mu.Unlock()
		if e == nil {
			continue
		}
		select {
		case <-e.first:
		case <-ctx.Done():
			return
		case <-r.ctx.Done():
			return
		}
	}
}

// Stats counts what a resolver does.
type Stats struct {
	Names    int
	Found    uint64 // look-ups that gave addresses
	NotFound uint64 // look-ups that said there are none
	Failed   uint64 // look-ups that failed
}

// Stats returns the counts of this moment.
func (r *Resolver) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Names = len(r.entries)
	return s
}

// drop ends the look-ups of a name; the lock is held.
func (e *entry) drop() {
	e.dropped = true
	if e.timer != nil {
		e.timer.Stop()
	}
}

// wakeIn sets when a name is looked up next; the lock is held.
func (r *Resolver) wakeIn(e *entry, d time.Duration) {
	if e.timer == nil {
		e.timer = time.AfterFunc(d, func() { r.update(e) })
	} else {
		e.timer.Reset(d)
	}
}

// update looks a name up once.
func (r *Resolver) update(e *entry) {
	r.mu.Lock()
	if r.closed || e.dropped {
		r.mu.Unlock()
		return
	}
	r.wg.Add(1)
	r.mu.Unlock()
	defer r.wg.Done()

	select {
	case r.slots <- struct{}{}:
	case <-r.ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, lookupTimeout)
	a := r.lookup(ctx, e.name.Host)
	cancel()
	a = r.usable(a)
	<-r.slots

	r.mu.Lock()
	defer r.mu.Unlock()
	if e.dropped {
		return
	}
	r.wakeIn(e, r.apply(e, a, time.Now()))
	select {
	case <-e.first:
	default:
		close(e.first)
	}
}

// usable leaves out the addresses that no connection can be made to, unless
// none would be left.
func (r *Resolver) usable(a answer) answer {
	var b answer
	found := 0
	for i, f := range a {
		b[i] = f
		b[i].addrs = slices.DeleteFunc(slices.Clone(f.addrs), func(a netip.Addr) bool { return !r.routable(a) })
		found += len(b[i].addrs)
	}
	if found == 0 {
		return a
	}
	return b
}

// apply makes a look-up's answer the state of a name and returns when to look
// it up next; the lock is held.
func (r *Resolver) apply(e *entry, a answer, now time.Time) time.Duration {
	var failed error
	ttl := r.cfg.MaxTTL    // of addresses
	absent := r.cfg.MaxTTL // of the answer that there are none
	found := false
	for _, f := range a {
		switch {
		case f.err == nil:
			found = true
			ttl = min(ttl, f.ttl)
		case errors.Is(f.err, errNotFound):
			absent = min(absent, f.ttl)
		default:
			failed = f.err
		}
	}
	switch {
	case found:
		for i, f := range a {
			if f.err == nil || errors.Is(f.err, errNotFound) {
				e.families[i] = f.addrs
			}
		}
		e.gone, e.failures = time.Time{}, 0
		r.stats.Found++
		r.tell(e, "", nil)
		r.set(e, slices.Concat(e.families[0], e.families[1]))
		if failed != nil {
			ttl = min(ttl, r.cfg.FailureRetry)
		}
		return max(ttl, r.cfg.MinTTL)

	case failed != nil:
		pause := min(r.cfg.FailureRetry<<min(e.failures, 16), max(maxFailureRetry, r.cfg.FailureRetry))
		e.failures++
		r.stats.Failed++
		r.tell(e, "failed", failed)
		return pause

	default:
		e.failures = 0
		r.stats.NotFound++
		r.tell(e, "not found", errNotFound)
		next := max(min(absent, maxFailureRetry), r.cfg.FailureRetry)
		if len(e.name.Addresses()) == 0 {
			return next
		}
		if e.gone.IsZero() {
			e.gone = now
		}
		if left := e.gone.Add(r.cfg.KeepNotFound).Sub(now); left > 0 {
			return min(next, left)
		}
		e.families = [2][]netip.Addr{}
		r.set(e, nil)
		return next
	}
}

// tell logs what is wrong with the look-ups of a name when that changes.
func (r *Resolver) tell(e *entry, trouble string, err error) {
	switch {
	case e.trouble == trouble:
	case trouble == "":
		r.log.Info("host name resolved again", "host", e.name.Host)
	default:
		r.log.Warn("host name not resolved", "host", e.name.Host, "error", err.Error(), "kept", len(e.name.Addresses()))
	}
	e.trouble = trouble
}

// set publishes the addresses of a name, sorted, each once.
func (r *Resolver) set(e *entry, addrs []netip.Addr) {
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	if len(addrs) > maxAddresses {
		addrs = addrs[:maxAddresses]
	}
	addrs = slices.Clip(addrs)
	if slices.Equal(addrs, e.name.Addresses()) {
		return
	}
	e.name.set.Store(&addrs)
	r.log.Info("endpoint addresses changed", "host", e.name.Host, "addresses", addrs)
}

// routable reports whether this machine has a route to an address. Connecting
// a datagram socket asks the kernel and sends nothing.
func routable(a netip.Addr) bool {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 9)))
	if err != nil {
		return false
	}
	c.Close()
	return true
}
