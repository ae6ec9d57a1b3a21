package dnssec

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // digests of type 1 are compared, never made
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Algorithm is a DNSSEC algorithm number.
type Algorithm uint8

// The algorithms that keys may have.
const (
	ECDSAP256SHA256 Algorithm = 13 // RFC 6605
	Ed25519         Algorithm = 15 // RFC 8080
)

// String returns the mnemonic that zone files and key files use.
func (a Algorithm) String() string {
	switch a {
	case ECDSAP256SHA256:
		return "ECDSAP256SHA256"
	case Ed25519:
		return "ED25519"
	}
	return fmt.Sprintf("algorithm %d", uint8(a))
}

// Flags of a DNSKEY record.
const (
	FlagsZSK = 256 // signs the records of a zone
	FlagsKSK = 257 // signs the keys of a zone; the parent's DS records name it
)

// Key is a key pair of a zone. It is never written once it is made, and shows
// nothing of its private half.
type Key struct {
	flags     uint16
	algorithm Algorithm
	tag       uint16
	zone      []byte // wire form, lower case
	record    []byte // data of the DNSKEY record

	ec *ecdsa.PrivateKey  // one of these two
	ed ed25519.PrivateKey // is set
}

// GenerateKey makes a key of a zone. Flags are FlagsZSK or FlagsKSK.
func GenerateKey(zone string, flags uint16, algorithm Algorithm) (*Key, error) {
	name, err := WireName(zone)
	if err != nil {
		return nil, err
	}
	k := &Key{flags: flags, algorithm: algorithm, zone: name}
	switch algorithm {
	case ECDSAP256SHA256:
		k.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case Ed25519:
		_, k.ed, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("%v: want %v or %v", algorithm, ECDSAP256SHA256, Ed25519)
	}
	if err != nil {
		return nil, err
	}
	return k, k.finish()
}

// keyOf makes a key of the private value in a key file.
func keyOf(zone []byte, flags uint16, algorithm Algorithm, private []byte) (*Key, error) {
	k := &Key{flags: flags, algorithm: algorithm, zone: zone}
	const size = 32 // of both algorithms
	if len(private) != size {
		return nil, fmt.Errorf("a private key of %d bytes: want %d for %v", len(private), size, algorithm)
	}
	switch algorithm {
	case ECDSAP256SHA256:
		var err error
		if k.ec, err = ecdsa.ParseRawPrivateKey(elliptic.P256(), private); err != nil {
			return nil, errors.New("the private key is not one of the curve P-256") // the cause may show the key
		}
	case Ed25519:
		k.ed = ed25519.NewKeyFromSeed(private)
	default:
		return nil, fmt.Errorf("%v: want %v or %v", algorithm, ECDSAP256SHA256, Ed25519)
	}
	return k, k.finish()
}

// finish derives the record from the private half.
func (k *Key) finish() error {
	k.record = append(binary.BigEndian.AppendUint16(nil, k.flags), 3, byte(k.algorithm))
	if k.ec != nil {
		point, err := k.ec.PublicKey.Bytes() // 4 || X || Y
		if err != nil {
			return err
		}
		k.record = append(k.record, point[1:]...)
	} else {
		k.record = append(k.record, k.ed.Public().(ed25519.PublicKey)...)
	}
	k.tag = KeyTag(k.record)
	return nil
}

// private returns the private value as key files have it.
func (k *Key) private() ([]byte, error) {
	if k.ec != nil {
		return k.ec.Bytes()
	}
	return k.ed.Seed(), nil
}

// Zone returns the name of the key's zone, in lower case and without a dot at its
// end.
func (k *Key) Zone() string { return strings.TrimSuffix(textName(k.zone), ".") }

// Tag returns the key tag (RFC 4034 appendix B).
func (k *Key) Tag() uint16 { return k.tag }

// Algorithm returns the key's algorithm.
func (k *Key) Algorithm() Algorithm { return k.algorithm }

// KSK reports whether the key has the flag of those that a parent points to.
func (k *Key) KSK() bool { return k.flags&1 != 0 }

// Record returns the data of the DNSKEY record. It is not to be written to.
func (k *Key) Record() []byte { return k.record }

// String names the key without showing anything of it.
func (k *Key) String() string { return fmt.Sprintf("%s/%d/%d", textName(k.zone), k.algorithm, k.tag) }

// Format prints the name of the key, whatever is asked for: no verb shows the
// private half.
func (k *Key) Format(f fmt.State, _ rune) { fmt.Fprint(f, k.String()) }

// sign appends the signature over message.
func (k *Key) sign(dst, message []byte) ([]byte, error) {
	if k.ed != nil {
		return append(dst, ed25519.Sign(k.ed, message)...), nil
	}
	sum := sha256.Sum256(message)
	r, s, err := ecdsa.Sign(rand.Reader, k.ec, sum[:])
	if err != nil {
		return dst, err
	}
	var both [64]byte
	r.FillBytes(both[:32])
	s.FillBytes(both[32:])
	return append(dst, both[:]...), nil
}

// KeyTag computes the tag of a DNSKEY record from its data.
func KeyTag(record []byte) uint16 {
	var sum uint32
	for i, b := range record {
		if i&1 == 0 {
			sum += uint32(b) << 8
		} else {
			sum += uint32(b)
		}
	}
	return uint16(sum + sum>>16)
}

// Digest types of DS records.
const (
	DigestSHA1   = 1 // read only
	DigestSHA256 = 2
	DigestSHA384 = 4
)

// DS is what a parent says of a key of its child.
type DS struct {
	Tag        uint16
	Algorithm  Algorithm
	DigestType uint8
	Digest     []byte
}

// DS returns the DS record of a key, and false for a digest type that is unknown.
func (k *Key) DS(digestType uint8) (DS, bool) {
	d := DS{Tag: k.tag, Algorithm: k.algorithm, DigestType: digestType}
	message := append(append([]byte(nil), k.zone...), k.record...)
	switch digestType {
	case DigestSHA1:
		sum := sha1.Sum(message) //nolint:gosec // see the import
		d.Digest = sum[:]
	case DigestSHA256:
		sum := sha256.Sum256(message)
		d.Digest = sum[:]
	case DigestSHA384:
		sum := sha512.Sum384(message)
		d.Digest = sum[:]
	default:
		return DS{}, false
	}
	return d, true
}

// Data returns the data of the record.
func (d DS) Data() []byte {
	return append(append(binary.BigEndian.AppendUint16(nil, d.Tag), byte(d.Algorithm), d.DigestType), d.Digest...)
}

// String returns the data as zone files have it.
func (d DS) String() string {
	return fmt.Sprintf("%d %d %d %s", d.Tag, d.Algorithm, d.DigestType, strings.ToUpper(hex.EncodeToString(d.Digest)))
}

// RecordText returns the data of the DNSKEY record as zone files have it.
func (k *Key) RecordText() string {
	return fmt.Sprintf("%d 3 %d %s", k.flags, k.algorithm, base64.StdEncoding.EncodeToString(k.record[4:]))
}
