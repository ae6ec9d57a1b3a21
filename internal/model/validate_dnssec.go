package model

import (
	"net/netip"
	"slices"
	"time"
)

// dnssec checks how a zone is signed.
func (v *validator) dnssec(at Place, z *Zone) {
	given := z.DNSSECOptions
	at = at.Key("dnssec_options")
	if given == nil {
		return
	}
	if !z.DNSSEC {
		v.bad(at, "given without dnssec: true")
	}
	var defaults DNSSEC
	defaults.SetDefaults()
	enum(v, at.Key("algorithm"), given.Algorithm)
	if len(given.KeyFiles) > 0 {
		const text = "given with key_files, whose keys are as they are: want one of the two"
		if given.Algorithm != defaults.Algorithm {
			v.bad(at.Key("algorithm"), text)
		}
		if given.ZSKLifetime != defaults.ZSKLifetime {
			v.bad(at.Key("zsk_lifetime"), text)
		}
		if given.KSKLifetime != defaults.KSKLifetime {
			v.bad(at.Key("ksk_lifetime"), text)
		}
		const timed = "given with key_files, whose own times say when they are used: want one of the two"
		if given.PropagationDelay != defaults.PropagationDelay {
			v.bad(at.Key("propagation_delay"), timed)
		}
		if len(given.ParentalAgents) > 0 {
			v.bad(at.Key("parental_agents"), timed)
		}
		if given.ParentDSTTL != defaults.ParentDSTTL {
			v.bad(at.Key("parent_ds_ttl"), timed)
		}
		if given.ParentPropagationDelay != defaults.ParentPropagationDelay {
			v.bad(at.Key("parent_propagation_delay"), timed)
		}
	}
	names := uniques{}
	for i, name := range given.KeyFiles {
		at := at.Key("key_files").Item(i, "")
		if name == "" {
			v.bad(at, "want the name of a file, as in Kexample.com.+013+12345.private")
			continue
		}
		names.add(v, at, name, name)
	}

	const week = 168 * time.Hour
	validity := within(v, at.Key("signature_validity"), given.SignatureValidity, 72*time.Hour, 2160*time.Hour)
	within(v, at.Key("signature_limit"), given.SignatureLimit, 10, 1000000)
	v.wholeSeconds(at.Key("dnskey_ttl"), given.DNSKEYTTL, time.Minute, week)
	within(v, at.Key("propagation_delay"), given.PropagationDelay, 0, week)
	within(v, at.Key("parent_ds_ttl"), given.ParentDSTTL, time.Minute, 720*time.Hour)
	within(v, at.Key("parent_propagation_delay"), given.ParentPropagationDelay, 0, week)
	longest := z.LongestTTL(v.c)
	if validity && max(longest, given.DNSKEYTTL) > given.SignatureValidity/2 {
		v.wrong(at.Key("signature_validity"), given.SignatureValidity, "want at least twice the longest TTL (%s): caches keep signatures for as long", Show(max(longest, given.DNSKEYTTL)))
	}
	if given.ZSKLifetime != 0 && within(v, at.Key("zsk_lifetime"), given.ZSKLifetime, 24*time.Hour, 43800*time.Hour) {
		if least := given.DNSKEYTTL + 2*given.PropagationDelay + longest; given.ZSKLifetime < least {
			v.wrong(at.Key("zsk_lifetime"), given.ZSKLifetime, "want at least %s: dnskey_ttl, twice propagation_delay and the longest TTL (%s), which is what replacing the key takes", Show(least), Show(longest))
		}
	}
	if given.KSKLifetime != 0 {
		within(v, at.Key("ksk_lifetime"), given.KSKLifetime, week, 87600*time.Hour)
	}
	var agents []string
	for i, agent := range given.ParentalAgents {
		at := at.Key("parental_agents").Item(i, "")
		addr, err := ParentalAgent(agent)
		switch {
		case err != nil:
			v.wrong(at, agent, "want an IP address, IPv4:port or [IPv6]:port")
		case slices.Contains(agents, addr.String()):
			v.wrong(at, agent, "stands there twice")
		}
		agents = append(agents, addr.String())
	}
}

// ParentalAgent returns the address that an item of parental_agents means: port 53
// where none is given.
func ParentalAgent(s string) (netip.AddrPort, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return netip.AddrPortFrom(addr.Unmap(), 53), nil
	}
	return netip.ParseAddrPort(s)
}
