package plan

import (
	"bytes"
	"net/netip"
	"strings"
)

// hostIndex finds the load balancer of a host name: the exact name before a
// wildcard, a longer wildcard before a shorter one. A wildcard covers one or
// more labels and not the name below its star (RFC 4592).
type hostIndex struct {
	exact     map[string]*LoadBalancer
	wildcards map[string]*LoadBalancer // by what follows "*."
}

func (h *hostIndex) add(b *LoadBalancer) {
	if h.exact == nil {
		h.exact = make(map[string]*LoadBalancer)
		h.wildcards = make(map[string]*LoadBalancer)
	}
	if a, err := netip.ParseAddr(b.Name); err == nil && a.Is6() {
		h.exact["["+a.String()+"]"] = b // as clients write it in the Host field (RFC 5952)
		return
	}
	if suffix, ok := strings.CutPrefix(b.Name, "*."); ok {
		h.wildcards[suffix] = b
	} else {
		h.exact[b.Name] = b
	}
}

// maxHost is the longest host name of the DNS, with its trailing dot.
const maxHost = 254

// Host returns the load balancer that serves a host name over HTTP, or nil.
// The name is in any case, without a port, perhaps with a trailing dot.
func (p *Plan) Host(host []byte) *LoadBalancer {
	if len(host) == 0 || len(host) > maxHost {
		return nil
	}
	var lower [maxHost]byte
	name := lower[:len(host)]
	for i, c := range host {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		name[i] = c
	}
	if name[len(name)-1] == '.' {
		name = name[:len(name)-1]
	}
	if b := p.hosts.exact[string(name)]; b != nil { // does not allocate
		return b
	}
	if len(p.hosts.wildcards) == 0 {
		return nil
	}
	for {
		dot := bytes.IndexByte(name, '.')
		if dot < 0 {
			return nil
		}
		name = name[dot+1:]
		if b := p.hosts.wildcards[string(name)]; b != nil {
			return b
		}
	}
}
