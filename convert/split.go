package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// SplitOptions are options of [Split]; nil is the zero value.
type SplitOptions struct {
	// MaxSize is the maximum number of bytes of data in a file. A tensor is never
	// divided: a larger one gets a file of its own, and is an error in a .ptd. For
	// safetensors, 0 is 5 GB, the default of Hugging Face's libraries; for other formats
	// it is an error.
	MaxSize int64
	// NoReplace makes Split fail with fs.ErrExist if a file exists.
	NoReplace bool
	// DryRun makes Split return the names and write nothing.
	DryRun bool
	// Progress, if not nil, is called with the bytes of data written so far and in all;
	// the last call has done = total.
	Progress func(done, total int64)
}

// defaultMax is the size of shards of Hugging Face's libraries.
const defaultMax = 5e9

// Split writes a file as several of the same format, which appear together or not at all,
// and returns their names. Names begin with name, a path without extension, and are the
// names that loaders look for: shards and index of safetensors, shards and root of
// zTensor 2, for .ptd the names of ExecuTorch's exporter, else NAME-00001-of-00003. A
// .gguf has the keys of gguf-split. Split fails with errors.ErrUnsupported for a format
// of programs or of one tensor, and for a .ptd or primitiv file without tensors.
func Split(ctx context.Context, f *tensorfile.File, name string,
	opts *SplitOptions) ([]string, error) {
	s := &splitter{f: f, name: name, SplitOptions: orZero(opts)}
	total := int64(0)
	for t := range f.Tensors() {
		total += max(t.Size(), 0)
	}
	for _, b := range f.Blobs() {
		total += max(b.Size(), 0)
	}
	s.meter = format.NewMeter(s.Progress, total)
	names, err := s.run(ctx)
	if err == nil && !s.DryRun {
		s.meter.End()
	}
	return names, err
}

func (s *splitter) run(ctx context.Context) ([]string, error) {
	f := s.f
	var split splitMethod
	if row := targets[f.Format()]; row.split != nil {
		split = row.split(s)
	}
	caps := f.Format().Caps()
	no, count, isShard := splitOf(f)
	switch {
	case caps.DTypes == nil || caps.Program || caps.MaxTensors == 1 || s.isWhole:
		return nil, fmt.Errorf("convert: %w: %v files like this one are not split",
			errors.ErrUnsupported, f.Format())
	case isShard:
		return nil, fmt.Errorf("convert: %w: it is shard %d of %d, which are one model together",
			errors.ErrUnsupported, no+1, count)
	case s.MaxSize <= 0:
		return nil, fmt.Errorf("convert: %w: SplitOptions.MaxSize is %d", fs.ErrInvalid, s.MaxSize)
	case split == nil:
		split = s.tensors
	}
	return split(ctx)
}

func isEmpty(f *tensorfile.File) bool {
	for range f.Blobs() {
		return false
	}
	return f.Len() == 0
}

// A splitter is a call of Split.
type splitter struct {
	f    *tensorfile.File
	name string
	SplitOptions
	meter   *format.Meter
	isWhole bool // the file cannot be split
}

// A splitMethod writes the files of a splitter, and returns their names.
type splitMethod func(ctx context.Context) ([]string, error)

func splitSafetensors(s *splitter) splitMethod {
	s.MaxSize = cmp.Or(s.MaxSize, defaultMax)
	return s.safetensors
}

func splitGGUF(s *splitter) splitMethod { return s.gguf }

// splitZTensor: files of version 1 have no root.
func splitZTensor(s *splitter) splitMethod {
	r, ok := s.f.Sys().(*ztensor.Reader)
	if !ok || ztensorLike(r).WholeFile().Version != ztensor.Version2 {
		return nil
	}
	return func(ctx context.Context) ([]string, error) { return s.ztensor(ctx, r) }
}

func splitPTD(s *splitter) splitMethod {
	s.isWhole = isEmpty(s.f)
	r, ok := s.f.Sys().(*ptd.Reader)
	if !ok {
		return nil
	}
	return func(ctx context.Context) ([]string, error) { return s.ptd(ctx, r) }
}

func splitPrimitiv(s *splitter) splitMethod {
	r, ok := s.f.Sys().(*primitiv.Reader)
	s.isWhole = !ok || r.Kind() != primitiv.KindModel || isEmpty(s.f)
	return func(ctx context.Context) ([]string, error) { return s.model(ctx, r) }
}

