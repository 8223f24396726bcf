package core

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
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
	if h == nil {
		return ""
	}
	return spelled(alg, h.Sum(nil))
}

func spelled(alg Digest, sum []byte) string {
	if alg == CRC32C {
		return fmt.Sprintf("crc32c:0x%X", sum)
	}
	return fmt.Sprintf("%v:%x", alg, sum)
}

// DigestOf returns the digest of b as the specification spells it.
func DigestOf(alg Digest, b []byte) string {
	h := NewHash(alg)
	if h != nil {
		h.Write(b)
	}
	return DigestText(alg, h)
}

// SumFile digests a whole file as a digest of the root says, and returns the
// part after the colon that it should have.
func SumFile(ctx context.Context, src *source.Source, digest string) (string, error) {
	alg, err := ParseAlgorithm(digest)
	if err != nil {
		return "", err
	}
	h := NewHash(alg)
	whole, err := src.Extent(0, src.Size())
	if err == nil {
		_, err = tensor.NewBlob(&whole).WriteTo(format.Until(ctx, h))
	}
	return hex.EncodeToString(h.Sum(nil)), err
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
	return NoDigest, unknownAlgorithm(name)
}

func unknownAlgorithm(name string) error {
	return fmt.Errorf("%w: %w %s", errors.ErrUnsupported, errNoAlgorithm, naming.Quote(name))
}

// IsDigest reports whether text is algorithm:hexadecimal.
func IsDigest(text []byte) bool {
	name, value, _ := bytes.Cut(text, []byte(":"))
	return isWord(name, 'z') && isWord(value, 'f')
}

// isWord reports whether text is of digits and letters up to last.
func isWord(text []byte, last byte) bool {
	other := 0
	for _, c := range text { // without a branch, which random digits would mislead
		other |= (9 - int(c-'0')) & (int(last-'a') - int(c-'a')) // negative if both are
	}
	return other >= 0 && len(text) > 0
}

// parseDigest reads "crc32c:0x" with eight upper-case hexadecimal digits, or "sha256:"
// with 64 lower-case ones, and marks looser spellings of upstream's readers; if ruled,
// one of version 2 that has the form of one.
func parseDigest(s string, ruled bool) (w Stated, err error) {
	name, value, ok := strings.Cut(s, ":")
	if w.Alg, err = ParseAlgorithm(s); !ruled && name == "crc32c" {
		w.Alg = CRC32C
	} else if !ok || name == "" {
		return w, Malformed("digest %s is not algorithm:value", naming.Quote(s))
	} else if err != nil || !ruled && w.Alg == XXH3 {
		return w, unknownAlgorithm(name)
	}
	digits := value
	if w.Alg == CRC32C {
		if len(value) > 1 && value[0] == '0' && value[1]|0x20 == 'x' {
			digits = value[2:]
		}
		if digits != "" {
			digits = strings.Repeat("0", max(0, 8-len(digits))) + digits
		}
	}
	h := NewHash(w.Alg)
	if w.sum, err = hex.DecodeString(digits); err != nil || len(w.sum) != h.Size() {
		if ruled {
			return w, rule.Broken(rule.Digest, "%s is not that of any bytes", naming.Quote(s))
		}
		return w, Malformed("digest %s is not %d hexadecimal digits", naming.Quote(s), 2*h.Size())
	}
	w.Loose = s != spelled(w.Alg, w.sum)
	return w, nil
}

// Expected returns the digest that the payload should have, and what computes it: nil
// where there is none.
func (p *Payload) Expected() (w Stated, h hash.Hash, err error) {
	if p.Digest == "" {
		return w, nil, nil
	}
	if w, err = parseDigest(p.Digest, p.R.Ruled); err != nil {
		return w, nil, err
	}
	return w, NewHash(w.Alg), nil
}

// HasXXH3 reports whether the digest is one of that algorithm.
func (p *Payload) HasXXH3() bool {
	w, _, err := p.Expected()
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
	}
	return fmt.Errorf("%w: it is %s, the file says %s", tensor.ErrChecksum,
		spelled(want.Alg, have), spelled(want.Alg, want.sum))
}

// checkView is called by tensor.View. Strict readers check the digest the first
// time that bytes are borrowed.
func (p *Payload) checkView() error {
	if err := p.Readable(); err != nil {
		return p.Failed(err)
	}
	if _, err := p.Source(); err != nil {
		return p.Failed(err)
	}
	return p.checkStrict()
}

// checkStrict checks the digest once, if the reader is strict.
func (p *Payload) checkStrict() error {
	if !p.R.Options.Strict || p.Digest == "" {
		return nil
	}
	if _, ok := p.R.checked.Load(p); ok {
		return nil
	}
	_, _, err := p.Expected()
	if err != nil {
		return p.digestError(err)
	}
	var in io.ReadCloser = p.OpenStored() // of which version 1 has the digest
	if p.R.Ruled {
		in, err = p.Open()
	}
	if err == nil {
		_, err = io.Copy(io.Discard, in)
		in.Close()
	}
	if err != nil {
		return p.Failed(err)
	}
	p.R.checked.Store(p, nil)
	return nil
}

// check shows look all that can be read of the payload, decoded if possible, and
// compares it with the digest. It leaves out what Stated reports.
func (p *Payload) check(ctx context.Context, look io.Writer) error {
	want, h, err := p.Expected()
	decode := p.Codec() != nil && p.Readable() == nil
	switch {
	case p.Readable() != nil && p.R.Ruled,
		decode && err != nil && !errors.Is(err, errNoAlgorithm):
		return nil
	case !decode:
		return p.Failed(p.checkStored(want, h, look))
	}
	in, err := p.Open()
	if err == nil {
		_, err = io.Copy(look, struct{ io.Reader }{in})
		in.Close()
	}
	if err != nil && !p.R.Ruled && !errors.Is(err, tensor.ErrChecksum) {
		_, sum := io.Copy(format.Until(ctx, io.Discard), p.OpenStored())
		var wrong *tensor.FormatError // which may be why it cannot be decoded
		if errors.Is(sum, tensor.ErrChecksum) && errors.As(sum, &wrong) {
			both := *wrong
			both.Err = fmt.Errorf("%w; %w", wrong.Err, err)
			err = &both
		}
	}
	return p.Failed(err)
}

// checkStored is check for the bytes as they are stored.
func (p *Payload) checkStored(want Stated, h hash.Hash, look io.Writer) (err error) {
	known := h != nil
	if !known {
		h = NewHash(XXH3) // so that every byte is looked at
	}
	for off := int64(0); off < p.Length && err == nil; off += pieceSize {
		err = p.UseStored(off, min(p.Length-off, pieceSize), func(b []byte) error {
			h.Write(b)
			_, err := look.Write(b)
			return err
		})
	}
	if err == nil && known {
		err = p.digestError(p.Compare(want, h))
	}
	return err
}
