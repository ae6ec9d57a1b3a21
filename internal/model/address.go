package model

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// SplitAddress splits an endpoint's address into a host name or IP address,
// without brackets, and a port, which is 0 when there is none. It accepts
// host, host:port, IPv4, IPv4:port, IPv6, [IPv6] and [IPv6]:port; an IPv6
// address may have a zone.
func SplitAddress(addr string) (host string, port int, err error) {
	host, portText := addr, ""
	hasPort := false
	switch {
	case addr == "":
		return "", 0, errors.New("want host, host:port, an IP address or [IPv6]:port")
	case strings.Contains(addr, "://"):
		return "", 0, errors.New("want an address, not a URL")
	case addr[0] == '[':
		inside, rest, ok := strings.Cut(addr[1:], "]")
		if !ok {
			return "", 0, errors.New("want ] after the IPv6 address")
		}
		if ip, err := netip.ParseAddr(inside); err != nil || !ip.Is6() {
			return "", 0, fmt.Errorf("%s in brackets: want an IPv6 address", quote(inside))
		}
		host = inside
		if rest != "" {
			if rest[0] != ':' {
				return "", 0, fmt.Errorf("%s after ]: want :port", quote(rest))
			}
			portText, hasPort = rest[1:], true
		}
	case strings.Count(addr, ":") == 1:
		host, portText, hasPort = strings.Cut(addr, ":")
	}
	if hasPort {
		if port, err = parsePort(portText, 1); err != nil {
			return "", 0, err
		}
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return host, port, nil
	}
	if strings.Contains(host, ":") {
		return "", 0, errors.New("want an IPv6 address, or [IPv6]:port")
	}
	if err := checkHostName(host, false); err != nil {
		return "", 0, err
	}
	return host, port, nil
}

// parsePort reads a port of at least least, written as plain digits.
func parsePort(s string, least int) (int, error) {
	want := fmt.Errorf("port %s: want %d to 65535", quote(s), least)
	if s == "" || len(s) > 5 || strings.Trim(s, "0123456789") != "" || len(s) > 1 && s[0] == '0' {
		return 0, want
	}
	port, _ := strconv.Atoi(s)
	if port < least || port > 65535 {
		return 0, want
	}
	return port, nil
}

// checkHostName checks the form of a host name, with or without the dot of
// the root at its end. Underscores are allowed because the DNS has them, and
// container networks too.
func checkHostName(name string, wildcard bool) error {
	if name == "" {
		return errors.New("want a host name")
	}
	s := strings.TrimSuffix(name, ".")
	if wildcard {
		s = strings.TrimPrefix(s, "*.")
	}
	if len(s) > 253 {
		return fmt.Errorf("%d characters long: want at most 253", len(s))
	}
	labels := strings.Split(s, ".")
	for _, label := range labels {
		switch {
		case label == "":
			return errors.New("want a host name without empty labels")
		case len(label) > 63:
			return fmt.Errorf("label of %d characters: want at most 63", len(label))
		case label[0] == '-' || label[len(label)-1] == '-':
			return errors.New("want a host name whose labels neither begin nor end with -")
		case strings.Contains(label, "*") && wildcard:
			return errors.New("want * as the whole first label only, as in *.example.com")
		}
		for _, r := range label {
			if r > 127 {
				return errors.New("want ASCII; other letters are written in the form xn--NAME")
			}
			if !isLetter(r) && !isDigit(r) && r != '-' && r != '_' {
				return errors.New("want a host name of letters, digits, - and dots")
			}
		}
	}
	if last := labels[len(labels)-1]; strings.Trim(last, "0123456789") == "" {
		return errors.New("want a host name or an IP address")
	}
	return nil
}

// CanonicalHost is the form in which host names are compared: lower case,
// without the dot of the root.
func CanonicalHost(name string) string {
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// canonicalAddr is the form in which hosts of endpoints are compared.
func canonicalAddr(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return CanonicalHost(host)
}

// splitListen splits the address of a listener: host:port, :port or
// [IPv6]:port, where port 0 is allowed.
func splitListen(addr string) (host string, port int, err error) {
	cut := strings.LastIndexByte(addr, ':')
	if cut < 0 || strings.HasSuffix(addr, "]") {
		return "", 0, errors.New("want host:port, or :port for all addresses")
	}
	host = addr[:cut]
	if port, err = parsePort(addr[cut+1:], 0); err != nil {
		return "", 0, err
	}
	if host == "" {
		return "", port, nil
	}
	if strings.Contains(host, ":") && host[0] != '[' {
		return "", 0, errors.New("want brackets around an IPv6 address, as in [::1]:8080")
	}
	host, inner, err := SplitAddress(host)
	if err == nil && inner != 0 {
		err = errors.New("want one port")
	}
	return host, port, err
}

func (v *validator) openAddress(at Place, addr string) (host string, port int, ok bool) {
	if addr == "" {
		v.bad(at, "missing: want host:port, or :port for all addresses")
		return "", 0, false
	}
	host, port, err := splitListen(addr)
	if err != nil {
		v.wrong(at, addr, "%v", err)
		return "", 0, false
	}
	if ip, err := netip.ParseAddr(host); err == nil && (ip.IsMulticast() || ip.Unmap() == netip.AddrFrom4([4]byte{255, 255, 255, 255})) {
		v.wrong(at, addr, "want an address of this machine")
		return "", 0, false
	}
	return host, port, true
}

// hostHeader checks the value of a Host header: a name or IP address, with an
// optional port.
func hostHeader(value string) error {
	if strings.Count(value, ":") > 1 && !strings.HasPrefix(value, "[") {
		return errors.New("want brackets around an IPv6 address")
	}
	_, _, err := SplitAddress(value)
	if err == nil && strings.Contains(value, "%") {
		err = errors.New("want an IPv6 address without a zone")
	}
	return err
}
