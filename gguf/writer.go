package gguf

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// WriterOptions control how a file is written. nil is the zero value.
type WriterOptions struct {
	// Metadata is written in this order. Nothing is added to it but general.alignment:
	// llama.cpp requires general.architecture, and more, of a model.
	Metadata []KeyValue
	// Alignment of data, a power of two from 8. 0 means that of general.alignment in
	// Metadata, which it replaces otherwise, else 32.
	Alignment int64
}

// A Writer writes a file of version 3. The header comes first, so Add only registers
// tensors and Close writes everything. It is not safe for concurrent use.
type Writer struct {
	w     io.Writer
	file  *atomicfile.File // of Create
	opts  WriterOptions
	infos []info
	names map[string]struct{}
	kept  format.Checksums
	done  bool
	err   error // the result of Close

	carries func(kv KeyValue) bool // for an Edit: whether the file has the entry
}

// An info is a tensor as the header has it.
type info struct {
	name   string
	shape  tensor.Shape
	kind   uint32
	offset int64 // from the start of the data
	size   int64
	data   tensor.Blob
}

// isOpenEnded reports a tensor of unknown type, to which readers give all bytes up to the
// next tensor or the end of the file: padding there would become data.
func (x *info) isOpenEnded() bool { return storageOf(x.kind).name == "" }

// NewWriter writes to w, which it neither seeks nor closes.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	nw := &Writer{w: w, names: map[string]struct{}{}, carries: carriesNothing}
	if opts != nil {
		nw.opts = *opts
	}
	return nw
}

// Create writes the file of that name, which appears whole when Close succeeds, or not at
// all.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	w := NewWriter(f, opts)
	w.file = f
	return w, nil
}

// DTypes returns the dtypes of dense tensors.
func DTypes() []tensor.DType {
	return []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.F64,
		tensor.I8, tensor.I16, tensor.I32, tensor.I64}
}

// Add registers a tensor, which must stay readable until Close and unchanged: what is in
// memory is hashed, and a change of it is tensor.ErrChecksum in Close. What Check refuses
// is refused.
func (w *Writer) Add(t *tensor.Tensor) error {
	x, err := w.check(t)
	if err == nil {
		err = w.add(x)
	}
	return err
}

func (w *Writer) add(x info) error {
	if w.done {
		return fs.ErrClosed
	}
	if _, dup := w.names[x.name]; dup {
		return refuse(x.name, tensor.ErrDuplicate, "a second tensor of that name")
	}
	w.names[x.name] = struct{}{}
	w.kept.Add(x.name, x.data)
	w.infos = append(w.infos, x)
	return nil
}

// Check reports why Add would refuse the tensor; it reads no data. Dense tensors have
// one of [DTypes], else they are tensor.ErrDType, and are row-major; others are
// quantised blocks as [Reader.Tensors] and version 2 of zTensor have them. Names have
// at most [MaxName] bytes of UTF-8 without NUL, shapes at most [MaxRank] dimensions.
func (w *Writer) Check(t *tensor.Tensor) error {
	_, err := w.check(t)
	return err
}

func (w *Writer) check(t *tensor.Tensor) (info, error) {
	if w.done {
		return info{}, fs.ErrClosed
	}
	if err := t.Check(); err != nil {
		return info{}, err
	}
	if _, dup := w.names[t.Name]; dup {
		return info{}, refuse(t.Name, tensor.ErrDuplicate, "a second tensor of that name")
	}
	return infoOf(t)
}

// infoOf refuses what no file can hold.
func infoOf(t *tensor.Tensor) (info, error) {
	x := info{name: t.Name, shape: t.Shape, data: t.Data}
	kind, ok := numberOf(t.DType)
	blocks, isBlocks := blocksOf(t)
	switch {
	case isBlocks:
		kind, x.data = blocks.Number, t.Parts[0].Data
	case t.External || !t.Dense() || len(t.Parts) > 0:
		return x, refuse(t.Name, errors.ErrUnsupported,
			"only dense tensors and quantised blocks of ggml are supported")
	case !ok:
		return x, refuse(t.Name, tensor.ErrDType, "the format does not have %v", t.DType)
	case !t.Order.RowMajor():
		return x, refuse(t.Name, errors.ErrUnsupported,
			"the order %v is not row-major (tensor.Reordered)", []int(t.Order))
	}
	x.kind = kind
	problem := cmp.Or(checkName(t.Name), checkRank(len(t.Shape)))
	if x.data.Size() < 0 {
		problem = "its size is only known after decoding"
	}
	if problem != "" {
		return x, refuse(t.Name, errors.ErrUnsupported, "%s", problem)
	}
	e := entry{name: t.Name, at: -1, shape: t.Shape, kind: kind}
	var err error
	if x.size, err = e.size(0, nil); err == nil && x.data.Size() != x.size {
		err = refuse(t.Name, tensor.ErrMalformed, "%d bytes of data where %v of %s takes %d",
			x.data.Size(), t.Shape, typeName(kind), x.size)
	}
	return x, err
}

