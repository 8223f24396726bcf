package safetensors

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/limit"
	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

const weightMap = "weight_map"

// detectIndex looks for the one key that makes a JSON object an index.
func detectIndex(r io.ReaderAt, size int64) bool {
	b := make([]byte, min(size, 64<<10))
	if n, _ := r.ReadAt(b, 0); n < len(b) || n < 2 {
		return false
	}
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '{' && bytes.Contains(b, []byte(`"`+weightMap+`"`))
}

// An Index says which file of a sharded model has which tensor, as
// model.safetensors.index.json does:
//
//	{"metadata": {…}, "weight_map": {name: file, …}}
type Index struct {
	weights  [][2]string // tensor, file
	metadata [][2]string
	table    *names.Table // of the weights
	problems []error
}

// maxProblems bounds what an Index reports of one kind; the first are enough.
const maxProblems = 100

// ParseIndex reads an index. Zero limits are the defaults. What is wrong with the
// map, but lets it be read, is in Problems: [Open] refuses such an index.
func ParseIndex(b []byte, limits tensor.Limits) (*Index, error) {
	limits, err := limit.Complete(limits)
	if err != nil {
		return nil, err
	}
	x := &Index{}
	s := &scanner{b: b, lax: -1}
	first, seen := true, false
	s.expect('{')
	for s.more(&first, '}') {
		key := string(s.str())
		s.expect(':')
		switch {
		case s.err != nil:
		case key == weightMap:
			if seen {
				s.fail(s.i, key, "a second one")
			}
			seen = true
			x.scanWeights(s, limits)
		case key == "metadata" && s.peek() == '{':
			x.scanMetadata(s, limits)
		default:
			s.skip(limits.MaxDepth)
		}
	}
	if s.peek(); s.err == nil && s.i < len(b) {
		s.fail(s.i, "index", "bytes after the object")
	}
	if s.err == nil && !seen {
		s.fail(0, weightMap, "it is missing")
	}
	if s.err != nil {
		return nil, s.err
	}
	var dup int
	if x.table, dup = names.Build(len(x.weights),
		func(i int) string { return x.weights[i][0] }); dup >= 0 {
		x.problem("%s is a duplicate name", quote.Name(x.weights[dup][0]))
	}
	for _, name := range x.Files() {
		if name == "" || strings.Contains(name, "\x00") {
			x.problem("%s is not a file name", quote.Name(name))
		}
	}
	return x, nil
}

func (x *Index) problem(format string, args ...any) {
	if len(x.problems) < maxProblems {
		x.problems = append(x.problems, malformed(0, weightMap, format, args...))
	}
}

func (x *Index) scanWeights(s *scanner, limits tensor.Limits) {
	s.expect('{')
	for first := true; s.more(&first, '}'); {
		name := string(s.str())
		s.expect(':')
		x.weights = append(x.weights, [2]string{name, string(s.str())})
		if int64(len(x.weights)) > limits.MaxTensors && s.err == nil {
			s.err = limitError(int64(s.i), weightMap, "more than %d tensors", limits.MaxTensors)
		}
	}
}

// scanMetadata keeps values that are not strings as their JSON text.
func (x *Index) scanMetadata(s *scanner, limits tensor.Limits) {
	s.expect('{')
	for first := true; s.more(&first, '}'); {
		name := string(s.str())
		s.expect(':')
		s.peek()
		from := s.i
		if s.err == nil && from < len(s.b) && s.b[from] == '"' {
			x.metadata = append(x.metadata, [2]string{name, string(s.str())})
			continue
		}
		s.skip(limits.MaxDepth)
		if s.err == nil {
			x.metadata = append(x.metadata, [2]string{name, string(s.b[from:s.i])})
		}
	}
}

// Weights yields the names of the tensors, each with that of its file, in the
// order of the index.
func (x *Index) Weights() iter.Seq2[string, string] { return pairs(x.weights) }

// Metadata yields the keys and values of "metadata"; those that are not strings
// are JSON text.
func (x *Index) Metadata() iter.Seq2[string, string] { return pairs(x.metadata) }

func pairs(list [][2]string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, p := range list {
			if !yield(p[0], p[1]) {
				return
			}
		}
	}
}

