package dnswire

import "encoding/binary"

// SOA is the data of a SOA record.
type SOA struct {
	Primary, Contact                        Name
	Serial, Refresh, Retry, Expire, Minimum uint32
}

// soaNumbers is how many bytes follow the names.
const soaNumbers = 20

// SOAOf reads the data of a SOA record, which must be valid.
func SOAOf(data []byte) SOA {
	a := wireName(data)
	b := a + wireName(data[a:])
	n := data[b:]
	return SOA{
		Name(data[:a]), Name(data[a:b]), binary.BigEndian.Uint32(n), binary.BigEndian.Uint32(n[4:]),
		binary.BigEndian.Uint32(n[8:]), binary.BigEndian.Uint32(n[12:]), binary.BigEndian.Uint32(n[16:]),
	}
}

// Data returns the data of the record in wire form.
func (s *SOA) Data() []byte {
	b := append([]byte(s.Primary), s.Contact...)
	for _, v := range []uint32{s.Serial, s.Refresh, s.Retry, s.Expire, s.Minimum} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// SetSerial writes a serial into the data of a SOA record.
func SetSerial(data []byte, serial uint32) {
	binary.BigEndian.PutUint32(data[len(data)-soaNumbers:], serial)
}

// Newer reports whether serial a follows b (RFC 1982).
func Newer(a, b uint32) bool { return a != b && int32(a-b) > 0 }
