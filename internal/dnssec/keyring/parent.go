package keyring

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"fairlead/internal/dnssec"
	"fairlead/internal/model"
)

// parentTimeout bounds the exchange with one agent.
const parentTimeout = 10 * time.Second

// askParent asks agents which DS records the parent of a zone has. With an error
// nothing is known: silence is no proof that records are gone.
func askParent(ctx context.Context, zone string, agents []string) (*observation, error) {
	var addresses []netip.AddrPort
	for _, agent := range agents {
		address, err := model.ParentalAgent(agent)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
	}
	if len(agents) == 0 {
		system, err := dns.ClientConfigFromFile("/etc/resolv.conf")
		if err != nil {
			return nil, fmt.Errorf("name servers of this machine: %w; name some in parental_agents", err)
		}
		for _, server := range system.Servers {
			if a, err := netip.ParseAddr(server); err == nil {
				addresses = append(addresses, netip.AddrPortFrom(a, 53))
			}
		}
	}
	if len(addresses) == 0 {
		return nil, errors.New("nobody to ask: name some in parental_agents")
	}
	out := new(observation)
	for _, address := range addresses {
		set, ttl, err := askAgent(ctx, zone, address)
		if err != nil {
			return nil, fmt.Errorf("parental agent %s: %w", address, err)
		}
		out.sets = append(out.sets, set)
		out.ttl = max(out.ttl, ttl)
	}
	return out, nil
}

// longestParentTTL bounds what is believed of the TTL of DS records, which rollovers wait
// for: it is that of parent_ds_ttl.
const longestParentTTL = 720 * time.Hour

// askAgent asks one of them, over TCP, where an answer cannot be forged blindly.
func askAgent(ctx context.Context, zone string, agent netip.AddrPort) (set []dnssec.DS, ttl time.Duration, err error) {
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(zone), dns.TypeDS)
	q.SetEdns0(1232, false)
	c := dns.Client{Net: "tcp", Timeout: parentTimeout}
	ctx, cancel := context.WithTimeout(ctx, parentTimeout)
	defer cancel()
	conn, err := c.DialContext(ctx, agent.String())
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	// The library heeds the deadline of a context alone, not its end.
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	r, _, err := c.ExchangeWithConnContext(ctx, q, conn)
	if err != nil {
		return nil, 0, err
	}
	if r.Rcode != dns.RcodeSuccess {
		return nil, 0, fmt.Errorf("answers with %s", dns.RcodeToString[r.Rcode])
	}
	if !r.Authoritative && !r.RecursionAvailable {
		return nil, 0, errors.New("does not answer for the parent: want a resolver or a server of the parent")
	}
	for _, rr := range r.Answer {
		ds, ok := rr.(*dns.DS)
		if !ok || !strings.EqualFold(ds.Hdr.Name, q.Question[0].Name) {
			continue
		}
		digest, err := hex.DecodeString(ds.Digest)
		if err != nil {
			return nil, 0, fmt.Errorf("digest %q: want hexadecimal digits", ds.Digest)
		}
		set = append(set, dnssec.DS{Tag: ds.KeyTag, Algorithm: dnssec.Algorithm(ds.Algorithm), DigestType: ds.DigestType, Digest: digest})
		ttl = max(ttl, min(time.Duration(ds.Hdr.Ttl)*time.Second, longestParentTTL))
	}
	return set, ttl, nil
}
