package torch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A distributed checkpoint is a Metadata object: state_dict_metadata has the dtype,
// shape and chunks of each tensor by name, and storage_data the place of each chunk, or
// of a value that is not a tensor: a file, and the range of it that is an archive of
// torch.save.

// An entry is a value of storage_data.
type entry struct {
	name    string
	offsets []int64 // of a chunk; nil for a value that is not a tensor
	file    string
	at, n   int64
	used    bool
}

// fail returns an error about an entry.
func (e *entry) fail(class error, text string, args ...any) error {
	return errs.InFile(e.file, errs.At(e.at, printable(e.name), class, text, args...))
}

// A distributed is a distributed checkpoint that is being opened.
type distributed struct {
	r       *Reader
	files   map[string]*source.Source
	spans   map[string][]tensor.Span // by file
	entries map[string][]*entry      // by name
	rows    rows
}

// openDistributed reads .metadata and all entries.
func (r *Reader) openDistributed(c *checkpoint) error {
	root, err := c.runFile(metadataFile)
	if err != nil {
		return err
	}
	fields, ok := fieldsOf(root, "Metadata")
	if !ok {
		return metadataError("", "not the metadata of a distributed checkpoint")
	}
	d := &distributed{r: r, files: map[string]*source.Source{},
		spans:   map[string][]tensor.Span{},
		entries: map[string][]*entry{}}
	d.rows = rows{limits: r.limits, memory: c.memory, visits: minVisits + c.steps,
		notes: &r.notes}
	c.version = "dcp"
	r.addPart(c)
	if err := d.places(fields["storage_data"]); err != nil {
		return err
	}
	if err := d.values(fields["state_dict_metadata"]); err != nil {
		return err
	}
	r.spans = []tensor.Span{format.MetadataSpan(0, c.size)}
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		r.shards = append(r.shards,
			shardSpans{name, format.CoverSpans(d.files[name].Size(), d.spans[name])})
	}
	r.take(c, &d.rows)
	return nil
}

func metadataError(field, format string, args ...any) error {
	if field != "" {
		field = ": " + printable(field)
	}
	return errs.At(-1, metadataFile+field, tensor.ErrMalformed, format, args...)
}

// fieldsOf returns the fields of an object whose class has that name.
func fieldsOf(v any, class string) (map[string]any, bool) {
	o, ok := v.(*object)
	if !ok || o.class.kind != inert || o.class.name != class {
		return nil, false
	}
	d, ok := o.state.(*dict)
	if !ok && o.state != nil {
		return nil, false
	}
	fields := map[string]any{}
	if ok && len(d.items) <= maxRank {
		for _, it := range d.unique() {
			if k, ok := textOf(it.key); ok {
				fields[k] = it.value
			}
		}
	}
	return fields, true
}

// places reads storage_data, which has the place of each entry.
func (d *distributed) places(v any) error {
	data, ok := v.(*dict)
	if !ok {
		return metadataError("storage_data", "not a dict")
	}
	var all []*entry
	for _, it := range data.unique() {
		index, ok1 := fieldsOf(it.key, "MetadataIndex")
		info, ok2 := fieldsOf(it.value, "_StorageInfo")
		if !ok1 || !ok2 {
			return metadataError("storage_data",
				"an item that is not a MetadataIndex with a _StorageInfo")
		}
		e := new(entry)
		e.name, ok1 = textOf(index["fqn"])
		e.file, ok2 = textOf(info["relative_path"])
		if !ok1 || !ok2 {
			return metadataError("storage_data", "an item without fqn and relative_path")
		}
		if strings.ContainsAny(e.file, "/\\:\x00") || e.file == "" || e.file == "." ||
			e.file == ".." {
			return metadataError(e.name, "%s is not the name of a file in the directory",
				naming.Quote(e.file))
		}
		if index["offset"] != nil {
			if e.offsets, ok = countsOf(index["offset"]); !ok {
				return metadataError(e.name, "the offsets of a chunk")
			}
			e.offsets = append([]int64{}, e.offsets...)
		}
		e.at, ok1 = countOf(info["offset"])
		e.n, ok2 = countOf(info["length"])
		if !ok1 || !ok2 {
			return metadataError(e.name, "an entry without offset and length")
		}
		if t, ok := itemsOf(info["transform_descriptors"]); ok && len(t) > 0 {
			return errs.At(-1, metadataFile+": "+printable(e.name), errors.ErrUnsupported,
				"an entry that is transformed")
		}
		d.entries[e.name] = append(d.entries[e.name], e)
		all = append(all, e)
	}
	return disjoint(all)
}

// disjoint refuses entries that share bytes: a small file could then have data of any
// size.
func disjoint(all []*entry) error {
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Or(strings.Compare(a.file, b.file), cmp.Compare(a.at, b.at))
	})
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1], all[i]; a.file == b.file && b.at-a.at < a.n {
			return metadataError(b.name, "its entry at %d of %s overlaps the one at %d", b.at,
				naming.Quote(b.file), a.at)
		}
	}
	return nil
}

// values reads state_dict_metadata, and the entries of its tensors and values.
func (d *distributed) values(v any) error {
	all, ok := v.(*dict)
	if !ok {
		return metadataError("state_dict_metadata", "not a dict")
	}
	for _, it := range all.unique() {
		name, ok := textOf(it.key)
		if !ok {
			return metadataError("state_dict_metadata", "a key that is not a string")
		}
		if fields, ok := fieldsOf(it.value, "TensorStorageMetadata"); ok {
			if err := d.tensor(name, fields); err != nil {
				return err
			}
		} else if _, ok := fieldsOf(it.value, "BytesStorageMetadata"); ok {
			if err := d.value(name); err != nil {
				return err
			}
		} else {
			return metadataError(name, "neither a tensor nor a value")
		}
	}
	for _, list := range d.entries {
		for _, e := range list {
			if !e.used {
				d.rows.warn(e.name, "an entry that nothing refers to")
			}
		}
	}
	return nil
}

