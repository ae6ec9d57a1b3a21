package acme

import (
	"maps"
	"slices"

	"fairlead/internal/telemetry"
)

var (
	descNotAfter = &telemetry.Desc{
		Name: "fairlead_acme_certificate_not_after_timestamp_seconds",
		Help: "When the obtained certificate in use expires, in seconds since 1970; none while there is no certificate.",
		Kind: telemetry.GaugeKind, Labels: []string{"name"},
	}
	descStale = &telemetry.Desc{
		Name: "fairlead_acme_certificate_stale",
		Help: "1 while the last attempt to obtain or renew the certificate has failed, else 0.",
		Kind: telemetry.GaugeKind, Labels: []string{"name"},
	}
	descLastFailure = &telemetry.Desc{
		Name: "fairlead_acme_last_failure_timestamp_seconds",
		Help: "When an attempt to obtain or renew the certificate last failed, in seconds since 1970; none if none did.",
		Kind: telemetry.GaugeKind, Labels: []string{"name"},
	}
	descIssued = &telemetry.Desc{
		Name: "fairlead_acme_issued_total",
		Help: "Certificates obtained, by whether there was one before.",
		Kind: telemetry.CounterKind, Labels: []string{"name", "kind"},
	}
	descFailures = &telemetry.Desc{
		Name: "fairlead_acme_failures_total",
		Help: "Attempts to obtain or renew the certificate that failed.",
		Kind: telemetry.CounterKind, Labels: []string{"name"},
	}
	descAnswered = &telemetry.Desc{
		Name: "fairlead_acme_challenges_answered_total",
		Help: "Requests and handshakes of authorities that were answered with the proof that they asked for.",
		Kind: telemetry.CounterKind, Labels: []string{"challenge"},
	}
)

// Collect implements telemetry.Source.
func (m *Manager) Collect(e *telemetry.Emitter) {
	m.mu.Lock()
	keepers := maps.Clone(m.keepers)
	m.mu.Unlock()
	if len(keepers) == 0 {
		return
	}
	e.Counter(descAnswered, m.answered[answeredHTTP].Load(), "http-01")
	e.Counter(descAnswered, m.answered[answeredTLS].Load(), "tls-alpn-01")
	for _, name := range slices.Sorted(maps.Keys(keepers)) {
		k := keepers[name]
		k.mu.Lock()
		notAfter, failedAt, failing := k.notAfter, k.failedAt, k.streak > 0
		k.mu.Unlock()
		if !notAfter.IsZero() {
			e.Gauge(descNotAfter, float64(notAfter.Unix()), name)
		}
		stale := 0.0
		if failing {
			stale = 1
		}
		e.Gauge(descStale, stale, name)
		if !failedAt.IsZero() {
			e.Gauge(descLastFailure, float64(failedAt.Unix()), name)
		}
		e.Counter(descIssued, k.obtained.Load(), name, "first")
		e.Counter(descIssued, k.renewed.Load(), name, "renewal")
		e.Counter(descFailures, k.failed.Load(), name)
	}
}
