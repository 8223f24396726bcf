package v2

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/ztensor/internal/writer"
)

const (
	// frameSize is the decoded size of a frame of zt.zstd-seekable/1.
	frameSize = 1 << 20
	// maxPrepared is the size of the largest part that one worker compresses. All workers
	// compress the frames of larger parts, groupSize bytes at a time.
	maxPrepared = 4 * frameSize
	groupSize   = 16 * frameSize
)

// encodeFrames returns the frames of a whole part, and their table. They depend on the
// content and the level only.
func (w *Writer) encodeFrames(all []byte) []byte {
	b, table := make([]byte, 0, len(all)), []byte(nil)
	for len(all) > 0 {
		n, from := min(len(all), frameSize), len(b)
		b = w.encoder.EncodeAll(all[:n], b)
		table = appendEntry(table, len(b)-from, n)
		all = all[n:]
	}
	return appendTable(b, table)
}

// appendEntry appends the entry of a frame to a seek table.
func appendEntry(table []byte, stored, decoded int) []byte {
	table = binary.LittleEndian.AppendUint32(table, uint32(stored))
	return binary.LittleEndian.AppendUint32(table, uint32(decoded))
}

// appendTable appends the seek table (§8), a frame that decoders skip.
func appendTable(b, table []byte) []byte {
	b = binary.LittleEndian.AppendUint32(append(b, seekHeader...), uint32(len(table)+seekFooter))
	b = binary.LittleEndian.AppendUint32(append(b, table...), uint32(len(table)/8))
	return append(append(b, 0), seekMagic...)
}

// A frameWriter splits one part into frames, and compresses a group of frames at a time
// on all cores.
type frameWriter struct {
	ctx   context.Context // of the call that adds the tensor
	w     *Writer
	out   io.Writer
	table []byte
}

func (w *Writer) newFrameWriter(ctx context.Context, _ int64, out io.Writer) io.WriteCloser {
	return &frameWriter{ctx: ctx, w: w, out: out}
}

func (f *frameWriter) Write(b []byte) (int, error) {
	w := f.w
	if w.group == nil {
		w.group = make([]byte, 0, groupSize)
	}
	for rest := b; len(rest) > 0; {
		n := min(len(rest), groupSize-len(w.group))
		w.group = append(w.group, rest[:n]...)
		if rest = rest[n:]; len(w.group) == groupSize {
			if err := f.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(b), nil
}

// A frameJob is a frame before and after its compression.
type frameJob struct{ in, out []byte }

// flush compresses the group and writes it in order.
func (f *frameWriter) flush() error {
	w := f.w
	line := parallel.New(f.ctx, writer.InFlight, func(_ context.Context, j *frameJob) error {
		j.out = w.encoder.EncodeAll(j.in, j.out[:0])
		return nil
	}, func(j *frameJob) error {
		f.table = appendEntry(f.table, len(j.out), len(j.in))
		w.spare = append(w.spare, j.out)
		_, err := f.out.Write(j.out)
		return err
	})
	defer line.Close()
	for rest := w.group; len(rest) > 0; {
		j := &frameJob{in: rest[:min(len(rest), frameSize)]}
		if last := len(w.spare) - 1; last >= 0 {
			j.out, w.spare = w.spare[last], w.spare[:last]
		}
		if err := line.Put(j, int64(len(j.in))); err != nil {
			return err
		}
		rest = rest[len(j.in):]
	}
	w.group = w.group[:0]
	return line.Flush()
}

// Close writes the last frames and the seek table.
func (f *frameWriter) Close() error {
	if err := f.flush(); err != nil {
		return err
	}
	_, err := f.out.Write(appendTable(nil, f.table))
	return err
}
