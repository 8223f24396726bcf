package model

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// A job is what reading one file takes.
type job struct {
	*file
	expected []expectation // of its digest
	verify   bool
	elements bool            // of its tensors are looked at
	weights  []*quant.Weight // quantised ones, whose codes are in the file
	progress func(n int64)
	found    findings
	hashed   bool
}

// passes is how often the file is read, the second time from the system's cache.
func (j *job) passes() (n int64) {
	for _, pass := range []bool{len(j.expected) > 0, j.verify, j.elements,
		len(j.weights) > 0} {
		if pass {
			n++
		}
	}
	return n
}

// checkData reads files on all cores, each of them by one.
func (m *Model) checkData(ctx context.Context, o *CheckOptions, l listing, found *findings,
	read *Read) error {
	jobs := m.jobs(o, l)
	if err := m.checkDecoded(jobs); err != nil {
		found.add(findingOf(Limit, "", err))
		for _, j := range jobs {
			j.verify, j.elements = false, false
		}
	}
	var mu sync.Mutex
	done, total := int64(0), int64(0)
	for _, j := range jobs {
		total += j.passes() * j.size
		j.progress = func(n int64) {
			mu.Lock()
			defer mu.Unlock()
			if done += n; o.Progress != nil {
				o.Progress(min(done, total), total)
			}
		}
	}
	line := parallel.New(ctx, int64(len(jobs)), m.run, func(j *job) error {
		found.join(&j.found)
		read.Bytes += j.size
		if j.hashed {
			read.Hashed++
		}
		return nil
	})
	defer line.Close()
	for _, j := range jobs {
		if err := line.Put(j, 1); err != nil {
			return err
		}
	}
	return line.Flush()
}

// checkDecoded compares what the jobs decode together with Limits.MaxDecodedTotal,
// before they do.
func (m *Model) checkDecoded(jobs []*job) error {
	size := int64(0)
	for _, j := range jobs {
		size += j.size
	}
	return format.CheckDecoded(m.limits, size, func(yield func(tensor.Blob) bool) {
		for _, j := range jobs {
			for _, reads := range []bool{j.verify, j.elements} {
				if !reads {
					continue
				}
				for t := range j.open.Tensors() {
					for b := range format.Blobs(t) {
						if !yield(b) {
							return
						}
					}
				}
			}
		}
	})
}

// jobs lists what is to be read, by name.
func (m *Model) jobs(o *CheckOptions, l listing) (all []*job) {
	shards := map[string]bool{} // those that a root verifies
	for _, s := range m.sets {
		for i, sh := range s.shards {
			shards[sh.name] = s.root && i > 0
		}
	}
	weights := m.weightsByFile()
	names := map[string]bool{}
	for name := range l {
		names[name] = o.Deep
	}
	for name := range m.files {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		f := m.files[name]
		if f == nil {
			f = &file{entry: m.look(name)}
		}
		j := &job{file: f, verify: o.Deep && f.open != nil && !shards[name],
			elements: o.Values && f.open != nil && !shards[name], weights: weights[name]}
		for _, x := range l[name] {
			if o.Deep && x.sha256+x.sha1 != "" {
				j.expected = append(j.expected, x)
			}
		}
		if names[name] && f.regular && j.passes() > 0 {
			all = append(all, j)
		}
	}
	return all
}

// run does a job. It fails only if the context ends.
func (m *Model) run(ctx context.Context, j *job) error {
	if len(j.expected) > 0 {
		if err := m.hash(ctx, j); err != nil {
			return err
		}
	}
	if j.verify {
		if err := j.check(ctx); err != nil {
			return err
		}
	}
	for _, w := range j.weights {
		if err := j.checkWeight(ctx, w); err != nil {
			return err
		}
		n := int64(0)
		for _, p := range w.Parts {
			n += max(p.Tensor.Size(), 0)
		}
		j.progress(n)
	}
	if j.elements {
		for t := range j.open.Tensors() {
			all, err := checkValues(ctx, j.name, t)
			if err != nil {
				return err
			}
			j.found.add(all...)
			j.progress(max(t.Size(), 0))
		}
	}
	return nil
}

