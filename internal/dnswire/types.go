package dnswire

import (
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// Type is the type of a record, or that a query asks for.
type Type uint16

// The types that serving knows by name.
const (
	TypeA       Type = 1
	TypeNS      Type = 2
	TypeCNAME   Type = 5
	TypeSOA     Type = 6
	TypePTR     Type = 12
	TypeMX      Type = 15
	TypeTXT     Type = 16
	TypeAAAA    Type = 28
	TypeSRV     Type = 33
	TypeNAPTR   Type = 35
	TypeDNAME   Type = 39
	TypeOPT     Type = 41
	TypeDS      Type = 43
	TypeRRSIG   Type = 46
	TypeNSEC    Type = 47
	TypeDNSKEY  Type = 48
	TypeNSEC3   Type = 50
	TypeCDS     Type = 59
	TypeCDNSKEY Type = 60
	TypeSVCB    Type = 64
	TypeHTTPS   Type = 65
	TypeCAA     Type = 257

	// Types that only queries, or parts of messages, have.
	TypeNXNAME Type = 128
	TypeTKEY   Type = 249
	TypeTSIG   Type = 250
	TypeIXFR   Type = 251
	TypeAXFR   Type = 252
	TypeMAILB  Type = 253
	TypeMAILA  Type = 254
	TypeANY    Type = 255
)

// String returns the type's name, TYPE123 for one without.
func (t Type) String() string {
	if s, ok := dns.TypeToString[uint16(t)]; ok && t != 0 {
		return s
	}
	return "TYPE" + strconv.Itoa(int(t))
}

// ParseType reads the name of a type, in any case, or TYPE123 (RFC 3597).
func ParseType(s string) (Type, bool) {
	s = strings.ToUpper(s)
	if t, ok := dns.StringToType[s]; ok && t != 0 && t != dns.TypeReserved {
		return Type(t), true
	}
	if digits, ok := strings.CutPrefix(s, "TYPE"); ok && digits != "" && digits[0] != '+' && digits[0] != '-' {
		if n, err := strconv.ParseUint(digits, 10, 16); err == nil {
			return Type(n), true
		}
	}
	return 0, false
}

// Meta reports whether the type is none of data: no record of a zone has it.
func (t Type) Meta() bool { return t == 0 || t == TypeOPT || t >= 128 && t <= 255 }

// Class is the class of a record or a query.
type Class uint16

// The classes.
const (
	ClassIN  Class = 1
	ClassCH  Class = 3
	ClassANY Class = 255
)

// String returns the mnemonic of the class, CLASS123 for one without.
func (c Class) String() string {
	if s, ok := dns.ClassToString[uint16(c)]; ok {
		return s
	}
	return "CLASS" + strconv.Itoa(int(c))
}

// RCode is the result of a query. What is above 15 needs EDNS.
type RCode uint16

// The results.
const (
	NoError   RCode = 0
	FormErr   RCode = 1
	ServFail  RCode = 2
	NXDomain  RCode = 3
	NotImp    RCode = 4
	Refused   RCode = 5
	YXDomain  RCode = 6
	NotAuth   RCode = 9
	BadVers   RCode = 16
	BadCookie RCode = 23
)

// String returns the mnemonic of the result.
func (r RCode) String() string {
	if r == BadVers { // which shares its number with BADSIG
		return "BADVERS"
	}
	if s, ok := dns.RcodeToString[int(r)]; ok {
		return s
	}
	return "RCODE" + strconv.Itoa(int(r))
}

// Opcode says what a message asks for.
type Opcode uint8

// The opcodes.
const (
	OpQuery  Opcode = 0
	OpNotify Opcode = 4
	OpUpdate Opcode = 5
)

// Option is the code of an EDNS option.
type Option uint16

// The options that are read or written.
const (
	OptNSID      Option = 3
	OptECS       Option = 8
	OptCookie    Option = 10
	OptKeepalive Option = 11
	OptPadding   Option = 12
	OptEDE       Option = 15
)

// Info codes of extended errors (RFC 8914).
const (
	EDENotReady         = 14
	EDEProhibited       = 18
	EDENotAuthoritative = 20
	EDENotSupported     = 21
	EDEInvalidQueryType = 30
)

// Flags in the third and fourth byte of a message.
const (
	FlagQR = 0x80 // byte 2
	FlagAA = 0x04
	FlagTC = 0x02
	FlagRD = 0x01
	FlagCD = 0x10 // byte 3
)

// Positions in a message.
const (
	HeaderSize = 12
	// MinUDP is what every client takes over UDP.
	MinUDP = 512
	// MaxMessage is the longest message over TCP.
	MaxMessage = 65535
	// OPTSize is the size of an OPT record without options.
	OPTSize = 11
)
