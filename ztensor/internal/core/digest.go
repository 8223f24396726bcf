package core

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// Digest is the checksum that a writer puts next to each payload. In version 1
// it covers the bytes as they are stored.
type Digest uint8

const (
	NoDigest Digest = iota
	CRC32C          // finds accidents; costs next to nothing
	SHA256          // also finds intent, as far as the manifest itself can be trusted
	XXH3            // of version 2, which has it for every part; finds accidents
)

// String is the word before the colon in a file; "none" for NoDigest.
func (d Digest) String() string {
	if words := [...]string{"none", "crc32c", "sha256", "xxh3"}; int(d) < len(words) {
		return words[d]
	}
	return fmt.Sprintf("Digest(%d)", uint8(d))
}

// NewHash computes a Digest; nil for NoDigest.
func NewHash(alg Digest) hash.Hash {
	switch alg {
	case CRC32C:
		return crc32.New(crc32.MakeTable(crc32.Castagnoli))
	case SHA256:
		return sha256.New()
	case XXH3:
		return xxh3.New()
	}
	return nil
}

// DigestText spells the digest that h has computed as the specification does.
func DigestText(alg Digest, h hash.Hash) string {
	switch {
	case h == nil:
		return ""
	case alg == CRC32C:
		return fmt.Sprintf("crc32c:0x%X", h.Sum(nil))
	}
	return fmt.Sprintf("%v:%x", alg, h.Sum(nil))
}

// DigestOf returns the digest of b as the specification spells it.
func DigestOf(alg Digest, b []byte) string {
	h := NewHash(alg)
	if h != nil {
		h.Write(b)
	}
	return DigestText(alg, h)
}

// A Stated digest is one as a file states it.
type Stated struct {
	Alg   Digest
	sum   []byte
	Loose bool // not spelled as the specification does
}

// errNoAlgorithm is a digest that cannot be checked here.
var errNoAlgorithm = errors.New("unknown digest algorithm")

// ParseAlgorithm returns the algorithm of a digest of version 2.
func ParseAlgorithm(text string) (Digest, error) {
	name, _, _ := strings.Cut(text, ":")
	switch name {
	case "xxh3":
		return XXH3, nil
	case "sha256":
		return SHA256, nil
	}
	return NoDigest, fmt.Errorf("%w: %w %s", errors.ErrUnsupported, errNoAlgorithm,
		quote.Name(name))
}

// parseDigest reads "crc32c:0x" with eight upper-case hexadecimal digits, or
// "sha256:" with 64 lower-case ones, and marks looser spellings of upstream's readers.
func parseDigest(s string) (w Stated, err error) {
	name, value, ok := strings.Cut(s, ":")
	switch {
	case !ok || name == "":
		return w, fmt.Errorf("%w: digest %s is not algorithm:value", tensor.ErrMalformed,
			quote.Name(s))
	case name == "crc32c":
		digits := value
		if len(value) > 1 && value[0] == '0' && value[1]|0x20 == 'x' {
			digits = value[2:]
		}
		v, err := strconv.ParseUint(digits, 16, 32)
		if err != nil || len(digits) > 8 || digits[0] == '+' {
			return w, fmt.Errorf("%w: digest %s is not 0x and eight hexadecimal digits",
				tensor.ErrMalformed, quote.Name(s))
		}
		return Stated{CRC32C, binary.BigEndian.AppendUint32(nil, uint32(v)),
			value != fmt.Sprintf("0x%08X", v)}, nil
	case name == "sha256":
		sum, err := hex.DecodeString(value)
		if err != nil || len(sum) != sha256.Size {
			return w, fmt.Errorf("%w: digest %s is not 64 hexadecimal digits", tensor.ErrMalformed,
				quote.Name(s))
		}
		return Stated{SHA256, sum, value != hex.EncodeToString(sum)}, nil
	}
	return w, fmt.Errorf("%w: %w %s", errors.ErrUnsupported, errNoAlgorithm, quote.Name(name))
}

// parseRuled reads a digest of version 2 that has the form of one.
func parseRuled(text string) (w Stated, err error) {
	if w.Alg, err = ParseAlgorithm(text); err != nil {
		return w, err
	}
	_, value, _ := strings.Cut(text, ":")
	if w.sum, err = hex.DecodeString(value); err != nil || len(w.sum) != NewHash(w.Alg).Size() {
		return w, rule.Broken(rule.Digest, "%s is not that of any bytes", quote.Name(text))
	}
	return w, nil
}

// Wanted returns the digest that the payload should have, and what computes it: nil where
// there is none.
func (p *Payload) Wanted() (w Stated, h hash.Hash, err error) {
	switch {
	case p.Digest == "":
		return w, nil, nil
	case p.R.Ruled:
		w, err = parseRuled(p.Digest)
	default:
		w, err = parseDigest(p.Digest)
	}
	if err != nil {
		return w, nil, err
	}
	return w, NewHash(w.Alg), nil
}

// HasXXH3 reports whether the digest is one of that algorithm.
func (p *Payload) HasXXH3() bool {
	w, _, err := p.Wanted()
	return err == nil && w.Alg == XXH3
}

// Compare compares a computed digest with the stated one.
func (p *Payload) Compare(want Stated, h hash.Hash) error {
	have := h.Sum(nil)
	switch {
	case bytes.Equal(have, want.sum):
		return nil
	case p.R.Ruled:
		return rule.Broken(rule.Digest, "it is %x, the file says %x", have, want.sum)
	case want.Alg == CRC32C:
		return fmt.Errorf("%w: crc32c is 0x%X, the file says 0x%X", tensor.ErrChecksum, have,
			want.sum)
	}
	return fmt.Errorf("%w: %v is %x, the file says %x", tensor.ErrChecksum, want.Alg, have,
		want.sum)
}
