package dnslb

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"net/netip"
	"os"
	"time"

	"fairlead/internal/model"
)

// Times of server cookies (RFC 9018 section 4.3).
const (
	cookieLife  = 3600 // seconds that one is accepted
	cookieRenew = 1800 // after which the client gets another
	cookieSkew  = 300  // that its time may be ahead, between nodes
)

const (
	clientCookie = 8
	serverCookie = 16
)

// secret is the key of server cookies.
type secret [16]byte

// cookies makes and judges server cookies (RFC 9018). The first secret makes them.
type cookies struct{ secrets []secret }

// newCookies returns cookies with a secret of this process.
func newCookies() *cookies {
	var s secret
	rand.Read(s[:]) // never fails
	return &cookies{secrets: []secret{s}}
}

// loadCookies reads secrets from a file.
func loadCookies(file string) (*cookies, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, model.MaxCookieSecrets+1))
	if err != nil {
		return nil, err
	}
	keys, err := model.CookieSecrets(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c := &cookies{}
	for _, k := range keys {
		c.secrets = append(c.secrets, secret(k))
	}
	return c, nil
}

// valid reports whether a cookie from an address proves that the client got it
// there, and whether it is to be renewed.
func (c *cookies) valid(cookie []byte, from netip.Addr, now time.Time) (ok, renew bool) {
	if len(cookie) != clientCookie+serverCookie || cookie[8] != 1 {
		return false, true
	}
	stamp := binary.BigEndian.Uint32(cookie[12:])
	age := int32(uint32(now.Unix()) - stamp) // serial arithmetic
	if age > cookieLife || age < -cookieSkew {
		return false, true
	}
	for i := range c.secrets {
		want := c.secrets[i].hash(cookie[:16], from)
		if subtle.ConstantTimeCompare(want[:], cookie[16:]) == 1 {
			return true, age > cookieRenew || i > 0
		}
	}
	return false, true
}

// answer appends the cookie that the answer to a query with a cookie has: the same
// if it is good for longer, else a new one.
func (c *cookies) answer(b, cookie []byte, from netip.Addr, now time.Time) []byte {
	if ok, renew := c.valid(cookie, from, now); ok && !renew {
		return append(b, cookie...)
	}
	start := len(b)
	b = append(b, cookie[:clientCookie]...)
	b = append(b, 1, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(now.Unix()))
	sum := c.secrets[0].hash(b[start:start+16], from)
	return append(b, sum[:]...)
}

// hash is SipHash-2-4 of the first 16 bytes of a cookie and the client's address.
func (s *secret) hash(head []byte, from netip.Addr) (sum [8]byte) {
	var in [32]byte
	n := copy(in[:], head)
	if from = from.Unmap(); from.Is4() {
		a := from.As4()
		n += copy(in[n:], a[:])
	} else {
		a := from.As16()
		n += copy(in[n:], a[:])
	}
	binary.LittleEndian.PutUint64(sum[:], sipHash(s, in[:n]))
	return sum
}

// sipHash is SipHash-2-4.
func sipHash(key *secret, b []byte) uint64 {
	k0, k1 := binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])
	v0, v1 := k0^0x736f6d6570736575, k1^0x646f72616e646f6d
	v2, v3 := k0^0x6c7967656e657261, k1^0x7465646279746573
	rounds := func(n int) {
		for range n {
			v0 += v1
			v1 = bits.RotateLeft64(v1, 13) ^ v0
			v0 = bits.RotateLeft64(v0, 32)
			v2 += v3
			v3 = bits.RotateLeft64(v3, 16) ^ v2
			v0 += v3
			v3 = bits.RotateLeft64(v3, 21) ^ v0
			v2 += v1
			v1 = bits.RotateLeft64(v1, 17) ^ v2
			v2 = bits.RotateLeft64(v2, 32)
		}
	}
	last := uint64(len(b)) << 56
	for ; len(b) >= 8; b = b[8:] {
		m := binary.LittleEndian.Uint64(b)
		v3 ^= m
		rounds(2)
		v0 ^= m
	}
	for i, c := range b {
		last |= uint64(c) << (8 * i)
	}
	v3 ^= last
	rounds(2)
	v0 ^= last
	v2 ^= 0xff
	rounds(4)
	return v0 ^ v1 ^ v2 ^ v3
}
