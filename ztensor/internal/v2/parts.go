package v2

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/digest"
	"github.com/tensorfile/tensorfile/ztensor/internal/dtype"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// readParts reads the parts of an object into s.parts.
func (s *scan) readParts(t *tensor.Tensor) {
	var before []byte
	for n := s.Container(cbor.Map); s.More(&n); {
		if int64(len(s.r.Payloads)) >= s.r.Options.Limits.MaxTensors {
			s.Fail(s.Pos, "%w: more than %d parts", tensor.ErrLimit, s.r.Options.Limits.MaxTensors)
			return
		}
		s.part, s.field = nil, nil
		p := scannedPart{at: s.Pos, b: s.r.NewPayload(t)}
		p.name = s.nameKey(&before, "a part")
		s.part = p.name
		s.payload(&p)
		s.parts = append(s.parts, p)
	}
	if s.Err == nil {
		s.part = nil
	}
}

// payload reads the fields of a part.
func (s *scan) payload(p *scannedPart) {
	b := p.b
	var before, logical, shard, encoding []byte
	var offset, length uint64
	hasBlob, hasDecoded := false, false
	for n := s.Container(cbor.Map); s.More(&n); {
		switch string(s.fieldKey(&before)) {
		case "blob":
			hasBlob = true
			if n := s.Container(cbor.Array); n != 2 {
				s.BreakRule(rule.Schema, s.At, "a blob of %d numbers, not of offset and length", n)
			}
			offset, length = s.Uint(), s.Uint()
			s.DepthLeft++ // the array ends
		case "type":
			logical = s.Text()
		case "dtype":
			typeName := s.Text()
			b.Dtype = dtype.StorageNamed(string(typeName), true)
			if b.Dtype == tensor.Unknown || b.Dtype == tensor.Bool { // a logical type here
				s.BreakRule(rule.Schema, s.At, "dtype %s", naming.Quote(string(typeName)))
			}
		case "shard":
			if shard = s.Text(); !isShardName(shard) {
				s.BreakRule(rule.ShardName, s.At, "shard %s", naming.Quote(string(shard)))
			}
		case "digest":
			text := s.Text()
			if b.Digest = le.String(text); s.Err == nil && !digest.IsWellFormed(text) {
				s.BreakRule(rule.Schema, s.At, "digest %s", naming.Quote(b.Digest))
			}
		case "encoding":
			encoding = s.Text()
		case "decoded_length":
			hasDecoded, p.size = true, s.Uint()
		default:
			s.Skip()
		}
	}
	if s.Err != nil {
		return
	}
	s.field = nil
	switch {
	case !hasBlob:
		s.BreakRule(rule.Schema, p.at, "blob is missing")
	case b.Dtype == tensor.Unknown:
		s.BreakRule(rule.Schema, p.at, "dtype is missing")
	case hasDecoded != (encoding != nil):
		s.BreakRule(rule.Schema, p.at, "encoding and decoded_length do not come together")
	case encoding != nil:
		x := b.EnsureExtra()
		x.Encoding, x.Codec = le.String(encoding), &frameCodec{b: b, cache: &s.c.cache}
		if x.Encoding != seekable {
			x.Err = fmt.Errorf("%w: encoding %s", errors.ErrUnsupported, naming.Quote(x.Encoding))
		}
	default:
		p.size = length
	}
	if logical != nil {
		s.logicalType(b, logical, p.at)
	}
	b.DecodedSize = int64(p.size)
	s.setExtent(b, offset, length, shard, p.at)
}

// logicalType sets the dtype of a payload to the logical type of that name.
func (s *scan) logicalType(b *core.Payload, name []byte, at int) {
	switch l := dtype.LogicalNamed(string(name), true); {
	case l.Name == "":
		b.EnsureExtra().TypeName, b.Extra.Storage = le.String(name), b.Dtype
		b.Dtype = tensor.Unknown
	case l.Storage != b.Dtype:
		s.BreakRule(rule.Schema, at, "%s is stored as %v, not %v", l.Name, l.Storage, b.Dtype)
	default:
		b.Dtype = l.DType
	}
}

// setExtent checks the shard, offset and length of a payload, and sets them.
func (s *scan) setExtent(b *core.Payload, offset, length uint64, shard []byte, at int) {
	end := uint64(s.r.Size() - footerSize)
	if shard != nil {
		i, ok := slices.BinarySearchFunc(s.r.Shards, string(shard),
			func(have core.ShardID, name string) int { return byLength(have.Name, name) })
		if !ok {
			s.BreakRule(rule.ShardRef, at, "there is no shard %s", naming.Quote(string(shard)))
			return
		}
		b.Shard, s.r.Unsorted = int32(i+1), true
		end = uint64(s.r.Shards[i].Size - footerSize)
	}
	switch {
	case offset%minAlignment != 0 || offset < minAlignment:
		s.BreakRule(rule.BlobAlignment, at,
			"byte %d is not a positive multiple of %d", offset, minAlignment)
		return
	case offset > end || length > end-offset:
		s.BreakRule(rule.BlobBounds, at,
			"%d bytes at %d of the %d before the footer", length, offset, end)
		return
	}
	b.Offset, b.Length = int64(offset), int64(length)
	if b.Length == 0 || b.Shard > 0 {
		return
	}
	m, n := s.r.ManifestAt, s.r.ManifestSize
	if b.Offset+b.Length > m && b.Offset < m+n && (b.Offset != m || b.Length != n) {
		s.Fail(at, "%w", s.overlap(m, n, b))
	}
	s.r.Unsorted = s.r.Unsorted || b.Offset < s.end
	s.end = b.Offset + b.Length
}
