package h1

// maxHost is the longest host name, 253 bytes and a final dot.
const maxHost = 254

// ValidHost reports whether b is what a Host field may hold here: a name or an
// address, with an optional port.
//
// RFC 3986 would also allow percent-encoded bytes and punctuation in a name.
// No host on the Internet is called that, and readers differ on whether %61 is
// an a, so they are refused; letters, digits, '-', '_' and dots between labels
// remain. A port has one to five digits, is not 0 and has no leading zero.
func ValidHost(b []byte) bool {
	_, ok := splitHost(b)
	return ok
}

// splitHost checks b as ValidHost does and returns it without its port.
func splitHost(b []byte) (host []byte, ok bool) {
	i := 0
	if len(b) > 0 && b[0] == '[' {
		for i < len(b) && b[i] != ']' {
			i++
		}
		if i == len(b) || !validIPv6(b[1:i]) {
			return nil, false
		}
		i++
	} else {
		dot := true // a label may not be empty
		for i < len(b) && class[b[i]]&isName != 0 {
			if b[i] == '.' && dot {
				return nil, false
			}
			dot = b[i] == '.'
			i++
		}
		if i == 0 || i > maxHost {
			return nil, false
		}
	}
	return b[:i:i], i == len(b) || b[i] == ':' && validPort(b[i+1:])
}

func validPort(b []byte) bool {
	if len(b) == 0 || len(b) > 5 || b[0] == '0' {
		return false
	}
	n := 0
	for _, c := range b {
		if class[c]&isDigit == 0 {
			return false
		}
		n = n*10 + int(c-'0')
	}
	return n <= 65535
}

// validIPv6 checks the text form of an IPv6 address (RFC 4291 section 2.2) without
// a zone. It exists because netip.ParseAddr wants a string, hence an allocation.
func validIPv6(b []byte) bool {
	groups, gap := 0, false
	for i := 0; i < len(b); {
		if b[i] == ':' {
			// Only the gap "::" may start with a colon here.
			if gap || i+1 >= len(b) || b[i+1] != ':' {
				return false
			}
			gap = true
			i += 2
			continue
		}
		start := i
		for i < len(b) && unhex[b[i]] != 0xff {
			i++
		}
		if i < len(b) && b[i] == '.' {
			if !validIPv4(b[start:]) {
				return false
			}
			groups += 2
			break
		}
		if i == start || i-start > 4 {
			return false
		}
		groups++
		if i == len(b) {
			break
		}
		if b[i] != ':' || i+1 == len(b) {
			return false
		}
		if b[i+1] != ':' {
			i++
		}
	}
	if gap {
		return groups < 8
	}
	return groups == 8
}

func validIPv4(b []byte) bool {
	parts, digits, n := 1, 0, 0
	for _, c := range b {
		switch {
		case c == '.':
			if digits == 0 {
				return false
			}
			parts, digits, n = parts+1, 0, 0
		case class[c]&isDigit == 0, digits > 0 && n == 0: // no leading zeros
			return false
		default:
			digits++
			if n = n*10 + int(c-'0'); n > 255 {
				return false
			}
		}
	}
	return parts == 4 && digits > 0
}
