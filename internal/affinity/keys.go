package affinity

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// keySize is the length of a key in bytes: AES-256.
	keySize = 32
	// maxKeys bounds the keys of a ring. All that are older than the longest
	// session may be removed.
	maxKeys = 8
	// maxFile bounds what is read of a file of keys, comments and all.
	maxFile = 64 << 10
)

// Keys is a ring of keys. The first one seals, all of them open, so that a new
// one put in front ends no session. It may be used by any number of goroutines
// at once.
type Keys struct {
	ring []key
}

type key struct {
	id   byte // of its cookies
	aead cipher.AEAD
}

// ParseKeys reads the keys of a file: 32 bytes in base64 on each line, the one
// that seals first, 8 at most. Empty lines and those that begin with # count for
// nothing. An error names the line, and shows nothing of a key.
func ParseKeys(text []byte) (*Keys, error) {
	k := new(Keys)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		secret := make([]byte, base64.StdEncoding.DecodedLen(len(line)))
		size, err := base64.StdEncoding.Decode(secret, line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: not base64 (RFC 4648 section 4)", n)
		case size != keySize:
			return nil, fmt.Errorf("line %d: a key of %d bytes: want %d", n, size, keySize)
		case len(k.ring) == maxKeys:
			return nil, fmt.Errorf("line %d: more than %d keys: remove those that are older than the longest session", n, maxKeys)
		}
		block, err := aes.NewCipher(secret[:size])
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		k.ring = append(k.ring, key{sha256.Sum256(secret[:size])[0], aead})
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, errors.New("a line is too long for a key")
	case len(k.ring) == 0:
		return nil, errors.New("no key: want 32 random bytes in base64 on a line")
	}
	return k, nil
}

// NewKeys makes a key that nobody else has.
func NewKeys() *Keys {
	secret := make([]byte, keySize)
	rand.Read(secret)
	k, err := ParseKeys([]byte(base64.StdEncoding.EncodeToString(secret)))
	if err != nil {
		panic(err) // a key like any other
	}
	return k
}

// LoadKeys is ParseKeys of a file, an error of which names it.
func LoadKeys(file string) (*Keys, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // a pipe could be waited for, perhaps for ever
		return nil, fmt.Errorf("%s: want a regular file", file)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s: %d bytes long: want at most %d", file, info.Size(), maxFile)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	k, err := ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return k, nil
}

// EnsureKeys makes the file with a new key, for its owner alone, where there is
// none, with the directories that it lies in. It reports whether it did.
func EnsureKeys(file string) (made bool, err error) {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return false, err
	}
	secret := make([]byte, keySize)
	rand.Read(secret)
	text := "# Keys of session cookies. The first one seals, all of them open; nodes that\n" +
		"# serve the same names share this file.\n" +
		base64.StdEncoding.EncodeToString(secret) + "\n"
	// Linked into place, so that nobody sees half a file and of two that make
	// one at once both use the same.
	temporary, err := os.CreateTemp(filepath.Dir(file), ".session_keys-*")
	if err != nil {
		return false, err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.WriteString(text)
	if syncErr := temporary.Sync(); err == nil {
		err = syncErr
	}
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return false, err
	}
	err = os.Link(temporary.Name(), file)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}
