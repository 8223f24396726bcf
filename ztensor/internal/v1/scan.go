package v1

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// A scan reads a manifest into the index of its file.
type scan struct {
	cbor.Cursor
	c              *container
	r              *core.File
	objects        bool // the manifest has "objects", as from 1.1 on, not "tensors"
	minor          int  // minor number of the manifest's version; -1 if it gives none
	componentTypes bool // each component has a dtype, not the tensor

	tensor           fields
	roles            []fields // of its components
	dims             []int64
	end              int64  // of the last component so far
	namesUnsorted    bool   // names do not ascend
	lastName         string // the name of the tensor before
	zstdWithoutSize  string // the path of the first zstd component without uncompressed_length
	attributeNotText string // the first attribute of the file that is not text

	// The position for an error.
	level                        int // 0: the root, 1: a tensor, 2: a component
	entry                        int // of 0.1, while it is read; else -1
	item, role, field, attribute string
}

// path returns the position as the Field of an error.
func (s *scan) path() string {
	path := ""
	switch {
	case s.level == 2:
		path = s.r.Field(s.item, s.role) + "."
	case s.level == 1:
		path = s.r.List + "[" + naming.Quote(s.item) + "]."
	case s.entry >= 0:
		path = fmt.Sprintf("entries[%d].", s.entry)
	case s.field == "":
		return "manifest"
	}
	if s.field == "" {
		return path[:len(path)-1]
	}
	if path += core.PathKey([]byte(s.field)); s.attribute != "" {
		path += "[" + naming.Quote(s.attribute) + "]"
	}
	return path
}

// moveToRoot sets the position to a field of the root; "" is the manifest.
func (s *scan) moveToRoot(field string) {
	if s.Err == nil {
		s.level, s.entry, s.field, s.attribute = 0, -1, field, ""
	}
}

// done returns the error that stopped the scan.
func (s *scan) done() error {
	return s.r.Locate(s.r.ManifestAt+int64(s.ErrAt), s.path(), s.Err)
}

// deviation adds a warning about a deviation from the document; in strict mode it fails.
// off counts from the start of the file.
func (s *scan) deviation(off int64, format string, args ...any) {
	if s.Err == nil {
		s.deviationIn(s.path(), off, format, args...)
	}
}

func (s *scan) deviationIn(path string, off int64, format string, args ...any) {
	err := core.Errs.Malformed(off, path, format, args...)
	if s.r.Options.Strict {
		s.Fail(0, "%w", err)
	} else {
		s.r.Warnings.Add(err)
	}
}

// deviationAt is deviation at a byte of the manifest.
func (s *scan) deviationAt(at int, format string, args ...any) {
	s.deviation(s.r.ManifestAt+int64(at), format, args...)
}

// root reads the manifest of 1.0, 1.1 or 1.2.
func (s *scan) root() {
	// Upstream accepts a tag: then a manifest size that is one too large may pass.
	if s.B[0]>>5 == cbor.Tag {
		s.Malformed(0, "a tag before the manifest's map")
		return
	}
	var f fields
	s.readFields(&f, rootKeys, 0)
	if f.has&keyTensors == 0 {
		s.Malformed(0, `neither "tensors" nor "objects"`)
	}
	if s.r.Attributes = f.attributes; s.Err != nil {
		return
	}
	s.version(f.version, f.has&keyVersion != 0)
	s.moveToRoot("")
	// Upstream's reader of 1.2 ignores bytes after the map, older ones refuse them.
	if left := len(s.B) - s.Pos; left > 0 && s.objects && s.minor >= 2 {
		s.deviationAt(s.Pos, "%d bytes after the manifest's map", left)
	} else if left > 0 {
		s.Malformed(s.Pos, "%d bytes after the manifest's map", left)
	}
}

// version sets the version of the file: 1.0 if the manifest has "tensors", else 1.1 or
// 1.2 as the manifest claims.
func (s *scan) version(claim string, given bool) {
	r := s.r
	r.Version = "1.0"
	if s.objects {
		r.Version = "1.1"
	}
	s.moveToRoot("version")
	if !given {
		s.deviationAt(0, "the manifest gives no version")
		return
	}
	major, minor, ok := parseVersion(claim)
	switch {
	case !ok:
		s.deviationAt(0, "%s is not a version", naming.Quote(claim))
		return
	case major != 1:
		s.Fail(0, "%w: version %s", errors.ErrUnsupported, naming.Quote(claim))
		return
	case minor > 2 || minor > 0 && !s.objects:
		// Nothing that a higher minor may add prevents reading (§6.1 of the document).
		r.Warnings.Add(core.Errs.At(r.ManifestAt, "version", errors.ErrUnsupported,
			"version %s is newer than this library knows", naming.Quote(claim)))
	}
	s.minor = minor
	if s.objects && minor >= 2 {
		r.Version = "1.2"
	}
}

