package dnswire

import (
	"encoding/binary"
	"net/netip"
)

// Query is a message from a client, as read by Parse. It is reused; Name and
// Cookie are parts of the message.
type Query struct {
	ID     uint16
	Opcode Opcode
	// RD and CD are the flags that an answer repeats.
	RD, CD bool

	// Question is false where there is none: the other fields of the question
	// mean nothing then.
	Question bool
	Name     []byte // as sent; its case is kept in the answer
	Key      Key
	Type     Type
	Class    Class

	// EDNS is whether the query has an OPT record, whose content follows.
	EDNS    bool
	Version uint8
	UDPSize int
	DO, CO  bool // DNSSEC is understood; compact answers are (RFC 9824)
	NSID    bool
	// Keepalive and Padding tell that the client knows these options.
	Keepalive, Padding bool

	// HasECS is whether the query names a client subnet.
	HasECS bool
	ECS    ECS
	// Cookie is the client's and, if it has one, the server's; nil for none.
	Cookie []byte

	// TSIG is where the TSIG record begins in the message; 0 for none.
	TSIG int
}

// ECS is a client subnet (RFC 7871).
type ECS struct {
	Family uint16
	Source uint8
	// Prefix is the subnet. It is invalid for family 0 with no address.
	Prefix netip.Prefix
}

// Verdict is what Parse says of a message.
type Verdict uint8

// The verdicts.
const (
	// Fine: it can be answered.
	Fine Verdict = iota
	// Drop: it is not to be answered at all, as it is no query.
	Drop
	// Malformed: FORMERR. What could be read was read.
	Malformed
	// Unknown: the opcode is none that is known, NOTIMP.
	Unknown
	// NewVersion: the version of EDNS is not known, BADVERS.
	NewVersion
)

const optFlagDO, optFlagCO = 0x8000, 0x4000

// Parse reads a message. It is strict: what could be read in two ways, or is
// longer than it says, is malformed.
func (q *Query) Parse(b []byte) Verdict {
	// Not by *q = Query{}: the key is large, and valid only after a question.
	q.Question, q.EDNS, q.HasECS, q.Cookie, q.TSIG = false, false, false, nil, 0
	q.DO, q.CO, q.NSID, q.Keepalive, q.Padding, q.Version = false, false, false, false, false, 0
	if len(b) < HeaderSize || b[2]&FlagQR != 0 {
		return Drop
	}
	q.ID = binary.BigEndian.Uint16(b)
	q.Opcode = Opcode(b[2] >> 3 & 15)
	q.RD, q.CD = b[2]&FlagRD != 0, b[3]&FlagCD != 0
	if q.Opcode != OpQuery && q.Opcode != OpNotify && q.Opcode != OpUpdate {
		return Unknown // its counts may mean something else
	}
	questions := binary.BigEndian.Uint16(b[4:])
	answers := binary.BigEndian.Uint16(b[6:])
	authorities := binary.BigEndian.Uint16(b[8:])
	additionals := binary.BigEndian.Uint16(b[10:])
	i := HeaderSize
	switch {
	case questions == 1:
		n := wireName(b[i:])
		if n == 0 || i+n+4 > len(b) {
			return Malformed
		}
		q.Name = b[i : i+n]
		i += n
		q.Type = Type(binary.BigEndian.Uint16(b[i:]))
		q.Class = Class(binary.BigEndian.Uint16(b[i+2:]))
		i += 4
		q.Question = true
		q.Key.Set(q.Name)
	case questions != 0:
		return Malformed // RFC 9619
	}
	if q.Opcode != OpQuery {
		return Fine // what follows is of no interest to whoever refuses it
	}
	// A query brings no records but those about itself; IXFR names the version
	// that the client has.
	if answers != 0 || authorities != 0 && !(authorities == 1 && q.Question && q.Type == TypeIXFR) {
		return Malformed
	}
	for range authorities {
		if i = skipRecord(b, i); i < 0 {
			return Malformed
		}
	}
	verdict := Fine
	for n := range additionals {
		next := skipRecord(b, i)
		if next < 0 || q.TSIG != 0 { // which is the last
			return Malformed
		}
		if b[i] == 0 && Type(binary.BigEndian.Uint16(b[i+1:])) == TypeOPT {
			if q.EDNS {
				return Malformed
			}
			if v := q.parseOPT(b[i+1 : next]); v == Malformed {
				return v
			} else if v != Fine {
				verdict = v
			}
		} else if t := typeAt(b, i); t == TypeTSIG && n == additionals-1 {
			q.TSIG = i
		} else if t == TypeOPT || t == TypeTSIG {
			return Malformed // OPT belongs to the root
		}
		i = next
	}
	switch {
	case i != len(b):
		return Malformed
	case verdict == Fine && !q.Question && q.Cookie == nil: // RFC 7873 section 5.4
		return Malformed
	}
	return verdict
}

