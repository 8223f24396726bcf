package torch

import (
	"encoding/json"
	"errors"
	"path"
	"strings"

	"github.com/tensorfile/tensorfile/internal/zipfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// A program of torch.export, a .pt2, is an archive with archive_format in its first
// directory. The weights and constants of a model are members of their own, which
// MODEL_weights_config.json names, or an archive of torch.save, MODEL.pt. Releases before
// 2.7 wrote serialized_state_dict.pt and serialized_constants.pt, in no directory.

// A weightMeta is a weight in a configuration.
type weightMeta struct {
	Path     string `json:"path_name"`
	IsPickle bool   `json:"use_pickle"`
	Tensor   *struct {
		DType   int      `json:"dtype"`
		Layout  int      `json:"layout"`
		Sizes   []symInt `json:"sizes"`
		Strides []symInt `json:"strides"`
		First   symInt   `json:"storage_offset"`
	} `json:"tensor_meta"`
}

// A symInt is an integer of a shape; nil if it depends on the input of the program.
type symInt struct {
	Int *int64 `json:"as_int"`
}

// scalarTypes are the dtypes of configurations, by number.
var scalarTypes = map[int]string{1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64",
	6: "float16", 7: "float32", 8: "float64", 9: "complex32", 10: "complex64",
	11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn",
	30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0fnu",
	34: "uint32", 35: "uint64"}

// stridedLayout is the only layout of weights that are not pickled.
const stridedLayout = 7

// oldProgram is a member of every program of torch 2.1 to 2.6.
const oldProgram = "serialized_exported_program.json"

// isProgram reports whether the archive is a program.
func (c *checkpoint) isProgram() bool {
	return c.member("archive_format") != nil || c.member(oldProgram) != nil
}

// openProgram reads the weights and constants. The root is a dict of the tensors of one
// model, or of the models by their names.
func (c *checkpoint) openProgram() error {
	c.version = "pt2"
	bigEnd, err := c.bigEndian()
	if err != nil {
		return err
	}
	models, byName := new(dict), map[string]*dict{}
	for i := range c.zip.Members {
		m := &c.zip.Members[i]
		name := strings.TrimPrefix(m.File.Name, c.prefix)
		dir, base := path.Split(name)
		model, isConfig := strings.CutSuffix(base, "_"+path.Base(dir)+"_config.json")
		isPickle := !isConfig && strings.HasSuffix(base, ".pt")
		switch {
		case dir == "data/weights/" || dir == "data/constants/":
			model = strings.TrimSuffix(model, ".pt")
		case name == "serialized_state_dict.pt" || name == "serialized_constants.pt":
			model = ""
		default:
			continue
		}
		var items []item
		switch {
		case isConfig:
			items, err = c.config(name, dir, m, bigEnd)
		case isPickle:
			var v any
			if v, err = c.nested(m); err != nil {
				break
			}
			if d, ok := v.(*dict); ok {
				items = d.unique()
			} else {
				err = errs.Malformed(offset(m), name, "not a dict")
			}
		default:
			continue
		}
		if err != nil {
			return err
		}
		if byName[model] == nil {
			byName[model] = new(dict)
			models.items = append(models.items, item{model, byName[model]})
		}
		byName[model].items = append(byName[model].items, items...)
	}
	if c.root = models; len(models.items) == 1 {
		c.root = models.items[0].value
	}
	return nil
}

// nested returns the root of the archive of torch.save in a member.
func (c *checkpoint) nested(m *zipfile.Member) (any, error) {
	if n := c.byMember[m]; n != nil {
		return n.root, nil
	}
	x := m.Extent()
	if err := m.CheckHeader(); err != nil {
		return nil, err
	}
	if !m.Stored() || c.inside != nil {
		return nil, errs.At(x.Offset(), zipfile.Field(m.File.Name), errors.ErrUnsupported,
			"an archive that is compressed, or in an archive in another")
	}
	n := &checkpoint{limits: c.limits, memory: c.memory, src: c.src, at: x.Offset(),
		size: x.Size(), file: c.file, inside: m}
	if err := n.openArchive(); err != nil {
		return nil, err
	}
	c.steps += n.steps
	c.archives = append(c.archives, n)
	if c.byMember == nil {
		c.byMember = map[*zipfile.Member]*checkpoint{}
	}
	c.byMember[m] = n
	return n.root, nil
}

// config returns the tensors that a configuration describes, by name. Their members are
// in the directory dir.
func (c *checkpoint) config(name, dir string, m *zipfile.Member, bigEnd bool) ([]item, error) {
	in, err := c.readMetadata(name, m)
	if err != nil {
		return nil, err
	}
	c.memory.grow(len(in))
	fail := func(class error, text string, args ...any) error {
		return errs.At(offset(m), name, class, text, args...)
	}
	d := json.NewDecoder(strings.NewReader(in))
	for _, want := range []json.Token{json.Delim('{'), "config", json.Delim('{')} {
		if got, err := d.Token(); err != nil || got != want {
			return nil, fail(tensor.ErrMalformed, "not a configuration of weights")
		}
	}
	var items []item
	for d.More() {
		key, err := d.Token()
		var w weightMeta
		if err == nil {
			err = d.Decode(&w)
		}
		if err != nil {
			return nil, fail(tensor.ErrMalformed, "byte %d: %v", d.InputOffset(), err)
		}
		if err := c.memory.take(2 * callBytes); err != nil {
			return nil, err
		}
		member := c.member(dir + w.Path)
		var v any
		switch {
		case w.Tensor == nil: // an object of a program
			continue
		case member == nil:
			err = malformed("the archive has no %s", printable(c.prefix+dir+w.Path))
		case w.IsPickle:
			v, err = c.nested(member)
		default:
			v, err = c.weight(&w, dir+w.Path, member, bigEnd)
		}
		if err != nil {
			return nil, &tensor.FormatError{Format: formatName, Offset: offset(m),
				Field: name + ": " + printable(key.(string)), Err: err}
		}
		items = append(items, item{key, v})
	}
	return items, nil
}

// weight returns the tensor whose elements are in a member.
func (c *checkpoint) weight(w *weightMeta, key string, m *zipfile.Member, bigEnd bool) (*array,
	error) {
	d, ok := dtypeOf(scalarTypes[w.Tensor.DType])
	if !ok || w.Tensor.Layout != stridedLayout {
		return nil, malformed("dtype %d of layout %d", w.Tensor.DType, w.Tensor.Layout)
	}
	p := c.storages.byKey[key]
	if p == nil {
		p = &payload{key: key, size: m.Size()}
		c.storages.add(p)
		c.place(p, m, bigEnd)
	}
	st := &storage{dtype: d, payload: p, count: m.Size() / d.size}
	return newArray([]any{st, w.Tensor.First.value(), sizes(w.Tensor.Sizes),
		sizes(w.Tensor.Strides)}, &d)
}

// value returns the integer as a value of a pickle.
func (n symInt) value() any {
	if n.Int == nil {
		return nil
	}
	return *n.Int
}

// sizes returns a list as a value of a pickle.
func sizes(list []symInt) *sequence {
	s := new(sequence)
	for _, n := range list {
		s.items = append(s.items, n.value())
	}
	return s
}

// offset returns the offset of the data of a member.
func offset(m *zipfile.Member) int64 {
	x := m.Extent()
	return x.Offset()
}
