package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const filesConfig = `
data_dir: data
access_log: {output: logs/access.log}
acme: {accept_terms_of_service: true, ca: acme.pem, external_account: {key_id: a, key: eab.key}}
geo: {databases: [geo.mmdb]}
listeners:
  - name: web
    address: ":443"
    protocol: https
    certificates: [{certificate: www.pem, key: www.key}]
    client_certificates: {ca: clients.pem}
  - {name: dns, address: ":53", protocol: dns, dns: {cookie_secrets: secrets}}
pools:
  - name: p
    protocol: https
    tls: {ca: ca.pem}
    endpoints: [{name: e, address: x.org}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
monitors: [{name: m, type: ldap, tls: implicit, ldap: {bind_dn: cn=x, password_file: ldap.password}}]
zones: [{name: example.com, file: example.zone}]
query_log: {output: queries/query.log}
`

func TestCheckFiles(t *testing.T) {
	certificate, key := newPair(t)
	other, otherKey := newPair(t)
	good := map[string]string{
		"logs/old.log": "", "queries/old.log": "", "geo.mmdb": "tree" + string(mmdbMarker) + "metadata",
		"www.pem": string(certificate), "www.key": string(key), "ca.pem": string(other), "clients.pem": string(other),
		"ldap.password": "s3cret\n", "acme.pem": string(other), "eab.key": "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wE=\n",
		"example.zone": "what it holds is judged elsewhere", "secrets": "# now\ne5e973e5a6b2a43f48e7dc849e37bfcf\n",
	}
	for _, c := range []struct {
		name  string
		file  string // changed
		text  string // "" removes it
		place string
		want  string
	}{
		{"all right", "", "", "", ""},
		{"no database", "geo.mmdb", "", "5:19", "geo.databases[0] %q: no such file or directory"},
		{"not a database", "geo.mmdb", "ip,country\n", "5:19", "geo.databases[0] %q: want a database in MMDB format"},
		{"no certificate", "www.pem", "", "10:34", `listener "web": certificates[0].certificate %q: no such file or directory`},
		{"not a certificate", "www.pem", "hello", "10:34", `listener "web": certificates[0].certificate %q: holds no certificate: want PEM`},
		{"a key for a certificate", "www.pem", string(key), "10:34", `listener "web": certificates[0].certificate %q: holds no certificate: want PEM`},
		{"a broken certificate", "www.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "10:34", `listener "web": certificates[0].certificate %q: certificate 1: x509: malformed certificate`},
		{"no key", "www.key", "", "10:48", `listener "web": certificates[0].key %q: no such file or directory`},
		{"not a key", "www.key", string(certificate), "10:48", `listener "web": certificates[0].key %q: holds no private key: want PEM`},
		{"another key", "www.key", string(otherKey), "10:48", `listener "web": certificates[0].key %q: does not fit the certificate beside it`},
		{"an encrypted key", "www.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n", "10:48", `listener "web": certificates[0].key %q: is encrypted: want a key without a passphrase`},
		{"no authority", "ca.pem", "", "16:15", `pool "p": tls.ca %q: no such file or directory`},
		{"not an authority", "ca.pem", string(key), "16:15", `pool "p": tls.ca %q: holds no certificate: want PEM`},
		{"no authority of clients", "clients.pem", "", "11:31", `listener "web": client_certificates.ca %q: no such file or directory`},
		{"not an authority of clients", "clients.pem", "x", "11:31", `listener "web": client_certificates.ca %q: holds no certificate: want PEM`},
		{"no authority of the directory", "acme.pem", "", "4:43", "acme.ca %q: no such file or directory"},
		{"no key of an account", "eab.key", "", "4:88", "acme.external_account.key %q: no such file or directory"},
		{"a key of an account that is none", "eab.key", "not base64!", "4:88", "acme.external_account.key %q: holds no key in base64url"},
		{"an empty key of an account", "eab.key", "\n", "4:88", "acme.external_account.key %q: holds no key in base64url"},
		{"a key of an account that is long", "eab.key", strings.Repeat("A", 5000), "4:88", "acme.external_account.key %q: 5000 bytes long: want a key in base64url"},
		{"no zone file", "example.zone", "", "20:35", `zone "example.com": file %q: no such file or directory`},
		{"no cookie secrets", "secrets", "", "12:70", `listener "dns": dns.cookie_secrets %q: no such file or directory`},
		{"cookie secrets without any", "secrets", "# none\n", "12:70", `listener "dns": dns.cookie_secrets %q: holds no secret`},
		{"a short cookie secret", "secrets", "\nabcd\n", "12:70", `listener "dns": dns.cookie_secrets %q: line 2: want 32 hexadecimal digits`},
		{"a cookie secret of other letters", "secrets", "x5e973e5a6b2a43f48e7dc849e37bfcf", "12:70", `listener "dns": dns.cookie_secrets %q: line 1: want 32 hexadecimal digits`},
		{"four cookie secrets", "secrets", strings.Repeat("e5e973e5a6b2a43f48e7dc849e37bfcf\n", 4), "12:70", `listener "dns": dns.cookie_secrets %q: 4 secrets: want at most 3`},
		{"a large file of cookie secrets", "secrets", strings.Repeat("#\n", 4096), "12:70", `listener "dns": dns.cookie_secrets %q: want a file of at most 4096 bytes`},
		{"a directory for the query log", "queries/query.log/x", "x", "21:21", "query_log.output %q: is a directory: want a file"},
		{"a file for a directory", "data", "x", "2:11", "data_dir %q: is a file: want a directory"},
		{"no directory for the log", "logs/old.log", "", "3:22", "access_log.output %q: its directory: no such file or directory"},
		{"a directory for the log", "logs/access.log/x", "x", "3:22", "access_log.output %q: is a directory: want a file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			all := map[string]string{}
			for name, text := range good {
				all[name] = text
			}
			if c.file != "" {
				all[c.file] = c.text
				if c.text == "" {
					delete(all, c.file)
				}
			}
			for name, text := range all {
				file := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			doc, err := Parse("f", []byte(filesConfig), dir)
			if err != nil {
				t.Fatal(err)
			}
			errs := CheckFiles(doc)
			if c.want == "" {
				if len(errs) > 0 {
					t.Errorf("CheckFiles: %v", errs)
				}
				return
			}
			if len(errs) != 1 {
				t.Fatalf("CheckFiles: %v, want one error", errs)
			}
			before, after, _ := strings.Cut(c.want, "%q")
			if got := errs[0].Error(); !strings.HasPrefix(got, "f:"+c.place+": "+before) || !strings.Contains(got, after) {
				t.Errorf("CheckFiles: %s, want f:%s: %s", got, c.place, c.want)
			}
		})
	}
}

// A pipe would be waited for, perhaps for ever.
func TestCheckFilesTakesRegularFilesOnly(t *testing.T) {
	doc, err := Parse("f", []byte("geo: {databases: [/dev/zero]}"), "/")
	if err != nil {
		t.Fatal(err)
	}
	if errs := CheckFiles(doc); len(errs) != 1 || !strings.Contains(errs[0].Text, "want a regular file") {
		t.Errorf("CheckFiles: %v", errs)
	}
}
