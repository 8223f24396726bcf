package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

func (r *File) Verify(ctx context.Context, l *format.Findings) error {
	size := r.Size()
	for _, s := range r.Shards {
		var ok bool
		if size, ok = align.Add(size, s.Size); !ok {
			size = math.MaxInt64
		}
	}
	v := &Verifier{R: r, Ctx: ctx, Found: l, limit: format.DecodedTotal(r.Options.Limits, size),
		outcomes: map[payloadKey]*outcome{}}
	v.budget.Store(v.limit)
	if err := r.Generation.VerifyFile(v); err != nil {
		return err
	}
	return v.tensors()
}

type Verifier struct {
	R     *File
	Ctx   context.Context
	Found *format.Findings
	Done  atomic.Int64 // stored bytes looked at

	mu       sync.Mutex
	outcomes map[payloadKey]*outcome
	limit    int64
	budget   atomic.Int64 // bytes that may still be decoded
}

// A batch is tensors that one worker verifies.
type batch struct {
	from, to int
	Worker
}

// batchSize is how many stored bytes make a batch, unless one tensor has more.
const batchSize = 4 << 20

// errFull ends the verification where no more findings are reported.
var errFull = errors.New("ztensor: enough findings")

// tensors verifies all tensors on all cores. Findings are reported in file
// order, from this goroutine.
func (v *Verifier) tensors() error {
	r := v.R
	total := int64(0)
	for _, p := range r.Payloads {
		total += p.Length
	}
	line := parallel.New(v.Ctx, 0, func(ctx context.Context, b *batch) error {
		b.Worker = Worker{V: v, Ctx: ctx}
		for i := b.from; i < b.to && b.Err == nil; i++ {
			r.Generation.VerifyTensor(&b.Worker, r.Tensors[i])
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	}, func(b *batch) error {
		for _, f := range b.Found {
			if f.Warn {
				v.Found.Warn(f.err)
			} else {
				v.Found.Error(f.err)
			}
		}
		if v.Found.Options.Progress != nil {
			v.Found.Options.Progress(v.Done.Load(), total)
		}
		if v.Found.Full() {
			return errFull
		}
		return b.Err
	})
	defer line.Close()
	for from := 0; from < len(r.Tensors); {
		b := &batch{from: from, to: from}
		for size := int64(0); b.to < len(r.Tensors) && size < batchSize; b.to++ {
			size += 1 + max(0, r.Tensors[b.to].Size())
		}
		from = b.to
		if line.Put(b, 0) != nil {
			break
		}
	}
	err := line.Flush()
	if err == errFull {
		return nil
	}
	if progress := v.Found.Options.Progress; err == nil && progress != nil {
		progress(total, total) // payloads of several tensors were read once
	}
	return err
}

// A Worker verifies tensors one after the other.
type Worker struct {
	V     *Verifier
	Ctx   context.Context
	Found []Problem
	Err   error // that ends the verification
}

// A Problem is an error, or a warning, that a worker made.
type Problem struct {
	err  error
	Warn bool
}

func (w *Worker) Fail(err error) { w.Found = append(w.Found, Problem{err: err}) }

func (w *Worker) Warn(err error) { w.Found = append(w.Found, Problem{err: err, Warn: true}) }

// An outcome is what verifying a payload found.
type outcome struct {
	once    sync.Once
	path    string
	found   []Problem
	decoded int64
}

// A payloadKey is all that the verification of a payload depends on.
type payloadKey struct {
	offset, length, size int64
	shard                int32
	odd                  bool // half of the last byte must be 0
	dtype                tensor.DType
	encoding, digest     string
}

// outcome returns the outcome of p, which is the same for all payloads that are alike.
func (v *Verifier) outcome(p *Payload) *outcome {
	if !v.R.Jumbled {
		return new(outcome) // no two payloads have a byte in common
	}
	k := payloadKey{shard: p.Shard, offset: p.Offset, length: p.Length, size: p.DecodedSize,
		digest: p.Digest, odd: OddHalf(p.T)}
	if p.Encoded() {
		k.encoding = p.More.Encoding
	}
	if p.Codec() != nil || p.Dtype == tensor.Bool {
		k.dtype = p.Dtype
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	o := v.outcomes[k]
	if o == nil {
		o = new(outcome)
		v.outcomes[k] = o
	}
	return o
}

// Payload verifies the bytes of a payload, once for all tensors that have it, each of
// which gets what that found. It returns how many bytes were decoded.
func (w *Worker) Payload(p *Payload) int64 {
	o := w.V.outcome(p)
	o.once.Do(func() {
		own := Worker{V: w.V, Ctx: w.Ctx}
		o.decoded = own.check(p)
		o.found, o.path, w.Err = own.Found, p.R.PathOf(p), own.Err
	})
	for _, f := range o.found {
		var fe *tensor.FormatError
		if errors.As(f.err, &fe) {
			if rest, ok := strings.CutPrefix(fe.Field, o.path); ok {
				moved := *fe
				moved.Field = p.R.PathOf(p) + rest
				f.err = &moved
			}
		}
		w.Found = append(w.Found, f)
	}
	return o.decoded
}

// Stated reports what is wrong with a payload whatever its bytes are.
func (w *Worker) Stated(p *Payload) {
	if err := p.Readable(); err != nil {
		w.Fail(p.Failed(err))
	}
	if p.Dtype == tensor.Unknown && !p.R.Ruled && p.More != nil && p.More.Word != "" {
		w.Fail(p.errorAt(".dtype",
			Unsupported("dtype %s", naming.Quote(p.More.Word))))
	}
	switch want, _, err := p.Expected(); {
	case err != nil:
		w.Fail(p.digestError(err))
	case want.Loose:
		w.Warn(p.digestError(Malformed("%s is not spelled as the document does",
			naming.Quote(p.Digest))))
	case p.Digest == "" && p.R.Ruled:
		w.Warn(p.digestError(errors.New("there is none to check the bytes by")))
	}
}

// A look checks the decoded bytes of a payload, and counts them.
type look struct {
	Check
	w       *Worker
	p       *Payload
	decoded int64
}

func (l *look) Write(b []byte) (int, error) {
	switch n := int64(len(b)); {
	case l.p.DecodedSize < 0:
		l.decoded += n
		l.w.countDecoded(n)
	case !l.p.Encoded():
		l.w.V.Done.Add(n)
	}
	err := l.Next(b)
	if err != nil && l.p.R.Ruled {
		err = rule.New(rule.LayoutData, err)
	}
	return len(b), cmp.Or(l.w.Ctx.Err(), l.w.Err, err)
}

func (w *Worker) check(p *Payload) (decoded int64) {
	l := look{Check{DType: p.Dtype, Odd: OddHalf(p.T)}, w, p, 0}
	if p.Encoded() {
		l.decoded = max(0, p.DecodedSize)
	}
	if w.countDecoded(l.decoded); w.Err != nil {
		return l.decoded
	}
	err := p.check(w.Ctx, &l)
	if err == nil {
		err = p.Failed(l.End())
	}
	if p.Encoded() {
		w.V.Done.Add(p.Length)
	}
	if err != nil && w.Ctx.Err() == nil && w.Err == nil {
		w.Fail(err)
	}
	return l.decoded
}

// countDecoded counts n bytes that are decoded.
func (w *Worker) countDecoded(n int64) {
	if w.V.budget.Add(-n) < 0 && w.Err == nil {
		w.Err = fmt.Errorf("ztensor: %w: verifying decodes more than %d bytes",
			tensor.ErrLimit, w.V.limit)
	}
}

// Again charges for the indices of a sparse tensor, which are decoded a second time.
func (w *Worker) Again(p *Payload, decoded int64) {
	if p.DecodedSize < 0 || slices.Contains(IndexRoles, p.Role()) {
		w.countDecoded(decoded)
	}
}
