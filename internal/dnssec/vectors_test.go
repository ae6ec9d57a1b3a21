package dnssec

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"testing"
	"time"
)

func wire(t testing.TB, name string) []byte {
	t.Helper()
	w, err := WireName(name)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func unbase64(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The examples of RFC 6605 section 6.1 and RFC 8080 section 6.
func TestVectors(t *testing.T) {
	for _, c := range []struct {
		name, zone, private, public, ds string
		algorithm                       Algorithm
		tag                             uint16
		digest                          uint8
		set                             RRset
		inception, expire               int64
		signature                       string
	}{
		{
			name: "RFC 6605 section 6.1", zone: "example.net", algorithm: ECDSAP256SHA256, tag: 55648, digest: DigestSHA256,
			private: "GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=",
			public:  "GojIhhXUN/u4v54ZQqGSnyhWJwaubCvTmeexv7bR6edbkrSqQpF64cYbcB7wNcP+e+MAnLr+Wi9xMWyQLc8NAA==",
			ds:      "b4c8c1fe2e7477127b27115656ad6256f424625bf5c1e2770ce6d6e37df61d17",
			set:     RRset{Owner: wire(t, "www.example.net"), Type: 1, TTL: 3600, Data: [][]byte{{192, 0, 2, 1}}},
			// 20100812100439 to 20100909100439
			inception: 1281607479, expire: 1284026679,
			signature: "qx6wLYqmh+l9oCKTN6qIc+bw6ya+KJ8oMz0YP107epXAyGmt+3SNruPFKG7tZoLBLlUzGGus7ZwmwWep666VCw==",
		},
		{
			name: "RFC 8080 section 6.1", zone: "example.com", algorithm: Ed25519, tag: 3613, digest: DigestSHA256,
			private:   "ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=",
			public:    "l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=",
			ds:        "3aa5ab37efce57f737fc1627013fee07bdf241bd10f3b1964ab55c78e79a304b",
			set:       RRset{Owner: wire(t, "example.com"), Type: 15, TTL: 3600, Data: [][]byte{append([]byte{0, 10}, wire(t, "MAIL.example.com")...)}},
			inception: 1438207200, expire: 1440021600,
			signature: "oL9krJun7xfBOIWcGHi7mag5/hdZrKWw15jPGrHpjQeRAvTdszaPD+QLs3fx8A4M3e23mRZ9VrbpMngwcrqNAg==",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, err := keyOf(wire(t, c.zone), FlagsKSK, c.algorithm, unbase64(t, c.private))
			if err != nil {
				t.Fatal(err)
			}
			if got := k.Record()[4:]; !bytes.Equal(got, unbase64(t, c.public)) {
				t.Errorf("public key %x", got)
			}
			if k.Tag() != c.tag {
				t.Errorf("tag %d, want %d", k.Tag(), c.tag)
			}
			if ds, _ := k.DS(c.digest); hex.EncodeToString(ds.Digest) != c.ds {
				t.Errorf("DS %v, want %s", ds, c.ds)
			}
			w := new(Work)
			message := k.rrsig(c.set.Owner, c.set.Type, c.set.TTL, time.Unix(c.inception, 0), time.Unix(c.expire, 0))
			message = append(message, w.canonical(&c.set)...)
			want := unbase64(t, c.signature)
			if c.algorithm == Ed25519 { // has one signature for each message
				if got, err := k.sign(nil, message); err != nil || !bytes.Equal(got, want) {
					t.Errorf("signature %x, %v; want %x", got, err, want)
				}
				return
			}
			public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append([]byte{4}, k.Record()[4:]...))
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(message)
			ours, err := k.sign(nil, message)
			if err != nil {
				t.Fatal(err)
			}
			for name, s := range map[string][]byte{"the example's": want, "ours": ours} {
				if len(s) != 64 || !ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(s[:32]), new(big.Int).SetBytes(s[32:])) {
					t.Errorf("%s signature %x does not hold over %x", name, s, message)
				}
			}
		})
	}
}

// Short values of r and s are filled up from the left: 64 bytes always.
func TestSignatureSize(t *testing.T) {
	k, err := GenerateKey("example.com", FlagsZSK, ECDSAP256SHA256)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if s, err := k.sign(nil, []byte{byte(i), byte(i >> 8)}); err != nil || len(s) != 64 {
			t.Fatalf("%d bytes, %v", len(s), err)
		}
	}
}
