package dnslb

import (
	"sync/atomic"

	"fairlead/internal/dnswire"
	"fairlead/internal/telemetry"
)

// kinds are the types that are counted by name; all others are "other".
var kinds = [...]dnswire.Type{
	dnswire.TypeA, dnswire.TypeAAAA, dnswire.TypeCNAME, dnswire.TypeMX, dnswire.TypeTXT, dnswire.TypeNS, dnswire.TypeSOA,
	dnswire.TypeSRV, dnswire.TypePTR, dnswire.TypeCAA, dnswire.TypeHTTPS, dnswire.TypeSVCB, dnswire.TypeDS,
	dnswire.TypeDNSKEY, dnswire.TypeNAPTR, dnswire.TypeAXFR, dnswire.TypeIXFR, dnswire.TypeANY,
}

// results are the rcodes that are given, each with its number among the counters.
var results = [...]dnswire.RCode{
	dnswire.NoError, dnswire.FormErr, dnswire.ServFail, dnswire.NXDomain, dnswire.NotImp, dnswire.Refused,
	dnswire.YXDomain, dnswire.NotAuth, dnswire.BadVers, dnswire.BadCookie,
}

const (
	kindCount   = len(kinds) + 1
	resultCount = len(results)
)

// kindOf and resultOf are the numbers of types and rcodes.
var (
	kindOf   [258]uint8
	resultOf [24]uint8
)

func init() {
	for i := range kindOf {
		kindOf[i] = uint8(len(kinds))
	}
	for i, t := range kinds {
		kindOf[t] = uint8(i)
	}
	for i, c := range results {
		resultOf[c] = uint8(i)
	}
}

// zoneStats counts the answers of a zone, or of no zone, by type and rcode. Each
// worker has a shard, which is made when it is needed.
type zoneStats struct {
	name   string
	shards []atomic.Pointer[zoneShard]
}

type zoneShard [kindCount * resultCount]atomic.Uint64

func newZoneStats(name string, shards int) *zoneStats {
	return &zoneStats{name, make([]atomic.Pointer[zoneShard], shards)}
}

func (z *zoneStats) count(shard int, t dnswire.Type, c dnswire.RCode) {
	kind := len(kinds)
	if int(t) < len(kindOf) {
		kind = int(kindOf[t])
	}
	p := &z.shards[shard]
	s := p.Load()
	if s == nil {
		p.CompareAndSwap(nil, new(zoneShard))
		s = p.Load()
	}
	s[kind*resultCount+int(resultOf[c])].Add(1)
}

func (z *zoneStats) collect(e *telemetry.Emitter) {
	var sum [kindCount * resultCount]uint64
	for i := range z.shards {
		if s := z.shards[i].Load(); s != nil {
			for j := range s {
				sum[j] += s[j].Load()
			}
		}
	}
	for i, n := range sum {
		if n == 0 {
			continue
		}
		kind := "other"
		if k := i / resultCount; k < len(kinds) {
			kind = kinds[k].String()
		}
		e.Counter(descResponses, n, z.name, kind, results[i%resultCount].String())
	}
}

// dropReason says why a message is not answered.
type dropReason int

// The reasons.
const (
	dropNoQuery dropReason = iota
	dropPortZero
	dropLimited
	dropOversize
	dropUnsent
	dropReasons
)

func (d dropReason) String() string {
	return [...]string{"no_query", "port_zero", "rate_limit", "oversize", "unsent"}[d]
}

// limit is a bound that clients of a stream may meet.
type limit int

// The bounds.
const (
	limitConnections limit = iota
	limitPerClient
	limitHandshake
	limitQuery
	limitIdle
	limitWrite
	limits
)

func (l limit) String() string {
	return [...]string{"connections", "connections_per_client", "handshake_timeout", "header_timeout", "idle_timeout", "body_timeout"}[l]
}

// listenerStats are what one listener has counted.
type listenerStats struct {
	queries    [transports]telemetry.Counter
	truncated  telemetry.Counter
	unsigned   telemetry.Counter // that should have been signed
	slipped    telemetry.Counter // truncated by the rate limit
	drops      [dropReasons]telemetry.Counter
	cookies    [cookieKinds]telemetry.Counter
	accepted   telemetry.Counter
	open       telemetry.Gauge
	limits     [limits]telemetry.Counter
	handshakes telemetry.Counter
	panics     telemetry.Counter
	in, out    telemetry.Counter // bytes over streams
}

func (s *listenerStats) drop(why dropReason) { s.drops[why].Inc() }

// cookieKind is what cookie a query had.
type cookieKind uint8

// The kinds.
const (
	cookieNone cookieKind = iota
	cookieClient
	cookieValid
	cookieInvalid
	cookieKinds
)

func (c cookieKind) String() string {
	return [...]string{"none", "client", "valid", "invalid"}[c]
}

