package model

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Validate returns everything that is wrong with c, and what is doubtful, in
// no particular order.
func (c *Config) Validate() []Problem {
	v := &validator{
		c:             c,
		monitors:      map[string]*Monitor{},
		groups:        map[string]*MonitorGroup{},
		pools:         map[string]*Pool{},
		loadBalancers: map[string]*LoadBalancer{},
		origins:       map[string]bool{},
		usedMonitors:  map[string]bool{},
		usedGroups:    map[string]bool{},
		usedPools:     map[string]bool{},
		onLayer4:      map[string]bool{},
	}
	for i := range c.Monitors {
		v.monitors[c.Monitors[i].Name] = &c.Monitors[i]
	}
	for i := range c.MonitorGroups {
		v.groups[c.MonitorGroups[i].Name] = &c.MonitorGroups[i]
	}
	for i := range c.Pools {
		v.pools[c.Pools[i].Name] = &c.Pools[i]
	}
	for i := range c.LoadBalancers {
		v.loadBalancers[c.LoadBalancers[i].Name] = &c.LoadBalancers[i]
	}
	for i := range c.Zones {
		v.origins[CanonicalHost(c.Zones[i].Name)] = true
	}

	v.node()
	v.settings()
	v.acme()
	v.listeners()
	v.eachMonitor()
	v.eachMonitorGroup()
	v.eachPool()
	v.eachLoadBalancer()
	v.zones()
	v.unused()
	return v.problems
}

// validator holds what the checks of one Config share.
type validator struct {
	c        *Config
	problems []Problem

	monitors      map[string]*Monitor
	groups        map[string]*MonitorGroup
	pools         map[string]*Pool
	loadBalancers map[string]*LoadBalancer
	origins       map[string]bool // canonical names of the zones

	usedMonitors, usedGroups, usedPools map[string]bool
	onLayer4                            map[string]bool // load balancers that a listener names
}

// bad notes that something at a place is wrong: "place: text".
func (v *validator) bad(at Place, format string, args ...any) {
	v.problems = append(v.problems, Problem{Path: at.Path, Text: join(at, ": ", format, args)})
}

// wrong notes that the value at a place is wrong: "place value: text".
func (v *validator) wrong(at Place, value any, format string, args ...any) {
	format, args = "%s: "+format, append([]any{Show(value)}, args...)
	v.problems = append(v.problems, Problem{Path: at.Path, Text: join(at, " ", format, args)})
}

// clash is wrong for a value that does not go with that of another place:
// "place value: text other place".
func (v *validator) clash(at Place, value any, text string, other Place) {
	v.wrong(at, value, "%s %s", text, other.Path)
	v.problems[len(v.problems)-1].See = other.Path
}

// warn notes a doubt: "place: text".
func (v *validator) warn(at Place, format string, args ...any) {
	v.problems = append(v.problems, Problem{Path: at.Path, Text: join(at, ": ", format, args), Warning: true})
}

func join(at Place, between, format string, args []any) string {
	text := fmt.Sprintf(format, args...)
	if at.Text == "" {
		return text
	}
	return at.Text + between + text
}

// Show is a value as messages show it: as a file would have it, texts in
// quotes and not longer than a line.
func Show(value any) string {
	switch x := value.(type) {
	case time.Duration:
		s := x.String()
		if strings.HasSuffix(s, "m0s") {
			s = s[:len(s)-2]
		}
		if strings.HasSuffix(s, "h0m") {
			s = s[:len(s)-2]
		}
		return s
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case int:
		return strconv.Itoa(x)
	case netip.Addr, netip.Prefix:
		return fmt.Sprint(x)
	default:
		return quote(fmt.Sprint(x))
	}
}

// number is what ranges are made of.
type number interface{ int | float64 | time.Duration }

// within checks that a value is in its range and reports whether it is.
func within[T number](v *validator, at Place, value, least, most T) bool {
	if value >= least && value <= most { // false for NaN
		return true
	}
	v.wrong(at, value, "want %s to %s", Show(least), Show(most))
	return false
}

// enum checks that a value is one of those that its type has.
func enum[T interface {
	~string
	Values() []string
}](v *validator, at Place, value T) {
	for _, known := range value.Values() {
		if string(value) == known {
			return
		}
	}
	v.wrong(at, value, "want %s%s", OneOf(value.Values()), maybe(string(value), value.Values()))
}

