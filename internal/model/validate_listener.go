package model

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// SpeaksTLS reports whether the listener ends TLS, and so needs certificates.
func (l *Listener) SpeaksTLS() bool {
	switch l.Protocol {
	case ListenerHTTPS, ListenerTLS, ListenerDoT, ListenerDoH, ListenerDoQ:
		return true
	default:
		return false
	}
}

// Layer4 reports whether the listener relays bytes without reading them.
func (l *Listener) Layer4() bool {
	switch l.Protocol {
	case ListenerTCP, ListenerUDP, ListenerTLS, ListenerTLSPassthrough:
		return true
	default:
		return false
	}
}

// SpeaksHTTP reports whether the listener serves load balancers by Host.
func (l *Listener) SpeaksHTTP() bool {
	return l.Protocol == ListenerHTTP || l.Protocol == ListenerHTTPS
}

// SpeaksDNS reports whether the listener answers DNS queries.
func (l *Listener) SpeaksDNS() bool {
	switch l.Protocol {
	case ListenerDNS, ListenerDoT, ListenerDoH, ListenerDoQ:
		return true
	default:
		return false
	}
}

// transports returns which of TCP and UDP the listener opens.
func (l *Listener) transports() (tcp, udp bool) {
	switch l.Protocol {
	case ListenerUDP, ListenerDoQ:
		return false, true
	case ListenerDNS:
		return true, true
	default:
		return true, l.HTTP3
	}
}

// anyListener reports whether a listener is of some kind.
func (c *Config) anyListener(is func(*Listener) bool) bool {
	for i := range c.Listeners {
		if is(&c.Listeners[i]) {
			return true
		}
	}
	return false
}

func (v *validator) listeners() {
	names := uniques{}
	var open []opened
	if host, port, err := splitListen(v.c.Admin.Address); err == nil {
		open = append(open, opened{Place{}.Key("admin").Key("address"), host, port, true, false})
	}
	for i := range v.c.Listeners {
		l := &v.c.Listeners[i]
		at := Place{}.Key("listeners").Item(i, l.Name)
		v.name(at.Key("name"), l.Name, "")
		if l.Name != "" {
			names.add(v, at.Key("name"), l.Name, l.Name)
		}
		if host, port, ok := v.openAddress(at.Key("address"), l.Address); ok {
			o := opened{at: at.Key("address"), host: host, port: port}
			o.tcp, o.udp = l.transports()
			for _, other := range open {
				if o.overlaps(other) {
					v.clash(o.at, l.Address, "overlaps", other.at)
					break
				}
			}
			open = append(open, o)
		}
		if l.Protocol == "" {
			v.bad(at.Key("protocol"), "missing: want %s", OneOf(l.Protocol.Values()))
			continue // the rest depends on it
		}
		enum(v, at.Key("protocol"), l.Protocol)
		if l.SpeaksHTTP() && !v.proxies() {
			v.warn(at, "no load balancer has proxied: true: every request is answered with 404")
		}
		v.listenerTLS(at, l)
		v.listenerTarget(at, l)
		v.proxyProtocol(at.Key("proxy_protocol"), l)
		v.limits(at.Key("limits"), &l.Limits)
		v.dnsLimits(at.Key("limits"), l)
		v.dnsOptions(at.Key("dns"), l)

		for j, p := range l.TrustedProxies {
			at := at.Key("trusted_proxies").Item(j, "")
			switch {
			case !p.IsValid():
				v.bad(at, "missing: want an IP prefix such as 10.0.0.0/8")
			case p != p.Masked():
				v.wrong(at, p, "want no bits behind the prefix; did you mean %q?", p.Masked())
			}
		}
		if len(l.TrustedProxies) > 0 && !l.SpeaksHTTP() && l.Protocol != ListenerDoH {
			v.bad(at.Key("trusted_proxies"), "protocol %s has no X-Forwarded-For: want it with http, https or doh only", l.Protocol)
		}
		v.explainHeader(at.Key("explain_header"), l)
		switch at := at.Key("accept_proxy_protocol"); {
		case !l.AcceptProxyProtocol:
		case !l.SpeaksHTTP():
			v.bad(at, "given with protocol %s: want it with http or https only", l.Protocol)
		case len(l.TrustedProxies) == 0:
			v.bad(at, "given without trusted_proxies, whose connections alone have the header")
		}
	}
}

func (v *validator) explainHeader(at Place, l *Listener) {
	switch {
	case l.ExplainHeader == "":
	case !isToken(l.ExplainHeader):
		v.wrong(at, l.ExplainHeader, "want the name of a header")
	case !l.SpeaksHTTP():
		v.bad(at, "given with protocol %s: want it with http or https only", l.Protocol)
	case len(l.TrustedProxies) == 0:
		v.bad(at, "given without trusted_proxies, from whom alone it counts")
	}
}

