package dnssec

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// maxKeyFile bounds what is read of a key file.
const maxKeyFile = 64 << 10

// Times are what a key file says about when its key is to be used, as
// dnssec-settime writes it. A time that is zero is not given.
type Times struct {
	Created, Publish, Activate, Inactive, Delete time.Time
	// SyncPublish and SyncDelete are when CDS and CDNSKEY records announce the key.
	SyncPublish, SyncDelete time.Time
}

// fields returns where the times of a key file go, by the name they have there.
func (t *Times) fields() map[string]*time.Time {
	return map[string]*time.Time{
		"Created": &t.Created, "Publish": &t.Publish, "Activate": &t.Activate, "Inactive": &t.Inactive, "Delete": &t.Delete,
		"SyncPublish": &t.SyncPublish, "SyncDelete": &t.SyncDelete,
	}
}

const timeLayout = "20060102150405"

// FileBase returns how the files of a key are called, without .key and .private.
func (k *Key) FileBase() string {
	return fmt.Sprintf("K%s+%03d+%05d", textName(k.zone), k.algorithm, k.tag)
}

// ReadKey reads a key from its two files in BIND's format: FILE.private, and
// FILE.key beside it, which says what zone and use it has. An error names the file,
// and shows nothing of a private key.
func ReadKey(file string) (*Key, Times, error) {
	base := strings.TrimSuffix(strings.TrimSuffix(file, ".private"), ".key")
	public, err := readFile(base + ".key")
	if err != nil {
		return nil, Times{}, err
	}
	owner, record, err := parsePublic(public)
	if err != nil {
		return nil, Times{}, fmt.Errorf("%s.key: %w", base, err)
	}
	secret, err := readFile(base + ".private")
	if err != nil {
		return nil, Times{}, err
	}
	algorithm, private, times, err := parsePrivate(secret)
	if err != nil {
		return nil, Times{}, fmt.Errorf("%s.private: %w", base, err)
	}
	flags := uint16(record[0])<<8 | uint16(record[1])
	if algorithm != Algorithm(record[3]) {
		return nil, Times{}, fmt.Errorf("%s.private: a key for %v, and %s.key has one for %v", base, algorithm, base, Algorithm(record[3]))
	}
	k, err := keyOf(owner, flags, algorithm, private)
	if err != nil {
		return nil, Times{}, fmt.Errorf("%s.private: %w", base, err)
	}
	if !bytes.Equal(k.record, record) {
		return nil, Times{}, fmt.Errorf("%s.key: not the public half of %s.private", base, base)
	}
	if name := filepath.Base(base); name != k.FileBase() {
		return nil, Times{}, fmt.Errorf("%s: holds the key that is called %s: want its files to have that name", base, k.FileBase())
	}
	return k, times, nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("%s: more than %d bytes long: not a key file", name, maxKeyFile)
	}
	return text, nil
}

// parsePublic reads a .key file: comments and one DNSKEY record, which may be
// spread over lines by parentheses.
func parsePublic(text []byte) (owner, record []byte, err error) {
	var fields []string
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, ";")
		fields = append(fields, strings.Fields(strings.NewReplacer("(", " ", ")", " ").Replace(line))...)
	}
	const want = "want one record, as in example.com. IN DNSKEY 257 3 13 BASE64"
	if len(fields) == 0 {
		return nil, nil, errors.New("empty: " + want)
	}
	if !strings.HasSuffix(fields[0], ".") {
		return nil, nil, fmt.Errorf("owner %q: want a name that ends with a dot", brief(fields[0]))
	}
	if owner, err = WireName(fields[0]); err != nil {
		return nil, nil, err
	}
	rest := fields[1:]
	for len(rest) > 0 && !strings.EqualFold(rest[0], "DNSKEY") {
		if _, err := strconv.ParseUint(rest[0], 10, 31); err != nil && !strings.EqualFold(rest[0], "IN") {
			return nil, nil, fmt.Errorf("%q: %s", brief(rest[0]), want)
		}
		rest = rest[1:]
	}
	if len(rest) < 5 {
		return nil, nil, errors.New(want)
	}
	flags, err1 := strconv.ParseUint(rest[1], 10, 16)
	algorithm, err2 := strconv.ParseUint(rest[3], 10, 8)
	public, err3 := base64.StdEncoding.DecodeString(strings.Join(rest[4:], ""))
	switch {
	case err1 != nil || flags != FlagsKSK && flags != FlagsZSK:
		return nil, nil, fmt.Errorf("flags %q: want 256 or 257", brief(rest[1]))
	case rest[2] != "3":
		return nil, nil, fmt.Errorf("protocol %q: want 3", brief(rest[2]))
	case err2 != nil || Algorithm(algorithm) != ECDSAP256SHA256 && Algorithm(algorithm) != Ed25519:
		return nil, nil, fmt.Errorf("algorithm %q: want 13 (%v) or 15 (%v)", brief(rest[3]), ECDSAP256SHA256, Ed25519)
	case err3 != nil:
		return nil, nil, errors.New("the public key is not base64")
	}
	return owner, append([]byte{byte(flags >> 8), byte(flags), 3, byte(algorithm)}, public...), nil
}

