package model

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

func (v *validator) eachMonitor() {
	names := uniques{}
	for i := range v.c.Monitors {
		m := &v.c.Monitors[i]
		at := Place{}.Key("monitors").Item(i, m.Name)
		v.name(at.Key("name"), m.Name, "")
		if m.Name != "" {
			names.add(v, at.Key("name"), m.Name, m.Name)
		}
		v.monitor(at, m)
	}
}

func (v *validator) monitor(at Place, m *Monitor) {
	v.description(at.Key("description"), m.Description)
	enum(v, at.Key("type"), m.Type)
	within(v, at.Key("retries"), m.Retries, 0, 5)
	within(v, at.Key("consecutive_up"), m.ConsecutiveUp, 0, 100)
	within(v, at.Key("consecutive_down"), m.ConsecutiveDown, 0, 100)
	timely := within(v, at.Key("interval"), m.Interval, 50*time.Millisecond, time.Hour)
	timely = within(v, at.Key("timeout"), m.Timeout, 50*time.Millisecond, time.Minute) && timely
	if worst := m.Timeout * time.Duration(m.Retries+1); timely && m.Retries >= 0 && worst >= m.Interval {
		v.warn(at.Key("timeout"), "a check may take %s (%d attempts of %s), which is not below the interval of %s: checks are then made less often",
			Show(worst), m.Retries+1, Show(m.Timeout), Show(m.Interval))
	}
	if within(v, at.Key("port"), m.Port, 0, 65535) && m.Port != 0 && m.Type == MonitorICMPPing {
		v.bad(at.Key("port"), "given with type icmp_ping, which has no ports")
	}
	if slices.Contains(m.Type.Values(), string(m.Type)) {
		v.monitorFit(at, m)
	}
	if m.TLS != "" {
		enum(v, at.Key("tls"), m.TLS)
	}
	v.monitorRequest(at, m)
}

// monitorFit finds fields that the type of the monitor does not have.
func (v *validator) monitorFit(at Place, m *Monitor) {
	http, grpc := m.SpeaksHTTP(), m.Type == MonitorGRPC
	for _, f := range []struct {
		key   string
		given bool
		fits  bool
		want  string
	}{
		{"method", m.Method != "", http, "http or https"},
		{"path", m.Path != "", http || grpc, "http, https or grpc"},
		{"header", len(m.Header) > 0, http || grpc, "http, https or grpc"},
		{"expected_codes", m.ExpectedCodes != "", http, "http or https"},
		{"expected_body", m.ExpectedBody != "", http, "http or https"},
		{"follow_redirects", m.FollowRedirects, http, "http or https"},
		{"simulate_zone", m.SimulateZone, http, "http or https"},
		{"allow_insecure", m.AllowInsecure, m.Type == MonitorHTTPS || grpc || m.ChoosesTLS() || http && m.FollowRedirects, "https, grpc, smtp or ldap"},
		{"tls", m.TLS != "", m.ChoosesTLS(), "smtp or ldap"},
		{"ldap", m.LDAP != (LDAPBind{}), m.Type == MonitorLDAP, "ldap"},
	} {
		if f.given && !f.fits {
			v.bad(at.Key(f.key), "given with type %s: want it with %s only", m.Type, f.want)
		}
	}
	if m.ChoosesTLS() && m.AllowInsecure && !m.OverTLS() {
		v.bad(at.Key("allow_insecure"), "given with tls none: there is no certificate to verify")
	}
	if http && m.SimulateZone && m.AllowInsecure {
		v.bad(at.Key("allow_insecure"), "given with simulate_zone: requests are never sent to an endpoint that is not verified")
	}
	if m.Type == MonitorLDAP {
		v.ldap(at, m)
	}
}

// ldap checks what only an ldap monitor has.
func (v *validator) ldap(at Place, m *Monitor) {
	if m.TLS == MonitorTLSAuto {
		v.wrong(at.Key("tls"), m.TLS, "want none, starttls or implicit with type ldap")
	}
	at = at.Key("ldap")
	v.pair(at, "bind_dn", m.LDAP.BindDN, "password_file", m.LDAP.PasswordFile)
	switch dn := m.LDAP.BindDN; {
	case len(dn) > 1024:
		v.bad(at.Key("bind_dn"), "%d bytes long: want at most 1024", len(dn))
	case !utf8.ValidString(dn) || strings.ContainsFunc(dn, unicode.IsControl):
		v.bad(at.Key("bind_dn"), "want no control characters")
	}
	if m.LDAP.PasswordFile != "" && m.WayToTLS() == MonitorTLSNone {
		v.warn(at.Key("password_file"), "given with tls none: each check sends the password in the clear")
	}
}

