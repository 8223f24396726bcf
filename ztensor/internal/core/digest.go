package core

import (
	"bytes"
	"crypto/sha256"
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
)

// Digest says which checksum a writer puts beside each component. In version 1
// it covers the bytes as they are stored, after compression and without
// padding.
type Digest uint8

const (
	NoDigest Digest = iota
	CRC32C          // finds accidents; costs next to nothing
	SHA256          // also finds intent, as far as the manifest itself can be trusted
	XXH3            // of version 2, which has it for every part; finds accidents
)

// String is the word before the colon in a file; "none" for NoDigest.
func (d Digest) String() string {
	switch d {
	case NoDigest:
		return "none"
	case CRC32C:
		return "crc32c"
	case SHA256:
		return "sha256"
	case XXH3:
		return "xxh3"
	}
	return fmt.Sprintf("Digest(%d)", uint8(d))
}

var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A hasher computes a Digest. The zero value computes none.
type hasher struct {
	alg  Digest
	crc  uint32
	sha  hash.Hash
	XXH3 *xxh3.Hasher
}

func NewHasher(alg Digest) hasher {
	h := hasher{alg: alg}
	switch alg {
	case SHA256:
		h.sha = sha256.New()
	case XXH3:
		h.XXH3 = xxh3.New()
	}
	return h
}

func (h *hasher) Write(p []byte) {
	switch h.alg {
	case CRC32C:
		h.crc = crc32.Update(h.crc, Castagnoli, p)
	case SHA256:
		h.sha.Write(p)
	case XXH3:
		h.XXH3.Write(p)
	}
}

// AppendText appends the digest as the specification spells it.
func (h *hasher) AppendText(b []byte) []byte {
	switch h.alg {
	case CRC32C:
		return fmt.Appendf(b, "crc32c:0x%08X", h.crc)
	case SHA256:
		return hex.AppendEncode(append(b, "sha256:"...), h.sha.Sum(nil))
	}
	return b
}

// A wanted is a digest as a file states it.
type wanted struct {
	alg   Digest
	crc   uint32
	sha   []byte
	Loose bool // not spelled as the specification does
}

// errNoAlgorithm is a digest that cannot be checked here.
var errNoAlgorithm = errors.New("unknown digest algorithm")

// parseDigest reads "crc32c:0x" with eight upper-case hexadecimal digits, or
// "sha256:" with 64 lower-case ones. Looser spellings that upstream's readers
// take too are marked.
func parseDigest(s string) (w wanted, err error) {
	name, value, ok := strings.Cut(s, ":")
	if !ok {
		return w, fmt.Errorf("%w: digest %s is not algorithm:value", tensor.ErrMalformed, quote.Name(s))
	}
	switch name {
	case "crc32c":
		digits := value
		for _, prefix := range []string{"0x", "0X"} {
			if d, ok := strings.CutPrefix(value, prefix); ok {
				digits = d
				break
			}
		}
		v, err := strconv.ParseUint(digits, 16, 32)
		if err != nil || len(digits) > 8 || digits[0] == '+' {
			return w, fmt.Errorf("%w: digest %s is not 0x and eight hexadecimal digits", tensor.ErrMalformed, quote.Name(s))
		}
		return wanted{alg: CRC32C, crc: uint32(v), Loose: value != fmt.Sprintf("0x%08X", v)}, nil
	case "sha256":
		sum, err := hex.DecodeString(value)
		if err != nil || len(sum) != sha256.Size {
			return w, fmt.Errorf("%w: digest %s is not 64 hexadecimal digits", tensor.ErrMalformed, quote.Name(s))
		}
		return wanted{alg: SHA256, sha: sum, Loose: value != hex.EncodeToString(sum)}, nil
	case "":
		return w, fmt.Errorf("%w: digest %s names no algorithm", tensor.ErrMalformed, quote.Name(s))
	}
	return w, fmt.Errorf("%w: %w %s", errors.ErrUnsupported, errNoAlgorithm, quote.Name(name))
}

// check holds the computed digest against the wanted one.
func (h *hasher) check(w wanted) error {
	switch {
	case h.alg == CRC32C && h.crc != w.crc:
		return fmt.Errorf("%w: crc32c is 0x%08X, the file says 0x%08X", tensor.ErrChecksum, h.crc, w.crc)
	case h.alg == SHA256:
		if sum := h.sha.Sum(nil); !bytes.Equal(sum, w.sha) {
			return fmt.Errorf("%w: sha256 is %x, the file says %x", tensor.ErrChecksum, sum, w.sha)
		}
	}
	return nil
}

// prefixCRC begins a crc32c that is spelled as the specification does.
const prefixCRC = "crc32c:0x"

// upperHex reads eight upper-case hexadecimal digits.
func upperHex(s string) (v uint32, ok bool) {
	if len(s) != 8 {
		return 0, false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			v = v<<4 | uint32(c-'0')
		case c >= 'A' && c <= 'F':
			v = v<<4 | uint32(c-'A'+10)
		default:
			return 0, false
		}
	}
	return v, true
}
