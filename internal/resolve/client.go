package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	attempts     = 2               // rounds through all servers
	queryTimeout = 2 * time.Second // for one server's answer
	udpSize      = 1232            // fits into what every path carries unfragmented
	maxChain     = 16              // CNAMEs in one answer
	hostsTTL     = 30 * time.Second
)

// client looks names up, each time anew.
type client struct{ system *system }

// newClient returns a client that asks as cfg says.
func newClient(cfg Config) *client {
	return &client{&system{
		servers: cfg.Servers,
		resolv:  cachedFile[resolvConf]{path: cmp.Or(cfg.ResolvConf, "/etc/resolv.conf"), parse: parseResolvConf},
		hosts:   cachedFile[hosts]{path: cmp.Or(cfg.HostsFile, "/etc/hosts"), parse: parseHosts},
	}}
}

// lookup finds the addresses of host: in the hosts file, else by asking for
// the first of its full names that has some.
func (c *client) lookup(ctx context.Context, host string) answer {
	if addrs := c.system.hosts.get()[strings.TrimSuffix(host, ".")]; len(addrs) > 0 {
		a := answer{{err: errNotFound, ttl: hostsTTL}, {err: errNotFound, ttl: hostsTTL}}
		for _, addr := range addrs {
			f := &a[familyOf(addr)]
			f.err = nil
			f.addrs = append(f.addrs, addr)
		}
		return a
	}
	conf := c.system.conf()
	var a answer
	for _, name := range conf.fullNames(host) {
		var wg sync.WaitGroup
		for i, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
			wg.Go(func() { a[i] = ask(ctx, conf.servers, name, qtype) })
		}
		wg.Wait()
		// A name that could not be asked about must not be taken for another.
		if !errors.Is(a[0].err, errNotFound) || !errors.Is(a[1].err, errNotFound) {
			break
		}
	}
	return a
}

// familyOf returns the position of an address in an answer.
func familyOf(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// ask asks the servers in turn until one answers.
func ask(ctx context.Context, servers []netip.AddrPort, name string, qtype uint16) family {
	err := errors.New("no name server is configured")
	for range attempts {
		for _, s := range servers {
			var f family
			if f, err = query(ctx, s, name, qtype); err == nil {
				return f
			}
			err = fmt.Errorf("name server %v: %w", s, err)
			if ctx.Err() != nil {
				return family{err: err}
			}
		}
	}
	return family{err: err}
}

// query asks one server one question. The error says that it has not answered.
func query(ctx context.Context, server netip.AddrPort, name string, qtype uint16) (family, error) {
	q := new(dns.Msg)
	q.SetQuestion(name, qtype)
	q.SetEdns0(udpSize, false)
	r, err := exchange(ctx, "udp", server, q)
	if err == nil && (r.Rcode == dns.RcodeFormatError || r.Rcode == dns.RcodeNotImplemented) {
		q.Extra = nil // a server from before EDNS
		r, err = exchange(ctx, "udp", server, q)
	}
	if err == nil && r.Truncated {
		r, err = exchange(ctx, "tcp", server, q)
	}
	if err != nil {
		return family{}, err
	}
	switch r.Rcode {
	case dns.RcodeSuccess, dns.RcodeNameError:
		return read(r, name, qtype)
	}
	return family{}, fmt.Errorf("answers %s", dns.RcodeToString[r.Rcode])
}

// exchange sends a question and returns the message that answers it.
func exchange(ctx context.Context, network string, server netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	c := &dns.Client{Net: network, Timeout: queryTimeout}
	conn, err := c.DialContext(ctx, server.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	q.Id = dns.Id()
	r, _, err := c.ExchangeWithConnContext(ctx, q, conn) // compares ids
	if err != nil {
		return nil, err
	}
	if !r.Response || r.Opcode != dns.OpcodeQuery || len(r.Question) != 1 ||
		r.Question[0].Qtype != q.Question[0].Qtype || r.Question[0].Qclass != q.Question[0].Qclass ||
		!strings.EqualFold(r.Question[0].Name, q.Question[0].Name) {
		return nil, errors.New("answers another question")
	}
	return r, nil
}

// read takes the addresses out of an answer: those of the name itself or of
// what its CNAMEs lead to. Other records are nobody's business.
func read(r *dns.Msg, name string, qtype uint16) (family, error) {
	owner, ttl := dns.CanonicalName(name), uint32(1<<31-1)
	for range maxChain {
		i := slices.IndexFunc(r.Answer, func(rr dns.RR) bool {
			return rr.Header().Rrtype == dns.TypeCNAME && dns.CanonicalName(rr.Header().Name) == owner
		})
		if i < 0 {
			break
		}
		cname := r.Answer[i].(*dns.CNAME)
		owner, ttl = dns.CanonicalName(cname.Target), min(ttl, cname.Hdr.Ttl)
	}
	var f family
	for _, rr := range r.Answer {
		if rr.Header().Rrtype != qtype || dns.CanonicalName(rr.Header().Name) != owner {
			continue
		}
		ttl = min(ttl, rr.Header().Ttl)
		if a, ok := address(rr); ok && len(f.addrs) < maxAddresses {
			f.addrs = append(f.addrs, a)
		}
	}
	if len(f.addrs) > 0 {
		f.ttl = time.Duration(ttl) * time.Second
		return f, nil
	}
	// RFC 2308: the SOA says how long there is nothing. A referral says
	// nothing at all.
	f.err = errNotFound
	referral := false
	for _, rr := range r.Ns {
		switch rr := rr.(type) {
		case *dns.SOA:
			f.ttl = time.Duration(min(rr.Hdr.Ttl, rr.Minttl)) * time.Second
			return f, nil
		case *dns.NS:
			referral = true
		}
	}
	if referral && r.Rcode == dns.RcodeSuccess && !r.Authoritative {
		return family{}, errors.New("refers to other servers and does not ask them")
	}
	return f, nil
}

// address returns the address of a record, if a connection can be made to it.
func address(rr dns.RR) (netip.Addr, bool) {
	var a netip.Addr
	var ok bool
	switch rr := rr.(type) {
	case *dns.A:
		a, ok = netip.AddrFromSlice(rr.A.To4())
	case *dns.AAAA:
		a, ok = netip.AddrFromSlice(rr.AAAA)
	}
	a = a.Unmap()
	return a, ok && !a.IsUnspecified() && !a.IsMulticast()
}
