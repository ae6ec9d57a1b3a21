// Package proxyproto reads the header that proxies send before anything else on a
// connection, so that whoever is behind them knows the client: versions 1 and 2 of
// the PROXY protocol ("The PROXY protocol, versions 1 & 2", HAProxy, 2020).
//
// The package reads bytes that its caller has; it opens nothing and never waits.
package proxyproto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/netip"
	"strconv"
)

// MaxHeader is the longest header that is read, TLVs included. Senders are asked to
// stay below 536 bytes.
const MaxHeader = 4096

// shortest is the length of the shortest header.
const shortest = len("PROXY UNKNOWN\r\n")

// maxLine is the longest header of version 1, with its CRLF.
const maxLine = 107

// Header is what a header says.
type Header struct {
	// Source is the client, Destination whom it connected to. Both are invalid
	// where the header names nobody: a connection of the proxy's own (LOCAL), or
	// of a family that is not the Internet's.
	Source, Destination netip.AddrPort
}

var (
	prefix1   = []byte("PROXY ")
	signature = []byte("\r\n\r\n\x00\r\nQUIT\n")
)

// What is wrong with headers.
var (
	ErrNoHeader = errors.New("no PROXY header")
	ErrLine     = errors.New("malformed PROXY header of version 1")
	ErrVersion  = errors.New("PROXY header of another version than 1 and 2")
	ErrCommand  = errors.New("PROXY header with an unknown command")
	ErrFamily   = errors.New("PROXY header of no stream")
	ErrLength   = errors.New("PROXY header whose length does not fit what it holds")
	ErrLong     = errors.New("PROXY header longer than is read")
	ErrTLV      = errors.New("PROXY header with malformed TLVs")
	ErrChecksum = errors.New("PROXY header with a wrong checksum")
)

// Parse reads a header from the beginning of b. It returns how many bytes it takes;
// or 0, if it is not complete, and how many bytes it lacks at least: as many may be
// read without reading beyond it.
func Parse(b []byte) (h Header, n, lacks int, err error) {
	switch {
	case len(b) == 0: // which version, the first byte says
		return h, 0, shortest, nil
	case begins(b, signature):
		return parse2(b)
	case begins(b, prefix1):
		return parse1(b)
	}
	return h, 0, 0, ErrNoHeader
}

// begins reports whether b may begin with prefix, of which it may have a part.
func begins(b, prefix []byte) bool {
	n := min(len(b), len(prefix))
	return bytes.Equal(b[:n], prefix[:n])
}

// parse1 reads "PROXY TCP4 SOURCE DESTINATION PORT PORT CRLF".
func parse1(b []byte) (h Header, n, lacks int, err error) {
	if len(b) < shortest {
		return h, 0, shortest - len(b), nil
	}
	end := bytes.IndexByte(b[:min(len(b), maxLine)], '\n')
	switch {
	case end < 0 && len(b) >= maxLine:
		return h, 0, 0, ErrLine
	case end < 0:
		return h, 0, 1, nil
	case b[end-1] != '\r':
		return h, 0, 0, ErrLine
	}
	fields := bytes.Split(b[len(prefix1):end-1], []byte(" "))
	if string(fields[0]) == "UNKNOWN" { // whatever follows says nothing
		return h, end + 1, 0, nil
	}
	if len(fields) != 5 {
		return h, 0, 0, ErrLine
	}
	var ok [2]bool
	h.Source, ok[0] = address(fields[0], fields[1], fields[3])
	h.Destination, ok[1] = address(fields[0], fields[2], fields[4])
	if !ok[0] || !ok[1] {
		return Header{}, 0, 0, ErrLine
	}
	return h, end + 1, 0, nil
}

// address reads an address of a family, and a port, in the one form that they have.
func address(family, ip, port []byte) (netip.AddrPort, bool) {
	a, err := netip.ParseAddr(string(ip))
	if err != nil || a.Zone() != "" || a.Is4() != (string(family) == "TCP4") || !a.Is4() && string(family) != "TCP6" {
		return netip.AddrPort{}, false
	}
	p, err := strconv.ParseUint(string(port), 10, 16)
	if err != nil || strconv.FormatUint(p, 10) != string(port) {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(p)), true
}

const (
	fixed2 = 16 // signature, version and command, family, length

	commandLocal = 0
	commandProxy = 1

	familyUnspecified = 0x00
	familyTCP4        = 0x11
	familyTCP6        = 0x21
	familyUnix        = 0x31

	size4, size6, sizeUnix = 12, 36, 216

	typeChecksum = 0x03
)

func parse2(b []byte) (h Header, n, lacks int, err error) {
	if len(b) < fixed2 {
		return h, 0, fixed2 - len(b), nil
	}
	command, family := b[12], b[13]
	n = fixed2 + int(binary.BigEndian.Uint16(b[14:]))
	switch {
	case command>>4 != 2:
		return h, 0, 0, ErrVersion
	case command&15 != commandLocal && command&15 != commandProxy:
		return h, 0, 0, ErrCommand
	case n > MaxHeader:
		return h, 0, 0, ErrLong
	case len(b) < n:
		return h, 0, n - len(b), nil
	}
	size, err := sizeOf(family)
	switch {
	case command&15 == commandLocal, family == familyUnspecified: // the receiver skips all of it
		return h, n, 0, nil
	case err != nil:
		return h, 0, 0, err
	case fixed2+size > n:
		return h, 0, 0, ErrLength
	}
	if err := checkTLVs(b[:n], fixed2+size); err != nil {
		return h, 0, 0, err
	}
	body := b[fixed2:]
	switch family {
	case familyTCP4:
		h.Source = netip.AddrPortFrom(netip.AddrFrom4([4]byte(body)), binary.BigEndian.Uint16(body[8:]))
		h.Destination = netip.AddrPortFrom(netip.AddrFrom4([4]byte(body[4:])), binary.BigEndian.Uint16(body[10:]))
	case familyTCP6:
		h.Source = netip.AddrPortFrom(netip.AddrFrom16([16]byte(body)).Unmap(), binary.BigEndian.Uint16(body[32:]))
		h.Destination = netip.AddrPortFrom(netip.AddrFrom16([16]byte(body[16:])).Unmap(), binary.BigEndian.Uint16(body[34:]))
	}
	return h, n, 0, nil
}

// sizeOf returns the length of a family's addresses.
func sizeOf(family byte) (int, error) {
	switch family {
	case familyUnspecified:
		return 0, nil
	case familyTCP4:
		return size4, nil
	case familyTCP6:
		return size6, nil
	case familyUnix:
		return sizeUnix, nil
	}
	return 0, ErrFamily
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkTLVs checks the form of what follows the addresses, and the checksum if there
// is one, which is of the whole header with zeros in its place (section 2.2.3).
func checkTLVs(header []byte, at int) error {
	for rest := header[at:]; len(rest) > 0; {
		if len(rest) < 3 {
			return ErrTLV
		}
		n := 3 + int(binary.BigEndian.Uint16(rest[1:]))
		if len(rest) < n {
			return ErrTLV
		}
		if rest[0] == typeChecksum {
			if n != 7 {
				return ErrTLV
			}
			place := len(header) - len(rest) + 3
			sum := crc32.Update(0, castagnoli, header[:place])
			sum = crc32.Update(sum, castagnoli, make([]byte, 4))
			sum = crc32.Update(sum, castagnoli, header[place+4:])
			if sum != binary.BigEndian.Uint32(rest[3:]) {
				return ErrChecksum
			}
		}
		rest = rest[n:]
	}
	return nil
}
