package format

import (
	"iter"
	"slices"
	"sync"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Base has the methods that the Readers of all formats share; a Reader embeds it. It is
// safe for concurrent use once the Reader is complete. Functions that are for packages of
// formats, such as SetTensors, are not methods, because Readers would export them.
type Base struct {
	in       *Input
	n        int // tensors
	at       func(i int) *tensor.Tensor
	name     func(i int) string
	blobs    int
	blob     func(i int) (name string, data tensor.Blob)
	attrs    [][2]string
	warnings Warnings

	onceTensors, onceBlobs sync.Once
	tensorTable, blobTable *naming.Table // see Index, BlobIndex
}

// InitBase makes b the Base of a file that is being opened.
func InitBase(b *Base, f Errors, in *Input) {
	b.in = in
	b.warnings = Warnings{Format: string(f)}
}

// SetTensors gives a Base its n tensors, in the order of the file. name returns the name
// of tensor i; if it is nil, at is called for the name.
func SetTensors(b *Base, n int, at func(i int) *tensor.Tensor, name func(i int) string) {
	b.n, b.at, b.name = n, at, name
	if name == nil {
		b.name = func(i int) string { return at(i).Name }
	}
}

// SetList gives a Base a list of tensors.
func SetList(b *Base, list []tensor.Tensor) {
	SetTensors(b, len(list), func(i int) *tensor.Tensor { return &list[i] }, nil)
}

// SetBlobs gives a Base its n payloads that are not tensors, in the order of the file.
func SetBlobs(b *Base, n int, at func(i int) (name string, data tensor.Blob)) {
	b.blobs, b.blob = n, at
}

// SetAttributes gives a Base the keys and values of the file, in the order of the file.
func SetAttributes(b *Base, attributes [][2]string) { b.attrs = attributes }

// Warn adds a warning: a deviation from the format's document that does not prevent
// reading. If the file is opened Strict, opening fails with the first warning.
func Warn(b *Base, err error) { b.warnings.Add(err) }

// WarningsFull reports whether Warn ignores further warnings.
func WarningsFull(b *Base) bool { return b.warnings.Full() }

// InputOf returns the Input that a Base was opened from.
func InputOf(b *Base) *Input { return b.in }

// Index returns the index of the first tensor of that name, -1 if there is none. The
// first call makes a table of all names.
func Index(b *Base, name string) int {
	b.onceTensors.Do(func() { b.tensorTable, _ = naming.Build(b.n, b.name) })
	return b.tensorTable.Lookup(name)
}

// BlobIndex returns the index of the first blob of that name, -1 if there is none.
func BlobIndex(b *Base, name string) int {
	b.onceBlobs.Do(func() { b.blobTable, _ = naming.Build(b.blobs, b.blobName) })
	return b.blobTable.Lookup(name)
}

// Close releases the file, if the Reader owns it. Borrowed slices are invalid
// afterwards, and reading fails with fs.ErrClosed. A second Close does nothing.
func (b *Base) Close() error { return b.in.Close() }

// Size returns the size of the file in bytes.
func (b *Base) Size() int64 { return b.in.Size() }

// Len returns the number of tensors.
func (b *Base) Len() int { return b.n }

// Tensors yields the tensors in file order. Names may repeat if the format allows it.
func (b *Base) Tensors() iter.Seq[*tensor.Tensor] { return Each(b.n, b.at) }

// Tensor returns the first tensor of that name, or nil.
func (b *Base) Tensor(name string) *tensor.Tensor {
	if i := Index(b, name); i >= 0 {
		return b.at(i)
	}
	return nil
}

// Blobs yields the named payloads that are not tensors, in file order.
func (b *Base) Blobs() iter.Seq2[string, tensor.Blob] {
	return func(yield func(string, tensor.Blob) bool) {
		for i := range b.blobs {
			if !yield(b.blob(i)) {
				return
			}
		}
	}
}

func (b *Base) blobName(i int) string {
	name, _ := b.blob(i)
	return name
}

// Attributes yields the keys and values that describe the file, in file order.
func (b *Base) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, kv := range b.attrs {
			if !yield(kv[0], kv[1]) {
				return
			}
		}
	}
}

// Warnings returns the deviations from the format's document that did not prevent
// reading.
func (b *Base) Warnings() []error { return slices.Clone(b.warnings.All()) }
