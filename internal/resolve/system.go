package resolve

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// system is what this machine says about names.
type system struct {
	servers []netip.AddrPort // in place of resolv.conf
	resolv  cachedFile[resolvConf]
	hosts   cachedFile[hosts]
}

// conf returns whom to ask, and for what.
func (s *system) conf() resolvConf {
	if len(s.servers) > 0 {
		return resolvConf{servers: s.servers}
	}
	c := s.resolv.get()
	if len(c.servers) == 0 { // as resolv.conf(5) has it
		c.servers = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:53")}
	}
	return c
}

// cachedFile is a small file that is parsed again when it has changed.
type cachedFile[T any] struct {
	path  string
	parse func([]byte) T

	mu      sync.Mutex
	value   T
	looked  time.Time
	changed time.Time
	size    int64
}

const (
	lookAgain = 5 * time.Second
	maxFile   = 4 << 20
)

// get returns what the file says. A file that cannot be read says what it
// last said.
func (f *cachedFile[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.looked.IsZero() && time.Since(f.looked) < lookAgain {
		return f.value
	}
	f.looked = time.Now()
	file, err := os.Open(f.path)
	if err != nil {
		return f.value
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.ModTime().Equal(f.changed) && info.Size() == f.size {
		return f.value
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return f.value
	}
	f.value, f.changed, f.size = f.parse(text), info.ModTime(), info.Size()
	return f.value
}

// resolvConf is what resolv.conf says.
type resolvConf struct {
	servers []netip.AddrPort
	search  []string
	ndots   int
}

const (
	maxServers = 8
	maxSearch  = 16
)

// parseResolvConf reads resolv.conf and leaves out what it cannot use.
func parseResolvConf(text []byte) resolvConf {
	parsed, err := dns.ClientConfigFromReader(bytes.NewReader(text))
	if err != nil {
		return resolvConf{ndots: 1}
	}
	c := resolvConf{ndots: parsed.Ndots}
	for _, s := range parsed.Servers {
		if a, err := netip.ParseAddr(s); err == nil && len(c.servers) < maxServers {
			c.servers = append(c.servers, netip.AddrPortFrom(a, 53))
		}
	}
	for _, s := range parsed.Search {
		if len(c.search) < maxSearch && s != "." {
			c.search = append(c.search, dns.Fqdn(s))
		}
	}
	return c
}

// fullNames returns the names to ask for: host below each search domain when
// it has fewer dots than ndots, then host itself.
func (c resolvConf) fullNames(host string) []string {
	full := dns.Fqdn(host)
	if full == host || strings.Count(host, ".") >= c.ndots {
		return []string{full}
	}
	var names []string
	for _, s := range c.search {
		names = append(names, full+s)
	}
	return append(names, full)
}

// hosts is the hosts file: addresses by name in lower case.
type hosts map[string][]netip.Addr

// parseHosts reads a hosts file and leaves out lines that are not of its form.
func parseHosts(text []byte) hosts {
	h := make(hosts)
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		a, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, name := range fields[1:] {
			name = strings.ToLower(strings.TrimSuffix(name, "."))
			if len(h[name]) < maxAddresses {
				h[name] = append(h[name], a.Unmap())
			}
		}
	}
	return h
}
