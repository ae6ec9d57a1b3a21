package model

import (
	"fmt"
	"strconv"
	"strings"
)

// Codes is a set of HTTP status codes.
type Codes struct {
	bits [(lastCode-firstCode)/64 + 1]uint64
}

const firstCode, lastCode = 100, 599

// ParseCodes reads a list of codes: 200, a class 2xx, a range 200-204, or
// several of these with commas.
func ParseCodes(s string) (Codes, error) {
	var c Codes
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		low, high, err := parseCodeRange(part)
		if err != nil {
			return Codes{}, err
		}
		for code := low; code <= high; code++ {
			c.bits[(code-firstCode)/64] |= 1 << ((code - firstCode) % 64)
		}
	}
	return c, nil
}

// Contains reports whether code is in the set.
func (c Codes) Contains(code int) bool {
	if code < firstCode || code > lastCode {
		return false
	}
	return c.bits[(code-firstCode)/64]&(1<<((code-firstCode)%64)) != 0
}

func parseCodeRange(s string) (low, high int, err error) {
	if len(s) == 3 && strings.EqualFold(s[1:], "xx") && s[0] >= '1' && s[0] <= '5' {
		low = int(s[0]-'0') * 100
		return low, low + 99, nil
	}
	from, to, isRange := strings.Cut(s, "-")
	low, ok := parseCode(strings.TrimSpace(from))
	high = low
	if ok && isRange {
		high, ok = parseCode(strings.TrimSpace(to))
	}
	switch {
	case !ok:
		return 0, 0, fmt.Errorf("%s: want a code from %d to %d, a class such as 2xx, or a range such as 200-204", quote(s), firstCode, lastCode)
	case high < low:
		return 0, 0, fmt.Errorf("%s: want the lower code first", quote(s))
	}
	return low, high, nil
}

func parseCode(s string) (int, bool) {
	if len(s) != 3 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	code, _ := strconv.Atoi(s)
	return code, code >= firstCode && code <= lastCode
}
