package certs

import (
	"crypto/tls"
	"encoding/asn1"
	"encoding/hex"
	"strings"
)

// ClientSubject returns the subject of the certificate that a client has shown,
// if it has shown one that was verified: the text of RFC 4514, in the order of
// the certificate from its end, in ASCII. What would not print is escaped.
func ClientSubject(state *tls.ConnectionState) (verified bool, subject string) {
	if len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return false, ""
	}
	return true, distinguishedName(state.PeerCertificates[0].RawSubject)
}

// The form of a name in a certificate (RFC 5280, section 4.1.2.4). The standard
// library's has each value as its decoder took it, and writes types that it has no
// name for in one way in one release and in another in the next.
type (
	attribute struct {
		Type  asn1.ObjectIdentifier
		Value asn1.RawValue
	}
	relativeNameSET []attribute // asn1 knows a set by the end of its name
)

// attributeNames are those of RFC 4514, section 3, and those that OpenSSL and Go
// write besides.
var attributeNames = map[string]string{
	"2.5.4.3": "CN", "2.5.4.5": "SERIALNUMBER", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET",
	"2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.17": "POSTALCODE",
	"0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC", "1.2.840.113549.1.9.1": "emailAddress",
}

// distinguishedName returns the text of a name that was parsed with its certificate.
func distinguishedName(raw []byte) string {
	var names []relativeNameSET
	if _, err := asn1.Unmarshal(raw, &names); err != nil {
		return "#" + hex.EncodeToString(raw) // the certificate was parsed, so this cannot be
	}
	var b strings.Builder
	for i := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, a := range names[len(names)-1-i] {
			if j > 0 {
				b.WriteByte('+')
			}
			writeAttribute(&b, a)
		}
	}
	return b.String()
}

// writeAttribute writes the type of an attribute and its value. What is no text, or
// of a type without a name, is written as the certificate has it (RFC 4514, section
// 2.4).
func writeAttribute(b *strings.Builder, a attribute) {
	oid := a.Type.String()
	name, named := attributeNames[oid]
	var value any
	_, err := asn1.Unmarshal(a.Value.FullBytes, &value)
	text, ok := value.(string)
	if !named {
		name = oid
	}
	b.WriteString(name)
	b.WriteByte('=')
	if err != nil || !ok || !named {
		b.WriteByte('#')
		b.WriteString(hex.EncodeToString(a.Value.FullBytes))
		return
	}
	for i := range len(text) {
		writeEscaped(b, text[i], i == 0, i == len(text)-1)
	}
}

// writeEscaped writes a byte of a value (RFC 4514, section 2.4): separators behind a
// backslash, and as a backslash and two digits what a header, or a terminal, could
// take for something else.
func writeEscaped(b *strings.Builder, c byte, first, last bool) {
	const digits = "0123456789ABCDEF"
	switch {
	case c < 0x20 || c >= 0x7f:
		b.Write([]byte{'\\', digits[c>>4], digits[c&15]})
		return
	case strings.IndexByte(`,+"\<>;`, c) >= 0, c == ' ' && (first || last), c == '#' && first:
		b.WriteByte('\\')
	}
	b.WriteByte(c)
}
