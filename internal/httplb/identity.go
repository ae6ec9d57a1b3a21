package httplb

import (
	"bytes"
	"slices"
	"strings"

	"fairlead/internal/h1"
)

// This file is about the headers in which endpoints are told who a client is, by
// the certificate that it has shown. An endpoint believes them, so that no
// client may send them: on no listener, since others may lead to the same
// endpoints, and not in trailers, which some servers merge into the head.

// disown marks the fields of a request that claim to say who the client is, so
// that they are not forwarded.
func (x *exchange) disown(m *h1.Message) {
	names := x.snap.plan.SubjectHeaders
	if len(names) == 0 {
		return
	}
	for i := range m.Fields {
		if f := &m.Fields[i]; f.Kind == h1.KindOther && named(m.Name(f), names) {
			f.Hop = true
		}
	}
}

// named reports whether a field has one of names, which are in lower case. An
// underscore counts as a hyphen, as it does to servers that make variables of
// fields (CGI, WSGI).
func named(field []byte, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		if len(field) != len(name) {
			return false
		}
		for i, c := range field {
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			} else if c == '_' {
				c = '-'
			}
			if c != name[i] {
				return false
			}
		}
		return true
	})
}

// appendTrailer appends the trailer lines that may be forwarded.
func (x *exchange) appendTrailer(out, lines []byte) []byte {
	names := x.snap.plan.SubjectHeaders
	if len(names) == 0 {
		return append(out, lines...)
	}
	for line := range bytes.Lines(lines) {
		if name, _, _ := bytes.Cut(line, []byte(":")); !named(name, names) {
			out = append(out, line...)
		}
	}
	return out
}

// identified appends the subject of the client's certificate, where that is asked
// for. While a reload brings the header the request's plan may not know it: what
// the client sent under the name was not removed then, and nothing is added.
func (x *exchange) identified(out []byte) []byte {
	name := x.ln.set.Load().subjectHeader
	if name == "" || !x.certified || !slices.ContainsFunc(x.snap.plan.SubjectHeaders, func(n string) bool { return strings.EqualFold(n, name) }) {
		return out
	}
	return h1.AppendField(out, name, x.subject)
}
