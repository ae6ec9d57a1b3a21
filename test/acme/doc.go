// Package acme holds tests of nodes that obtain their certificates from an
// authority, which asks their listeners for the proof. The details of obtaining
// are tested in internal/acme.
package acme
