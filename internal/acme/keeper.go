package acme

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"

	"fairlead/internal/telemetry"
)

// timing says when something is done.
type timing struct {
	// check is how often a certificate is looked at.
	check time.Duration
	// offline is how long to wait after each failure in a row to speak to the
	// authority, and refused after each of its refusals, of which authorities
	// allow few: Let's Encrypt, five failed validations of a name in an hour.
	// The last of a list holds for all after it.
	offline, refused []time.Duration
	// limited is the least after an answer that there were too many.
	limited time.Duration
	// unstapled is how often an OCSP response is asked for while there is none.
	unstapled time.Duration
}

var usualTiming = timing{
	check:   10 * time.Minute,
	offline: []time.Duration{15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute},
	refused: []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, time.Hour, 2 * time.Hour, 3 * time.Hour},
	limited: time.Hour, unstapled: time.Minute,
}

// after returns how long to wait after the n-th failure in a row, counted from 1.
func (t *timing) after(err error, n int) time.Duration {
	list := t.offline
	least := time.Duration(0)
	if problem := (acme.Problem{}); errors.As(err, &problem) {
		list = t.refused
		if problem.Type == acme.ProblemTypeRateLimited {
			least = t.limited
		}
	}
	return max(least, list[min(n, len(list))-1])
}