// parseVersion returns the first two of the decimal numbers in v, which dots separate.
func parseVersion(v string) (major, minor int, ok bool) {
	var numbers []int
	for f := range strings.SplitSeq(v, ".") {
		n, err := strconv.ParseUint(f, 10, 31)
		if err != nil {
			return 0, 0, false
		}
		numbers = append(numbers, int(n))
	}
	numbers = append(numbers, 0)
	return numbers[0], numbers[1], true
}

// readAttributes checks a map with text keys and returns its CBOR.
func (s *scan) readAttributes() []byte {
	from, mark := s.Pos, len(s.Keys)
	for n := s.Container(cbor.Map); s.More(&n); {
		name := s.Text()
		s.attribute = le.String(name)
		s.Push(name)
		if s.level == 0 && s.attributeNotText == "" && s.Pos < len(s.B) &&
			s.B[s.Pos]>>5 != cbor.Text {
			s.attributeNotText = s.attribute
		}
		s.Skip()
	}
	if s.Err == nil {
		s.attribute = ""
	}
	if s.Unique(mark); s.Err != nil {
		return nil
	}
	return s.B[from:s.Pos:s.Pos]
}

// minEntry is the min size of a tensor in the manifest: its name, and a map of shape,
// format and components.
const minEntry = 1 + 1 + 7 + 8 + 12

// reserve allocates memory for n tensors, and reports whether the manifest can hold them.
// If n is -1, the number is not known.
func (s *scan) reserve(n int) bool {
	if n > (len(s.B)-s.Pos)/minEntry {
		s.Malformed(s.At, "%d entries in the %d bytes that are left", n, len(s.B)-s.Pos)
	} else if int64(n) > s.r.Options.Limits.MaxTensors {
		s.Fail(s.At, "%w: %d tensors of at most %d", tensor.ErrLimit, n,
			s.r.Options.Limits.MaxTensors)
	}
	if s.Err == nil {
		s.r.Reserve(n)
	}
	return s.Err == nil
}

// tensors reads the map of tensors.
func (s *scan) tensors() {
	list := s.field
	s.objects = list == "objects"
	s.r.List, s.componentTypes = "tensors", s.objects
	if s.objects {
		s.r.List = "objects"
	}
	n := s.Container(cbor.Map)
	if !s.reserve(n) {
		return
	}
	for s.More(&n) {
		s.moveToRoot(list)
		at := s.Pos
		name := s.text()
		s.item, s.level, s.field = name, 1, ""
		t := s.add(name, at)
		s.tensor = fields{at: at, product: 1}
		s.dims, s.roles = s.dims[:0], s.roles[:0]
		s.readFields(&s.tensor, tensorKeys, requiredInTensor)
		if s.Err != nil {
			return
		}
		if s.tensor.has&keyAttributes != 0 {
			s.r.TensorAttributes[t] = s.tensor.attributes
		}
		s.assemble(t, &s.tensor)
	}
	s.moveToRoot(list)
	if s.namesUnsorted && s.Err == nil {
		if dup := s.duplicate(); dup >= 0 {
			s.Malformed(0, "tensor %s a second time", naming.Quote(s.r.Tensors[dup].Name))
		}
	}
}

// duplicate returns the index of the first tensor whose name an earlier one has, or -1.
func (s *scan) duplicate() int {
	_, dup := naming.Build(len(s.r.Tensors), func(i int) string { return s.r.Tensors[i].Name })
	return dup
}

// add appends a tensor to the index.
func (s *scan) add(name string, at int) *tensor.Tensor {
	r := s.r
	if int64(len(name)) > r.Options.Limits.MaxName {
		s.Fail(at, "%w: a name of %d bytes", tensor.ErrLimit, len(name))
	}
	if int64(len(r.Tensors)) >= r.Options.Limits.MaxTensors {
		s.Fail(at, "%w: more than %d tensors", tensor.ErrLimit, r.Options.Limits.MaxTensors)
	}
	if s.Err != nil {
		return nil
	}
	s.namesUnsorted = s.namesUnsorted || len(r.Tensors) > 0 && s.lastName >= name
	s.lastName = name
	return r.NewTensor(name)
}

