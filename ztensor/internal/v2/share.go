package v2

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/digest"
	"github.com/tensorfile/tensorfile/ztensor/internal/writer"
)

// shared makes p share the bytes of a part that has been written, and reports whether it
// did, before p is written. If that would read the data of p twice, and written bytes can
// be cut off, it leaves this to remember.
func (w *Writer) shared(ctx context.Context, p *writer.Part) (bool, error) {
	size := p.Data.Size()
	if size <= 0 || !w.lengths[size] || w.level > 0 || writer.Streamed(p.Data) {
		return false, nil
	}
	if p.Digest == "" {
		if b, ok := core.PayloadOf(p.Data); ok && hasXXH3(b) &&
			len(w.written[content{b.Digest, size}]) == 0 {
			return false, nil // the hash is known, and no part has it
		}
		if w.canonical && w.Out.Written() != nil {
			return false, nil
		}
		h := xxh3.New()
		if _, err := p.WriteChecked(ctx, h); err != nil {
			return false, err
		}
		p.Digest = digest.Text(digest.XXH3, h)
	}
	data := p.Data
	if stored := p.Stored(); stored != nil {
		data = tensor.BlobOf(stored)
	}
	return w.share(ctx, p, data)
}

// hasXXH3 reports whether the digest of a payload is an xxh3.
func hasXXH3(p *core.Payload) bool {
	w, err := digest.Parse(p.Digest, true)
	return err == nil && w.Algorithm == digest.XXH3
}

// share makes p share the bytes of a written part that has the same data, and reports
// whether there is one. Hashes may collide, so it compares the bytes.
func (w *Writer) share(ctx context.Context, p *writer.Part, data tensor.Blob) (bool, error) {
	file := w.Out.Written()
	for _, other := range w.written[content{p.Digest, data.Size()}] {
		before := other.Data
		if file != nil {
			before = inFile(file, &other)
		} else if writer.Streamed(other.Data) {
			return false, fmt.Errorf("%w: it seems to have the same bytes as a tensor "+
				"that was written piece by piece, and cannot be compared",
				errors.ErrUnsupported)
		}
		same, err := format.SameBytes(ctx, before, data)
		if err == nil && !same {
			err = checkUnchanged(before, p.Digest)
		}
		if err != nil {
			return false, err
		}
		if same {
			p.Offset, p.Length, p.Size = other.Offset, data.Size(), data.Size()
			return true, nil
		}
	}
	return false, nil
}

// remember adds a part that has been written to the parts that later ones may share. If
// an earlier part has the same bytes, it makes p share them and cuts p off the file at
// before. It does nothing without canonical form: the data may be gone when it would be
// compared.
func (w *Writer) remember(ctx context.Context, p *writer.Part, before int64) error {
	if !w.canonical || p.Size == 0 {
		return nil
	}
	if len(w.written[content{p.Digest, p.Size}]) > 0 {
		file := w.Out.Written()
		if file == nil && writer.Streamed(p.Data) {
			return fmt.Errorf("%w: it seems to have the same bytes as another tensor, "+
				"which in canonical form it would have to share: add it in one piece",
				errors.ErrUnsupported)
		}
		if file != nil {
			shared, err := w.share(ctx, p, inFile(file, p))
			if err == nil && shared {
				err = w.Out.Rewind(before)
			}
			if shared || err != nil {
				return err
			}
		}
	}
	w.addShareable(p)
	return nil
}

// addShareable adds a part to the parts that later ones may share.
func (w *Writer) addShareable(p *writer.Part) {
	key := content{p.Digest, p.Size}
	w.written[key] = append(w.written[key], *p)
	w.lengths[p.Size] = true
}

// inFile returns the bytes of a part that has been written to file.
func inFile(file io.ReaderAt, p *writer.Part) tensor.Blob {
	off, n := p.Offset, p.Length
	return tensor.BlobFunc(n, func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(file, off, n)), nil
	})
}

// checkUnchanged fails with tensor.ErrChecksum if the bytes of b do not have the digest
// any more.
func checkUnchanged(b tensor.Blob, want string) error {
	h := xxh3.New()
	_, err := b.WriteTo(h)
	if err == nil && digest.Text(digest.XXH3, h) != want {
		err = fmt.Errorf("%w: it has the bytes of a tensor whose memory has changed since",
			tensor.ErrChecksum)
	}
	return err
}