// safetensors splits a file, or the shards of a model that are one.
func (s *splitter) safetensors(ctx context.Context) ([]string, error) {
	m := map[string]string{}
	for k, v := range s.f.Attributes() {
		m[k] = v
	}
	if sharded(s.f) {
		delete(m, "total_size") // of the old ones
	}
	return safetensors.WriteShards(ctx, s.name+tensorfile.Safetensors.Ext(),
		tensor.Each(s.counted()), &safetensors.ShardOptions{
			MaxSize: s.MaxSize, NoReplace: s.NoReplace, DryRun: s.DryRun,
			Writer: &safetensors.WriterOptions{Attributes: m, KeepOrder: true},
		})
}

// WriteShards writes a plan for safetensors to files as [Split] does, or to one file if
// opts.MaxSize is not exceeded, and returns their names. name is a path without
// extension.
func (p *Plan) WriteShards(ctx context.Context, name string,
	opts *SplitOptions) ([]string, error) {
	o := orZero(opts)
	err := cmp.Or(p.Err(), p.checkDecoded())
	switch {
	case err != nil:
		return nil, err
	case p.target != tensorfile.Safetensors:
		return nil, fmt.Errorf("convert: %w: shards of %v", errors.ErrUnsupported, p.target)
	}
	s := &splitter{SplitOptions: o, meter: format.NewMeter(o.Progress, p.size())}
	ts := func(yield func(*tensor.Tensor, error) bool) {
		for t, err := range p.tensors(ctx) {
			if err == nil {
				counted := *t
				counted.Data = s.count(t.Data)
				t = &counted
			}
			if !yield(t, err) {
				return
			}
		}
	}
	names, err := safetensors.WriteShards(ctx, name+tensorfile.Safetensors.Ext(), ts,
		&safetensors.ShardOptions{MaxSize: cmp.Or(o.MaxSize, defaultMax), NoReplace: o.NoReplace,
			DryRun: o.DryRun, Writer: p.safetensorsOptions()})
	if err == nil && !o.DryRun {
		s.meter.End()
	}
	return names, fromSource(err)
}

// counted yields the tensors, whose data counts what is read of it as written.
func (s *splitter) counted() iter.Seq[*tensor.Tensor] {
	return func(yield func(*tensor.Tensor) bool) {
		for t := range s.f.Tensors() {
			c := *t
			c.Data = s.count(t.Data)
			c.Parts = slices.Clone(t.Parts)
			for i := range c.Parts {
				c.Parts[i].Data = s.count(c.Parts[i].Data)
			}
			if !yield(&c) {
				return
			}
		}
	}
}

func (s *splitter) count(b tensor.Blob) tensor.Blob {
	return tensor.BlobFunc(b.Size(), func() (io.ReadCloser, error) {
		r, err := b.Open()
		return &countingReader{r, s.meter.Add}, err
	})
}

type countingReader struct {
	io.ReadCloser
	add func(bytes int64)
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.add(int64(n))
	return n, err
}

// gguf splits a file, or the shards of a model that are one.
func (s *splitter) gguf(ctx context.Context) ([]string, error) {
	o := &gguf.ShardOptions{MaxSize: s.MaxSize, NoReplace: s.NoReplace, DryRun: s.DryRun,
		Writer: &gguf.WriterOptions{}}
	values := valuesOf(s.f)
	for k := range s.f.Attributes() {
		if v, ok := values[k].(gguf.Value); ok {
			o.Writer.Metadata = append(o.Writer.Metadata, gguf.KeyValue{Key: k, Value: v})
		}
	}
	return gguf.WriteShards(ctx, s.name+tensorfile.GGUF.Ext(), tensor.Each(s.counted()), o)
}

func (s *splitter) ztensor(ctx context.Context, r *ztensor.Reader) ([]string, error) {
	o := ztensorLike(r)
	o.Attributes = map[string]any{}
	for k, v := range r.AttributeValues() {
		o.Attributes[k] = v
	}
	trial := ztensor.NewWriter(io.Discard, o.WholeFile())
	for t := range r.Tensors() {
		if trial.Check(t) != nil {
			o.KeepOrder = true // a name that is not in NFC cannot be in canonical form
		}
	}
	return ztensor.WriteShards(ctx, s.name+tensorfile.ZTensor.Ext(), tensor.Each(r.Tensors()),
		&ztensor.ShardOptions{
			MaxSize: s.MaxSize, NoReplace: s.NoReplace, DryRun: s.DryRun, Writer: o,
			TensorAttributes: func(t *tensor.Tensor) map[string]any {
				s.meter.Add(max(t.Size(), 0))
				own := map[string]any{}
				for k, v := range r.TensorAttributes(t) {
					own[k] = v
				}
				return own
			},
		})
}

