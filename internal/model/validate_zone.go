package model

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// RecordTypes are the types that records of a zone may have by name.
var RecordTypes = []string{
	"A", "AAAA", "CNAME", "DNAME", "MX", "TXT", "NS", "SRV", "CAA", "PTR", "NAPTR", "TLSA", "SSHFP", "HTTPS", "SVCB", "DS",
}

// recordType reports whether t is one of them, or TYPE with a number (RFC 3597).
func recordType(t string) bool {
	digits, ok := strings.CutPrefix(t, "TYPE")
	if !ok {
		return slices.Contains(RecordTypes, t)
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == digits
}

func (v *validator) zones() {
	names := uniques{}
	for i := range v.c.Zones {
		z := &v.c.Zones[i]
		at := Place{}.Key("zones").Item(i, z.Name)
		if z.Name == "" {
			v.bad(at.Key("name"), "missing: want a name such as example.com")
			continue // everything else is relative to it
		}
		if err := checkHostName(z.Name, false); err != nil {
			v.wrong(at.Key("name"), z.Name, "%v", err)
			continue
		}
		names.add(v, at.Key("name"), CanonicalHost(z.Name), z.Name)
		v.ecsScope(at, &z.ECSScope)
		v.dnssec(at, z)
		if z.File != "" {
			v.zoneFile(at, z)
			continue // what it holds is for whoever reads it
		}
		c := zoneCheck{validator: v, at: at, zone: z, origin: CanonicalHost(z.Name), owners: map[string][]owned{}}
		for j := range z.Records {
			c.record(at.Key("records").Item(j, z.Records[j].Name), &z.Records[j])
		}
		c.aliases()
		c.nameservers()
		c.soa(at.Key("soa"))
	}
	switch dns := v.c.anyListener((*Listener).SpeaksDNS); {
	case len(v.c.Zones) > 0 && !dns:
		v.warn(Place{}.Key("zones"), "no dns, dot, doh or doq listener answers for them")
	case len(v.c.Zones) == 0 && dns && v.c.State == nil:
		v.warn(Place{}.Key("zones"), "none: DNS listeners have nothing to answer")
	}
}

// zoneFile checks a zone that is read from a file.
func (v *validator) zoneFile(at Place, z *Zone) {
	const text = "given with file, which has all records: want one of the two"
	if len(z.Nameservers) > 0 {
		v.bad(at.Key("nameservers"), text)
	}
	if len(z.Records) > 0 {
		v.bad(at.Key("records"), text)
	}
	var defaults SOA
	defaults.SetDefaults()
	if z.SOA != defaults {
		v.bad(at.Key("soa"), text)
	}
}

// owned is a record of an owner name.
type owned struct {
	at      Place
	kind    string
	content string
}

// zoneCheck is the check of one zone.
type zoneCheck struct {
	*validator
	at     Place
	zone   *Zone
	origin string
	owners map[string][]owned // by canonical absolute name
}

// absolute returns the canonical full form of a name in the zone's records.
func (c *zoneCheck) absolute(name string) string {
	switch {
	case name == "@":
		return c.origin
	case strings.HasSuffix(name, "."):
		return CanonicalHost(name)
	default:
		return strings.ToLower(name) + "." + c.origin
	}
}

func (c *zoneCheck) record(at Place, r *Record) {
	c.wholeSeconds(at.Key("ttl"), r.TTL, time.Second, 168*time.Hour)
	known := recordType(r.Type)
	switch {
	case r.Type == "":
		c.bad(at.Key("type"), "missing: want %s", OneOf(RecordTypes))
	case !known:
		c.wrong(at.Key("type"), r.Type, "want %s, or TYPE with a number%s", OneOf(RecordTypes), maybe(r.Type, RecordTypes))
	}
	placed := c.owner(at.Key("name"), r)
	switch {
	case r.Content == "":
		c.bad(at.Key("content"), "missing: want the data of the record")
		return
	case len(r.Content) > 65535:
		c.bad(at.Key("content"), "%d bytes long: want at most 65535", len(r.Content))
		return
	case strings.ContainsFunc(r.Content, unicode.IsControl):
		c.bad(at.Key("content"), "want one line without control characters")
		return
	}
	if !known || !placed {
		return
	}
	c.content(at.Key("content"), r)

	owner := c.absolute(r.Name)
	content := strings.Join(strings.Fields(r.Content), " ")
	if r.Type != "TXT" {
		content = strings.ToLower(content)
	}
	for _, other := range c.owners[owner] {
		if other.kind == r.Type && other.content == content {
			c.bad(at, "duplicate of %s", other.at.Path)
			c.problems[len(c.problems)-1].See = other.at.Path
			return
		}
	}
	c.owners[owner] = append(c.owners[owner], owned{at, r.Type, content})
}

// owner checks the name of a record and reports whether it is in the zone.
func (c *zoneCheck) owner(at Place, r *Record) bool {
	switch {
	case r.Name == "":
		c.bad(at, "missing: want a name relative to the zone, or @ for the zone itself")
		return false
	case r.Name == "@":
		switch r.Type {
		case "NS":
			c.bad(at, "NS records of the zone itself are made from nameservers: leave this one out")
		case "CNAME":
			c.bad(at, "the zone itself cannot be a CNAME: it has SOA and NS records")
		case "DS":
			c.bad(at, "DS records of the zone itself belong into the zone above it")
		default:
			return true
		}
		return false
	case strings.HasSuffix(r.Name, "."):
		if full := CanonicalHost(r.Name); !below(full, c.origin) {
			c.wrong(at, r.Name, "outside the zone %q", c.origin)
			return false
		}
		relative := strings.TrimSuffix(strings.TrimSuffix(CanonicalHost(r.Name), c.origin), ".")
		if relative == "" {
			relative = "@"
		}
		c.wrong(at, r.Name, "want a name relative to the zone; did you mean %q?", relative)
		return false
	}
	name := r.Name
	if name == "*" {
		return true
	}
	if err := checkHostName(strings.TrimPrefix(name, "*.")+"."+c.origin, false); err != nil {
		c.wrong(at, r.Name, "%v", err)
		return false
	}
	if below(CanonicalHost(name), c.origin) {
		c.warn(at, "is relative to the zone, so it means %q; leave the zone out", c.absolute(name))
	}
	return true
}

// aliases finds names that are a CNAME and something else too.
func (c *zoneCheck) aliases() {
	for _, owner := range sortedKeys(c.owners) {
		records := c.owners[owner]
		if len(records) < 2 {
			continue
		}
		for _, r := range records {
			if r.kind != "CNAME" {
				continue
			}
			other := records[0]
			if other.at.Path == r.at.Path {
				other = records[1]
			}
			c.bad(r.at, "%q has both CNAME and %s; keep one", owner, kindOf(other))
			break
		}
	}
}

func kindOf(r owned) string {
	if r.kind == "CNAME" {
		return "another CNAME"
	}
	return r.kind
}

// nameservers checks the servers of the zone. One whose name is in the zone
// can be found only if the zone has its address.
func (c *zoneCheck) nameservers() {
	at := c.at.Key("nameservers")
	if len(c.zone.Nameservers) == 0 {
		c.bad(at, "none: want at least one, or file with all records")
	}
	seen := uniques{}
	for i, name := range c.zone.Nameservers {
		at := at.Item(i, "")
		if err := checkHostName(name, false); err != nil {
			c.wrong(at, name, "%v", err)
			continue
		}
		full := CanonicalHost(name)
		if !seen.add(c.validator, at, full, name) || c.zoneOf(full) != c.origin {
			continue
		}
		switch kinds := c.kinds(full); {
		case slices.Contains(kinds, "CNAME"):
			c.wrong(at, name, "is a CNAME: want an A or AAAA record")
		case !slices.Contains(kinds, "A") && !slices.Contains(kinds, "AAAA"):
			c.wrong(at, name, "has no A or AAAA record in the zone: resolvers could not find it")
		}
	}
}

// soa checks what the zone says about itself.
func (c *zoneCheck) soa(at Place) {
	s := &c.zone.SOA
	if s.Primary != "" {
		if err := checkHostName(s.Primary, false); err != nil {
			c.wrong(at.Key("primary"), s.Primary, "%v", err)
		}
	}
	if s.Contact != "" {
		local, domain, ok := strings.Cut(s.Contact, "@")
		switch {
		case !ok || local == "" || len(local) > 63 || strings.ContainsFunc(local, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' || r == '"' }):
			c.wrong(at.Key("contact"), s.Contact, "want a mail address, as in hostmaster@%s", c.origin)
		default:
			if err := checkHostName(domain, false); err != nil {
				c.wrong(at.Key("contact"), s.Contact, "%v", err)
			}
		}
	}
	const week = 168 * time.Hour
	c.wholeSeconds(at.Key("refresh"), s.Refresh, time.Second, week)
	c.wholeSeconds(at.Key("retry"), s.Retry, time.Second, week)
	c.wholeSeconds(at.Key("expire"), s.Expire, time.Second, 12*week)
	c.wholeSeconds(at.Key("minimum"), s.Minimum, time.Second, week)
	c.wholeSeconds(at.Key("ttl"), s.TTL, time.Second, week)
	if s.Retry >= s.Refresh {
		c.warn(at.Key("retry"), "%s is not less than refresh (%s)", Show(s.Retry), Show(s.Refresh))
	}
}

func (c *zoneCheck) kinds(owner string) []string {
	var kinds []string
	for _, r := range c.owners[owner] {
		kinds = append(kinds, r.kind)
	}
	return kinds
}

// content checks the data of the types that need no DNS library.
func (c *zoneCheck) content(at Place, r *Record) {
	fields := strings.Fields(r.Content)
	want := func(n int, form string) bool {
		if len(fields) != n {
			c.wrong(at, r.Content, "want %s", form)
			return false
		}
		return true
	}
	switch r.Type {
	case "A", "AAAA":
		ip, err := netip.ParseAddr(r.Content)
		switch {
		case r.Type == "A" && (err != nil || !ip.Is4()):
			c.wrong(at, r.Content, "want an IPv4 address")
		case r.Type == "AAAA" && (err != nil || !ip.Is6() || ip.Is4In6() || ip.Zone() != ""):
			c.wrong(at, r.Content, "want an IPv6 address")
		}
	case "CNAME", "DNAME", "NS", "PTR":
		if want(1, "a host name") {
			c.target(at, r, fields[0], false)
		}
	case "MX":
		if want(2, "PREFERENCE NAME, as in 10 mail.example.com.") && c.uint16s(at, r, fields[:1]) {
			c.target(at, r, fields[1], fields[0] == "0")
		}
	case "SRV":
		if want(4, "PRIORITY WEIGHT PORT NAME, as in 10 5 443 www.example.com.") && c.uint16s(at, r, fields[:3]) {
			c.target(at, r, fields[3], true)
		}
	case "TXT":
		c.text(at, r)
	case "CAA":
		c.caa(at, r)
	}
}

func (c *zoneCheck) uint16s(at Place, r *Record, fields []string) bool {
	for _, f := range fields {
		if _, err := strconv.ParseUint(f, 10, 16); err != nil {
			c.wrong(at, r.Content, "%s: want 0 to 65535", quote(f))
			return false
		}
	}
	return true
}

// target checks a name that a record points to. The dot alone says that there
// is none, where the type has a meaning for it.
func (c *zoneCheck) target(at Place, r *Record, name string, none bool) {
	if name == "@" || name == "." && none {
		return
	}
	if err := checkHostName(name, false); err != nil {
		c.wrong(at, r.Content, "%v", err)
		return
	}
	if strings.Contains(name, ".") && !strings.HasSuffix(name, ".") {
		c.warn(at, "%q does not end with a dot, so it means %q", name, c.absolute(name)+".")
	}
}

// text checks the strings of a TXT record: one word, or any number of texts
// in quotes.
func (c *zoneCheck) text(at Place, r *Record) {
	texts, err := splitTexts(r.Content)
	if err != "" {
		c.wrong(at, r.Content, "%s", err)
		return
	}
	for _, t := range texts {
		if t > 255 {
			c.bad(at, "a text of %d bytes: want at most 255, and longer ones in several quotes", t)
			return
		}
	}
}

// splitTexts returns the lengths of the strings in the data of a TXT record.
func splitTexts(s string) (lengths []int, wrong string) {
	if !strings.HasPrefix(s, `"`) {
		if strings.ContainsAny(s, " \t;\"()\\") {
			return nil, `want quotes around the text, as in '"v=spf1 -all"'`
		}
		return []int{len(s)}, ""
	}
	for rest := s; rest != ""; {
		if rest[0] != '"' {
			return nil, "want every text in quotes, with a space between them"
		}
		n, i := 0, 1
		for ; ; n++ {
			switch {
			case i >= len(rest):
				return nil, "want a quote at the end of the text"
			case rest[i] == '"':
			case rest[i] == '\\' && i+3 < len(rest) && strings.Trim(rest[i+1:i+4], "0123456789") == "":
				if rest[i+1:i+4] > "255" {
					return nil, rest[i:i+4] + `: want \000 to \255`
				}
				i += 4
				continue
			case rest[i] == '\\':
				i += 2
				continue
			default:
				i++
				continue
			}
			break
		}
		lengths = append(lengths, n)
		rest = rest[i+1:]
		if trimmed := strings.TrimLeft(rest, " \t"); trimmed != rest || rest == "" {
			rest = trimmed
		} else {
			return nil, "want every text in quotes, with a space between them"
		}
	}
	return lengths, ""
}

func (c *zoneCheck) caa(at Place, r *Record) {
	const form = `want FLAGS TAG "VALUE", as in 0 issue "ca.example.net"`
	flags, rest, ok := strings.Cut(r.Content, " ")
	tag, value, ok2 := strings.Cut(strings.TrimSpace(rest), " ")
	value = strings.TrimSpace(value)
	if !ok || !ok2 || value == "" {
		c.wrong(at, r.Content, "%s", form)
		return
	}
	if _, err := strconv.ParseUint(flags, 10, 8); err != nil {
		c.wrong(at, r.Content, "flags %s: want 0 to 255", quote(flags))
		return
	}
	if strings.ContainsFunc(tag, func(r rune) bool { return !isLetter(r) && !isDigit(r) }) {
		c.wrong(at, r.Content, "tag %s: want letters and digits", quote(tag))
		return
	}
	if texts, wrong := splitTexts(value); wrong != "" || len(texts) != 1 {
		c.wrong(at, r.Content, "%s", form)
	}
}