// Files lists every file once, sorted.
func (x *Index) Files() []string {
	all := make([]string, len(x.weights))
	for i, w := range x.weights {
		all[i] = w[1]
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Problems lists duplicate names and names that cannot be those of files.
func (x *Index) Problems() []error { return x.problems }

// Compare lists where the index and its open shards differ: tensors that it does
// not have, or has in another file, and tensors that their file does not have. A
// shard that is nil, because it could not be opened, is left out. A reader that
// trusts the one would see another model than one that trusts the other.
func (x *Index) Compare(shards iter.Seq2[string, *Reader]) []error {
	c := &Index{} // collects problems
	found := make([]bool, len(x.weights))
	opened := map[string]bool{}
	for file, shard := range shards {
		if shard == nil {
			continue
		}
		opened[file] = true
		for t := range shard.Tensors() {
			switch k := x.table.Lookup(t.Name); {
			case k < 0:
				c.problem("%s of shard %s is not in it", quote.Name(t.Name), quote.Name(file))
			case x.weights[k][1] != file:
				c.problem("%s is in shard %s, not in %s", quote.Name(t.Name),
					quote.Name(file), quote.Name(x.weights[k][1]))
			default:
				found[k] = true
			}
		}
	}
	for i, w := range x.weights {
		if !found[i] && opened[w[1]] && x.table.Lookup(w[0]) == i {
			c.problem("shard %s has no tensor %s", quote.Name(w[1]), quote.Name(w[0]))
		}
	}
	return c.problems
}

// openIndex reads an index and opens the files.
func openIndex(src *source.Source, o ReaderOptions) (_ *Reader, err error) {
	if src.Size() > min(maxHeader, o.Limits.MaxMetadata) {
		return nil, limitError(0, "index", "%d bytes", src.Size())
	}
	b, err := src.Metadata(0, src.Size())
	if err != nil {
		return nil, readError("index", 0, err)
	}
	x, err := ParseIndex(b, o.Limits)
	if err != nil {
		return nil, err
	}
	if len(x.problems) > 0 {
		return nil, x.problems[0]
	}
	if o.Companion == nil {
		return nil, &tensor.FormatError{Format: formatName, Offset: 0, Field: weightMap,
			Err: fmt.Errorf("an index needs its shards, and nothing says where they are (ReaderOptions.Companion): %w", fs.ErrNotExist)}
	}
	r := &Reader{src: src, metadata: x.metadata, files: x.Files(), setID: setID(x.metadata)}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	for _, name := range r.files {
		if err := r.addShard(name, o); err != nil {
			return nil, err
		}
	}
	if problems := x.Compare(r.eachShard()); len(problems) > 0 {
		return nil, problems[0]
	}
	r.mergeMetadata()
	return r, nil
}

func (r *Reader) addShard(name string, o ReaderOptions) error {
	at, size, err := o.Companion(name)
	if err != nil {
		return &tensor.FormatError{Format: formatName, Offset: -1, Field: weightMap,
			Err: fmt.Errorf("shard %s: %w", quote.Name(name), err)}
	}
	if c, ok := at.(io.Closer); ok {
		r.closers = append(r.closers, c)
	}
	o.Companion = nil // an index does not name another
	shard, err := openShard(at, size, o)
	if err != nil {
		return fmt.Errorf("shard %s: %w", quote.Name(name), err)
	}
	if _, ok := get(r.metadata, setKey); !ok && len(r.shards) == 0 {
		r.setID = shard.setID // of an index of another program
	}
	if shard.setID != r.setID {
		return malformed(-1, metadataKey,
			"shard %s is of the set %s, not of %s: files of two models are mixed",
			quote.Name(name), quote.Name(shard.setID), quote.Name(r.setID))
	}
	for i := range shard.tensors {
		shard.tensors[i].Data.Source().(*extent).shard = name
	}
	r.shards = append(r.shards, shard)
	r.warnings = append(r.warnings, shard.warnings...)
	r.tensors = append(r.tensors, shard.tensors...)
	return nil
}

func (r *Reader) eachShard() iter.Seq2[string, *Reader] {
	return func(yield func(string, *Reader) bool) {
		for i, shard := range r.shards {
			if !yield(r.files[i], shard) {
				return
			}
		}
	}
}

// mergeMetadata adds what shards say and the index does not: writers repeat it in
// each shard, and the first counts.
func (r *Reader) mergeMetadata() {
	known := map[string]bool{}
	for _, kv := range r.metadata {
		known[kv[0]] = true
	}
	for _, shard := range r.shards {
		for _, kv := range shard.metadata {
			if !known[kv[0]] {
				known[kv[0]] = true
				r.metadata = append(r.metadata, kv)
			}
		}
	}
}

// setID is what ShardOptions.ID was when a shard, or an index, was written.
func setID(metadata [][2]string) string {
	id, _ := get(metadata, setKey)
	return id
}

func get(metadata [][2]string, key string) (string, bool) {
	for _, kv := range metadata {
		if kv[0] == key {
			return kv[1], true
		}
	}
	return "", false
}

// openShard keeps a mapping a mapping: what source.LinkedCompanions returns is a
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