// blocksOf returns the type of a tensor of quantised blocks.
func blocksOf(t *tensor.Tensor) (ggml.Type, bool) {
	if t.External || t.Dense() || len(t.Parts) != 1 {
		return ggml.Type{}, false
	}
	return ggml.OfScheme(t.Scheme, t.Parts[0].Role)
}

// numberOf returns the number of the type that is the dtype.
func numberOf(d tensor.DType) (uint32, bool) {
	for n, s := range plain {
		if s.dtype == d {
			return n, true
		}
	}
	return 0, false
}

func refuse(name string, class error, format string, args ...any) error {
	return formatError(-1, "tensors["+naming.Quote(name)+"]", class, format, args...)
}

// AddAll adds tensors until one is refused, ts fails, or ctx ends.
func (w *Writer) AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	for t, err := range ts {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if err := w.Add(t); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Close writes the header and all data. A second Close returns what the first did.
func (w *Writer) Close() error { return w.close(context.Background()) }

func (w *Writer) close(ctx context.Context) error {
	if w.done {
		return w.err
	}
	w.done, w.err = true, w.write(ctx)
	switch {
	case w.file == nil:
	case w.err != nil:
		w.file.Abort()
	default:
		w.err = w.file.Close()
	}
	return w.err
}

// Abort drops what was added; a file of Create does not appear. After Close it does
// nothing.
func (w *Writer) Abort() {
	if w.done {
		return
	}
	w.done, w.err = true, fs.ErrClosed
	if w.file != nil {
		w.file.Abort()
	}
}

func (w *Writer) write(ctx context.Context) error {
	if err := w.kept.Check(); err != nil {
		return fmt.Errorf("gguf: %w", err)
	}
	metadata, alignment, err := w.opts.metadata(w.carries)
	if err != nil {
		return err
	}
	end, ok := int64(0), true
	tail := w.tail()
	for i := range w.infos {
		x := &w.infos[i]
		x.offset = end
		if i > tail {
			x.offset = w.infos[tail].offset
		}
		if end, ok = align.Add(end, x.size); ok && i < tail {
			end, ok = align.Up(end, alignment)
		}
		if !ok {
			return refuse(x.name, tensor.ErrLimit, "data beyond 2^63 bytes")
		}
	}
	head, err := encodeHeader(metadata, w.infos)
	if err != nil {
		return err
	}
	start := int64(len(head))
	if len(w.infos) > 0 {
		start, ok = align.Up(start, alignment)
	}
	if ok {
		end, ok = align.Add(start, end)
	}
	if !ok {
		return fmt.Errorf("gguf: %w: a file beyond 2^63 bytes", tensor.ErrLimit)
	}
	if w.file != nil {
		w.file.Reserve(end)
	}
	out := format.Until(ctx, w.w)
	if _, err := out.Write(head); err != nil {
		return fmt.Errorf("gguf: %w", err)
	}
	data := make([]format.Section, len(w.infos))
	for i, x := range w.infos {
		data[i] = format.Section{Name: x.name, Off: start + x.offset, Size: x.size, Data: x.data}
	}
	if _, err = format.WriteSections(ctx, out, int64(len(head)), data, end); err != nil {
		return fmt.Errorf("gguf: %w", err)
	}
	return nil
}

// tail returns the index of a last tensor of unknown type, whose data nothing may follow:
// empty tensors after it have its offset. It is the number of tensors if there is none.
func (w *Writer) tail() int {
	for i, x := range slices.Backward(w.infos) {
		if x.isOpenEnded() {
			return i
		}
		if x.size > 0 {
			break
		}
	}
	return len(w.infos)
}

func carriesNothing(KeyValue) bool { return false }

// metadata returns all entries, and the alignment. Those that an Edit carries over from
// its file are not checked.
func (o *WriterOptions) metadata(carries func(kv KeyValue) bool) ([]KeyValue, int64, error) {
	at := slices.IndexFunc(o.Metadata, func(kv KeyValue) bool { return kv.Key == alignmentKey })
	all := o.Metadata
	switch n := o.Alignment; {
	case n < 0 || n > math.MaxUint32 || n&(n-1) != 0 || n%minAlignment != 0:
		return nil, 0, fmt.Errorf("gguf: %w: Alignment %d is not a power of two from %d to 2^31",
			fs.ErrInvalid, n, minAlignment)
	case n != 0 && (at >= 0 || n != defaultAlignment):
		v, err := NewValue(uint32(n))
		if err != nil {
			return nil, 0, err
		}
		all = slices.Clone(all)
		if at < 0 {
			at = len(all)
			all = append(all, KeyValue{Key: alignmentKey})
		}
		all[at].Value = v
	}
	names := make(map[string]struct{}, len(all))
	for _, kv := range all {
		if err := kv.Check(); err != nil && !carries(kv) {
			return nil, 0, err
		}
		if _, dup := names[kv.Key]; dup {
			return nil, 0, refuseKey(kv.Key, tensor.ErrDuplicate, "a second entry of that key")
		}
		names[kv.Key] = struct{}{}
	}
	if at < 0 {
		return all, defaultAlignment, nil
	}
	n, _ := alignmentOf(all[at].Value)
	return all, n, nil
}

// alignmentOf returns the value of general.alignment, false if it is invalid.
func alignmentOf(v Value) (int64, bool) {
	if v.a.t != TypeUint32 {
		return 0, false
	}
	n := int64(binary.LittleEndian.Uint32(v.a.raw))
	return n, n > 0 && n&(n-1) == 0
}

// Check reports why no file can have the entry: keys have 1 to 65535 bytes of UTF-8, and
// general.alignment is a power of two from 8 of type uint32.
func (kv KeyValue) Check() error {
	key, v := kv.Key, kv.Value
	problem := checkKey(key)
	if problem == "" && v.version == 0 {
		return refuseKey(key, tensor.ErrDType, "the key has no value")
	}
	if problem == "" && key == alignmentKey {
		n, ok := alignmentOf(v)
		if !ok {
			return refuseKey(key, tensor.ErrDType, "%s is not a power of two of type uint32",
				naming.Quote(v.String()))
		}
		problem = checkAlignment(n)
	}
	if problem != "" {
		return refuseKey(key, errors.ErrUnsupported, "%s", problem)
	}
	return nil
}

func refuseKey(key string, class error, format string, args ...any) error {
	return formatError(-1, keyField(key), class, format, args...)
}

func keyField(key string) string { return "metadata[" + naming.Quote(key) + "]" }

// encodeHeader returns the bytes before the padding that the data follows.
func encodeHeader(metadata []KeyValue, infos []info) ([]byte, error) {
	b := append(make([]byte, 0, 64*(len(metadata)+len(infos)+1)), magic...)
	b = binary.LittleEndian.AppendUint32(b, 3)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(infos)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(metadata)))
	for _, kv := range metadata {
		raw, err := kv.Value.encoded()
		if err != nil {
			return nil, err
		}
		b = appendBytes(b, kv.Key)
		b = binary.LittleEndian.AppendUint32(b, uint32(kv.Value.a.t))
		b = append(b, raw...)
	}
	for i := range infos {
		x := &infos[i]
		b = appendBytes(b, x.name)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(x.shape)))
		for _, d := range slices.Backward(x.shape) {
			b = binary.LittleEndian.AppendUint64(b, uint64(d))
		}
		b = binary.LittleEndian.AppendUint32(b, x.kind)
		b = binary.LittleEndian.AppendUint64(b, uint64(x.offset))
	}
	return b, nil
}

// WriteFile writes a whole file: it appears with all tensors, or not at all.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) error {
	w, err := Create(name, opts)
	if err != nil {
		return err
	}
	return w.writeAll(ctx, ts)
}

func (w *Writer) writeAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	defer w.Abort()
	if err := w.AddAll(ctx, ts); err != nil {
		return err
	}
	return w.close(ctx)
}
