package gguf

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"iter"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// WriterOptions control how a file is written. nil is the zero value.
type WriterOptions struct {
	// Metadata is written in this order. Nothing is added to it but general.alignment:
	// llama.cpp requires general.architecture, and more, of a model.
	Metadata []KeyValue
	// Alignment is a power of two from 8: the data of tensors begins at multiples of it.
	// It replaces general.alignment in Metadata. 0 means the value there, or 32.
	Alignment int64
	// NoReplace makes Create and WriteFile fail with fs.ErrExist if the file exists.
	NoReplace bool
	// Progress, if not nil, is called with the bytes written so far and the size of the
	// file.
	Progress func(done, total int64)
}

// A Writer writes a file of version 3, with the methods of every Writer: Check, Add,
// AddAll, Close and Abort. The header comes first: Add only keeps a tensor, and Close
// writes everything. Tensors must be dense and row-major with a dtype of [DTypes], or
// quantised blocks as [Reader.Tensors] and version 2 of zTensor have them. Names must
// have at most [MaxName] bytes of UTF-8 without NUL, shapes at most [MaxRank] dimensions.
// Add fails with errors.ErrUnsupported for other tensors.
type Writer struct {
	format.Writer[info]
}

// An info is a tensor with its entry of the header.
type info struct {
	name   string
	shape  tensor.Shape
	kind   uint32
	offset int64 // from the start of the data
	size   int64
	data   tensor.Blob
}

// isOpenEnded reports whether the type is unknown. Then readers take all bytes up to the
// next tensor, or the end of the file, for the data: padding would become data.
func (x *info) isOpenEnded() bool { return storageOf(x.kind).name == "" }

// NewWriter returns a Writer to w, which it neither seeks nor closes.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	return &Writer{format.NewWriter(w, opts.encoding(carriesNothing))}
}

// Create returns a Writer of the file of that name, which appears whole when Close
// succeeds, or not at all.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	w, err := format.Create(name, opts.encoding(carriesNothing))
	if err != nil {
		return nil, err
	}
	return &Writer{w}, nil
}

// WriteFile writes a file of the tensors of ts, which appears whole or not at all. It
// holds the descriptions of all tensors and at most 1 MiB of data. It reads the data
// after the last tensor of ts: sources must stay open until it returns.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) error {
	return format.WriteFile(ctx, name, ts, opts.encoding(carriesNothing))
}

// encoding returns how files are written. carries reports whether an Edit carries over a
// metadata entry, which then is not checked.
func (o *WriterOptions) encoding(carries func(kv KeyValue) bool) *format.Encoding[info] {
	if o == nil {
		o = new(WriterOptions)
	}
	given := *o
	return &format.Encoding[info]{Format: errs, NoReplace: o.NoReplace, Progress: o.Progress,
		Item: infoOf, Check: checkInfo,
		Encode: func(out *format.Output, infos []info) error {
			return given.encode(out, infos, carries)
		}}
}

// DTypes returns the dtypes of dense tensors that a file can have.
func DTypes() []tensor.DType {
	return []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.F64,
		tensor.I8, tensor.I16, tensor.I32, tensor.I64}
}

// infoOf returns the info of a tensor. It fails if no file can hold it; it does not check
// the name and the rank.
func infoOf(t *tensor.Tensor) (info, error) {
	x := info{name: t.Name, shape: t.Shape, data: t.Data}
	refuse := func(text string, args ...any) (info, error) {
		return x, errs.Tensor(t.Name, errors.ErrUnsupported, text, args...)
	}
	kind, ok := numberOf(t.DType)
	blocks, isBlocks := format.BlocksOf(t)
	switch {
	case isBlocks:
		kind, x.data = blocks.Number, t.Parts[0].Data
	case t.External || !t.Dense() || len(t.Parts) > 0:
		return refuse("only dense tensors and quantised blocks of ggml are supported")
	case !ok:
		return refuse("the format does not have %v", t.DType)
	case !t.Order.RowMajor():
		return refuse("the order %v is not row-major (tensor.Reordered)", []int(t.Order))
	}
	if isBlocks && kind == pq2 {
		return refuse("ggml does not have PQ2_0")
	}
	if x.kind = kind; x.data.Size() < 0 {
		return refuse("its size is only known after decoding")
	}
	e := entry{name: t.Name, at: -1, shape: t.Shape, kind: kind, t: storageOf(kind)}
	var err error
	if x.size, err = e.size(0, nil); err == nil && x.data.Size() != x.size {
		err = errs.Tensor(t.Name, fs.ErrInvalid, "%d bytes of data where %v of %s takes %d",
			x.data.Size(), t.Shape, typeName(kind), x.size)
	}
	return x, err
}

