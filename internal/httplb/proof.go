package httplb

import (
	"bytes"

	"fairlead/internal/h1"
)

// proofPath is where authorities that give certificates ask whether the name is
// served here (HTTP-01, RFC 8555 section 8.3).
var proofPath = []byte("/.well-known/acme-challenge/")

// proofLines are the lines of an answer to them.
const proofLines = "Content-Type: application/octet-stream\r\nCache-Control: no-store\r\n"

// proof returns the answer to an authority whose question is awaited. Any other
// request for such a path goes on as any other: endpoints may have certificates
// of their own to obtain.
func (x *exchange) proof(req *h1.Request) (answer string, ok bool) {
	if !bytes.HasPrefix(req.Path, proofPath) || x.ln.plane.proofs == nil {
		return "", false
	}
	if method := string(req.Method); method != "GET" && method != "HEAD" {
		return "", false
	}
	return x.ln.plane.proofs.HTTPChallenge(req.Host, req.Path[len(proofPath):])
}
