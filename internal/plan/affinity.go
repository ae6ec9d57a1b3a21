package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"fairlead/internal/affinity"
	"fairlead/internal/model"
	"fairlead/internal/pick"
)

// Affinity is how the clients of a load balancer keep their endpoints.
type Affinity struct {
	Kind model.SessionAffinity
	// Balancer is the name that cookies are bound to.
	Balancer []byte
	// Keys seal cookies; nil for kinds without any.
	Keys *affinity.Keys
	// Headers make the key of a session, of kind header: one of them that is
	// there, or, with AllHeaders, all.
	Headers    []KeyHeader
	AllHeaders bool
	// TTL is how long a session lasts.
	TTL time.Duration
	// Renew gives a session a new end with each answer, with the endpoint that it
	// has: a rule has set TTL for those that it applies to, so that what they are
	// at can be finished.
	Renew    bool
	SameSite model.SameSite
	Secure   model.SecureCookie
	// Drain is how long sessions stay at an endpoint that was disabled or removed.
	Drain time.Duration
	// Failover says what becomes of a session whose endpoint fails.
	Failover model.ZeroDowntimeFailover

	endpoints map[uint64]*Endpoint
}

// KeyHeader is a header whose values are part of a session's key.
type KeyHeader struct {
	Name []byte // in lower case
	// Cookies are the names of those that count, of the header cookie; with none
	// all of it does.
	Cookies [][]byte
}

// Endpoint returns the endpoint with an identity, of a pool that the load balancer
// has; nil if there is none.
func (a *Affinity) Endpoint(identity uint64) *Endpoint { return a.endpoints[identity] }

// Cookie reports whether sessions are kept in a cookie.
func (a *Affinity) Cookie() bool { return hasCookie(a.Kind) }

// Remembers reports whether sessions are kept in a cookie or a table, so that they
// have an end of their own.
func (a *Affinity) Remembers() bool { return a.Cookie() || a.Kind == model.AffinityHeader }

func hasCookie(kind model.SessionAffinity) bool {
	return kind == model.AffinityCookie || kind == model.AffinityIPCookie
}

// keyHeader reads the name of a header, or cookie:NAME,NAME.
func keyHeader(s string) (h KeyHeader) {
	name, cookies, some := strings.Cut(s, ":")
	h.Name = []byte(strings.ToLower(name))
	if some {
		for cookie := range strings.SplitSeq(cookies, ",") {
			h.Cookies = append(h.Cookies, []byte(cookie))
		}
	}
	return h
}

// SessionIdentity returns what names an endpoint in sessions: its pool, its virtual
// network, if it is in one, and its host:port, so that a session is over once one of
// these is another's. What the endpoint is called is nothing to it.
func SessionIdentity(pool, network, address string) uint64 {
	return pick.HashKey(pool + "\x00" + network + "\x00" + address)
}

// SessionKeys returns the name of the file with the keys of cookies, and whether
// a load balancer needs it.
func SessionKeys(c *model.Config) (file string, needed bool) {
	_, needed = keysNeeded(c)
	return filepath.Join(c.DataDir, "session_keys"), needed
}

// keysNeeded returns the first setting that asks for sessions in cookies.
func keysNeeded(c *model.Config) (at model.Place, needed bool) {
	for i := range c.LoadBalancers {
		b := &c.LoadBalancers[i]
		if !b.Enabled || !b.Proxied { // DNS sets no cookies
			continue
		}
		at := model.Place{}.Key("load_balancers").Item(i, b.Name)
		if hasCookie(b.SessionAffinity) {
			return at.Key("session_affinity"), true
		}
		for j := range b.Rules {
			if o := b.Rules[j].Overrides; o != nil && hasCookie(o.SessionAffinity) {
				return at.Key("rules").Item(j, b.Rules[j].Name).Key("overrides").Key("session_affinity"), true
			}
		}
	}
	return model.Place{}, false
}

// CheckSessionKeys returns what is wrong with the file of the keys of cookies, if
// one is needed and there: whoever serves makes one that is missing.
func CheckSessionKeys(c *model.Config) []model.Problem {
	at, needed := keysNeeded(c)
	if !needed {
		return nil
	}
	file, _ := SessionKeys(c)
	_, err := affinity.LoadKeys(file)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return []model.Problem{{Path: at.Path, Text: fmt.Sprintf("%s: keys of session cookies: %v", at.Text, err)}}
}

// loadKeys loads the keys of cookies if they are needed.
func (k *compiler) loadKeys() (err error) {
	if k.keys = k.tables.Keys; k.keys != nil {
		return nil
	}
	if file, needed := SessionKeys(k.plan.Config); needed {
		if k.keys, err = affinity.LoadKeys(file); err != nil {
			return fmt.Errorf("keys of session cookies: %w", err)
		}
	}
	return nil
}

// affinity compiles how clients of b keep their endpoints.
func (k *compiler) affinity(b *LoadBalancer, m *model.LoadBalancer) {
	if m.SessionAffinity == model.AffinityNone || !m.Proxied && m.SessionAffinity != model.AffinityClientIP {
		return // DNS has no sessions: Answering.ByClient
	}
	details := &m.SessionAffinityAttributes
	b.Affinity = &Affinity{
		Kind: m.SessionAffinity, Balancer: []byte(b.Name), TTL: m.SessionAffinityTTL,
		SameSite: details.SameSite, Secure: details.Secure, Failover: details.ZeroDowntimeFailover,
		Drain: drain(m),
	}
	switch {
	case b.Affinity.Cookie():
		b.Affinity.Keys = k.keys
	case b.Affinity.Kind == model.AffinityHeader:
		b.Affinity.AllHeaders = details.RequireAllHeaders
		for _, h := range details.Headers {
			b.Affinity.Headers = append(b.Affinity.Headers, keyHeader(h))
		}
	default:
		return
	}
	b.Affinity.endpoints = make(map[uint64]*Endpoint)
	for p := range b.pools() {
		for _, e := range p.Endpoints {
			b.Affinity.endpoints[e.Session] = e
		}
	}
}
