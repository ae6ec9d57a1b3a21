package httplb

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"fairlead/internal/affinity"
	"fairlead/internal/h1"
	"fairlead/internal/h2"
	"fairlead/internal/h3"
	"fairlead/internal/plan"
	"fairlead/internal/telemetry"
)

// limit names a bound on clients; each has a counter.
type limit int

const (
	limitConnections limit = iota
	limitPerClient
	limitAfterFlood
	limitHeaderBytes
	limitHeaderCount
	limitHeaderTimeout
	limitHandshake
	limitIdleTimeout
	limitBodyTimeout
	limitSendTimeout
	limitUpgradeIdle
	limitStreams
	limits
)

func (l limit) String() string {
	return [...]string{"connections", "connections_per_client", "connections_after_flood", "header_bytes", "header_count", "header_timeout", "tls_handshake_timeout",
		"idle_timeout", "body_timeout", "send_timeout", "upgrade_idle_timeout", "concurrent_streams"}[l]
}

// classes counts answers by the first digit of their status; 0 is none.
type classes [10]telemetry.Counter

// listenerStats counts what one listener does.
type listenerStats struct {
	accepted   telemetry.Counter
	open       telemetry.Gauge
	upgraded   telemetry.Gauge
	handshakes telemetry.Counter // failed ones
	preambles  telemetry.Counter // failed headers of the PROXY protocol
	bytesIn    telemetry.Counter
	bytesOut   telemetry.Counter
	panics     telemetry.Counter
	classes    classes // of requests for no load balancer
	limits     [limits]telemetry.Counter
	failures   []telemetry.Counter // by failure.kind
	http2      [h2.Events]telemetry.Counter
	http3      [h3.Events]telemetry.Counter
	http3Open  telemetry.Gauge
	malformed  malformed
}

func (s *listenerStats) init() { s.failures = make([]telemetry.Counter, len(failures)) }

// malformed counts refused messages by reason.
type malformed struct {
	mu    sync.Mutex
	count map[string]uint64
}

func (m *malformed) countReason(e *h1.Error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count == nil {
		m.count = make(map[string]uint64)
	}
	m.count[e.Reason]++
}

// counts returns a copy: nobody who refuses a request waits for who reads it.
func (m *malformed) counts() map[string]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.count)
}

// countRefused counts a request that could not be read.
func (s *listenerStats) countRefused(e *h1.Error) {
	s.malformed.countReason(e)
	switch e {
	case h1.ErrHeadLong, h1.ErrTargetLong:
		s.limits[limitHeaderBytes].Inc()
	case h1.ErrTooManyFields:
		s.limits[limitHeaderCount].Inc()
	}
}

// countHTTP2 counts what an HTTP/2 connection tells.
func (s *listenerStats) countHTTP2(e h2.Event) {
	s.http2[e].Inc()
	switch e { // where HTTP/1.1 has the same bound
	case h2.EventRefused:
		s.limits[limitStreams].Inc()
	case h2.EventHeaderTimeout:
		s.limits[limitHeaderTimeout].Inc()
	case h2.EventIdleTimeout:
		s.limits[limitIdleTimeout].Inc()
	}
}

// countHTTP3 counts what an HTTP/3 connection tells.
func (s *listenerStats) countHTTP3(e h3.Event) {
	s.http3[e].Inc()
	switch e { // where HTTP/1.1 has the same bound, or HTTP/2
	case h3.EventStreamLimit:
		s.limits[limitStreams].Inc()
	case h3.EventHeaderTimeout:
		s.limits[limitHeaderTimeout].Inc()
	case h3.EventIdleTimeout:
		s.limits[limitIdleTimeout].Inc()
	}
}

// What becomes of the session of a request.
const (
	sessionNone  = iota // it has none, for want of what makes its key
	sessionNew          // one begins
	sessionKept         // it goes to its session's endpoint
	sessionMoved        // that cannot be used, or sheds it
	sessionKinds
)

