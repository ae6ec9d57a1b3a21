package model

// ACME is the authority that certificates are obtained from (RFC 8555).
type ACME struct {
	// URL of the authority's directory, https. Default
	// https://acme-v02.api.letsencrypt.org/directory.
	Directory string `yaml:"directory"`
	// E-mail address that the authority may write to. Default: none.
	Email string `yaml:"email"`
	// true: the authority's terms of service are accepted, as they must be.
	AcceptTermsOfService bool `yaml:"accept_terms_of_service"`
	// PEM file with the authorities that may sign the certificate of the
	// directory's server. Default: those of the system.
	CA string `yaml:"ca"`
	// An account elsewhere that the one with the authority is bound to, where
	// the authority asks for that.
	ExternalAccount *ACMEExternalAccount `yaml:"external_account"`
	// true: certificates are asked for that are worth nothing without a stapled
	// OCSP response. Default false.
	MustStaple bool `yaml:"must_staple"`
}

// SetDefaults fills in what holds when a key is left out.
func (a *ACME) SetDefaults() { a.Directory = "https://acme-v02.api.letsencrypt.org/directory" }

// ACMEExternalAccount is what an authority gives to those who have an account.
type ACMEExternalAccount struct {
	// Identifier of the key.
	KeyID string `yaml:"key_id"`
	// File with the key, in base64url as the authority gives it.
	Key string `yaml:"key"`
}