// OneOf lists the values to choose from.
func OneOf(values []string) string {
	last := len(values) - 1
	if last == 0 {
		return values[0]
	}
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

// maxName is the length of names in bytes.
const maxName = 255

// name checks the form of a name: letters, digits, - and _, and the
// characters of more.
func (v *validator) name(at Place, name, more string) {
	if name == "" {
		v.bad(at, "missing: want a name")
		return
	}
	if !named(name, more) {
		and := " and _"
		if more != "" {
			and = ", _ and " + more
		}
		v.wrong(at, name, "want letters, digits, -%s, at most %d of them", and, maxName)
	}
}

func named(name, more string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	for _, r := range name {
		if !isLetter(r) && !isDigit(r) && r != '-' && r != '_' && !strings.ContainsRune(more, r) {
			return false
		}
	}
	return true
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
func isDigit(r rune) bool  { return r >= '0' && r <= '9' }

// label checks a text that people give to things for themselves.
func (v *validator) label(at Place, text string) {
	switch {
	case strings.TrimSpace(text) == "":
		v.bad(at, "missing: want a name")
	case len(text) > maxName:
		v.bad(at, "%d bytes long: want at most %d", len(text), maxName)
	case strings.ContainsFunc(text, unicode.IsControl):
		v.wrong(at, text, "want no control characters")
	}
}

func (v *validator) description(at Place, text string) {
	const most = 1024
	if n := utf8.RuneCountInString(text); n > most {
		v.bad(at, "%d characters long: want at most %d", n, most)
	}
}

// uniques finds values that occur twice in a list.
type uniques map[string]Place

// add reports whether key is new. For one that is not, it notes that the
// value at the place is a duplicate.
func (u uniques) add(v *validator, at Place, key string, value any) bool {
	if first, ok := u[key]; ok {
		v.clash(at, value, "duplicate of", first)
		return false
	}
	u[key] = at
	return true
}

// sortedKeys makes what is said about a mapping come in the same order every
// time.
func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func (v *validator) coordinates(at Place, latitude, longitude *float64) {
	switch {
	case latitude != nil && longitude == nil:
		v.bad(at.Key("latitude"), "given without longitude: want both or neither")
	case latitude == nil && longitude != nil:
		v.bad(at.Key("longitude"), "given without latitude: want both or neither")
	}
	if latitude != nil {
		within(v, at.Key("latitude"), *latitude, -90, 90)
	}
	if longitude != nil {
		within(v, at.Key("longitude"), *longitude, -180, 180)
	}
}

// region checks a region code, which is ALL_REGIONS only where that is
// allowed.
func (v *validator) region(at Place, code Region, allowAll bool) {
	codes := make([]string, 0, len(Regions)+1)
	for _, r := range Regions {
		codes = append(codes, string(r.Code))
	}
	if allowAll {
		codes = append(codes, string(AllRegions))
	}
	for _, known := range codes {
		if string(code) == known {
			return
		}
	}
	hint := maybe(string(code), codes)
	switch code { // misprints that documents have spread
	case "EUE":
		hint = `; did you mean "EEU"?`
	case "EM":
		hint = `; did you mean "ME"?`
	}
	v.wrong(at, code, "want %s%s", OneOf(codes), hint)
}

func (v *validator) country(at Place, code Country) {
	s := string(code)
	upper := strings.ToUpper(s)
	switch {
	case s == "UK":
		v.wrong(at, code, `want an ISO 3166-1 alpha-2 code; did you mean "GB"?`)
	case len(s) != 2 || !isLetter(rune(s[0])) || !isLetter(rune(s[1])):
		v.wrong(at, code, "want an ISO 3166-1 alpha-2 code, such as NL")
	case s != upper:
		v.wrong(at, code, "want an ISO 3166-1 alpha-2 code in capitals; did you mean %q?", upper)
	}
}

func (v *validator) node() {
	at, n := Place{}.Key("node"), &v.c.Node
	if n.Name != "" {
		v.name(at.Key("name"), n.Name, ".")
	}
	if n.PoP != "" {
		v.name(at.Key("pop"), n.PoP, "")
	}
	if n.Region != "" {
		v.region(at.Key("region"), n.Region, false)
	}
	if n.Country != "" {
		v.country(at.Key("country"), n.Country)
	}
	v.coordinates(at, n.Latitude, n.Longitude)

	seen := uniques{}
	for i, a := range n.PublicAddresses {
		at := at.Key("public_addresses").Item(i, "")
		v.hostAddress(at, a)
		seen.add(v, at, a.Unmap().String(), a)
	}
	families := uniques{}
	for i, a := range n.SourceAddresses {
		at := at.Key("source_addresses").Item(i, "")
		v.hostAddress(at, a)
		family := "IPv6"
		if a.Unmap().Is4() {
			family = "IPv4"
		}
		if first, ok := families[family]; ok {
			v.clash(at, a, "want at most one "+family+" address; the other is", first)
			continue
		}
		families[family] = at
	}
}

// hostAddress checks that an address can be that of one machine.
func (v *validator) hostAddress(at Place, a netip.Addr) {
	if !a.IsValid() {
		v.bad(at, "missing: want an IP address")
	} else if !oneMachine(a) {
		v.wrong(at, a, "want the address of one machine")
	}
}

func oneMachine(a netip.Addr) bool {
	a = a.Unmap()
	return !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// settings checks what belongs to the process as a whole.
func (v *validator) settings() {
	root := Place{}
	if a := v.c.Admin.Address; a != "off" {
		v.openAddress(root.Key("admin").Key("address"), a)
	}
	if v.c.DataDir == "" {
		v.bad(root.Key("data_dir"), "empty: want the name of a directory")
	}
	if v.c.State != nil {
		v.state(root.Key("state"), v.c.State)
	}
	seen := uniques{}
	for i, file := range v.c.Geo.Databases {
		at := root.Key("geo").Key("databases").Item(i, "")
		if file == "" {
			v.bad(at, "empty: want the name of an MMDB file")
			continue
		}
		seen.add(v, at, file, file)
	}

	v.lineLog(root.Key("access_log"), "access log", v.c.AccessLog.Output, v.c.AccessLog.Sample)
	v.lineLog(root.Key("query_log"), "query log", v.c.QueryLog.Output, v.c.QueryLog.Sample)
	if out := v.c.QueryLog.Output; out != "" && out != "stdout" && out == v.c.AccessLog.Output {
		v.clash(root.Key("query_log").Key("output"), out, "is the file of", root.Key("access_log").Key("output"))
	}
	within(v, root.Key("shutdown_timeout"), v.c.ShutdownTimeout, 0, 24*time.Hour)
}

func (v *validator) lineLog(at Place, name, output string, sample float64) {
	switch {
	case !(sample > 0 && sample <= 1):
		v.wrong(at.Key("sample"), sample, "want above 0 to 1")
	case output == "" && sample != 1:
		v.bad(at.Key("sample"), "given without output: want both, or neither for no %s", name)
	}
}

func (v *validator) state(at Place, s *State) {
	switch {
	case s.Embedded && len(s.Endpoints) > 0:
		v.bad(at.Key("endpoints"), "given with embedded: want one of the two")
	case !s.Embedded && len(s.Endpoints) == 0:
		v.bad(at, "names no store: want embedded: true, or endpoints")
	}
	allTLS := true
	seen := uniques{}
	for i, e := range s.Endpoints {
		at := at.Key("endpoints").Item(i, "")
		u, err := url.Parse(e)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
			strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			if strings.Contains(e, "@") { // it may hold a password, which is not for messages
				v.bad(at, "want a URL such as https://etcd1:2379, without @: name the user in username and password")
				continue
			}
			v.wrong(at, e, "want a URL such as https://etcd1:2379")
			continue
		}
		allTLS = allTLS && u.Scheme == "https"
		seen.add(v, at, strings.ToLower(u.Scheme+"://"+u.Host), e)
	}
	v.pair(at, "certificate", s.Certificate, "key", s.Key)
	v.pair(at, "username", s.Username, "password", s.Password)
	for _, f := range []struct{ key, value string }{{"ca", s.CA}, {"certificate", s.Certificate}, {"username", s.Username}} {
		switch {
		case f.value == "":
		case s.Embedded:
			v.bad(at.Key(f.key), "given with embedded: want it with endpoints only")
		case !allTLS && f.key != "username":
			v.bad(at.Key(f.key), "given with an http endpoint: want https for all of them")
		}
	}
}

// pair checks that two keys are given together.
func (v *validator) pair(at Place, key1, value1, key2, value2 string) {
	switch {
	case value1 != "" && value2 == "":
		v.bad(at.Key(key1), "given without %s: want both or neither", key2)
	case value1 == "" && value2 != "":
		v.bad(at.Key(key2), "given without %s: want both or neither", key1)
	}
}

// wholeSeconds checks a time that DNS counts in seconds.
func (v *validator) wholeSeconds(at Place, ttl, least, most time.Duration) {
	if within(v, at, ttl, least, most) && ttl%time.Second != 0 {
		v.wrong(at, ttl, "want whole seconds")
	}
}

// hundredths reports whether a weight is a multiple of 0.01, give or take what
// binary fractions cannot hold.
func hundredths(w float64) bool {
	return math.Abs(w*100-math.Round(w*100)) < 1e-9
}

// unused warns of what is declared and serves nothing.
func (v *validator) unused() {
	if v.c.State != nil {
		return // the store may use it
	}
	for i, m := range v.c.Monitors {
		if m.Name != "" && !v.usedMonitors[m.Name] {
			v.warn(Place{}.Key("monitors").Item(i, m.Name), "not used by any pool")
		}
	}
	for i, g := range v.c.MonitorGroups {
		if g.Name != "" && !v.usedGroups[g.Name] {
			v.warn(Place{}.Key("monitor_groups").Item(i, g.Name), "not used by any pool")
		}
	}
	for i, p := range v.c.Pools {
		if p.Name != "" && !v.usedPools[p.Name] {
			v.warn(Place{}.Key("pools").Item(i, p.Name), "not used by any load balancer")
		}
	}
	if len(v.c.Listeners) == 0 {
		v.warn(Place{}.Key("listeners"), "none: nothing is served")
	}
}
