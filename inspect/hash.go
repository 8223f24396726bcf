package inspect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"sort"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Sum is a SHA-256 in JSON as hexadecimal digits.
type Sum [sha256.Size]byte

// String returns the hexadecimal digits.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// MarshalText implements encoding.TextMarshaler.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Hash returns the SHA-256 of the decoded bytes of a blob, such as the data of a dense
// tensor in storage order. It uses one core. progress, if not nil, is called with the
// bytes read so far and in all; the last call has done = total.
func Hash(ctx context.Context, b tensor.Blob, progress func(done, total int64)) (Sum, error) {
	m := format.NewMeter(progress, max(b.Size(), 0))
	sum, err := hashBlob(ctx, b, m.Add)
	if err == nil {
		m.End()
	}
	return sum, err
}

func hashBlob(ctx context.Context, b tensor.Blob, read counter) (Sum, error) {
	h := sha256.New()
	err := stream(ctx, h, b, read)
	return Sum(h.Sum(nil)), err
}

func stream(ctx context.Context, h hash.Hash, b tensor.Blob, read counter) error {
	r, err := b.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	size := b.Size()
	if size < 0 || size > pieceSize {
		size = pieceSize
	}
	buf := make([]byte, max(size, 1))
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(buf)
		h.Write(buf[:n])
		read.add(int64(n))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Content returns a hash of tensors that does not depend on their file, format, order and
// shards: the SHA-256 of a line for each tensor, sorted by name,
//
//	"name" dtype [dimensions] sha256 …
//
// with the name quoted as in Go and the SHA-256 of the row-major, little-endian elements.
// If the tensor is not dense, the scheme stands there and then the role, dtype and
// SHA-256 of each part, sorted by role; for state without an initial value "none".
// Content fails with errors.ErrUnsupported for external tensors, with tensor.ErrDuplicate
// for duplicate names. progress, if not nil, is called with the bytes read so far and in
// all; the last call has done = total.
func Content(ctx context.Context, ts []*tensor.Tensor,
	progress func(done, total int64)) (Sum, error) {
	sorted := slices.SortedFunc(slices.Values(ts),
		func(a, b *tensor.Tensor) int { return cmp.Compare(a.Name, b.Name) })
	for i, t := range sorted {
		switch {
		case i > 0 && t.Name == sorted[i-1].Name:
			return Sum{}, fmt.Errorf("inspect: %w: tensor %s", tensor.ErrDuplicate,
				naming.Quote(t.Name))
		case t.External:
			return Sum{}, fmt.Errorf("inspect: %w: tensor %s is in another file",
				errors.ErrUnsupported, naming.Quote(t.Name))
		}
	}
	total := int64(0)
	for _, t := range sorted {
		total += sizeStored(t)
	}
	m := format.NewMeter(progress, total)
	type job struct {
		t    *tensor.Tensor
		line string
	}
	all := sha256.New()
	line := parallel.New(ctx, budget, func(ctx context.Context, j *job) (err error) {
		j.line, err = contentLine(ctx, j.t, m.Add)
		return err
	}, func(j *job) error {
		_, err := io.WriteString(all, j.line)
		return err
	})
	defer line.Close()
	for _, t := range sorted {
		if err := line.Put(&job{t: t}, 2*pieceSize); err != nil {
			return Sum{}, err
		}
	}
	if err := line.Flush(); err != nil {
		return Sum{}, err
	}
	m.End()
	return Sum(all.Sum(nil)), nil
}

func contentLine(ctx context.Context, t *tensor.Tensor, read counter) (string, error) {
	t = normalizeBlocks(t)
	s := fmt.Sprintf("%q %v %v", t.Name, t.DType, t.Shape)
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("tensor %s: %w", naming.Quote(t.Name), err)
	}
	switch {
	case pte.Uninitialized(t):
		s += " none"
	case t.Dense():
		data := t.Data
		if t.Order.RowMajor() {
			if err := t.Check(); err != nil {
				return "", err
			}
		} else {
			row, err := tensor.Slice(t)
			if err != nil {
				return fail(err)
			}
			data = row.Data
		}
		sum, err := hashBlob(ctx, data, read)
		if err != nil {
			return fail(err)
		}
		s += " " + sum.String()
	default:
		s += " " + fmt.Sprintf("%q", t.Scheme)
	}
	parts := slices.Clone(t.Parts)
	sort.Slice(parts, func(i, j int) bool { return parts[i].Role < parts[j].Role })
	for _, p := range parts {
		sum, err := hashBlob(ctx, p.Data, read)
		if err != nil {
			return fail(err)
		}
		s += fmt.Sprintf(" %q %v %v", p.Role, p.DType, sum)
	}
	return s + "\n", nil
}
