package acme

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"

	"fairlead/internal/model"
)

// issuer is an account with an authority. It implements certmagic.Issuer and
// certmagic.RenewalInfoGetter.
type issuer struct {
	m        *Manager
	declared model.ACME
	external *acme.EAB // nil for none
	storage  certmagic.Storage
	http     *http.Client
	client   *acmez.Client

	registering sync.Mutex // held while there may be no account
}

// pollTimeout bounds how long the authority may take to validate and to issue.
const pollTimeout = 90 * time.Second

func (i *issuer) newClient(log *slog.Logger) *acmez.Client {
	return &acmez.Client{
		Client: &acme.Client{
			Directory: i.declared.Directory, HTTPClient: i.http, UserAgent: "Fairlead", PollTimeout: pollTimeout, Logger: log,
		},
	}
}

// IssuerKey implements certmagic.Issuer: the name of the authority in files.
func (i *issuer) IssuerKey() string {
	return (&certmagic.ACMEIssuer{CA: i.declared.Directory}).IssuerKey()
}

// Issue implements certmagic.Issuer.
func (i *issuer) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	// One client for each order, as it knows how it can be validated now; they
	// share what the library remembers of the authority.
	client := i.newClient(i.m.client)
	client.ChallengeSolvers = i.m.solvers()
	for again := false; ; again = true {
		account, err := i.account(ctx, client)
		if err != nil {
			return nil, err
		}
		params, err := acmez.OrderParametersFromCSR(account, csr)
		if err != nil {
			return nil, err
		}
		// An authority that will not hear of what is replaced may do without
		// it: every other attempt does not say.
		if n, _ := ctx.Value(attemptKey{}).(int); n%2 == 0 {
			params.Replaces = i.replaced(ctx, client, csr)
		}
		chains, err := client.ObtainCertificate(ctx, params)
		if problem := (acme.Problem{}); !again && errors.As(err, &problem) && problem.Type == acme.ProblemTypeAccountDoesNotExist {
			// An authority that was set up anew, as private ones are.
			i.m.log.Warn("authority of certificates does not know the account any more; another is registered", "directory", i.declared.Directory)
			if err := i.storage.Delete(ctx, i.accountKey()); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(chains) == 0 {
			return nil, errors.New("the authority has issued nothing")
		}
		return &certmagic.IssuedCertificate{Certificate: chains[0].ChainPEM, Metadata: chains[0]}, nil
	}
}

// GetRenewalInfo implements certmagic.RenewalInfoGetter.
func (i *issuer) GetRenewalInfo(ctx context.Context, cert certmagic.Certificate) (acme.RenewalInfo, error) {
	return i.client.GetRenewalInfo(ctx, cert.Leaf)
}

// replaced returns the stored certificate that a new one takes the place of, if
// the authority likes to know; nil for none.
func (i *issuer) replaced(ctx context.Context, client *acmez.Client, csr *x509.CertificateRequest) *x509.Certificate {
	dir, err := client.GetDirectory(ctx)
	if err != nil || dir.RenewalInfo == "" || len(csr.DNSNames) == 0 {
		return nil
	}
	data, err := i.storage.Load(ctx, certmagic.StorageKeys.SiteCert(i.IssuerKey(), csr.DNSNames[0]))
	if err != nil {
		return nil
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil || time.Now().After(leaf.NotAfter) {
		return nil
	}
	return leaf
}

// storedAccount is the file of an account.
type storedAccount struct {
	Account acme.Account `json:"account"`
	Key     string       `json:"private_key"` // PEM
}

// accountKey is where the account is stored: another address, or another external
// account, has another.
func (i *issuer) accountKey() string {
	name := cmp.Or(i.declared.Email, "default")
	if i.external != nil {
		name += "+" + i.external.KeyID
	}
	return path.Join("accounts", certmagic.StorageKeys.Safe(i.IssuerKey()), certmagic.StorageKeys.Safe(name)+".json")
}

// account loads the account, or registers it.
func (i *issuer) account(ctx context.Context, client *acmez.Client) (acme.Account, error) {
	i.registering.Lock()
	defer i.registering.Unlock()
	if err := ctx.Err(); err != nil {
		return acme.Account{}, err
	}
	data, err := i.storage.Load(ctx, i.accountKey())
	switch {
	case err == nil:
		account, err := parseAccount(data)
		if err == nil {
			return account, nil
		}
		i.m.log.Warn("stored account with the authority of certificates cannot be read; another is registered", "error", err)
	case !errors.Is(err, fs.ErrNotExist):
		return acme.Account{}, err
	}
	return i.register(ctx, client)
}

func parseAccount(data []byte) (acme.Account, error) {
	var stored storedAccount
	if err := json.Unmarshal(data, &stored); err != nil {
		return acme.Account{}, errors.New("not JSON") // the error could show a part of the key
	}
	block, _ := pem.Decode([]byte(stored.Key))
	if block == nil {
		return acme.Account{}, errors.New("no private key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return acme.Account{}, errors.New("not a private key")
	}
	signer, ok := key.(crypto.Signer)
	if !ok || stored.Account.Location == "" {
		return acme.Account{}, errors.New("not an account")
	}
	stored.Account.PrivateKey = signer
	return stored.Account, nil
}

func (i *issuer) register(ctx context.Context, client *acmez.Client) (acme.Account, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return acme.Account{}, err
	}
	account := acme.Account{TermsOfServiceAgreed: i.declared.AcceptTermsOfService, PrivateKey: key}
	if i.declared.Email != "" {
		account.Contact = []string{"mailto:" + i.declared.Email}
	}
	if i.external != nil {
		if err := account.SetExternalAccountBinding(ctx, client.Client, *i.external); err != nil {
			return acme.Account{}, fmt.Errorf("external account: %w", err)
		}
	}
	if account, err = client.NewAccount(ctx, account); err != nil {
		return acme.Account{}, fmt.Errorf("registering an account: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return acme.Account{}, err
	}
	stored := storedAccount{Account: account, Key: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))}
	stored.Account.ExternalAccountBinding = nil
	data, err := json.MarshalIndent(stored, "", "\t")
	if err != nil {
		return acme.Account{}, err
	}
	if err := i.storage.Store(ctx, i.accountKey(), data); err != nil {
		return acme.Account{}, err
	}
	i.m.log.Info("account registered with the authority of certificates", "directory", i.declared.Directory)
	return account, nil
}