// shape reads the dimensions into s.dims and returns their product. A product beyond 64
// bits is refused even if a later dimension is 0: upstream multiplies from left to right.
func (s *scan) shape() uint64 {
	product, largest := uint64(1), uint64(0)
	n := s.Container(cbor.Array)
	at := s.At
	for s.More(&n) {
		d := s.Uint()
		hi, lo := bits.Mul64(product, d)
		if hi != 0 {
			s.Malformed(s.At, "the product of the dimensions overflows")
		}
		product, largest = lo, max(largest, d)
		s.dims = append(s.dims, int64(d))
		if int64(len(s.dims)) > s.r.Options.Limits.MaxRank {
			s.Fail(s.At, "%w: more than %d dimensions", tensor.ErrLimit,
				s.r.Options.Limits.MaxRank)
		}
	}
	if max(product, largest) > math.MaxInt64 { // upstream counts in uint64
		s.Fail(at, "%w: a tensor of %d elements, a dimension of %d", tensor.ErrLimit, product,
			largest)
	}
	return product
}

// components reads the map from roles to components.
func (s *scan) components() {
	limit, mark := s.r.Options.Limits, len(s.Keys)
	for n := s.Container(cbor.Map); s.More(&n); {
		s.level, s.field = 1, "components"
		at := s.Pos
		if len(s.roles) > 0 && int64(len(s.roles)+len(s.r.Payloads)) >= limit.MaxTensors {
			s.Fail(at, "%w: more than %d components", tensor.ErrLimit, limit.MaxTensors)
			return
		}
		name := s.Text()
		role := le.String(name)
		if int64(len(role)) > limit.MaxName {
			s.Fail(s.At, "%w: a role of %d bytes", tensor.ErrLimit, len(role))
		}
		if s.Err != nil {
			return
		}
		s.level, s.role, s.field = 2, role, ""
		s.roles = append(s.roles, fields{})
		f := &s.roles[len(s.roles)-1]
		f.name, f.at, f.decoded = role, at, -1
		s.Push(name)
		s.readFields(f, componentKeys, requiredInComponent)
	}
	if s.Err == nil {
		s.level, s.field = 1, "components"
		s.Unique(mark)
	}
}

// checkFooter checks that the footer is of the manifest's version.
func (s *scan) checkFooter() {
	r := s.r
	size := r.Size()
	s.moveToRoot("footer")
	switch footer := r.FooterSize; {
	case s.objects && footer == minFooter: // no program writes this, upstream refuses it
		s.Fail(int(r.ManifestSize), "%w: a file of version %s ends with its magic",
			io.ErrUnexpectedEOF, r.Version)
	case !s.objects && footer != minFooter:
		s.deviation(r.ManifestAt, "a footer of version 1.1 around a manifest of version %s",
			r.Version)
	}
	if r.ManifestAt == int64(len(Magic1)) && size-r.ManifestSize == 16 {
		s.moveToRoot("manifest_size")
		s.deviation(size-minFooter, "%d is not below the size of the file less 16", r.ManifestSize)
	}
}

// finish makes the checks that need the whole manifest.
func (s *scan) finish() {
	r := s.r
	if s.Err != nil {
		return
	}
	if r.Version != "0.1" { // its entries are all of indefinite length
		s.checkFooter()
		if s.moveToRoot(""); s.HasIndefinite {
			s.deviationAt(0, "items of indefinite length")
		}
		if s.attributeNotText != "" && r.Version != "1.2" {
			s.moveToRoot("attributes")
			s.attribute = s.attributeNotText
			s.deviationAt(0, "a value that is not text")
		}
		if s.zstdWithoutSize != "" && r.Version == "1.2" {
			s.deviationIn(s.zstdWithoutSize, r.ManifestAt, "zstd without uncompressed_length")
		}
	}
	if s.moveToRoot(""); s.HasTag {
		s.deviationAt(0, "tagged items")
	}
	if s.Err == nil {
		r.Overlaps(func(a, b *core.Payload) bool {
			s.deviationIn(r.PathOf(b), b.Offset, "overlaps %s", r.PathOf(a))
			return s.Err == nil && !r.Warnings.Full()
		})
	}
}
