package health

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"reflect"
	"slices"

	"fairlead/internal/model"
	"fairlead/internal/resolve"
)

// Target is one endpoint to probe, and how. It is not to be changed once it
// was given to a Checker.
type Target struct {
	Key      Key
	Endpoint *Endpoint
	Monitor  *model.Monitor
	// Member is the name of the monitor where it belongs to a group, whose
	// monitors have a target each and make the verdict together; "" where it
	// makes the verdict alone. The others say what it has a say in.
	Member         string
	MustBeHealthy  bool
	MonitoringOnly bool
	// Host is the host part of the endpoint's address: a name, or an IP
	// address without brackets.
	Host string
	// Port is the endpoint's own, its protocol's default resolved. The
	// monitor's port, where it has one, is probed in its place.
	Port int
	// Name yields the addresses of a host name; nil where Host is an IP
	// address.
	Name *resolve.Name
	// HostHeader is the endpoint's own Host, "" for none.
	HostHeader string
	// SourceAddresses are what probes come from: at most one for each address
	// family; the kernel chooses where there is none.
	SourceAddresses []netip.Addr
	// TLS makes a grpc probe speak TLS; http and https probes go by the
	// monitor's type.
	TLS bool
	// Protocol and Zone are how a monitor with simulate_zone asks: by what the
	// pool speaks and, where nobody sets a Host, as clients of a load balancer.
	// Both are "" where the monitor has none.
	Protocol model.PoolProtocol
	Zone     string
	// ServerName is asked for and verified in TLS: that of traffic, where the
	// pool speaks TLS. "" means the name that the request's Host has, else the
	// host of the address.
	ServerName string
	// RootCAs verify certificates; nil means those of the system.
	RootCAs *x509.CertPool
	// Pins are the public keys that the endpoint's certificate may have; none
	// for any.
	Pins []string
	// Certificate is shown to an endpoint that asks for one.
	Certificate *tls.Certificate
}

// targetID identifies a target across reloads.
type targetID struct {
	Key
	member string
}

func (t *Target) id() targetID { return targetID{t.Key, t.Member} }

// port is the one that is probed.
func (t *Target) port() int {
	if t.Monitor.Port != 0 {
		return t.Monitor.Port
	}
	return t.Port
}

// same reports whether a check of o says the same thing as a check of t, so
// that the results of one can be counted on with those of the other.
func (t *Target) same(o *Target) bool {
	a, b := *t.Monitor, *o.Monitor
	a.Name, b.Name, a.Description, b.Description = "", "", "", ""
	return t.id() == o.id() && t.Endpoint == o.Endpoint &&
		t.Host == o.Host && t.Port == o.Port && t.HostHeader == o.HostHeader &&
		slices.Equal(t.SourceAddresses, o.SourceAddresses) &&
		t.TLS == o.TLS && t.Protocol == o.Protocol && t.Zone == o.Zone && t.ServerName == o.ServerName &&
		t.RootCAs.Equal(o.RootCAs) && slices.Equal(t.Pins, o.Pins) && sameCertificate(t.Certificate, o.Certificate) &&
		reflect.DeepEqual(a, b)
}

// sameCertificate compares certificates by what they show.
func sameCertificate(a, b *tls.Certificate) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.EqualFunc(a.Certificate, b.Certificate, slices.Equal)
}
