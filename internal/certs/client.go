package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"fairlead/internal/model"
	"fairlead/internal/telemetry"
)

// sessionsPerName bounds the TLS sessions kept to be resumed for one server
// name. Endpoints of a pool that share a name share its sessions; one that
// does not know a session just makes a full handshake.
const sessionsPerName = 64

// Client holds what connections to the endpoints of one pool are made with:
// the authorities that are believed and the certificate that is shown.
type Client struct {
	current atomic.Pointer[identity]

	mu    sync.Mutex // held while files are read
	names model.PoolTLS
	files *bundle
}

// identity is one state of the files.
type identity struct {
	roots     *x509.CertPool   // nil for those of the system
	cert      *tls.Certificate // nil to show none
	protocols []string
	pins      []string
	configs   sync.Map // server name to *tls.Config
}

// LoadClient reads the files that a pool names, once. roots is nil where the
// pool names no authorities, which means those of the system; cert is nil
// where it names no certificate.
func LoadClient(names model.PoolTLS) (roots *x509.CertPool, cert *tls.Certificate, err error) {
	b := newBundle(nil, func(contents [][]byte) (err error) {
		roots, cert, err = parseClient(names, contents)
		return err
	}, names.CA, names.Certificate, names.Key)
	if err := b.load(); err != nil {
		return nil, nil, err
	}
	return roots, cert, nil
}

func parseClient(names model.PoolTLS, contents [][]byte) (roots *x509.CertPool, cert *tls.Certificate, err error) {
	if names.CA != "" {
		if roots, err = parseAuthorities(names.CA, contents[0]); err != nil {
			return nil, nil, err
		}
	}
	if names.Certificate != "" || names.Key != "" {
		cert, err = parsePair(names.Certificate, names.Key, contents[1], contents[2])
	}
	return roots, cert, err
}

// NewClient loads the files that a pool names. protocols are what its endpoints
// are offered to speak (ALPN).
func NewClient(names model.PoolTLS, protocols []string, log *slog.Logger) (*Client, error) {
	c := &Client{names: names}
	c.files = newBundle(log, func(contents [][]byte) error {
		roots, cert, err := parseClient(names, contents)
		if err != nil {
			return err
		}
		if cert != nil {
			warn(log, names.Certificate, cert.Leaf, time.Now())
		}
		c.current.Store(&identity{roots: roots, cert: cert, protocols: protocols, pins: names.Pins})
		return nil
	}, names.CA, names.Certificate, names.Key)
	if err := c.files.load(); err != nil {
		return nil, err
	}
	if names.CA == "" {
		// The system's authorities are read once, from many files: now, and
		// not by the first handshake, which may run on an event loop.
		if _, err := x509.SystemCertPool(); err != nil {
			log.Warn("authorities of the system cannot be read: no endpoint of a pool without tls.ca will be believed", "error", err)
		}
	}
	return c, nil
}

// Config returns the settings for a connection to an endpoint that must prove
// to be serverName, a host name or an IP address. The same value is returned
// until the files change. It is shared and not to be changed.
func (c *Client) Config(serverName string) *tls.Config {
	id := c.current.Load()
	if conf, ok := id.configs.Load(serverName); ok {
		return conf.(*tls.Config)
	}
	conf, _ := id.configs.LoadOrStore(serverName, id.config(serverName))
	return conf.(*tls.Config)
}

func (id *identity) config(serverName string) *tls.Config {
	conf := &tls.Config{
		ServerName: serverName,
		RootCAs:    id.roots,
		MinVersion: tls.VersionTLS12,
		NextProtos: id.protocols,
		// Each identity has sessions of its own: what was verified against
		// earlier authorities is not resumed.
		ClientSessionCache: tls.NewLRUClientSessionCache(sessionsPerName),
	}
	if len(id.pins) > 0 {
		// Beside the usual verification. It is called for resumed sessions too.
		conf.VerifyConnection = func(s tls.ConnectionState) error {
			return model.CheckPins(id.pins, s.PeerCertificates[0].RawSubjectPublicKeyInfo)
		}
	}
	if id.cert != nil {
		// Certificates would show it only to endpoints that list its issuer.
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return id.cert, nil }
	}
	return conf
}

// Watch takes up changes of the files, looking each interval, and returns
// when ctx is done, or at once when the pool names no files.
func (c *Client) Watch(ctx context.Context, interval time.Duration) {
	if c.names.CA == "" && c.names.Certificate == "" {
		return
	}
	watch(ctx, interval, c.poll)
}

func (c *Client) poll(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files.poll(now)
}

// Reload reads all files now. What is wrong with them is logged and returned;
// what is in use then stays.
func (c *Client) Reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.files.reload()
	return err
}

var (
	poolNotAfter = &telemetry.Desc{
		Name: "fairlead_pool_certificate_not_after_timestamp_seconds",
		Help: "When the certificate that the pool's endpoints are shown expires, in seconds since 1970.",
		Kind: telemetry.GaugeKind, Labels: []string{"pool", "file"},
	}
	poolStale = &telemetry.Desc{
		Name: "fairlead_pool_certificate_stale",
		Help: "1 while the pool's certificate files cannot be used and what was read before is, else 0.",
		Kind: telemetry.GaugeKind, Labels: []string{"pool"},
	}
	poolReloads = &telemetry.Desc{
		Name: "fairlead_pool_certificate_reloads_total",
		Help: "How often changed certificate files of the pool were taken up.",
		Kind: telemetry.CounterKind, Labels: []string{"pool"},
	}
)

// Collect emits the metrics of the files of a pool.
func (c *Client) Collect(e *telemetry.Emitter, pool string) {
	if cert := c.current.Load().cert; cert != nil {
		e.Gauge(poolNotAfter, float64(cert.Leaf.NotAfter.Unix()), pool, c.names.Certificate)
	}
	e.Gauge(poolStale, number(c.files.stale.Load()), pool)
	e.Counter(poolReloads, c.files.reloads.Load(), pool)
}