// checkWeight reads a quantised weight. It fails only if the context ends.
func (j *job) checkWeight(ctx context.Context, w *quant.Weight) error {
	found, err := w.Check(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		x := findingOf(codeOf(err), j.name, err)
		x.Tensor = w.Name
		found = nil
		j.found.add(x)
	}
	for _, f := range found {
		if f.Code != quant.ValueNaN || !j.elements { // which finds them too
			j.found.add(weightFinding(f, j.name))
		}
	}
	return nil
}

// hash compares digests, in one pass for all of them.
func (m *Model) hash(ctx context.Context, j *job) error {
	in, err := m.fsys.Open(m.path(j.name))
	if err != nil {
		j.found.add(findingOf(Unreadable, j.name, err))
		return nil
	}
	defer in.Close()
	sum256, sum1 := sha256.New(), sha1.New()
	io.WriteString(sum1, "blob "+strconv.FormatInt(j.size, 10)+"\x00")
	var to []io.Writer
	if slices.ContainsFunc(j.expected, func(x expectation) bool { return x.sha256 != "" }) {
		to = append(to, sum256)
	}
	if slices.ContainsFunc(j.expected, func(x expectation) bool { return x.sha1 != "" }) {
		to = append(to, sum1)
	}
	if err := copyContext(ctx, io.MultiWriter(to...), in, j.progress); ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		j.found.add(findingOf(Unreadable, j.name, err))
		return nil
	}
	j.hashed = true
	reported := map[string]bool{} // listings may repeat each other
	for _, x := range j.expected {
		code, want, sum := DigestMismatch, x.sha256, hash.Hash(sum256)
		if x.blob {
			code = BlobName
		}
		if want == "" {
			want, sum = x.sha1, sum1
		}
		got := hex.EncodeToString(sum.Sum(nil))
		if got == want || reported[want] {
			continue
		}
		reported[want] = true
		f := finding(code, j.name, "", "%s where %s says %s", got, x.by, want)
		if x.edited {
			f.Severity = tensor.SeverityWarning
		}
		j.found.add(f)
	}
	return nil
}

// copyContext copies until ctx ends.
func copyContext(ctx context.Context, w io.Writer, r io.Reader, progress func(n int64)) error {
	buf := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(r, buf)
		w.Write(buf[:n]) // to hashes
		progress(int64(n))
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// check runs the format's own Verify.
func (j *job) check(ctx context.Context) error {
	last := int64(0)
	report, _ := j.open.Verify(ctx, &tensor.VerifyOptions{Progress: func(done, _ int64) {
		j.progress(done - last)
		last = done
	}}) // the error is of the findings
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, v := range report.Findings {
		if v.Severity != tensor.SeverityError {
			continue
		}
		code := codeOf(v.Err)
		if v.Code != "" {
			code = Code(v.Code)
		}
		f := findingOf(code, j.name, v.Err)
		f.Tensor = quotedIn(f.Field)
		if !j.knows(f) {
			j.found.add(f)
		}
	}
	return nil
}

// codeOf returns the code for an error of reading data.
func codeOf(err error) Code {
	switch tensor.ClassOf(err) {
	case tensor.ClassChecksum:
		return Checksum
	case tensor.ClassTruncated:
		return Truncated
	case tensor.ClassLimit:
		return Limit
	case tensor.ClassUnfinished:
		return InterruptedWrite
	case tensor.ClassIO:
		return Unreadable
	}
	return Malformed
}

// knows reports whether opening the file found the same.
func (j *job) knows(f Finding) bool {
	return slices.ContainsFunc(j.file.findings.list, func(g Finding) bool {
		return g.Tensor != "" && g.Tensor == f.Tensor || g.Offset >= 0 && g.Offset == f.Offset ||
			g.Code == f.Code && g.Err.Error() == f.Err.Error()
	})
}

// quotedIn returns the name in a field such as tensors["w"].digest.
func quotedIn(field string) string {
	_, rest, ok := strings.Cut(field, `["`)
	if !ok {
		return ""
	}
	quoted, err := strconv.QuotedPrefix(`"` + rest)
	if err != nil {
		return ""
	}
	name, err := strconv.Unquote(quoted)
	if err != nil {
		return ""
	}
	return name
}