var sessionKindNames = [...]string{"none", "new", "kept", "moved"}

// balancerStats counts the requests of one load balancer.
type balancerStats struct {
	name       string
	requests   telemetry.Counter
	classes    classes
	retries    telemetry.Counter
	exhausted  telemetry.Counter // retries that the budget did not allow
	clientGone telemetry.Counter
	duration   telemetry.Histogram
	budget     budget

	rules map[string]*telemetry.Counter // requests that a rule applied to, by its name; guarded by Plane.mu

	sessionKinds [sessionKinds]telemetry.Counter

	sessions atomic.Pointer[affinity.Table] // of affinity by headers, once there is one
	evicted  telemetry.Counter              // sessions that gave way to others
	sealed   telemetry.Counter              // cookies of sessions
}

// rule returns the counter of a rule. Plane.mu is held.
func (b *balancerStats) rule(name string) *telemetry.Counter {
	c := b.rules[name]
	if c == nil {
		if b.rules == nil {
			b.rules = make(map[string]*telemetry.Counter)
		}
		c = new(telemetry.Counter)
		b.rules[name] = c
	}
	return c
}

// keepRules forgets the counters of all other rules. Plane.mu is held.
func (b *balancerStats) keepRules(list []plan.Rule) {
	kept := make(map[string]*telemetry.Counter, len(list))
	for i := range list {
		kept[list[i].Name] = b.rules[list[i].Name]
	}
	b.rules = kept
}

// table returns the table of sessions.
func (b *balancerStats) table() *affinity.Table {
	if t := b.sessions.Load(); t != nil {
		return t
	}
	b.sessions.CompareAndSwap(nil, affinity.NewTable())
	return b.sessions.Load()
}

// endpointStats counts the requests of one endpoint.
type endpointStats struct {
	requests telemetry.Counter
	connects telemetry.Counter
	resent   telemetry.Counter
	http2    [h2.Events]telemetry.Counter
	failures []telemetry.Counter // by failure.kind
}

func (s *endpointStats) init() { s.failures = make([]telemetry.Counter, len(failures)) }

func counter(name, help string, labels ...string) *telemetry.Desc {
	return &telemetry.Desc{Name: name, Help: help, Kind: telemetry.CounterKind, Labels: labels}
}

func gauge(name, help string, labels ...string) *telemetry.Desc {
	return &telemetry.Desc{Name: name, Help: help, Kind: telemetry.GaugeKind, Labels: labels}
}

