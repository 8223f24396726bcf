// Package digest computes, parses and formats the digests of zTensor files.
package digest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// An Algorithm is package ztensor's Digest.
type Algorithm uint8

const (
	None Algorithm = iota
	CRC32C
	SHA256
	XXH3
)

// String returns the name before the colon in a file; "none" for None.
func (a Algorithm) String() string {
	if names := [...]string{"none", "crc32c", "sha256", "xxh3"}; int(a) < len(names) {
		return names[a]
	}
	return fmt.Sprintf("Digest(%d)", uint8(a))
}

// New returns a hash of the algorithm; nil for None.
func New(a Algorithm) hash.Hash {
	switch a {
	case CRC32C:
		return crc32.New(crc32.MakeTable(crc32.Castagnoli))
	case SHA256:
		return sha256.New()
	case XXH3:
		return xxh3.New()
	}
	return nil
}

// Text returns the digest that h has computed, as the specification spells it; "" if h is
// nil.
func Text(a Algorithm, h hash.Hash) string {
	if h == nil {
		return ""
	}
	return format(a, h.Sum(nil))
}

func format(a Algorithm, sum []byte) string {
	if a == CRC32C {
		return fmt.Sprintf("crc32c:0x%X", sum)
	}
	return fmt.Sprintf("%v:%x", a, sum)
}

// Of returns the digest of b as the specification spells it.
func Of(a Algorithm, b []byte) string {
	h := New(a)
	if h != nil {
		h.Write(b)
	}
	return Text(a, h)
}

// ErrUnknown is the error of a digest of an unknown algorithm.
var ErrUnknown = errors.New("unknown digest algorithm")

// AlgorithmOf returns the algorithm of a digest of version 2.
func AlgorithmOf(text string) (Algorithm, error) {
	name, _, _ := strings.Cut(text, ":")
	switch name {
	case "xxh3":
		return XXH3, nil
	case "sha256":
		return SHA256, nil
	}
	return None, unknownError(name)
}

func unknownError(name string) error {
	return fmt.Errorf("%w: %w %s", errors.ErrUnsupported, ErrUnknown, naming.Quote(name))
}

// IsWellFormed reports whether text is NAME:VALUE, a NAME of a-z and 0-9 and a VALUE of
// a-f and 0-9.
func IsWellFormed(text []byte) bool {
	name, value, _ := bytes.Cut(text, []byte(":"))
	return isAlphanumeric(name, 'z') && isAlphanumeric(value, 'f')
}

// isAlphanumeric reports whether text is not empty and has only 0-9 and a-last.
func isAlphanumeric(text []byte, last byte) bool {
	other := 0
	for _, c := range text { // without branches, which random digits make slow
		other |= (9 - int(c-'0')) & (int(last-'a') - int(c-'a')) // negative if both are
	}
	return other >= 0 && len(text) > 0
}

// Expected is the digest that a file gives for some bytes. The zero value is none.
type Expected struct {
	Algorithm
	sum        []byte
	Loose      bool // not spelled as the specification does
	isVersion2 bool
}

// Parse parses a digest; "" is none. Version 1 has "crc32c:0x" with 8 upper-case
// hexadecimal digits and "sha256:" with 64 lower-case ones; other spellings that
// upstream's readers accept are Loose. Version 2 has sha256 and xxh3. Parse fails with
// ErrUnknown for other algorithms.
func Parse(s string, isVersion2 bool) (w Expected, err error) {
	if s == "" {
		return w, nil
	}
	w.isVersion2 = isVersion2
	name, value, ok := strings.Cut(s, ":")
	if w.Algorithm, err = AlgorithmOf(s); !isVersion2 && name == "crc32c" {
		w.Algorithm = CRC32C
	} else if !ok || name == "" {
		return w, fmt.Errorf("%w: digest %s is not algorithm:value", tensor.ErrMalformed,
			naming.Quote(s))
	} else if err != nil || !isVersion2 && w.Algorithm == XXH3 {
		return Expected{}, unknownError(name)
	}
	digits := value
	if w.Algorithm == CRC32C {
		if len(value) > 1 && value[0] == '0' && value[1]|0x20 == 'x' {
			digits = value[2:]
		}
		if digits != "" {
			digits = strings.Repeat("0", max(0, 8-len(digits))) + digits
		}
	}
	size := New(w.Algorithm).Size()
	if w.sum, err = hex.DecodeString(digits); err != nil || len(w.sum) != size {
		if isVersion2 {
			return w, rule.Broken(rule.Digest, "no bytes have the digest %s", naming.Quote(s))
		}
		return w, fmt.Errorf("%w: digest %s is not %d hexadecimal digits", tensor.ErrMalformed,
			naming.Quote(s), 2*size)
	}
	w.Loose = s != format(w.Algorithm, w.sum)
	return w, nil
}

// Compare fails with tensor.ErrChecksum if h has computed another digest.
func (w Expected) Compare(h hash.Hash) error {
	have := h.Sum(nil)
	switch {
	case bytes.Equal(have, w.sum):
		return nil
	case w.isVersion2:
		return rule.Broken(rule.Digest, "it is %x, the file says %x", have, w.sum)
	}
	return fmt.Errorf("%w: it is %s, the file says %s", tensor.ErrChecksum,
		format(w.Algorithm, have), format(w.Algorithm, w.sum))
}
