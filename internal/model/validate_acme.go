package model

import (
	"net/netip"
	"net/url"
	"strings"
)

func (v *validator) acme() {
	a := v.c.ACME
	if a == nil {
		return
	}
	at := Place{}.Key("acme")
	switch u, err := url.Parse(a.Directory); {
	case strings.Contains(a.Directory, "@"): // what stands before it is not to be shown
		v.bad(at.Key("directory"), "want a URL without a user and a password")
	case a.Directory == "":
		v.bad(at.Key("directory"), "missing: want the URL of an ACME directory, or leave the key out")
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Fragment != "":
		v.wrong(at.Key("directory"), a.Directory, "want the URL of an ACME directory, such as https://acme-v02.api.letsencrypt.org/directory")
	}
	if a.Email != "" {
		if name, host, ok := strings.Cut(a.Email, "@"); !ok || name == "" || checkHostName(host, false) != nil || strings.ContainsFunc(name, notInEmail) {
			v.wrong(at.Key("email"), a.Email, "want one e-mail address, such as admin@example.com")
		}
	}
	if !a.AcceptTermsOfService {
		v.bad(at.Key("accept_terms_of_service"), "want true, once you have read the terms of service that the authority's directory names")
	}
	if e := a.ExternalAccount; e != nil {
		at := at.Key("external_account")
		v.pair(at, "key_id", e.KeyID, "key", e.Key)
		switch {
		case e.KeyID == "" && e.Key == "":
			v.bad(at.Key("key_id"), "missing: want what the authority has given")
		case strings.ContainsFunc(e.KeyID, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
			v.wrong(at.Key("key_id"), e.KeyID, "want printable ASCII without spaces")
		}
	}
	if !v.c.anyListener(func(l *Listener) bool { return len(l.ACME) > 0 }) {
		v.warn(at, "no listener has acme: no certificate is obtained")
	}
}

// notInEmail reports what a mailto URL would have to escape, or could take for
// more than one address.
func notInEmail(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"#%&(),/:;<=>?@[\]^{|}`+"`", r)
}

// acmeNames checks the names whose certificates a listener obtains.
func (v *validator) acmeNames(at Place, l *Listener) {
	if len(l.ACME) == 0 {
		return
	}
	if l.Protocol != ListenerHTTPS {
		v.bad(at, "given with protocol %s: want it with https only", l.Protocol)
	}
	if v.c.ACME == nil {
		v.bad(at, "given without acme at the top of the file: want that with accept_terms_of_service: true")
	}
	names := uniques{}
	for i, name := range l.ACME {
		at := at.Item(i, "")
		if strings.Contains(name, "*") {
			v.wrong(at, name, "authorities give wildcards by DNS-01 only, which is not done: want each name, or a file under certificates")
			continue
		}
		if _, err := netip.ParseAddr(name); err == nil {
			v.wrong(at, name, "want a host name, not an address")
			continue
		}
		if err := checkHostName(name, false); err != nil {
			v.wrong(at, name, "%v", err)
			continue
		}
		if strings.Contains(name, "_") {
			v.wrong(at, name, "authorities give no certificates for names with _: want letters, digits, - and dots")
			continue
		}
		names.add(v, at, CanonicalHost(name), name)
	}
}