var (
	descAccepted   = counter("fairlead_http_connections_total", "Connections accepted.", "listener")
	descOpen       = gauge("fairlead_http_connections_open", "Connections open now.", "listener")
	descFlooders   = gauge("fairlead_http_flooding_clients", "Clients that had a connection ended for a flood in the last 10 s.", "listener")
	descUpgraded   = gauge("fairlead_http_upgraded_open", "Upgraded connections (WebSocket) open now.", "listener")
	descHandshakes = counter("fairlead_http_tls_failed_total", "TLS handshakes with clients that failed.", "listener")
	descPreambles  = counter("fairlead_http_proxy_headers_failed_total", "Connections of trusted proxies without a right header of the PROXY protocol.", "listener")
	descIn         = counter("fairlead_http_received_bytes_total", "Bytes received from clients, heads included.", "listener")
	descOut        = counter("fairlead_http_sent_bytes_total", "Bytes sent to clients, heads included.", "listener")
	descPanics     = counter("fairlead_http_panics_total", "Connections that ended by a defect of Fairlead.", "listener")
	descUnrouted   = counter("fairlead_http_unrouted_total", "Answers to requests that reached no load balancer, by class of status.", "listener", "class")
	descLimits     = counter("fairlead_http_limited_total", "Times that a limit ended or refused something.", "listener", "limit")
	descHTTP2      = counter("fairlead_http2_events_total", "Floods, time-outs and errors that ended or refused something in HTTP/2, by kind.", "listener", "event")
	descHTTP3      = counter("fairlead_http3_events_total", "Floods, time-outs and errors that ended or refused something in HTTP/3, and what was done about strangers, by kind.", "listener", "event")
	descHTTP3Open  = gauge("fairlead_http3_connections_open", "Connections of HTTP/3 open now, handshakes included.", "listener")
	descFailures   = counter("fairlead_http_errors_total", "Errors answered by Fairlead itself, by status and reason.", "listener", "status", "reason")
	descMalformed  = counter("fairlead_http_malformed_total", "Requests refused because they could not be read one way only.", "listener", "reason")

	descRequests  = counter("fairlead_http_requests_total", "Requests by class of the answer's status; none where there was no answer.", "load_balancer", "class")
	descRetries   = counter("fairlead_http_retries_total", "Requests that another endpoint was asked for after a failure.", "load_balancer")
	descRules     = counter("fairlead_rule_applied_total", "Requests that a rule applied to.", "load_balancer", "rule")
	descSessions  = counter("fairlead_session_requests_total", "Requests to load balancers with sessions, by what became of theirs: none, new, kept or moved.", "load_balancer", "session")
	descSealed    = counter("fairlead_session_cookies_total", "Cookies of sessions that were made. A key is good for 2^32, of all nodes that share it.", "load_balancer")
	descEvicted   = counter("fairlead_sessions_evicted_total", "Sessions by headers that were not over and gave way to others, as their table was full.", "load_balancer")
	descExhausted = counter("fairlead_http_retries_refused_total", "Retries that the budget did not allow.", "load_balancer")
	descGone      = counter("fairlead_http_client_gone_total", "Requests whose client went away before the end of the answer.", "load_balancer")
	descDuration  = &telemetry.Desc{Name: "fairlead_http_request_seconds", Help: "Time from a request's first byte to its answer's last.", Kind: telemetry.HistogramKind, Labels: []string{"load_balancer"}}

	descEndpointRequests = counter("fairlead_endpoint_requests_total", "Requests sent to an endpoint.", "pool", "endpoint")
	descEndpointFailures = counter("fairlead_endpoint_errors_total", "Requests that failed at an endpoint, by status and reason.", "pool", "endpoint", "status", "reason")
	descEndpointHTTP2    = counter("fairlead_endpoint_http2_events_total", "Floods, time-outs and errors that ended or refused something in HTTP/2 with an endpoint, by kind.", "pool", "endpoint", "event")
	descEndpointConnects = counter("fairlead_endpoint_connects_total", "Connections made to an endpoint.", "pool", "endpoint")
	descEndpointResent   = counter("fairlead_endpoint_resent_total", "Requests sent once more because the connection ended before an answer.", "pool", "endpoint")
	descEndpointWaiting  = gauge("fairlead_endpoint_waiting_requests", "Requests that wait for room at an endpoint (endpoint_limits).", "pool", "endpoint")
	descEndpointQueued   = counter("fairlead_endpoint_queued_total", "Requests that had to wait for room at an endpoint.", "pool", "endpoint")
	descEndpointIdle     = gauge("fairlead_endpoint_idle_connections", "Unused connections kept to an endpoint.", "pool", "endpoint")
)

