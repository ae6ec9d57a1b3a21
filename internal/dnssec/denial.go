package dnssec

import (
	"slices"

	"fairlead/internal/dnswire"
)

// FlagCO is the flag in the EDNS header by which whoever asks says that it
// understands NXDOMAIN beside an NSEC record of the name itself (RFC 9824 section
// 5). A server that understands it sets it in its response to such a question.
const FlagCO = 0x4000

// NXDomainRCode returns the code of a response that says that a name does not
// exist. Where signatures are asked for, that is NOERROR with an NSEC record of the
// name, as validators know it, unless whoever asks understands the flag CO.
func NXDomainRCode(do, co bool) dnswire.RCode {
	if do && !co {
		return dnswire.NoError
	}
	return dnswire.NXDomain
}

// AppendNoName appends the data of the NSEC record at a name that does not exist.
func AppendNoName(dst, name []byte) []byte {
	return append(appendNext(dst, name), 0, 17, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80)
}

// AppendNoData appends the data of the NSEC record at a name that exists, and does
// not have the type that was asked for. Types are those that there may be at the
// name: not only now, as resolvers take the record for what it says about other
// types too (RFC 8198), so a steered name has A and AAAA whenever its pools can
// have such addresses. The type that is denied must not be among them. An empty
// non-terminal has no types. RRSIG and NSEC are added.
//
// It is also the record of the name that a wildcard matches without the type.
func AppendNoData(dst, name []byte, types []dnswire.Type) []byte {
	return appendTypes(appendNext(dst, name), types)
}

// AppendUnsigned appends the data of the NSEC record at a delegation to a zone
// that is not signed: there is no DS. The next name is the first that is not below
// the delegation, for names below are not this zone's to deny (RFC 9824 section
// 3.4).
func AppendUnsigned(dst, name []byte) []byte {
	return appendTypes(appendBeside(dst, name), []dnswire.Type{dnswire.TypeNS})
}

// appendNext appends the name that follows name directly in canonical order:
// below it, with the least of all labels.
func appendNext(dst, name []byte) []byte {
	if len(name)+2 <= dnswire.MaxName {
		return append(append(dst, 1, 0), name...)
	}
	return appendBeside(dst, name)
}

// appendBeside appends the name that follows name and all names that can be below
// it. A name of the greatest length has none below it.
func appendBeside(dst, name []byte) []byte {
	first := int(name[0])
	switch {
	case first == 0: // the root: there is nothing beside it
		return append(dst, name...)
	case first < 63 && len(name) < dnswire.MaxName:
		dst = append(append(dst, byte(first+1)), name[1:1+first]...)
		return append(append(dst, 0), name[1+first:]...)
	}
	// No room for one byte more: count the last byte of the label up, with what
	// must be cut off where it is the greatest (RFC 4471 section 3.1.2).
	label := slices.Clone(name[1 : 1+first])
	for len(label) > 0 && label[len(label)-1] == 0xff {
		label = label[:len(label)-1]
	}
	if len(label) == 0 {
		return appendBeside(dst, name[1+first:])
	}
	last := &label[len(label)-1]
	if *last++; 'A' <= *last && *last <= 'Z' {
		*last = 'Z' + 1 // capitals are lower-case letters in this order
	}
	dst = append(append(dst, byte(len(label))), label...)
	return append(dst, name[1+first:]...)
}

// appendTypes appends the bitmap of types, RRSIG and NSEC.
func appendTypes(dst []byte, types []dnswire.Type) []byte {
	var memory [48]dnswire.Type
	all := append(append(memory[:0], types...), dnswire.TypeRRSIG, dnswire.TypeNSEC)
	slices.Sort(all)
	for i := 0; i < len(all); {
		window := all[i] >> 8
		at := len(dst)
		dst = append(dst, byte(window), 0)
		for ; i < len(all) && all[i]>>8 == window; i++ {
			bit := int(all[i] & 0xff)
			for len(dst)-at-2 <= bit/8 {
				dst = append(dst, 0)
			}
			dst[at+2+bit/8] |= 0x80 >> (bit % 8)
		}
		dst[at+1] = byte(len(dst) - at - 2)
	}
	return dst
}
