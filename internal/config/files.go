package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fairlead/internal/dnssec"
	"fairlead/internal/model"
)

// fileKind is what a named file must hold.
type fileKind int

const (
	dataDirectory fileKind = iota
	logFile
	certificateFile
	keyFile
	authorityFile
	mmdbFile
	macKeyFile
	passwordFile
	zoneFile
	secretsFile
	signingKeyFile
)

// maxPEM bounds what is read of a file with certificates or keys.
const maxPEM = 4 << 20

// namedFile is a key of the configuration whose value is a file name.
type namedFile struct {
	place model.Place
	kind  fileKind
	name  *string
	zone  string // whose signing key it holds
}

// resolve makes a relative name start at dir.
func (f namedFile) resolve(dir string) {
	if !filepath.IsAbs(*f.name) {
		*f.name = filepath.Join(dir, *f.name)
	}
}

// files lists every key that names a file or directory. A key's file follows
// its certificate's.
func files(c *model.Config) []namedFile {
	var list []namedFile
	add := func(at model.Place, kind fileKind, name *string) {
		if *name != "" {
			list = append(list, namedFile{place: at, kind: kind, name: name})
		}
	}
	var root model.Place
	add(root.Key("data_dir"), dataDirectory, &c.DataDir)
	if c.AccessLog.Output != "stdout" {
		add(root.Key("access_log").Key("output"), logFile, &c.AccessLog.Output)
	}
	if c.QueryLog.Output != "stdout" {
		add(root.Key("query_log").Key("output"), logFile, &c.QueryLog.Output)
	}
	if s := c.State; s != nil {
		at := root.Key("state")
		add(at.Key("ca"), authorityFile, &s.CA)
		add(at.Key("certificate"), certificateFile, &s.Certificate)
		add(at.Key("key"), keyFile, &s.Key)
	}
	if a := c.ACME; a != nil {
		at := root.Key("acme")
		add(at.Key("ca"), authorityFile, &a.CA)
		if e := a.ExternalAccount; e != nil {
			add(at.Key("external_account").Key("key"), macKeyFile, &e.Key)
		}
	}
	for i := range c.Geo.Databases {
		add(root.Key("geo").Key("databases").Item(i, ""), mmdbFile, &c.Geo.Databases[i])
	}
	for i := range c.Listeners {
		at := root.Key("listeners").Item(i, c.Listeners[i].Name).Key("certificates")
		for j := range c.Listeners[i].Certificates {
			pair := &c.Listeners[i].Certificates[j]
			add(at.Item(j, "").Key("certificate"), certificateFile, &pair.Certificate)
			add(at.Item(j, "").Key("key"), keyFile, &pair.Key)
		}
		if cc := c.Listeners[i].ClientCertificates; cc != nil {
			add(root.Key("listeners").Item(i, c.Listeners[i].Name).Key("client_certificates").Key("ca"), authorityFile, &cc.CA)
		}
	}
	for i := range c.Zones {
		if d := c.Zones[i].DNSSECOptions; d != nil {
			at := root.Key("zones").Item(i, c.Zones[i].Name).Key("dnssec_options").Key("key_files")
			for j := range d.KeyFiles {
				if d.KeyFiles[j] == "" {
					continue
				}
				add(at.Item(j, ""), signingKeyFile, &d.KeyFiles[j])
				list[len(list)-1].zone = c.Zones[i].Name
			}
		}
	}
	for i := range c.Monitors {
		at := root.Key("monitors").Item(i, c.Monitors[i].Name).Key("ldap")
		add(at.Key("password_file"), passwordFile, &c.Monitors[i].LDAP.PasswordFile)
	}
	for i := range c.Pools {
		at, pool := root.Key("pools").Item(i, c.Pools[i].Name).Key("tls"), &c.Pools[i].TLS
		add(at.Key("ca"), authorityFile, &pool.CA)
		add(at.Key("certificate"), certificateFile, &pool.Certificate)
		add(at.Key("key"), keyFile, &pool.Key)
	}
	for i := range c.Listeners {
		at := root.Key("listeners").Item(i, c.Listeners[i].Name).Key("dns")
		add(at.Key("cookie_secrets"), secretsFile, &c.Listeners[i].DNS.CookieSecrets)
	}
	for i := range c.Zones {
		add(root.Key("zones").Item(i, c.Zones[i].Name).Key("file"), zoneFile, &c.Zones[i].File)
	}
	return list
}

// CheckFiles looks into the files that a document names: that they are there
// and can be read, that certificates, keys and authorities parse, that each
// key fits its certificate, and that databases are of the MMDB format. More is
// what others have found in files that they read themselves.
func CheckFiles(doc *Document, more ...model.Problem) Errors {
	errs := doc.Judge(more)
	var certificate []byte // of the pair whose key comes next; nil if unusable
	for _, f := range files(doc.Config) {
		data, err := f.check()
		switch {
		case err != nil:
			data = nil
		case f.kind == keyFile && certificate != nil:
			if _, err = tls.X509KeyPair(certificate, data); err != nil {
				err = errors.New("does not fit the certificate beside it")
			}
		}
		if f.kind == certificateFile {
			certificate = data
		}
		if err != nil {
			errs = append(errs, doc.errorAt(f.place.Path, fmt.Sprintf("%s %s: %v", f.place.Text, model.Show(*f.name), err)))
		}
	}
	return errs.sort()
}

