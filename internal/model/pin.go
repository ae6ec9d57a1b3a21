package model

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// pinPrefix names the only hash of pins.
const pinPrefix = "sha256/"

// PinOf returns the pin of a public key, given as the DER of its
// SubjectPublicKeyInfo: that of RFC 7469, as curl and browsers write it.
func PinOf(spki []byte) string {
	sum := sha256.Sum256(spki)
	return pinPrefix + base64.StdEncoding.EncodeToString(sum[:])
}

// checkPin looks for what PinOf could have returned, so that pins are compared
// as texts.
func checkPin(pin string) error {
	text, ok := strings.CutPrefix(pin, pinPrefix)
	if !ok {
		return fmt.Errorf("want %s and the base64 of a hash", pinPrefix)
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return errors.New("want standard base64 with padding")
	}
	if len(sum) != sha256.Size {
		return fmt.Errorf("%d bytes in base64: want the %d of a SHA-256", len(sum), sha256.Size)
	}
	if base64.StdEncoding.EncodeToString(sum) != text { // the decoder skips line breaks
		return errors.New("want base64 without white space")
	}
	return nil
}

// PinError says that a certificate which may be valid otherwise has a key that
// is not pinned.
type PinError struct{ Pin string }

func (e *PinError) Error() string {
	return "the certificate's key is not pinned: it is " + e.Pin
}

// CheckPins returns a [PinError] unless a public key is one of pins, or there
// are none.
func CheckPins(pins []string, spki []byte) error {
	if len(pins) == 0 {
		return nil
	}
	if pin := PinOf(spki); !slices.Contains(pins, pin) {
		return &PinError{pin}
	}
	return nil
}