func checkTensor(t *tensor.Tensor) error {
	_, err := infoOf(t)
	return err
}

// checkInfo refuses names and ranks that ggml does not load.
func checkInfo(name string, x *info) error {
	if problem := cmp.Or(checkName(name), checkRank(len(x.shape))); problem != "" {
		return errs.Tensor(name, errors.ErrUnsupported, "%s", problem)
	}
	return nil
}

// numberOf returns the number of the type of a dense tensor.
func numberOf(d tensor.DType) (uint32, bool) {
	for n, s := range plain {
		if s.dtype == d {
			return n, true
		}
	}
	return 0, false
}

// encode writes the header and all data.
func (o *WriterOptions) encode(out *format.Output, infos []info,
	carries func(kv KeyValue) bool) error {
	metadata, alignment, err := o.metadata(carries)
	if err != nil {
		return err
	}
	end, ok := int64(0), true
	tail := tailOf(infos)
	for i := range infos {
		x := &infos[i]
		x.offset = end
		if i > tail {
			x.offset = infos[tail].offset
		}
		if end, ok = align.Add(end, x.size); ok && i < tail {
			end, ok = align.Up(end, alignment)
		}
		if !ok {
			return errs.Tensor(x.name, tensor.ErrLimit, "data beyond 2^63 bytes")
		}
	}
	head, err := encodeHeader(metadata, infos)
	if err != nil {
		return err
	}
	start := int64(len(head))
	if len(infos) > 0 {
		start, ok = align.Up(start, alignment)
	}
	if ok {
		end, ok = align.Add(start, end)
	}
	if !ok {
		return errs.Limit(-1, "", "a file beyond 2^63 bytes")
	}
	data := make([]format.Section, len(infos))
	for i, x := range infos {
		data[i] = format.Section{Name: x.name, Off: start + x.offset, Size: x.size, Data: x.data}
	}
	return errs.Wrap(-1, "", format.WriteSections(out, head, data, end))
}

// tailOf returns the index of the last tensor that has data if its type is unknown:
// nothing may follow its data, so that empty tensors after it get its offset. Otherwise
// it returns the number of tensors.
func tailOf(infos []info) int {
	for i, x := range slices.Backward(infos) {
		if x.isOpenEnded() {
			return i
		}
		if x.size > 0 {
			break
		}
	}
	return len(infos)
}

func carriesNothing(KeyValue) bool { return false }

// metadata returns all entries, and the alignment. It does not check entries that carries
// reports.
func (o *WriterOptions) metadata(carries func(kv KeyValue) bool) ([]KeyValue, int64, error) {
	at := slices.IndexFunc(o.Metadata, func(kv KeyValue) bool { return kv.Key == alignmentKey })
	all := o.Metadata
	switch n := o.Alignment; {
	case n < 0 || n > math.MaxUint32 || n&(n-1) != 0 || n%minAlignment != 0:
		return nil, 0, errs.New(fs.ErrInvalid,
			"Alignment %d is not a power of two from %d to 2^31",
			n, minAlignment)
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

// Check fails if no file can have the entry: a key must have 1 to 65535 bytes of UTF-8,
// and general.alignment must be a power of two from 8 of type uint32.
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
	return errs.At(-1, keyField(key), class, format, args...)
}

func keyField(key string) string { return "metadata[" + naming.Quote(key) + "]" }

// encodeHeader returns the header, without the padding after it.
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