// check looks into one file and returns the content of those that are read
// whole.
func (f namedFile) check() ([]byte, error) {
	name := *f.name
	switch f.kind {
	case dataDirectory: // made when it is not there
		info, err := os.Stat(name)
		if err == nil && !info.IsDir() {
			return nil, errors.New("is a file: want a directory")
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, cause(err)
	case logFile:
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return nil, errors.New("is a directory: want a file")
		}
		if info, err := os.Stat(filepath.Dir(name)); err != nil {
			return nil, fmt.Errorf("its directory: %w", cause(err))
		} else if !info.IsDir() {
			return nil, errors.New("is not in a directory")
		}
		return nil, nil
	case mmdbFile:
		return nil, checkMMDB(name)
	case macKeyFile:
		return nil, checkMACKey(name)
	case passwordFile:
		return nil, checkPassword(name)
	case secretsFile:
		return nil, checkSecrets(name)
	case zoneFile:
		return nil, checkZoneFile(name)
	case signingKeyFile:
		return nil, checkSigningKey(name, f.zone)
	}
	data, err := readPEM(name)
	if err != nil {
		return nil, err
	}
	switch f.kind {
	case certificateFile:
		return data, checkCertificates(data)
	case authorityFile:
		return nil, checkCertificates(data)
	default:
		return data, checkKey(data)
	}
}

// checkSigningKey reads a key of a zone. Its errors name the file, as there are two
// of it.
func checkSigningKey(name, zone string) error {
	k, _, err := dnssec.ReadKey(name)
	if err == nil && k.Zone() != model.CanonicalHost(zone) {
		err = fmt.Errorf("a key of the zone %q: want one of %q", k.Zone(), model.CanonicalHost(zone))
	}
	return err
}

// cause is an error of the file system without the file's name, which the
// message has already.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// open opens a file that must be a regular one: reading a pipe could take
// for ever.
func open(name string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, cause(err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("want a regular file")
	}
	f, err := os.Open(name)
	return f, info, cause(err)
}

func readPEM(name string) ([]byte, error) {
	f, info, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > maxPEM {
		return nil, fmt.Errorf("%d bytes long: want a PEM file of at most %d", info.Size(), maxPEM)
	}
	return io.ReadAll(io.LimitReader(f, maxPEM))
}

func checkCertificates(data []byte) error {
	n := 0
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		n++
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("certificate %d: %v", n, err)
		}
	}
	if n == 0 {
		return errors.New("holds no certificate: want PEM")
	}
	return nil
}

// checkKey looks for a private key. Whether it can be used shows when it is
// tried with its certificate.
func checkKey(data []byte) error {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return errors.New("holds no private key: want PEM")
		}
		switch block.Type {
		case "ENCRYPTED PRIVATE KEY":
			return errors.New("is encrypted: want a key without a passphrase")
		case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY":
			if block.Headers["DEK-Info"] != "" {
				return errors.New("is encrypted: want a key without a passphrase")
			}
			return nil
		}
	}
}

// checkMACKey looks for base64url, with or without padding, in a short file.
func checkMACKey(name string) error {
	const most = 4 << 10
	f, info, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if info.Size() > most {
		return fmt.Errorf("%d bytes long: want a key in base64url", info.Size())
	}
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return cause(err)
	}
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(string(data)), "="))
	if err != nil || len(key) == 0 { // the error would show a part of the key
		return errors.New("holds no key in base64url")
	}
	return nil
}

// checkPassword looks for a password, and never shows a part of it.
func checkPassword(name string) error {
	f, info, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if info.Size() > model.MaxPassword {
		return fmt.Errorf("%d bytes long: want a password of at most %d", info.Size(), model.MaxPassword)
	}
	data, err := io.ReadAll(io.LimitReader(f, model.MaxPassword))
	if err != nil {
		return cause(err)
	}
	if model.Password(data) == "" {
		return errors.New("is empty: want a password")
	}
	return nil
}

func checkSecrets(name string) error {
	f, _, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, model.MaxCookieSecrets+1))
	if err != nil {
		return cause(err)
	}
	_, err = model.CookieSecrets(text)
	return err
}

// checkZoneFile looks whether a zone can be read; what it holds is judged by
// whoever compiles it.
func checkZoneFile(name string) error {
	f, info, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if info.Size() > model.MaxZoneFile {
		return fmt.Errorf("%d bytes long: want a zone file of at most %d", info.Size(), model.MaxZoneFile)
	}
	return nil
}

// mmdbMarker comes before the metadata at the end of an MMDB file.
var mmdbMarker = []byte("\xab\xcd\xefMaxMind.com")

// checkMMDB looks for the metadata, which the format has in the last 128 KiB.
func checkMMDB(name string) error {
	const tail = 128 << 10
	f, info, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, max(info.Size()-tail, 0), tail))
	if err != nil {
		return cause(err)
	}
	if !bytes.Contains(data, mmdbMarker) {
		return errors.New("want a database in MMDB format")
	}
	return nil
}
