package dnswire

import "encoding/binary"

// Keys of parameters of SVCB and HTTPS records (RFC 9460 section 14.3.2).
const (
	svcbIPv4Hint = 4
	svcbIPv6Hint = 6
)

// HasAddressHint reports whether the data of an SVCB or HTTPS record names addresses.
func HasAddressHint(data []byte) bool {
	if len(data) < 2 {
		return false
	}
	i := 2 + wireName(data[2:])
	for i > 2 && i+4 <= len(data) {
		if key := binary.BigEndian.Uint16(data[i:]); key == svcbIPv4Hint || key == svcbIPv6Hint {
			return true
		}
		i += 4 + int(binary.BigEndian.Uint16(data[i+2:]))
	}
	return false
}
