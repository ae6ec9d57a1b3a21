package rules

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// token checks what is_timed_hmac_valid_v0 is given:
//
//	message separator timestamp - mac
//
// The timestamp has ten digits. The mac is HMAC-SHA256 of message and timestamp,
// in Base64 that may be URL-encoded, or in Base64 for URLs without padding.
type token struct {
	ttl       int64
	separator int
	forURLs   bool

	// The key, as the first block of the inner and of the outer hash (RFC
	// 2104). A hash.Hash would be ten allocations for each check.
	inner, outer [sha256.BlockSize]byte
}

func (t *token) setKey(key []byte) {
	if len(key) > sha256.BlockSize {
		short := sha256.Sum256(key)
		key = short[:]
	}
	copy(t.inner[:], key)
	copy(t.outer[:], key)
	for i := range t.inner {
		t.inner[i] ^= 0x36
		t.outer[i] ^= 0x5c
	}
}

// mac returns HMAC-SHA256 of a and b.
func (t *token) mac(s *Scratch, a, b []byte) [sha256.Size]byte {
	start := len(s.buf)
	s.buf = append(append(append(s.buf, t.inner[:]...), a...), b...)
	inner := sha256.Sum256(s.buf[start:])
	s.buf = append(append(s.buf[:start], t.outer[:]...), inner[:]...)
	outer := sha256.Sum256(s.buf[start:])
	s.buf = s.buf[:start]
	return outer
}

func buildTokenValid(b *builder, c *call) operand {
	t := &token{ttl: c.args[2].lit.num}
	t.setKey([]byte(c.args[0].lit.bytes))
	if len(c.args) > 4 {
		t.separator = int(c.args[4].lit.num)
	}
	if len(c.args) > 5 {
		t.forURLs = c.args[5].lit.bytes == "s"
	}
	text, now := b.operand(c.args[1]), b.operand(c.args[3])
	return operand{typ: Bool, made: true, bit: func(s *Scratch) (bool, bool) {
		n, ok := now.num(s)
		if !ok {
			return false, false
		}
		v, ok := text.str(s)
		return ok && t.valid(s, v, n), ok
	}}
}

// A mac has one spelling: bits behind its end are an error.
var (
	strict    = base64.StdEncoding.Strict()
	strictURL = base64.RawURLEncoding.Strict()
)

const (
	timestampLength = 10
	macForURLs      = 43 // 32 bytes in Base64 without padding
	macEncoded      = 44
)

func (t *token) valid(s *Scratch, v []byte, now int64) bool {
	// A mac for URLs can contain the hyphen, the other cannot.
	hyphen := len(v) - macForURLs - 1
	if !t.forURLs {
		hyphen = bytes.LastIndexByte(v, '-')
	}
	stamp := hyphen - timestampLength
	message := stamp - t.separator
	if message < 1 || v[hyphen] != '-' {
		return false
	}
	issued := int64(0)
	for _, c := range v[stamp:hyphen] {
		if !isDigit(c) {
			return false
		}
		issued = issued*10 + int64(c-'0')
	}
	if now >= issued+t.ttl {
		return false
	}
	given, ok := t.decode(s, v[hyphen+1:])
	if !ok || !s.grow(sha256.BlockSize+len(v)) {
		return false
	}
	mac := t.mac(s, v[:message], v[stamp:hyphen])
	return hmac.Equal(mac[:], given)
}

// decode returns the 32 bytes of a mac.
func (t *token) decode(s *Scratch, v []byte) ([]byte, bool) {
	encoding := strict
	if t.forURLs {
		encoding = strictURL
	} else if bytes.IndexByte(v, '%') >= 0 {
		if len(v) > 3*macEncoded {
			return nil, false // longer than if everything were escaped
		}
		// A + stands for itself: as a space it could not be Base64.
		start := len(s.buf)
		for i := 0; i < len(v); i++ {
			c := v[i]
			if c == '%' && i+2 < len(v) && unhex(v[i+1]) >= 0 && unhex(v[i+2]) >= 0 {
				c = byte(unhex(v[i+1])<<4 | unhex(v[i+2]))
				i += 2
			}
			s.buf = append(s.buf, c)
		}
		v = s.buf[start:]
	}
	if encoding.DecodedLen(len(v)) > sha256.Size+1 || bytes.IndexByte(v, '\r') >= 0 || bytes.IndexByte(v, '\n') >= 0 {
		return nil, false // the decoder would skip line ends
	}
	start := len(s.buf)
	s.buf = append(s.buf, make([]byte, sha256.Size+1)...)
	n, err := encoding.Decode(s.buf[start:], v)
	return s.buf[start : start+n], err == nil && n == sha256.Size
}