// brief keeps what is shown of a file short.
func brief(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}

// parsePrivate reads a .private file. An error says which line is wrong and shows
// nothing of it, since each may be the key.
func parsePrivate(text []byte) (algorithm Algorithm, private []byte, times Times, err error) {
	at := times.fields()
	seen := make(map[string]bool)
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == ';' {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return 0, nil, times, fmt.Errorf("line %d: want NAME: VALUE", n)
		}
		value = strings.TrimSpace(value)
		if n == 1 && name != "Private-key-format" || seen[name] {
			return 0, nil, times, fmt.Errorf("line %d: want Private-key-format: v1.3 in the first line, and each name once", n)
		}
		seen[name] = true
		switch {
		case name == "Private-key-format":
			if !strings.HasPrefix(value, "v1.") {
				return 0, nil, times, fmt.Errorf("line %d: want Private-key-format: v1.3", n)
			}
		case name == "Algorithm":
			number, _, _ := strings.Cut(value, " ")
			a, err := strconv.ParseUint(number, 10, 8)
			if err != nil {
				return 0, nil, times, fmt.Errorf("line %d: want Algorithm: 13 (%v) or 15 (%v)", n, ECDSAP256SHA256, Ed25519)
			}
			algorithm = Algorithm(a)
		case name == "PrivateKey":
			if private, err = base64.StdEncoding.DecodeString(value); err != nil {
				return 0, nil, times, fmt.Errorf("line %d: the private key is not base64", n)
			}
		case at[name] != nil:
			if *at[name], err = time.Parse(timeLayout, value); err != nil {
				return 0, nil, times, fmt.Errorf("line %d: %s: want a time such as 20260131120000", n, name)
			}
		}
		// Other names, as of times that BIND keeps for itself and of parts of
		// other algorithms, are nothing to us.
	}
	switch {
	case n == 0:
		return 0, nil, times, errors.New("empty: want Private-key-format: v1.3 and the rest of a key")
	case algorithm != ECDSAP256SHA256 && algorithm != Ed25519:
		return 0, nil, times, fmt.Errorf("algorithm %d: want 13 (%v) or 15 (%v)", algorithm, ECDSAP256SHA256, Ed25519)
	case private == nil:
		return 0, nil, times, errors.New("no line PrivateKey: BASE64")
	}
	return algorithm, private, times, nil
}

// WriteKey writes the two files of a key into a directory, readable for their
// owner alone. They are on the disk when it returns.
func WriteKey(dir string, k *Key, created time.Time) error {
	private, err := k.private()
	if err != nil {
		return err
	}
	role := "zone-signing"
	if k.KSK() {
		role = "key-signing"
	}
	public := fmt.Sprintf("; This is a %s key, keyid %d, for %s\n; Created: %s\n%s IN DNSKEY %s\n",
		role, k.tag, textName(k.zone), created.UTC().Format(timeLayout), textName(k.zone), k.RecordText())
	secret := fmt.Sprintf("Private-key-format: v1.3\nAlgorithm: %d (%v)\nPrivateKey: %s\nCreated: %s\n",
		k.algorithm, k.algorithm, base64.StdEncoding.EncodeToString(private), created.UTC().Format(timeLayout))
	base := filepath.Join(dir, k.FileBase())
	// The private half first: a public file alone would look like a key.
	if err := WriteFile(base+".private", []byte(secret)); err != nil {
		return err
	}
	return WriteFile(base+".key", []byte(public))
}

// WriteFile puts a file in place, whole or not at all, readable for its owner
// alone. It is on the disk when WriteFile returns.
func WriteFile(name string, data []byte) (err error) {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, ".new-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if syncErr := f.Sync(); err == nil {
		err = syncErr
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err = os.Rename(f.Name(), name); err != nil {
		return err
	}
	return SyncDir(dir)
}

// SyncDir makes what was created, renamed and removed in a directory last.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return err
}