// value reads an entry that is not a tensor.
func (d *distributed) value(name string) error {
	list := d.entries[name]
	if len(list) != 1 || list[0].offsets != nil {
		return metadataError(name, "%d entries for a value", len(list))
	}
	c, err := d.read(list[0])
	if err != nil {
		return err
	}
	tensors, arrays := len(d.rows.tensors), len(d.rows.arrays)
	if err := d.rows.add(name, c.root); err != nil {
		return err
	}
	d.addSpans(c, &rows{tensors: d.rows.tensors[tensors:], arrays: d.rows.arrays[arrays:]})
	d.r.addPart(c)
	return nil
}

// addSpans adds the spans of an archive, whose tensors are w.
func (d *distributed) addSpans(c *checkpoint, w *rows) {
	d.spans[c.file] = append(d.spans[c.file], c.spans(w)...)
}

// read opens the archive of an entry.
func (d *distributed) read(e *entry) (*checkpoint, error) {
	e.used = true
	src, err := d.open(e.file)
	if err != nil {
		return nil, errs.InFile(e.file, err)
	}
	if e.at > src.Size() || e.n > src.Size()-e.at {
		return nil, e.fail(io.ErrUnexpectedEOF, "%d bytes, the file has %d", e.n, src.Size())
	}
	c := &checkpoint{limits: d.r.limits, memory: d.rows.memory, src: src, at: e.at, size: e.n,
		file: e.file}
	if err := c.openArchive(); err != nil {
		return nil, errs.InFile(e.file, err)
	}
	d.rows.visits += c.steps
	return c, nil
}

// open returns a file, which it opens at the first call.
func (d *distributed) open(name string) (src *source.Source, err error) {
	if src = d.files[name]; src == nil {
		src, err = d.r.companion(name)
		d.files[name] = src
	}
	return src, err
}

// tensor adds the tensor of that name, and reads its chunks.
func (d *distributed) tensor(name string, fields map[string]any) error {
	whole := chunked{name: name}
	shape, ok := countsOf(fields["size"])
	if whole.shape = shape; !ok || !countable(shape) {
		return metadataError(name, "the size of a tensor")
	}
	if whole.dtype, ok = propertiesDType(fields["properties"]); !ok {
		return metadataError(name, "properties without a dtype")
	}
	chunks, ok := itemsOf(fields["chunks"])
	if !ok || len(chunks) == 0 {
		return metadataError(name, "no chunks")
	}
	entries := map[string]*entry{}
	for _, e := range d.entries[name] {
		entries[fmt.Sprint(e.offsets)] = e
	}
	for _, v := range chunks {
		f, ok := fieldsOf(v, "ChunkStorageMetadata")
		offsets, ok1 := countsOf(f["offsets"])
		sizes, ok2 := countsOf(f["sizes"])
		if !ok || !ok1 || !ok2 || len(offsets) != len(shape) || len(sizes) != len(shape) {
			return metadataError(name, "a chunk without offsets and sizes")
		}
		for i, n := range shape {
			if sizes[i] > n || offsets[i] > n-sizes[i] {
				return metadataError(name, "a chunk of %v at %v is outside of %v", sizes, offsets,
					shape)
			}
		}
		e := entries[fmt.Sprint(offsets)]
		if e == nil || e.used {
			return metadataError(name, "no entry for the chunk at %v", offsets)
		}
		data, err := d.chunk(e, whole.dtype, sizes)
		if err != nil {
			return err
		}
		whole.chunks = append(whole.chunks, chunk{offsets, sizes, data})
	}
	t, err := whole.tensor()
	if err != nil {
		return err
	}
	d.rows.tensors, d.rows.paths = append(d.rows.tensors, t), append(d.rows.paths, []string{name})
	return nil
}

// propertiesDType returns the dtype of TensorProperties, the first item of their state.
func propertiesDType(v any) (dtype, bool) {
	o, ok := v.(*object)
	if !ok || o.class.kind != inert || o.class.name != "TensorProperties" {
		return dtype{}, false
	}
	if items, ok := tupleOf(o.state); ok && len(items) > 0 {
		return dtypeArgument(items[0])
	}
	return dtype{}, false
}

// chunk returns the data of an entry, which must be a tensor of that dtype and shape.
func (d *distributed) chunk(e *entry, want dtype, shape tensor.Shape) (tensor.Blob, error) {
	c, err := d.read(e)
	if err != nil {
		return tensor.Blob{}, err
	}
	a, ok := c.root.(*array)
	if !ok || a.storage == nil || a.scheme != "" || len(a.parts) > 0 {
		return tensor.Blob{}, e.fail(tensor.ErrMalformed, "not a tensor")
	}
	if a.dtype != want || !a.shape.Equal(shape) {
		return tensor.Blob{}, e.fail(tensor.ErrMalformed, "%v of %s, not %v of %s", a.shape,
			a.dtype.name, shape, want.name)
	}
	d.addSpans(c, &rows{tensors: []tensor.Tensor{{Name: e.name}}, arrays: []*array{a}})
	a.eachPayload((*payload).list)
	d.r.addPart(c)
	return a.blob(d.r.limits)
}