func desc(name, help string, kind telemetry.Kind, labels ...string) *telemetry.Desc {
	return &telemetry.Desc{Name: name, Help: help, Kind: kind, Labels: labels}
}

var (
	descResponses = desc("fairlead_dns_responses_total", "Answers by zone (empty for none), type of the query and rcode.", telemetry.CounterKind, "zone", "type", "rcode")
	descQueries   = desc("fairlead_dns_queries_total", "Queries of a listener, by transport.", telemetry.CounterKind, "listener", "transport")
	descTruncated = desc("fairlead_dns_truncated_total", "Answers that did not fit, so that the client is told to ask over TCP.", telemetry.CounterKind, "listener")
	descUnsigned  = desc("fairlead_dns_unsigned_failures_total", "Answers of signed zones that were SERVFAIL, as they could not be signed.", telemetry.CounterKind, "listener")
	descSlipped   = desc("fairlead_dns_rate_limit_truncated_total", "Answers that the rate limit made empty and truncated.", telemetry.CounterKind, "listener")
	descDropped   = desc("fairlead_dns_dropped_total", "Messages that were not answered, by reason.", telemetry.CounterKind, "listener", "reason")
	descCookies   = desc("fairlead_dns_cookies_total", "Queries with a DNS cookie: client (the client's alone), valid or invalid.", telemetry.CounterKind, "listener", "cookie")
	descAccepted  = desc("fairlead_dns_connections_total", "Connections that clients made.", telemetry.CounterKind, "listener")
	descOpen      = desc("fairlead_dns_connections_open", "Open connections of clients.", telemetry.GaugeKind, "listener")
	descLimits    = desc("fairlead_dns_limited_total", "Connections that met a limit and were closed.", telemetry.CounterKind, "listener", "limit")
	descHandshake = desc("fairlead_dns_tls_failed_total", "Failed TLS handshakes.", telemetry.CounterKind, "listener")
	descPanics    = desc("fairlead_dns_panics_total", "Queries that met a defect of Fairlead.", telemetry.CounterKind, "listener")
	descIn        = desc("fairlead_dns_received_bytes_total", "Bytes of queries.", telemetry.CounterKind, "listener", "transport")
	descOut       = desc("fairlead_dns_sent_bytes_total", "Bytes of answers.", telemetry.CounterKind, "listener", "transport")
	descZones     = desc("fairlead_dns_zone_serial", "Serial of a zone.", telemetry.GaugeKind, "zone")
	descRecords   = desc("fairlead_dns_zone_records", "Records of a zone.", telemetry.GaugeKind, "zone")
)

// Collect implements telemetry.Source.
func (p *Plane) Collect(e *telemetry.Emitter) {
	for _, l := range p.current() {
		l.collect(e)
	}
	snap := p.snap.Load()
	if snap == nil {
		return
	}
	p.collectBalancers(e)
	for _, z := range snap.zones {
		z.collect(e)
	}
	for _, z := range snap.plan.Zones {
		e.Gauge(descZones, float64(z.SOA.Serial), z.Name)
		e.Gauge(descRecords, float64(z.Records), z.Name)
	}
}

func (l *listener) collect(e *telemetry.Emitter) {
	name, s := l.name(), &l.stats
	var in, out, oversize, unsent uint64
	for i := range l.udp {
		u := &l.udpStats[i]
		in += u.BytesReceived.Load()
		out += u.BytesSent.Load()
		oversize += u.Oversize.Load()
		unsent += u.Unsent.Load()
	}
	for t := range transports {
		if n := s.queries[t].Load(); n > 0 {
			e.Counter(descQueries, n, name, t.String())
		}
	}
	if len(l.udp) > 0 {
		e.Counter(descIn, in, name, "udp")
		e.Counter(descOut, out, name, "udp")
	}
	stream := "tcp"
	if l.set.Load().tls != nil {
		stream = "dot"
	}
	e.Counter(descIn, s.in.Load(), name, stream)
	e.Counter(descOut, s.out.Load(), name, stream)
	e.Counter(descTruncated, s.truncated.Load(), name)
	e.Counter(descUnsigned, s.unsigned.Load(), name)
	e.Counter(descSlipped, s.slipped.Load(), name)
	for d := range dropReasons {
		n := s.drops[d].Load()
		switch d {
		case dropOversize:
			n += oversize
		case dropUnsent:
			n += unsent
		}
		e.Counter(descDropped, n, name, d.String())
	}
	for c := cookieClient; c < cookieKinds; c++ {
		e.Counter(descCookies, s.cookies[c].Load(), name, c.String())
	}
	e.Counter(descAccepted, s.accepted.Load(), name)
	e.Gauge(descOpen, float64(s.open.Load()), name)
	e.Counter(descHandshake, s.handshakes.Load(), name)
	e.Counter(descPanics, s.panics.Load(), name)
	for i := range limits {
		e.Counter(descLimits, s.limits[i].Load(), name, i.String())
	}
}
