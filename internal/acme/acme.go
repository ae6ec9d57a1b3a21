// Package acme obtains certificates for names and renews them (ACME, RFC 8555).
//
// A [Manager] keeps each name by a goroutine of its own: it loads what is stored,
// obtains what is not, renews when the authority suggests it (ARI, RFC 9773) or a
// third of the lifetime is left, keeps the OCSP response current, and tries again
// what failed, less and less often. certmagic has the files, their format and the
// decisions about them; the conversation with the authority is acmez's, which
// certmagic uses as well. What certmagic has beyond that opens ports of its own to
// be validated, asks a person on standard input, and keeps settings for the whole
// process, so that its place is taken by issuer here.
//
// Handshakes run on event loops, where nothing may wait. Certificates and
// challenges are read from memory, through one atomic pointer each
// ([Manager.Certificate], [Manager.Challenge], [Manager.HTTPChallenge]), and never
// from certmagic's cache, whose lock is held while files are read.
//
// A new configuration is prepared first ([Manager.Prepare]), which reads files and
// speaks to nobody, and used once listeners are open ([Manager.Use]): the
// authority asks them for the proof.
package acme

import (
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"

	"fairlead/internal/model"
	"fairlead/internal/telemetry"
)

// Manager obtains the certificates of one node.
type Manager struct {
	log    *slog.Logger
	timing timing
	client *slog.Logger // for libraries, which tell every step

	// What handshakes and requests read. The maps are never written once they
	// are stored.
	current    atomic.Pointer[map[string]shown]
	challenges atomic.Pointer[challenges]
	answered   [2]telemetry.Counter // challenges, by kind

	offerHTTP atomic.Bool   // there is a listener that can answer HTTP-01
	slots     chan struct{} // of work that goes on at a time

	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	// passive are the newest settings that speak to nobody. certmagic's cache
	// asks for them under its own lock, which is waited for under mu.
	passive atomic.Pointer[certmagic.Config]

	mu       sync.Mutex // guards what follows, and changes of the pointers above
	setup    *Setup     // in use
	keepers  map[string]*keeper
	cache    *certmagic.Cache // nil until it is needed
	cleaning bool             // clean runs
	closed   bool
}

// New returns a manager that keeps nothing.
func New(log *slog.Logger) *Manager { return newForTest(log, usualTiming) }

func newForTest(log *slog.Logger, t timing) *Manager {
	m := &Manager{
		log: log, client: quiet(log), timing: t, slots: make(chan struct{}, maxAtOnce),
		keepers: make(map[string]*keeper),
	}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.current.Store(new(map[string]shown))
	m.challenges.Store(new(challenges))
	return m
}

// maxAtOnce is for how many names something is done at a time.
const maxAtOnce = 16

// Certificate returns the certificate of a name in lower case, or nil as long as
// there is none.
func (m *Manager) Certificate(name string) *tls.Certificate {
	c := (*m.current.Load())[name]
	if c.bare != nil && !time.Now().Before(c.until) {
		return c.bare
	}
	return c.cert
}

// publish makes cert what handshakes for a name find, unless whoever keeps it has
// been told to end, which is done under the lock.
func (m *Manager) publish(ctx context.Context, name string, cert *tls.Certificate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() == nil {
		m.publishLocked(map[string]*tls.Certificate{name: cert})
	}
}

// publishLocked changes what handshakes find; nil takes a name away.
func (m *Manager) publishLocked(changes map[string]*tls.Certificate) {
	next := maps.Clone(*m.current.Load())
	if next == nil {
		next = make(map[string]shown)
	}
	for name, cert := range changes {
		if cert == nil {
			delete(next, name)
		} else {
			next[name] = show(cert)
		}
	}
	m.current.Store(&next)
}

// Use puts a setup in force: names that it does not have are given up, and those
// that are new, or whose authority is another, begin to be kept. Others are not
// disturbed.
func (m *Manager) Use(s *Setup) {
	m.offerHTTP.Store(s.http)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx.Err() != nil {
		return
	}
	another := m.setup == nil || m.setup.config != s.config
	m.setup = s
	gone := make(map[string]*tls.Certificate)
	for name := range *m.current.Load() {
		if !s.has(name) {
			gone[name] = nil
		}
	}
	for name, k := range m.keepers {
		if !s.has(name) {
			k.end()
			delete(m.keepers, name)
		}
	}
	for _, name := range s.names {
		old := m.keepers[name]
		if old == nil || another {
			m.keepers[name] = m.keep(name, s, old)
		}
	}
	if len(gone) > 0 {
		m.publishLocked(gone)
	}
	if len(s.names) > 0 && !m.cleaning {
		m.cleaning = true
		m.wg.Go(m.clean)
	}
}

// Preload makes the certificates that a setup has found in files known to
// handshakes, so that listeners which open have them. It takes nothing away.
func (m *Manager) Preload(s *Setup) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changes := make(map[string]*tls.Certificate)
	for name, cert := range s.stored {
		if m.Certificate(name) == nil {
			changes[name] = cert
		}
	}
	if len(changes) > 0 {
		m.publishLocked(changes)
	}
}

// closeWithin bounds how long Close waits. certmagic fetches OCSP responses
// without a context, for up to 30 s; a process that ends need not wait for that.
const closeWithin = 2 * time.Second

// Close ends everything that goes on.
func (m *Manager) Close() {
	m.stop()
	done := make(chan struct{})
	go func() {
		m.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(closeWithin):
		m.log.Debug("what is under way with the authority of certificates is left to itself")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.closed = true
	if m.cache != nil {
		m.cache.Stop()
	}
	if m.setup != nil && m.setup.issuer != nil {
		m.setup.issuer.http.CloseIdleConnections()
	}
}

// clean removes, once a day, what is stored and of no use to anybody.
func (m *Manager) clean() {
	const (
		every = 24 * time.Hour
		grace = 30 * 24 * time.Hour
	)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-t.C:
		}
		m.mu.Lock()
		storage := m.setup.storage
		m.mu.Unlock()
		if storage != nil {
			m.cleanOnce(storage, grace)
		}
	}
}

// cleanOnce removes certificates that have been expired for a while, as those of
// names that are kept no more, and OCSP responses that are over.
func (m *Manager) cleanOnce(storage certmagic.Storage, grace time.Duration) {
	err := certmagic.CleanStorage(m.ctx, storage, certmagic.CleanStorageOptions{
		Logger: zapLogger(m.client), OCSPStaples: true, ExpiredCerts: true, ExpiredCertGracePeriod: grace,
	})
	if err != nil {
		m.log.Warn("old certificates cannot be removed", "error", err)
	}
}

// names returns the names whose certificates c asks for, sorted.
func names(c *model.Config) []string {
	var list []string
	for i := range c.Listeners {
		for _, name := range c.Listeners[i].ACME {
			list = append(list, model.CanonicalHost(name))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
