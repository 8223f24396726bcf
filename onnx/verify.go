package onnx

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// Verify checks the tensors and the graphs. It reads all elements, also in data files;
// with VerifyStructure it reads none. It does not check operators.
//
// An error is a defect that ONNX's checker or onnxruntime refuses, also in a tensor that
// no node uses: elements that are missing, in two places, or of another number than the
// shape says; a data file that is missing, too short or outside the directory; indices of
// a sparse tensor that do not ascend; a name of several values or of none; nodes that
// depend on each other in a cycle. Nodes before nodes whose values they use, and tensors
// that overlap in a data file, are warnings. The checksum of a data file covers the whole
// file, and is compared only if opts.Strict is set.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := format.NewFindings(opts)
	v := &verifier{r: r, ctx: ctx, found: l, buf: make([]byte, 1<<20)}
	return l.End(v.verify())
}

type verifier struct {
	r           *Reader
	ctx         context.Context
	found       *format.Findings
	done, total int64
	buf         []byte
}

func (v *verifier) verify() error {
	for _, err := range v.r.deviations() {
		v.found.Warn(err)
	}
	v.r.model.verify(v.found)
	for _, e := range v.r.entries {
		for _, err := range e.problems() {
			v.found.Error(err)
		}
		v.total += max(e.tensor.Size(), 0)
	}
	if err := v.ctx.Err(); err != nil {
		return err
	}
	if v.r.closed.Load() {
		return fs.ErrClosed
	}
	for _, e := range v.r.entries {
		if v.found.Full() {
			return nil
		}
		if err := v.tensor(e); err != nil {
			return err
		}
	}
	v.overlaps()
	return v.checksums()
}

// tensor checks the elements of a tensor. Its error ends Verify.
func (v *verifier) tensor(e *entry) error {
	t := &e.tensor
	if t.Scheme == "" {
		return v.elements(t, t.DType, t.Data)
	}
	before := len(v.found.All())
	for _, p := range t.Parts {
		if err := v.elements(t, p.DType, p.Data); err != nil {
			return err
		}
	}
	if e.wrong != nil || len(v.found.All()) > before ||
		v.found.Options.Depth <= tensor.VerifyStructure {
		return nil
	}
	err := sparse.Check(v.ctx, t, &sparse.Options{Ordered: true})
	if err == nil || v.ctx.Err() != nil {
		return v.ctx.Err()
	}
	v.found.Error(&tensor.FormatError{Format: formatName, Offset: e.at,
		Field: "indices of " + naming.Quote(t.Name), Err: errors.Unwrap(err)})
	return nil
}

// elements checks the elements of a dense tensor, or of a part of a sparse tensor.
func (v *verifier) elements(t *tensor.Tensor, d tensor.DType, b tensor.Blob) error {
	field := "data of " + naming.Quote(t.Name)
	var decoder *typedReader
	switch s := b.Source().(type) {
	case *unreadable:
		v.found.Error(s.err)
		return nil
	case *opaque:
		if s.encoding != fieldNames[stringData] {
			v.found.Error(errs.At(s.Offset(), field, errors.ErrUnsupported,
				"elements of the type %s", s.typeName))
		}
	case *externalData:
		if _, err := s.open(); err != nil {
			v.found.Error(err)
			return nil
		}
	case *typedData:
		b = tensor.BlobFunc(s.size, func() (io.ReadCloser, error) {
			decoder = s.open()
			return decoder, nil
		})
	}
	if v.found.Options.Depth <= tensor.VerifyStructure {
		return nil
	}
	off := int64(-1)
	if st, ok := b.Stored(); ok && st.File == "" {
		off = st.Offset
	}
	_, err := format.ReadBlob(v.ctx, b, d, v.buf, v.progress)
	var placed *tensor.FormatError
	switch isPlaced := errors.As(err, &placed); {
	case v.ctx.Err() != nil:
		return v.ctx.Err()
	case err != nil && tensor.ClassOf(err) == tensor.ClassIO:
		return err
	case !isPlaced && errors.Is(err, tensor.ErrMalformed): // a bool that is not 0 or 1
		v.found.Warn(&tensor.FormatError{Format: formatName, Offset: off, Field: field, Err: err})
	case err != nil && !isPlaced:
		v.found.Error(errs.At(off, field, err, "the file has changed"))
	case err != nil:
		v.found.Error(err)
	case decoder != nil && decoder.outOfRange >= 0:
		v.found.Warn(errs.Malformed(decoder.t.parts[0].off, decoder.t.path,
			"entry %d is none of %v: its upper bits are cut off", decoder.outOfRange, d))
	}
	n, _ := t.Shape.Elements()
	if used := n * 6 % 8; d.Bits() == 6 && used > 0 && err == nil {
		var last [1]byte
		if _, err := b.ReadAt(last[:], b.Size()-1); err == nil && last[0]>>used != 0 {
			v.found.Warn(errs.Malformed(off, field,
				"bits after the last element are not 0"))
		}
	}
	return nil
}