// proxies reports whether an http listener has anything to serve.
func (v *validator) proxies() bool {
	for i := range v.c.LoadBalancers {
		if lb := &v.c.LoadBalancers[i]; lb.Enabled && lb.Proxied {
			return true
		}
	}
	return v.c.State != nil // the store may have one
}

// opened is an address that a process listens on.
type opened struct {
	at       Place
	host     string
	port     int
	tcp, udp bool
}

// overlaps reports whether the kernel, or a reader, could not tell which of
// the two a client means.
func (o opened) overlaps(p opened) bool {
	if o.port != p.port || o.port == 0 || !(o.tcp && p.tcp || o.udp && p.udp) {
		return false
	}
	return canonicalAddr(o.host) == canonicalAddr(p.host) || covers(o.host, p.host) || covers(p.host, o.host)
}

// covers reports whether host is all addresses of a kind, other among them.
func covers(host, other string) bool {
	if host == "" {
		return true
	}
	all, err := netip.ParseAddr(host)
	if err != nil || !all.IsUnspecified() {
		return false
	}
	ip, err := netip.ParseAddr(other)
	return all.Is6() || err != nil || ip.Unmap().Is4()
}

func (v *validator) listenerTLS(at Place, l *Listener) {
	enum(v, at.Key("min_tls_version"), l.MinTLSVersion)
	if l.HTTP3 && l.Protocol != ListenerHTTPS {
		v.bad(at.Key("http3"), "given with protocol %s: want it with https only", l.Protocol)
	}
	switch {
	case l.Protocol == ListenerHTTPS && len(l.Certificates) == 0 && len(l.ACME) == 0:
		v.bad(at.Key("certificates"), "missing: protocol %s wants at least one, or acme with host names", l.Protocol)
	case l.SpeaksTLS() && len(l.Certificates) == 0 && len(l.ACME) == 0:
		v.bad(at.Key("certificates"), "missing: protocol %s wants at least one", l.Protocol)
	case !l.SpeaksTLS() && len(l.Certificates) > 0:
		v.bad(at.Key("certificates"), "given with protocol %s: want them with https, tls, dot, doh or doq only", l.Protocol)
	}
	v.acmeNames(at.Key("acme"), l)
	v.clientCertificates(at.Key("client_certificates"), l)
	if !l.SpeaksTLS() && l.MinTLSVersion == TLS13 {
		v.bad(at.Key("min_tls_version"), "given with protocol %s, which ends no TLS", l.Protocol)
	}
	for i, c := range l.Certificates {
		at := at.Key("certificates").Item(i, "")
		if c.Certificate == "" {
			v.bad(at.Key("certificate"), "missing: want the name of a PEM file")
		}
		if c.Key == "" {
			v.bad(at.Key("key"), "missing: want the name of a PEM file")
		}
	}
}

func (v *validator) clientCertificates(at Place, l *Listener) {
	c := l.ClientCertificates
	if c == nil {
		return
	}
	if l.Protocol != ListenerHTTPS {
		v.bad(at, "given with protocol %s: want it with https only", l.Protocol)
	}
	if c.CA == "" {
		v.bad(at.Key("ca"), "missing: want the name of a PEM file")
	}
	enum(v, at.Key("mode"), c.Mode)
	if name := c.SubjectHeader; name != "" {
		if err := checkOwnHeader(name); err != nil {
			v.wrong(at.Key("subject_header"), name, "%v", err)
		}
	}
}

// checkOwnHeader looks for a name of a header that nobody else has a use for:
// what clients send under it is removed.
func checkOwnHeader(name string) error {
	const most = 64
	if len(name) > most {
		return fmt.Errorf("longer than %d bytes", most)
	}
	if strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return errors.New("want letters, digits and -") // _ is - to many servers
	}
	// What is left out can break no request if it is removed and written anew.
	lower := strings.ToLower(name)
	if !strings.HasPrefix(lower, "x-") && !strings.HasPrefix(lower, "client-") && !strings.HasPrefix(lower, "ssl-") ||
		strings.HasPrefix(lower, "x-forwarded-") || lower == "x-real-ip" {
		return errors.New("want a name that begins with X-, Client- or SSL-, and no other use of it, such as X-Client-Certificate-Subject")
	}
	return nil
}

// listenerTarget checks where the traffic of a listener goes.
func (v *validator) listenerTarget(at Place, l *Listener) {
	routed := l.Protocol == ListenerTLS || l.Protocol == ListenerTLSPassthrough
	if l.LoadBalancer != "" {
		if l.Layer4() {
			v.layer4(at.Key("load_balancer"), l.LoadBalancer)
		} else {
			v.bad(at.Key("load_balancer"), "given with protocol %s, which chooses by name: want it with tcp, udp, tls or tls_passthrough only", l.Protocol)
		}
	}
	if len(l.TLSRoutes) > 0 {
		switch {
		case !routed:
			v.bad(at.Key("tls_routes"), "given with protocol %s: want them with tls or tls_passthrough only", l.Protocol)
		case l.LoadBalancer != "":
			v.bad(at.Key("tls_routes"), "given with load_balancer: want one of the two")
		}
	}
	if l.Layer4() && l.LoadBalancer == "" && len(l.TLSRoutes) == 0 {
		what := "load_balancer"
		if routed {
			what = "load_balancer or tls_routes"
		}
		v.bad(at.Key("load_balancer"), "missing: protocol %s wants %s", l.Protocol, what)
	}
	hosts := uniques{}
	for i := range l.TLSRoutes {
		v.tlsRoute(at.Key("tls_routes").Item(i, ""), &l.TLSRoutes[i], hosts)
	}
}