// ztensorLike returns the options that write a file like r: its version, or the default
// version if that one is not written, its compression, its digests, as far as they are
// one for the whole file.
func ztensorLike(r *ztensor.Reader) *ztensor.WriterOptions {
	o := &ztensor.WriterOptions{Version: r.Version(), Generator: r.Generator()}
	if o.Check() != nil {
		o.Version, o.Generator = ztensor.Version2, ""
	}
	note := func(b tensor.Blob) {
		st, _ := b.Stored()
		if algorithm, _, _ := strings.Cut(st.Digest, ":"); o.Version != ztensor.Version2 {
			switch algorithm { // version 2 always has xxh3
			case "crc32c":
				o.Digest = ztensor.CRC32C
			case "sha256":
				o.Digest = ztensor.SHA256
			}
		}
		if strings.Contains(st.Encoding, "zstd") { // zt.zstd-seekable/1 in version 2
			o.Level = 3
		}
	}
	for t := range r.Tensors() {
		note(t.Data)
		for i := range t.Parts {
			note(t.Parts[i].Data)
		}
	}
	return o
}

// ptdLike returns the options that write a file with the alignment of r.
func ptdLike(r *ptd.Reader) *ptd.WriterOptions {
	return &ptd.WriterOptions{SegmentAlignment: r.Alignment()}
}

func (s *splitter) ptd(ctx context.Context, r *ptd.Reader) ([]string, error) {
	dir, base := filepath.Split(s.name)
	shards, err := ptd.Split(r.Entries(), s.MaxSize, base)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, x := range shards {
		names = append(names, dir+x.Tag+tensorfile.PTD.Ext())
	}
	return s.write(ctx, names, func(i int, w io.Writer) error {
		return writeEntries(w, shards[i].Entries, ptdLike(r))
	})
}

func writeEntries(w io.Writer, entries []ptd.Entry, o *ptd.WriterOptions) error {
	pw := ptd.NewWriter(w, o)
	for _, e := range entries {
		if err := pw.AddEntry(e); err != nil {
			return err
		}
	}
	return pw.Close()
}

// model keeps the statistics of a parameter with its value.
func (s *splitter) model(ctx context.Context, r *primitiv.Reader) ([]string, error) {
	var parts [][]*primitiv.Parameter
	used := int64(0)
	for p := range r.Parameters() {
		n := p.Value.Size()
		for _, x := range p.Stats {
			n += x.Tensor.Size()
		}
		if len(parts) == 0 || used > 0 && n > s.MaxSize-used {
			parts, used = append(parts, nil), 0
		}
		used += n
		parts[len(parts)-1] = append(parts[len(parts)-1], p)
	}
	return s.write(ctx, s.names(len(parts)), func(i int, w io.Writer) error {
		pw := primitiv.NewWriter(w, nil)
		for _, p := range parts[i] {
			if err := cmp.Or(ctx.Err(), pw.AddParameter(p)); err != nil {
				return err
			}
		}
		return pw.Close()
	})
}

// tensors splits a file of any other format, in its order.
func (s *splitter) tensors(ctx context.Context) ([]string, error) {
	var shard []int // of each tensor, by its place in the file
	used, count := int64(0), 1
	for t := range s.f.Tensors() {
		n := max(t.Size(), 0)
		if used > 0 && n > s.MaxSize-used {
			count, used = count+1, 0
		}
		used += n
		shard = append(shard, count-1)
	}
	return s.write(ctx, s.names(count), func(i int, w io.Writer) error {
		at := -1
		o := &Options{Map: func(t *tensor.Tensor) (string, tensor.DType, bool) {
			at++
			return t.Name, tensor.Unknown, shard[at] == i
		}}
		if z, ok := s.f.Sys().(*ztensor.Reader); ok {
			o.Writer = ztensorLike(z)
		}
		plan, err := NewPlan(ctx, s.f, s.f.Format(), o)
		if err != nil {
			return err
		}
		return plan.Write(ctx, w)
	})
}

func (s *splitter) names(count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprintf("%s-%05d-of-%05d%s", s.name, i+1, count,
			s.f.Format().Ext()))
	}
	return names
}

// write writes files that appear together.
func (s *splitter) write(ctx context.Context, names []string,
	write func(i int, w io.Writer) error) ([]string, error) {
	for _, name := range names {
		if _, err := os.Lstat(name); s.NoReplace && !errors.Is(err, fs.ErrNotExist) {
			return nil, &fs.PathError{Op: "create", Path: name, Err: cmp.Or(err, fs.ErrExist)}
		}
	}
	if s.DryRun {
		return names, nil
	}
	set, err := atomicfile.NewSet(s.name)
	if err != nil {
		return nil, err
	}
	defer set.Abort()
	for i, name := range names {
		f, err := set.Create(filepath.Base(name))
		if err != nil {
			return nil, err
		}
		last := int64(0)
		w := format.Counted(ctx, f, func(done int64) {
			s.meter.Add(done - last)
			last = done
		})
		if err := write(i, w); err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return names, set.Commit()
}