func (v *verifier) progress(n int64) {
	v.done += n
	if p := v.found.Options.Progress; p != nil && n > 0 {
		p(min(v.done, v.total), v.total)
	}
}

// overlaps warns of tensors that share a part of their bytes. Tensors may share all.
func (v *verifier) overlaps() {
	var reach *externalData // the data so far that ends last
	for _, x := range v.r.externals() {
		if reach != nil && x.file == reach.file {
			end := reach.off + reach.size
			if x.off < end && (x.off != reach.off || x.size != reach.size) {
				v.found.Warn(&tensor.FormatError{Format: formatName, Offset: x.at,
					Field: x.field(),
					Code:  tensor.CodeOverlappingData,
					Err: fmt.Errorf("%w: bytes %d to %d of %s are also data of %s",
						tensor.ErrMalformed, x.off, x.off+x.size, naming.Quote(x.file.name),
						naming.Quote(reach.tensor.Name))})
			}
			if x.off+x.size <= end {
				continue
			}
		}
		reach = x
	}
}

// checksums compares the checksums of data files.
func (v *verifier) checksums() error {
	if !v.found.Options.Strict || v.found.Options.Depth <= tensor.VerifyStructure {
		return nil
	}
	sums := map[*dataFile]string{}
	for _, x := range v.r.externals() {
		if x.sum == "" {
			continue
		}
		if sums[x.file] == "" {
			src, err := x.file.open()
			if err != nil {
				continue
			}
			h := sha1.New()
			in := io.NewSectionReader(src, 0, src.Size())
			if _, err := io.Copy(format.Until(v.ctx, h), in); err != nil {
				return &tensor.FormatError{Format: formatName, Offset: x.at, Field: x.field(),
					Err: err}
			}
			sums[x.file] = hex.EncodeToString(h.Sum(nil))
		}
		if !strings.EqualFold(x.sum, sums[x.file]) {
			v.found.Error(errs.At(x.at, x.field(), tensor.ErrChecksum,
				"the SHA-1 of %s is %s, not %s",
				naming.Quote(x.file.name), sums[x.file], naming.Quote(x.sum)))
		}
	}
	return nil
}

// deviations returns deviations from the specification that do not prevent reading.
func (r *Reader) deviations() (all []error) {
	add := func(off int64, field, format string, args ...any) {
		all = append(all, errs.Malformed(off, field, format, args...))
	}
	m := r.model
	if m.IRVersion > LatestIR {
		all = append(all, errs.At(-1, "ir_version", errors.ErrUnsupported,
			"%d is newer than this library, which knows %d", m.IRVersion, LatestIR))
	}
	seen := map[string]bool{}
	for i, kv := range m.metadata {
		if seen[kv[0]] {
			add(-1, fmt.Sprintf("metadata_props[%d]", i), "a second value for the key %s",
				naming.Quote(kv[0]))
		}
		seen[kv[0]] = true
	}
	for g := range m.Graphs() {
		for i, x := range g.initializers {
			if x.unnamed {
				add(x.at, fmt.Sprintf("%s.initializer[%d]", g.field, i), "it has no name")
			}
		}
		for i := range g.Nodes {
			n := &g.Nodes[i]
			for j := range n.Attributes {
				if n.Attributes[j].mismatched {
					add(n.at, fmt.Sprintf("%s.node[%d].attribute[%d]", g.field, i, j),
						"it has values of another type than it says")
				}
			}
		}
	}
	for _, e := range r.entries {
		if x, ok := e.tensor.Data.Source().(*externalData); ok {
			for _, key := range x.unknown {
				add(x.at, x.field(), "the key %s has no meaning", naming.Quote(key))
			}
		}
	}
	return all
}
