package safetensors

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

const weightMap = `"weight_map"`

// detectIndex looks for the one key that makes a JSON object an index.
func detectIndex(r io.ReaderAt, size int64) bool {
	b := make([]byte, min(size, 64<<10))
	if n, _ := r.ReadAt(b, 0); n < len(b) || n < 2 {
		return false
	}
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '{' && bytes.Contains(b, []byte(weightMap))
}

// openIndex reads {"metadata": {…}, "weight_map": {name: file, …}} and opens
// the files. Names that the map and the files do not agree on are refused: a
// reader that trusts the one would see another model than one that trusts the
// other.
func openIndex(src *source.Source, o ReaderOptions) (_ *Reader, err error) {
	if src.Size() > min(maxHeader, o.Limits.MaxMetadata) {
		return nil, limitError(0, "index", "%d bytes", src.Size())
	}
	b, err := src.Metadata(0, src.Size())
	if err != nil {
		return nil, readError("index", 0, err)
	}
	x := index{limits: o.Limits}
	if err := x.parse(b); err != nil {
		return nil, err
	}
	if o.Companion == nil {
		return nil, &tensor.FormatError{Format: formatName, Offset: 0, Field: "weight_map",
			Err: fmt.Errorf("an index needs its shards, and nothing says where they are (ReaderOptions.Companion): %w", fs.ErrNotExist)}
	}
	r := &Reader{src: src, metadata: x.metadata, files: x.files()}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	shardOptions := o
	shardOptions.Companion = nil // an index does not name another
	said := map[string]bool{}
	for _, kv := range r.metadata {
		said[kv[0]] = true
	}
	r.setID = setID(r.metadata)
	for _, name := range r.files {
		if strings.Contains(name, "\x00") || name == "" {
			return nil, malformed(0, "weight_map", "%s is no file name", tensor.Quote(name))
		}
		at, size, err := o.Companion(name)
		if err != nil {
			return nil, &tensor.FormatError{Format: formatName, Offset: -1, Field: "weight_map", Err: fmt.Errorf("shard %s: %w", tensor.Quote(name), err)}
		}
		if c, ok := at.(io.Closer); ok {
			r.closers = append(r.closers, c)
		}
		shard, err := openShard(at, size, shardOptions)
		if err != nil {
			return nil, fmt.Errorf("shard %s: %w", tensor.Quote(name), err)
		}
		for i := range shard.tensors {
			shard.tensors[i].Data.Source().(*extent).shard = name
		}
		if len(r.shards) == 0 && !said[setKey] { // an index that does not say it follows its shards
			r.setID = shard.setID
		}
		if shard.setID != r.setID {
			shard.Close()
			return nil, malformed(-1, metadataKey, "shard %s is of the set %s, not of %s: files of two models are mixed",
				tensor.Quote(name), tensor.Quote(shard.setID), tensor.Quote(r.setID))
		}
		r.shards = append(r.shards, shard)
		r.warnings = append(r.warnings, shard.warnings...)
		for _, kv := range shard.metadata { // writers repeat it in each
			if !said[kv[0]] {
				said[kv[0]] = true
				r.metadata = append(r.metadata, kv)
			}
		}
		r.tensors = append(r.tensors, shard.tensors...)
	}
	return r, x.check(r)
}

// setID is what ShardOptions.ID was when a shard, or an index, was written.
func setID(metadata [][2]string) string {
	for _, kv := range metadata {
		if kv[0] == setKey {
			return kv[1]
		}
	}
	return ""
}

// openShard keeps a mapping a mapping: what source.Companions hands out is a
// Source itself.
func openShard(at io.ReaderAt, size int64, o ReaderOptions) (*Reader, error) {
	src, ok := at.(*source.Source)
	if !ok {
		var err error
		if src, err = source.OfReaderAt(at, size); err != nil {
			return nil, err
		}
	}
	if !detectFile(src, src.Size()) {
		return nil, malformed(0, "header", "not a safetensors file")
	}
	return newReader(src, o)
}

type index struct {
	limits   tensor.Limits
	weights  [][2]string // tensor, file
	metadata [][2]string
}

func (x *index) parse(b []byte) error {
	s := &scanner{b: b, lax: -1}
	first, seen := true, false
	s.expect('{')
	for s.more(&first, '}') {
		key := string(s.str())
		s.expect(':')
		switch {
		case s.err != nil:
		case key == "weight_map":
			if seen {
				s.fail(s.i, key, "it stands twice")
			}
			seen = true
			s.expect('{')
			for one := true; s.more(&one, '}'); {
				name := string(s.str())
				s.expect(':')
				x.weights = append(x.weights, [2]string{name, string(s.str())})
				if int64(len(x.weights)) > x.limits.MaxTensors {
					return limitError(int64(s.i), key, "more than %d tensors", x.limits.MaxTensors)
				}
			}
		case key == "metadata" && s.peek() == '{':
			s.i++
			for one := true; s.more(&one, '}'); {
				name := string(s.str())
				s.expect(':')
				s.peek()
				from := s.i
				if s.err == nil && from < len(b) && b[from] == '"' {
					x.metadata = append(x.metadata, [2]string{name, string(s.str())})
					continue
				}
				s.skip(x.limits.MaxDepth)
				if s.err == nil {
					x.metadata = append(x.metadata, [2]string{name, string(b[from:s.i])})
				}
			}
		default:
			s.skip(x.limits.MaxDepth)
		}
	}
	if s.peek(); s.err == nil && s.i < len(b) {
		s.fail(s.i, "index", "bytes after the object")
	}
	if s.err == nil && !seen {
		s.fail(0, "weight_map", "it is missing")
	}
	if s.err != nil {
		return s.err
	}
	if _, dup := names.Build(len(x.weights), func(i int) string { return x.weights[i][0] }); dup >= 0 {
		return malformed(0, "weight_map", "%s stands twice", tensor.Quote(x.weights[dup][0]))
	}
	return nil
}

// files lists every shard once, sorted.
func (x *index) files() []string {
	all := make([]string, len(x.weights))
	for i, w := range x.weights {
		all[i] = w[1]
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// check compares the map with what the shards hold.
func (x *index) check(r *Reader) error {
	table, _ := names.Build(len(x.weights), func(i int) string { return x.weights[i][0] })
	for i, shard := range r.shards {
		for t := range shard.Tensors() {
			k := table.Lookup(t.Name)
			if k < 0 {
				return malformed(0, "weight_map", "%s of shard %s is not in it", tensor.Quote(t.Name), tensor.Quote(r.files[i]))
			}
			if x.weights[k][1] != r.files[i] {
				return malformed(0, "weight_map", "%s is in shard %s, not in %s", tensor.Quote(t.Name), tensor.Quote(r.files[i]), tensor.Quote(x.weights[k][1]))
			}
		}
	}
	// Every tensor of a shard stands in the map under that shard, and no name
	// twice in either: equal numbers make them equal.
	if len(r.tensors) < len(x.weights) {
		for _, w := range x.weights {
			if r.Tensor(w[0]) == nil {
				return malformed(0, "weight_map", "shard %s has no tensor %s", tensor.Quote(w[1]), tensor.Quote(w[0]))
			}
		}
	}
	return nil
}
