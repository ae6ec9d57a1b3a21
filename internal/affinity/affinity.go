// Package affinity keeps sessions: which endpoint a client has, and until when.
// It seals them in cookies, or holds them in a table where there is none.
//
// A cookie's value is opaque to clients (AES-256-GCM, NIST SP 800-38D) and bound
// to the load balancer that made it. Whatever cannot be opened, as it is forged,
// damaged, of another load balancer, of a key that is gone, or over, is no
// session; it is never an error.
//
// A key seals with random nonces, of which 2^32 are safe: at a thousand new
// sessions a second it should be replaced within seven weeks.
package affinity

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
)

// Session is what a cookie holds.
type Session struct {
	// Endpoint is the endpoint's identity: a hash, the same on all nodes.
	Endpoint uint64
	// Expires is when the session is over, in seconds since 1970. Its use does
	// not move it.
	Expires int64
}

// The bytes of a value: the key's id, the nonce, the session and the tag.
const (
	nonceSize   = 12
	sessionSize = 16
	tagSize     = 16
	sealedSize  = 1 + nonceSize + sessionSize + tagSize
)

// ValueSize is the length of a value in characters.
const ValueSize = (sealedSize*8 + 5) / 6

var text = base64.RawURLEncoding.Strict()

// Seal appends a session of a load balancer as the value of a cookie to dst.
func (k *Keys) Seal(dst []byte, balancer []byte, s Session) []byte {
	var b [sealedSize]byte
	b[0] = k.ring[0].id
	rand.Read(b[1 : 1+nonceSize])
	plain := b[1+nonceSize : 1+nonceSize+sessionSize]
	binary.BigEndian.PutUint64(plain, s.Endpoint)
	binary.BigEndian.PutUint64(plain[8:], uint64(s.Expires))
	k.ring[0].aead.Seal(plain[:0], b[1:1+nonceSize], plain, balancer)
	return text.AppendEncode(dst, b[:])
}

// Opener opens cookies. It is one goroutine's at a time, and allocates nothing.
type Opener struct{ b [sealedSize]byte }

// Open returns the session in a value that one of the keys has sealed for a load
// balancer, unless it is over at now, in seconds since 1970.
func (o *Opener) Open(k *Keys, balancer, value []byte, now int64) (Session, bool) {
	if len(value) != ValueSize {
		return Session{}, false
	}
	if n, err := text.Decode(o.b[:], value); err != nil || n != sealedSize {
		return Session{}, false
	}
	nonce, sealed := o.b[1:1+nonceSize], o.b[1+nonceSize:]
	for i := range k.ring {
		if k.ring[i].id != o.b[0] {
			continue
		}
		// A failure clears what it would have written: then another key of the
		// same id, one in 256 times, has nothing to try.
		var again [sessionSize + tagSize]byte
		copy(again[:], sealed)
		plain, err := k.ring[i].aead.Open(sealed[:0], nonce, sealed, balancer)
		if err != nil {
			copy(sealed, again[:])
			continue
		}
		s := Session{binary.BigEndian.Uint64(plain), int64(binary.BigEndian.Uint64(plain[8:]))}
		return s, now < s.Expires
	}
	return Session{}, false
}