// MaxExpectedBody is how much of an answer's body a probe reads.
const MaxExpectedBody = 100 << 10

// monitorRequest checks the parts of the request that a probe makes.
func (v *validator) monitorRequest(at Place, m *Monitor) {
	if m.Method != "" {
		upper := strings.ToUpper(m.Method)
		switch {
		case !isToken(m.Method):
			v.wrong(at.Key("method"), m.Method, "want a method such as GET")
		case m.Method != upper && slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "OPTIONS", "CONNECT"}, upper):
			v.wrong(at.Key("method"), m.Method, "want capitals; did you mean %q?", upper)
		case m.Method == "CONNECT":
			v.wrong(at.Key("method"), m.Method, "want a method that asks for a path")
		case m.Method == "HEAD" && m.ExpectedBody != "":
			v.bad(at.Key("expected_body"), "given with method HEAD, whose answers have no body")
		}
	}
	if m.Path != "" {
		switch {
		case m.SpeaksHTTP() && m.Path[0] != '/':
			v.wrong(at.Key("path"), m.Path, "want a path that begins with /")
		case strings.Contains(m.Path, "#") || strings.ContainsFunc(m.Path, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
			v.wrong(at.Key("path"), m.Path, "want visible ASCII without #; write other characters as %%XX")
		case len(m.Path) > 8192:
			v.bad(at.Key("path"), "%d bytes long: want at most 8192", len(m.Path))
		}
	}
	if m.ExpectedCodes != "" {
		if _, err := ParseCodes(m.ExpectedCodes); err != nil {
			v.bad(at.Key("expected_codes"), "%v", err)
		}
	}
	if n := len(m.ExpectedBody); n > MaxExpectedBody {
		v.bad(at.Key("expected_body"), "%d bytes long: want at most the %d that are searched", n, MaxExpectedBody)
	}
	names := uniques{}
	for _, name := range sortedKeys(m.Header) {
		at := at.Key("header").Header(name)
		if !isToken(name) || names.add(v, at, strings.ToLower(name), name) {
			v.requestHeader(at, name, m.Header[name])
		}
	}
}

// ownHeaders are request headers that the prober itself decides on, because
// they frame the message or belong to the connection.
var ownHeaders = []string{
	"connection", "content-length", "expect", "keep-alive", "proxy-connection", "te", "trailer",
	"transfer-encoding", "upgrade", "http2-settings",
}

func (v *validator) requestHeader(at Place, name string, values []string) {
	lower := strings.ToLower(name)
	switch {
	case !isToken(name):
		v.bad(at, "want a header name of letters, digits and -")
		return
	case lower == "user-agent":
		v.bad(at, "cannot be set: probes name themselves")
		return
	case slices.Contains(ownHeaders, lower):
		v.bad(at, "cannot be set: it belongs to the connection")
		return
	case lower == "host":
		v.host(at, name, values)
		return
	case len(values) == 0:
		v.bad(at, "want at least one value")
	}
	for i, value := range values {
		v.headerValue(at.Item(i, ""), value)
	}
}

// host checks a Host header, which has one value.
func (v *validator) host(at Place, name string, values []string) {
	if name != "Host" {
		v.bad(at, `want it spelt "Host"`)
	}
	if len(values) != 1 {
		v.bad(at, "has %d values: want exactly one", len(values))
		return
	}
	if err := hostHeader(values[0]); err != nil {
		v.wrong(at.Item(0, ""), values[0], "%v", err)
	}
}

// headerValue checks a value without showing it: it may be a credential.
func (v *validator) headerValue(at Place, value string) {
	switch {
	case len(value) > 8192:
		v.bad(at, "%d bytes long: want at most 8192", len(value))
	case value != strings.Trim(value, " \t"):
		v.bad(at, "want no space at the ends")
	case !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		v.bad(at, "want no control characters")
	}
}

// isToken reports whether s can be a method or the name of a header.
func isToken(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for _, r := range s {
		if !isLetter(r) && !isDigit(r) && !strings.ContainsRune("!#$%&'*+-.^_`|~", r) {
			return false
		}
	}
	return true
}
