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
	"github.com/tensorfile/tensorfile/ztensor/internal/dtype"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// Verify verifies the file on all cores.
func (r *File) Verify(ctx context.Context, found *format.Findings) error {
	size := r.Size()
	for _, s := range r.Shards {
		var ok bool
		if size, ok = align.Add(size, s.Size); !ok {
			size = math.MaxInt64
		}
	}
	if err := r.Generation.VerifyFile(ctx, found); err != nil {
		return err
	}
	v := &verifier{r: r, found: found, limit: format.DecodedTotal(r.Options.Limits, size),
		outcomes: map[payloadKey]*outcome{}}
	v.budget.Store(v.limit)
	return v.tensors(ctx)
}

type verifier struct {
	r     *File
	found *format.Findings
	read  *format.Meter // of stored bytes

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

// errFull ends the verification: no more findings are reported.
var errFull = errors.New("ztensor: enough findings")

// tensors verifies all tensors on all cores. Findings are reported in file
// order, from this goroutine.
func (v *verifier) tensors(ctx context.Context) error {
	r := v.r
	total := int64(0)
	for _, p := range r.Payloads {
		total += p.Length
	}
	v.read = format.NewMeter(v.found.Options.Progress, total)
	line := parallel.New(ctx, 0, func(ctx context.Context, b *batch) error {
		b.Worker = Worker{v: v, ctx: ctx}
		for i := b.from; i < b.to && b.err == nil; i++ {
			r.Generation.VerifyTensor(ctx, &b.Worker, r.Tensors[i])
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	}, func(b *batch) error {
		for _, f := range b.found {
			if f.warn {
				v.found.Warn(f.err)
			} else {
				v.found.Error(f.err)
			}
		}
		if v.found.Full() {
			return errFull
		}
		return b.err
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
	if err == nil {
		v.read.End() // payloads of several tensors were read once
	}
	return err
}

// A Worker verifies tensors one after the other.
type Worker struct {
	v     *verifier
	ctx   context.Context
	found []problem
	err   error // that ends the verification
}

// A problem is an error or a warning that a Worker found.
type problem struct {
	err  error
	warn bool
}

// Fail adds an error to the findings.
func (w *Worker) Fail(err error) { w.found = append(w.found, problem{err: err}) }

func (w *Worker) warn(err error) { w.found = append(w.found, problem{err: err, warn: true}) }

// Parts verifies the payloads of a tensor. It reports whether all were read and are
// valid, so that the caller may check the values. If sparse is set, it counts the indices
// twice as decoded, because the caller decodes them again.
func (w *Worker) Parts(t *tensor.Tensor, sparse bool) bool {
	before := len(w.found)
	structure := w.v.found.Options.Depth <= tensor.VerifyStructure
	for _, p := range PayloadsOf(t) {
		_, err := p.Source()
		skip := err != nil || structure // VerifyFile reports a shard that is not there
		if !skip || !w.v.r.IsVersion2 {
			w.checkFields(p)
		}
		if skip {
			w.v.read.Add(p.Length)
			continue
		}
		decoded := w.verifyOnce(p)
		if sparse && (p.DecodedSize < 0 || slices.Contains(IndexRoles, p.Role())) {
			w.countDecoded(decoded)
		}
		if w.ctx.Err() != nil || w.err != nil {
			return false
		}
	}
	return !structure &&
		!slices.ContainsFunc(w.found[before:], func(f problem) bool { return !f.warn })
}

// An outcome is the result of verifying a payload.
type outcome struct {
	once    sync.Once
	path    string // of the payload that was verified
	found   []problem
	decoded int64
}

// A payloadKey has everything that the outcome of a payload depends on.
type payloadKey struct {
	offset, length, size int64
	shard                int32
	oddNibble            bool // half of the last byte must be 0
	dtype                tensor.DType
	encoding, digest     string
}

// outcome returns the outcome of p, which payloads of the same payloadKey share.
func (v *verifier) outcome(p *Payload) *outcome {
	if !v.r.Unsorted {
		return new(outcome) // no two payloads have a byte in common
	}
	k := payloadKey{shard: p.Shard, offset: p.Offset, length: p.Length, size: p.DecodedSize,
		digest: p.Digest, oddNibble: dtype.NewCheck(p.T, p.Dtype).OddNibble}
	if p.Encoded() {
		k.encoding = p.Extra.Encoding
	}
	if p.codec() != nil || p.Dtype == tensor.Bool {
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

// verifyOnce adds the findings of verifyPayload, which it calls once for all payloads
// that share an outcome. It returns how many bytes were decoded.
func (w *Worker) verifyOnce(p *Payload) int64 {
	o := w.v.outcome(p)
	o.once.Do(func() {
		own := Worker{v: w.v, ctx: w.ctx}
		o.decoded = own.verifyPayload(p)
		o.found, o.path, w.err = own.found, p.R.PathOf(p), own.err
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
		w.found = append(w.found, f)
	}
	return o.decoded
}

// checkFields reports what is invalid in the manifest about a payload. It reads no bytes.
func (w *Worker) checkFields(p *Payload) {
	if err := p.decodeError(); err != nil {
		w.Fail(p.ReadError(err))
	}
	if p.Dtype == tensor.Unknown && !p.R.IsVersion2 && p.Extra != nil && p.Extra.TypeName != "" {
		w.Fail(p.errorAt(".dtype",
			fmt.Errorf("%w: dtype %s", errors.ErrUnsupported, naming.Quote(p.Extra.TypeName))))
	}
	switch want, _, err := p.expected(); {
	case err != nil:
		w.Fail(p.digestError(err))
	case want.Loose:
		w.warn(p.digestError(fmt.Errorf("%w: %s is not spelled as the document does",
			tensor.ErrMalformed, naming.Quote(p.Digest))))
	case p.Digest == "" && p.R.IsVersion2:
		w.warn(p.digestError(errors.New("there is none to check the bytes by")))
	}
}

// A payloadWriter checks the decoded bytes of a payload and counts them.
type payloadWriter struct {
	dtype.Check
	w       *Worker
	p       *Payload
	decoded int64
}

func (l *payloadWriter) Write(b []byte) (int, error) {
	switch n := int64(len(b)); {
	case l.p.DecodedSize < 0:
		l.decoded += n
		l.w.countDecoded(n)
	case !l.p.Encoded():
		l.w.v.read.Add(n)
	}
	err := l.Next(b)
	if err != nil && l.p.R.IsVersion2 {
		err = rule.New(rule.LayoutData, err)
	}
	return len(b), cmp.Or(l.w.ctx.Err(), l.w.err, err)
}

func (w *Worker) verifyPayload(p *Payload) (decoded int64) {
	l := payloadWriter{dtype.NewCheck(p.T, p.Dtype), w, p, 0}
	if p.Encoded() {
		l.decoded = max(0, p.DecodedSize)
	}
	if w.countDecoded(l.decoded); w.err != nil {
		return l.decoded
	}
	err := p.check(w.ctx, &l)
	if err == nil {
		err = p.ReadError(l.End())
	}
	if p.Encoded() {
		w.v.read.Add(p.Length)
	}
	if err != nil && w.ctx.Err() == nil && w.err == nil {
		w.Fail(err)
	}
	return l.decoded
}

// countDecoded subtracts n decoded bytes from the budget. Beyond it, the verification
// ends with tensor.ErrLimit.
func (w *Worker) countDecoded(n int64) {
	if w.v.budget.Add(-n) < 0 && w.err == nil {
		w.err = fmt.Errorf("ztensor: %w: verifying decodes more than %d bytes",
			tensor.ErrLimit, w.v.limit)
	}
}
