package dnslb

import (
	"encoding/binary"

	"fairlead/internal/dnssec"
	"fairlead/internal/dnswire"
	"fairlead/internal/zone"
)

// section is a part of a message that has records.
type section int

// The sections, by the place of their counts in the header.
const (
	answerSection section = iota
	authoritySection
	additionalSection
)

// message is an answer that is being written.
type message struct {
	b     []byte
	start int // of the message in b
	limit int // of b, with room kept for OPT
	count [3]uint16
	rcode dnswire.RCode
	flags byte // AA and TC
}

// begin writes the header and repeats the question as it was asked. limit is the
// size of the whole message at most, and reserve what OPT takes of it.
func (m *message) begin(b []byte, q *dnswire.Query, limit, reserve int) {
	m.start = len(b)
	m.limit = m.start + limit - reserve
	m.count = [3]uint16{}
	m.rcode, m.flags = dnswire.NoError, 0
	b = append(b, byte(q.ID>>8), byte(q.ID), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	if q.Question {
		b[m.start+5] = 1
		b = append(b, q.Name...)
		b = append(b, byte(q.Type>>8), byte(q.Type), byte(q.Class>>8), byte(q.Class))
	}
	m.b = b
}

// add writes a set whose records belong to the name at position owner, in a zone
// whose name is at position origin, unless there is no room for all of it. It
// returns where in the message it stands; 0 if it does not.
func (m *message) add(to section, s *zone.Set, owner, origin int) (at int) {
	if len(m.b)+s.Size() > m.limit {
		return 0
	}
	at = len(m.b) - m.start
	m.b = s.AppendTo(m.b, owner, origin)
	m.count[to] += uint16(s.Count)
	return at
}

// require is add for what an answer is not whole without: where it has no room,
// the client is told to ask over TCP.
func (m *message) require(to section, s *zone.Set, owner, origin int) (at int, ok bool) {
	if at = m.add(to, s, owner, origin); at == 0 {
		m.flags |= dnswire.FlagTC
	}
	return at, at != 0
}

// record appends one record with data, whose owner is at a position; false if
// there is no room.
func (m *message) record(to section, owner int, t dnswire.Type, class dnswire.Class, ttl uint32, data []byte) (at int, ok bool) {
	if len(m.b)+12+len(data) > m.limit {
		m.flags |= dnswire.FlagTC
		return 0, false
	}
	at = len(m.b) - m.start
	m.b = append(m.b, 0xc0|byte(owner>>8), byte(owner), byte(t>>8), byte(t), byte(class>>8), byte(class),
		byte(ttl>>24), byte(ttl>>16), byte(ttl>>8), byte(ttl), byte(len(data)>>8), byte(len(data)))
	m.b = append(m.b, data...)
	m.count[to]++
	return at, true
}

// mark is a place in a message to go back to.
type mark struct {
	length int
	count  [3]uint16
}

func (m *message) mark() mark { return mark{len(m.b), m.count} }

// rewind takes away what was written since a mark.
func (m *message) rewind(to mark) { m.b, m.count = m.b[:to.length], to.count }

// empty takes all records away.
func (m *message) empty(q *dnswire.Query) {
	end := m.start + dnswire.HeaderSize
	if q.Question {
		end += len(q.Name) + 4
	}
	m.b = m.b[:end]
	m.count = [3]uint16{}
}

// options are what the OPT record of an answer has.
type options struct {
	udpSize   int
	do, co    bool
	nsid      string
	cookie    []byte // client's and server's
	ecs       *dnswire.ECS
	scope     uint8
	ede       int // -1 for none; the info code
	keepalive int // in units of 100 ms; -1 for none
	pad       int // the size of the message is a multiple of it; 0 for any
}

// size returns how many bytes the OPT record takes, without padding.
func (o *options) size() int {
	n := dnswire.OPTSize
	if o.nsid != "" {
		n += 4 + len(o.nsid)
	}
	if len(o.cookie) > 0 {
		n += 4 + len(o.cookie)
	}
	if o.ecs != nil {
		n += 8 + (int(o.ecs.Source)+7)/8
	}
	n += 6 // an extended error, which may still come
	if o.keepalive >= 0 {
		n += 6
	}
	if o.pad > 0 {
		n += 4
	}
	return n
}

// finish fills in the header, and appends the OPT record if the query had one.
func (m *message) finish(q *dnswire.Query, o *options) []byte {
	additional := m.count[additionalSection]
	if q.EDNS {
		m.opt(o)
		additional++
	}
	h := m.b[m.start:]
	h[2] = dnswire.FlagQR | byte(q.Opcode)<<3 | m.flags
	if q.RD {
		h[2] |= dnswire.FlagRD
	}
	h[3] = byte(m.rcode) & 15
	if q.CD {
		h[3] |= dnswire.FlagCD
	}
	binary.BigEndian.PutUint16(h[6:], m.count[answerSection])
	binary.BigEndian.PutUint16(h[8:], m.count[authoritySection])
	binary.BigEndian.PutUint16(h[10:], additional)
	return m.b
}

func (m *message) opt(o *options) {
	do := byte(0)
	if o.do {
		do = 0x80
	}
	if o.co {
		do |= dnssec.FlagCO >> 8
	}
	b := append(m.b, 0, 0, byte(dnswire.TypeOPT), byte(o.udpSize>>8), byte(o.udpSize), byte(m.rcode>>4), 0, do, 0, 0, 0)
	start := len(b)
	if o.nsid != "" {
		b = append(option(b, dnswire.OptNSID, len(o.nsid)), o.nsid...)
	}
	if len(o.cookie) > 0 {
		b = append(option(b, dnswire.OptCookie, len(o.cookie)), o.cookie...)
	}
	if e := o.ecs; e != nil {
		n := (int(e.Source) + 7) / 8
		b = option(b, dnswire.OptECS, 4+n)
		b = append(b, byte(e.Family>>8), byte(e.Family), e.Source, o.scope)
		if e.Family == 1 {
			a := e.Prefix.Addr().As4()
			b = append(b, a[:n]...)
		} else if e.Family == 2 {
			a := e.Prefix.Addr().As16()
			b = append(b, a[:n]...)
		}
	}
	if o.ede >= 0 {
		b = append(option(b, dnswire.OptEDE, 2), byte(o.ede>>8), byte(o.ede))
	}
	if o.keepalive >= 0 {
		b = append(option(b, dnswire.OptKeepalive, 2), byte(o.keepalive>>8), byte(o.keepalive))
	}
	if o.pad > 0 {
		b = option(b, dnswire.OptPadding, 0)
		size := len(b) - m.start
		if n := (size+o.pad-1)/o.pad*o.pad - size; n > 0 && size+n <= dnswire.MaxMessage {
			binary.BigEndian.PutUint16(b[len(b)-2:], uint16(n))
			b = append(b, padding[:n]...)
		}
	}
	binary.BigEndian.PutUint16(b[start-2:], uint16(len(b)-start))
	m.b = b
}

// padBlock is what answers over TLS are padded to a multiple of (RFC 8467).
const padBlock = 468

var padding [padBlock]byte

func option(b []byte, code dnswire.Option, n int) []byte {
	return append(b, byte(code>>8), byte(code), byte(n>>8), byte(n))
}