func (v *validator) tlsRoute(at Place, r *TLSRoute, hosts uniques) {
	if len(r.Hosts) == 0 {
		v.bad(at.Key("hosts"), "missing: want at least one server name")
	}
	for i, host := range r.Hosts {
		at := at.Key("hosts").Item(i, "")
		if err := checkHostName(host, true); err != nil {
			v.wrong(at, host, "%v", err)
			continue
		}
		hosts.add(v, at, CanonicalHost(host), host)
	}
	switch {
	case r.LoadBalancer != "" && len(r.LoadBalancers) > 0:
		v.bad(at.Key("load_balancers"), "given with load_balancer: want one of the two")
	case r.LoadBalancer == "" && len(r.LoadBalancers) == 0:
		v.bad(at, "goes nowhere: want load_balancer or load_balancers")
	}
	if r.LoadBalancer != "" {
		v.layer4(at.Key("load_balancer"), r.LoadBalancer)
	}
	names, sum := uniques{}, 0
	for i, w := range r.LoadBalancers {
		at := at.Key("load_balancers").Item(i, w.Name)
		if w.Name == "" {
			v.bad(at.Key("name"), "missing: want the name of a load balancer")
		} else if names.add(v, at.Key("name"), w.Name, w.Name) {
			v.layer4(at.Key("name"), w.Name)
		}
		if within(v, at.Key("weight"), w.Weight, 0, 1_000_000) {
			sum += w.Weight
		} else {
			sum++ // one error is enough
		}
	}
	if len(r.LoadBalancers) > 0 && sum == 0 {
		v.bad(at.Key("load_balancers"), "all weights are 0: want at least one above")
	}
}

// layer4 checks a listener's reference to a load balancer.
func (v *validator) layer4(at Place, name string) {
	v.onLayer4[name] = true
	if v.loadBalancers[name] == nil && v.c.State == nil { // else the store may have it
		v.dangling(at, "load balancer", name, v.loadBalancerNames())
	}
}

func (v *validator) dangling(at Place, kind, name string, known []string) {
	v.wrong(at, name, "no such %s%s", kind, maybe(name, known))
}

func (v *validator) loadBalancerNames() []string {
	var names []string
	for i := range v.c.LoadBalancers {
		names = append(names, v.c.LoadBalancers[i].Name)
	}
	return names
}

func (v *validator) proxyProtocol(at Place, l *Listener) {
	enum(v, at, l.ProxyProtocol)
	allowed := []string{"off"}
	switch l.Protocol {
	case ListenerTCP, ListenerTLS, ListenerTLSPassthrough:
		allowed = []string{"off", "v1", "v2"}
	case ListenerUDP:
		allowed = []string{"off", "v2", "simple"}
	}
	if slices.Contains(l.ProxyProtocol.Values(), string(l.ProxyProtocol)) && !slices.Contains(allowed, string(l.ProxyProtocol)) {
		v.wrong(at, l.ProxyProtocol, "protocol %s wants %s", l.Protocol, OneOf(allowed))
	}
}

func (v *validator) limits(at Place, l *Limits) {
	within(v, at.Key("header_bytes"), l.HeaderBytes, 1024, 1<<20)
	within(v, at.Key("header_count"), l.HeaderCount, 8, 10_000)
	within(v, at.Key("header_timeout"), l.HeaderTimeout, 50*time.Millisecond, 10*time.Minute)
	within(v, at.Key("idle_timeout"), l.IdleTimeout, 50*time.Millisecond, 24*time.Hour)
	within(v, at.Key("body_timeout"), l.BodyTimeout, 50*time.Millisecond, time.Hour)
	within(v, at.Key("body_min_rate"), l.BodyMinRate, 0, 1<<20)
	within(v, at.Key("upgrade_idle_timeout"), l.UpgradeIdleTimeout, time.Second, 168*time.Hour)
	within(v, at.Key("connections"), l.Connections, 1, 10_000_000)
	within(v, at.Key("connections_per_client"), l.ConnectionsPerClient, 1, 10_000_000)
	within(v, at.Key("connections_after_flood"), l.ConnectionsAfterFlood, 1, 1_000_000)
	within(v, at.Key("concurrent_streams"), l.ConcurrentStreams, 1, 10_000)
}

// below reports whether a host name is the zone or in it.
func below(name, zone string) bool {
	return name == zone || strings.HasSuffix(name, "."+zone)
}