// jittered spreads times by a tenth, so that many names do not come at once.
func jittered(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// keeper keeps the certificate of one name.
type keeper struct {
	m     *Manager
	name  string
	setup *Setup
	end   context.CancelFunc
	done  chan struct{}

	*counts // of all who have kept the name

	mu       sync.Mutex // guards what follows
	notAfter time.Time  // of the certificate in use; zero while there is none
	serial   string     // of it
	kind     string     // of the last failure; "" after a success
	streak   int        // failures in a row
	failedAt time.Time  // the last time
}

type counts struct{ obtained, renewed, failed telemetry.Counter }

// keep starts to keep a name; the lock is held. old is who did so with another
// setup, or nil.
func (m *Manager) keep(name string, s *Setup, old *keeper) *keeper {
	ctx, end := context.WithCancel(m.ctx)
	k := &keeper{m: m, name: name, setup: s, end: end, done: make(chan struct{}), counts: new(counts)}
	if cert := m.Certificate(name); cert != nil {
		k.note(cert)
	}
	if old != nil {
		k.counts = old.counts
		old.end()
	}
	m.wg.Go(func() {
		defer close(k.done)
		defer end()
		if old != nil {
			<-old.done
		}
		k.run(ctx)
	})
	return k
}

// run looks after the certificate until ctx is done.
func (k *keeper) run(ctx context.Context) {
	for {
		select {
		case k.m.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		err := k.pass(ctx)
		<-k.m.slots
		if ctx.Err() != nil {
			return
		}
		wait := jittered(k.outcome(err))
		if cert := k.m.Certificate(k.name); cert != nil && err == nil {
			wait = min(wait, k.m.timing.staple(cert))
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// pass does whatever there is to do, once. Whatever comes of it, handshakes get the
// best certificate that there is.
func (k *keeper) pass(ctx context.Context) error {
	ctx = context.WithValue(ctx, attemptKey{}, k.attempt())
	err := k.manage(ctx)
	if err != nil && ctx.Err() == nil && k.discardBroken(ctx) {
		err = k.manage(ctx)
	}
	if ctx.Err() != nil {
		return err // the name may not be this keeper's any more
	}
	if cert := k.newest(); cert != nil {
		cert = k.setup.stapled(cert, k.m.Certificate(k.name))
		k.m.publish(ctx, k.name, cert)
		was, now := k.note(cert)
		if err == nil && was != now {
			counter, message := &k.obtained, "certificate obtained"
			if was != "" {
				counter, message = &k.renewed, "certificate renewed"
			}
			counter.Inc()
			k.m.log.Info(message, "name", k.name, "not_after", cert.Leaf.NotAfter)
		}
		if err == nil && mustStaple(cert.Leaf) && len(cert.OCSPStaple) == 0 {
			err = errNoStaple
		}
	}
	return err
}

// manage has certmagic load, obtain or renew the certificate.
func (k *keeper) manage(ctx context.Context) error {
	// What it has in its cache it would not look at again.
	k.setup.cache.RemoveManaged([]certmagic.SubjectIssuer{{Subject: k.name}})
	return k.setup.config.ManageSync(ctx, []string{k.name})
}

// newest returns the certificate that certmagic has in its cache.
func (k *keeper) newest() *tls.Certificate {
	var best *certmagic.Certificate
	for _, c := range k.setup.cache.AllMatchingCertificates(k.name) {
		if c.Leaf != nil && (best == nil || c.Leaf.NotAfter.After(best.Leaf.NotAfter)) {
			best = &c
		}
	}
	if best == nil {
		return nil
	}
	return &best.Certificate
}

// discardBroken removes what is stored if it can be read and means nothing, as
// after a disk was full: nothing else would ever replace it.
func (k *keeper) discardBroken(ctx context.Context) bool {
	issuer := k.setup.issuer.IssuerKey()
	cert, certErr := k.setup.storage.Load(ctx, certmagic.StorageKeys.SiteCert(issuer, k.name))
	key, keyErr := k.setup.storage.Load(ctx, certmagic.StorageKeys.SitePrivateKey(issuer, k.name))
	meta, metaErr := k.setup.storage.Load(ctx, certmagic.StorageKeys.SiteMeta(issuer, k.name))
	absent := 0
	for _, err := range []error{certErr, keyErr, metaErr} {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			absent++
		case err != nil:
			return false // it cannot be read now, which says nothing of it
		}
	}
	switch absent {
	case 3:
		return false
	case 0:
		if _, err := tls.X509KeyPair(cert, key); err == nil && json.Valid(meta) {
			return false
		}
	}
	if err := k.setup.storage.Delete(ctx, certmagic.StorageKeys.CertsSitePrefix(issuer, k.name)); err != nil {
		return false
	}
	k.m.log.Warn("stored certificate is not whole; it was removed, and another is obtained", "name", k.name)
	return true
}

// note remembers what is in use, and returns the serial numbers of what was and
// what is.
func (k *keeper) note(cert *tls.Certificate) (was, now string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	was = k.serial
	k.serial, k.notAfter = cert.Leaf.SerialNumber.Text(16), cert.Leaf.NotAfter
	return was, k.serial
}

// attemptKey is the key of the number of failures before an attempt.
type attemptKey struct{}

func (k *keeper) attempt() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.streak
}

// outcome notes how a pass ended, and returns how long to wait until the next. A
// failure is logged once, and again when it is of another kind.
func (k *keeper) outcome(err error) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		k.kind, k.streak = "", 0
		return k.m.timing.check
	}
	k.failed.Inc()
	k.streak++
	k.failedAt = time.Now()
	wait := k.m.timing.after(err, k.streak)
	kind := kindOf(err)
	log, message := k.m.client, "certificate cannot be obtained; it is tried again"
	if kind != k.kind {
		log = k.m.log
	}
	if !k.notAfter.IsZero() {
		message = "certificate cannot be renewed; the present one is used, and it is tried again"
	}
	k.kind = kind
	log.Error(message, "name", k.name, "error", reason(err), "retry_in", wait)
	return wait
}

// kindOf tells failures apart that a person would.
func kindOf(err error) string {
	var problem acme.Problem
	var network net.Error
	var file *fs.PathError
	switch {
	case errors.As(err, &problem):
		return problem.Type
	case errors.As(err, &file):
		return "storage"
	case errors.As(err, &network):
		return "network"
	case errors.Is(err, errNoStaple):
		return "staple"
	}
	return "other"
}

// maxReason bounds what is logged of a failure, of which others write a part.
const maxReason = 1024

func reason(err error) string {
	text := err.Error()
	if len(text) > maxReason {
		text = text[:maxReason] + "..."
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

var errNoStaple = errors.New("the certificate demands a stapled OCSP response, and none can be had: strict clients refuse it")