// typeAt returns the type of a record that skipRecord has accepted.
func typeAt(b []byte, i int) Type {
	return Type(binary.BigEndian.Uint16(b[skipName(b, i):]))
}

// skipName returns the position behind a name that may be compressed; -1 if
// there is none. Where a pointer leads is of no interest.
func skipName(b []byte, i int) int {
	for start := i; i < len(b) && i-start < MaxName; {
		switch c := b[i]; {
		case c == 0:
			return i + 1
		case c <= MaxLabel:
			i += 1 + int(c)
		case c >= 0xc0 && i+1 < len(b) && (int(c&0x3f)<<8|int(b[i+1])) < start:
			return i + 2
		default:
			return -1
		}
	}
	return -1
}

// skipRecord returns the position behind a record; -1 if there is none.
func skipRecord(b []byte, i int) int {
	if i = skipName(b, i); i < 0 || i+10 > len(b) {
		return -1
	}
	if i += 10 + int(binary.BigEndian.Uint16(b[i+8:])); i > len(b) {
		return -1
	}
	return i
}

// parseOPT reads an OPT record from its type on; its length has been checked.
func (q *Query) parseOPT(b []byte) Verdict {
	q.EDNS = true
	q.UDPSize = max(int(binary.BigEndian.Uint16(b[2:])), MinUDP)
	q.Version = b[5]
	if q.Version != 0 {
		return NewVersion // what the rest means is not known
	}
	flags := binary.BigEndian.Uint16(b[6:])
	q.DO, q.CO = flags&optFlagDO != 0, flags&optFlagCO != 0
	for b = b[10:]; len(b) > 0; {
		if len(b) < 4 {
			return Malformed
		}
		code, n := Option(binary.BigEndian.Uint16(b)), int(binary.BigEndian.Uint16(b[2:]))
		if len(b) < 4+n {
			return Malformed
		}
		data := b[4 : 4+n]
		b = b[4+n:]
		switch code {
		case OptNSID:
			q.NSID = true
		case OptKeepalive:
			q.Keepalive = true
		case OptPadding:
			q.Padding = true
		case OptECS:
			if q.HasECS || !q.parseECS(data) {
				return Malformed
			}
		case OptCookie:
			if n != 8 && (n < 16 || n > 40) {
				return Malformed
			}
			if q.Cookie == nil { // the first counts (RFC 7873 section 5.2)
				q.Cookie = data
			}
		}
	}
	return Fine
}

// parseECS reads a client subnet. The address has as many bytes as the prefix
// needs, and no bit behind it (RFC 7871 section 6).
func (q *Query) parseECS(b []byte) bool {
	if len(b) < 4 || b[3] != 0 {
		return false
	}
	e := ECS{Family: binary.BigEndian.Uint16(b), Source: b[2]}
	bytes, most := b[4:], 0
	switch e.Family {
	case 1:
		most = 32
	case 2:
		most = 128
	case 0: // "none", for those who have no address to tell (RFC 7871 section 7.1.2)
		if e.Source != 0 || len(bytes) != 0 {
			return false
		}
		q.HasECS, q.ECS = true, e
		return true
	default:
		return false
	}
	if int(e.Source) > most || len(bytes) != (int(e.Source)+7)/8 {
		return false
	}
	var addr netip.Addr
	if e.Family == 1 {
		var a [4]byte
		copy(a[:], bytes)
		addr = netip.AddrFrom4(a)
	} else {
		var a [16]byte
		copy(a[:], bytes)
		addr = netip.AddrFrom16(a)
	}
	e.Prefix = netip.PrefixFrom(addr, int(e.Source))
	if e.Prefix.Masked() != e.Prefix {
		return false
	}
	q.HasECS, q.ECS = true, e
	return true
}