// Collect implements telemetry.Source.
func (p *Plane) Collect(e *telemetry.Emitter) {
	for _, l := range p.current() {
		l.stats.collect(e, l.name())
		e.Gauge(descFlooders, float64(l.flooders.Count(time.Now())), l.name())
		if tls := l.set.Load().tls; tls != nil {
			tls.Collect(e, l.name())
		}
	}
	snap := p.snap.Load()
	if snap == nil {
		return
	}
	for i, b := range snap.balancers {
		if b != nil {
			b.collect(e)
		}
		for j, n := range snap.rules[i] {
			e.Counter(descRules, n.Load(), b.name, snap.plan.LoadBalancers[i].Rules[j].Name)
		}
	}
	for _, c := range p.tlsClients() {
		c.client.Collect(e, c.pool)
	}
	for i, u := range snap.upstreams {
		if snap.plan.Endpoints[i].Removed {
			continue // another one may have its name
		}
		pool, endpoint := u.key.pool, u.key.endpoint
		e.Counter(descEndpointRequests, u.stats.requests.Load(), pool, endpoint)
		e.Counter(descEndpointConnects, u.stats.connects.Load(), pool, endpoint)
		e.Counter(descEndpointResent, u.stats.resent.Load(), pool, endpoint)
		e.Gauge(descEndpointIdle, float64(u.idleCount()), pool, endpoint)
		waiting, queued := u.requests.counts()
		connecting, queuedConns := u.conns.counts()
		e.Gauge(descEndpointWaiting, float64(waiting+connecting), pool, endpoint)
		e.Counter(descEndpointQueued, queued+queuedConns, pool, endpoint)
		for i := range u.stats.http2 {
			if n := u.stats.http2[i].Load(); n > 0 {
				e.Counter(descEndpointHTTP2, n, pool, endpoint, h2.Event(i).String())
			}
		}
		for i, f := range failures {
			if n := u.stats.failures[i].Load(); n > 0 {
				e.Counter(descEndpointFailures, n, pool, endpoint, strconv.Itoa(f.status), f.reason)
			}
		}
	}
}

func (s *listenerStats) collect(e *telemetry.Emitter, name string) {
	e.Counter(descAccepted, s.accepted.Load(), name)
	e.Gauge(descOpen, float64(s.open.Load()), name)
	e.Gauge(descUpgraded, float64(s.upgraded.Load()), name)
	e.Counter(descHandshakes, s.handshakes.Load(), name)
	e.Counter(descPreambles, s.preambles.Load(), name)
	e.Counter(descIn, s.bytesIn.Load(), name)
	e.Counter(descOut, s.bytesOut.Load(), name)
	e.Counter(descPanics, s.panics.Load(), name)
	for l := range limits {
		e.Counter(descLimits, s.limits[l].Load(), name, l.String())
	}
	for i := range s.http2 {
		if n := s.http2[i].Load(); n > 0 {
			e.Counter(descHTTP2, n, name, h2.Event(i).String())
		}
	}
	e.Gauge(descHTTP3Open, float64(s.http3Open.Load()), name)
	for i := range s.http3 {
		if n := s.http3[i].Load(); n > 0 {
			e.Counter(descHTTP3, n, name, h3.Event(i).String())
		}
	}
	s.classes.collect(e, descUnrouted, name)
	for i, f := range failures {
		if n := s.failures[i].Load(); n > 0 {
			e.Counter(descFailures, n, name, strconv.Itoa(f.status), f.reason)
		}
	}
	for reason, n := range s.malformed.counts() {
		e.Counter(descMalformed, n, name, reason)
	}
}

func (b *balancerStats) collect(e *telemetry.Emitter) {
	b.classes.collect(e, descRequests, b.name)
	e.Counter(descRetries, b.retries.Load(), b.name)
	e.Counter(descExhausted, b.exhausted.Load(), b.name)
	e.Counter(descGone, b.clientGone.Load(), b.name)
	for i := range b.sessionKinds {
		if n := b.sessionKinds[i].Load(); n > 0 {
			e.Counter(descSessions, n, b.name, sessionKindNames[i])
		}
	}
	if b.sessions.Load() != nil {
		e.Counter(descEvicted, b.evicted.Load(), b.name)
	}
	if n := b.sealed.Load(); n > 0 {
		e.Counter(descSealed, n, b.name)
	}
	e.Histogram(descDuration, &b.duration, b.name)
}

var classNames = [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx", "6xx", "7xx", "8xx", "9xx"}

func (c *classes) collect(e *telemetry.Emitter, d *telemetry.Desc, name string) {
	for i := range c {
		if n := c[i].Load(); n > 0 {
			e.Counter(d, n, name, classNames[i])
		}
	}
}
