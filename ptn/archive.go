package ptn

import (
	"errors"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/internal/zipfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// Members of a package.
const (
	programMember = "program.ptg"
	weightsMember = "program.safetensors"
	aliasesMember = "aliases.json"
)

func isMember(name string) bool {
	return name == programMember || name == weightsMember || name == aliasesMember
}

func (r *Reader) openArchive(src *source.Source) (err error) {
	r.archive, err = zipfile.Open(src, 0, src.Size(),
		zipfile.Options{Format: string(errs), Limits: r.limits})
	if err != nil {
		return err
	}
	members := map[string]*source.Extent{}
	for i := range r.archive.Members {
		m := &r.archive.Members[i]
		if isMember(m.File.Name) && !m.Stored() {
			return errs.At(m.Header, zipfile.Field(m.File.Name), errors.ErrUnsupported,
				"it is compressed, which ExecuTorch's runtime does not read")
		}
		x := m.Extent()
		members[m.File.Name] = &x
	}
	program := members[programMember]
	if program == nil {
		return errs.Malformed(-1, "archive", "it has no %s", programMember)
	}
	if err := r.readProgram(src, program.Offset(), program.Size()); err != nil {
		return err
	}
	if x := members[weightsMember]; x != nil {
		if err := r.openWeights(src, x); err != nil {
			return err
		}
	}
	if x := members[aliasesMember]; x != nil {
		if err := r.openAliases(src, x); err != nil {
			return err
		}
	}
	if end := r.archive.End; end < r.Size() {
		format.Warn(&r.Base, errs.Malformed(end, "archive", "%d bytes after its end",
			r.Size()-end))
	}
	return nil
}

func (r *Reader) openWeights(src *source.Source, x *source.Extent) error {
	head := make([]byte, min(x.Size(), jsonheader.Start+1))
	if _, err := x.ReadAt(head, 0); err != nil {
		return errs.Wrap(x.Offset(), zipfile.Field(weightsMember), err)
	}
	h, err := jsonheader.Read(string(errs), src, x.Offset(), x.Size(), head, r.limits)
	if err != nil {
		return err
	}
	if r.metadata = h.Metadata; len(r.metadata) > 0 {
		h.Warnings = append(h.Warnings, errs.Malformed(x.Offset()+jsonheader.Start,
			jsonheader.MetadataKey, "it has entries, for which the runtime refuses the file"))
	}
	for _, w := range h.Warnings {
		format.Warn(&r.Base, w)
	}
	r.owners, err = h.Tensors(src)
	return err
}

// openAliases reads the object of names, each with the name of a stored tensor. For a
// name that it has twice the last counts, as for ExecuTorch.
func (r *Reader) openAliases(src *source.Source, x *source.Extent) error {
	if x.Size() > r.limits.MaxMetadata {
		return errs.At(x.Offset(), aliasesMember, tensor.ErrLimit, "%d bytes, the limit is %d",
			x.Size(), r.limits.MaxMetadata)
	}
	b, err := src.Metadata(x.Offset(), x.Size())
	if err != nil {
		return errs.Wrap(x.Offset(), aliasesMember, err)
	}
	owners, _ := naming.Build(len(r.owners), func(i int) string { return r.owners[i].Name })
	seen := map[string]int{}
	s := jsonheader.NewScanner(string(errs), aliasesMember, b, x.Offset())
	s.Expect('{')
	for first := true; s.Next(&first, '}'); {
		at := s.Pos()
		name := le.String(s.Str())
		field := "aliases[" + naming.Quote(name) + "]"
		s.Expect(':')
		owner := le.String(s.Str())
		i := owners.Lookup(owner)
		switch was, isSecond := seen[name]; {
		case s.Err() != nil:
		case int64(len(name)) > r.limits.MaxName:
			s.Exceed(at, field, "a name of %d bytes, the limit is %d", len(name), r.limits.MaxName)
		case int64(len(r.owners)+len(r.aliases)) >= r.limits.MaxTensors:
			s.Exceed(at, field, "more than %d tensors", r.limits.MaxTensors)
		case name == jsonheader.MetadataKey:
			s.Fail(at, field, "the name is reserved")
		case owners.Lookup(name) >= 0:
			s.Fail(at, field, "a tensor of that name is stored")
		case i < 0:
			s.Fail(at, field, "no tensor %s is stored", naming.Quote(owner))
		case isSecond:
			r.aliases[was].owner = i
			format.Warn(&r.Base, errs.Malformed(x.Offset()+int64(at), field,
				"a duplicate name, of which the last counts"))
		default:
			seen[name] = len(r.aliases)
			r.aliases = append(r.aliases, alias{name, i})
		}
	}
	s.End()
	return s.Err()
}

// listExternal lists the tensors that a program without weights expects.
func (r *Reader) listExternal() error {
	seen := map[string]bool{}
	for m := range r.Methods() {
		for c := range m.Constants() {
			if seen[c.Key] {
				continue
			}
			seen[c.Key] = true
			t := tensor.Tensor{Name: c.Key, DType: c.Info.DType, Shape: c.Info.Shape(),
				External: true}
			field := "constants[" + naming.Quote(c.Key) + "]"
			switch err := t.Check(); {
			case err != nil:
				return errs.Wrap(-1, field, err)
			case int64(len(c.Key)) > r.limits.MaxName || int64(len(t.Shape)) > r.limits.MaxRank ||
				int64(len(r.owners)) >= r.limits.MaxTensors:
				return errs.At(-1, field, tensor.ErrLimit,
					"tensor %d: a name of %d bytes, %d dimensions", len(r.owners), len(c.Key),
					len(t.Shape))
			}
			r.owners = append(r.owners, t)
		}
	}
	return nil
}
