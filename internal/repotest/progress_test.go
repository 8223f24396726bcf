package repotest

import (
	"io"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// A progressCheck requires that calls of Progress never go back or beyond the total, and
// that the last one has reached it.
type progressCheck struct {
	t           *testing.T
	done, total int64
	calls       int
}

func (p *progressCheck) call(done, total int64) {
	if done < p.done || done > total {
		p.t.Errorf("%d of %d bytes after %d of %d", done, total, p.done, p.total)
	}
	p.done, p.total, p.calls = done, total, p.calls+1
}

func (p *progressCheck) end(calls int) {
	p.t.Helper()
	if p.done != p.total || p.calls < calls {
		p.t.Errorf("the last of %d calls has %d of %d bytes", p.calls, p.done, p.total)
	}
}

func TestProgressReachesTheTotal(t *testing.T) {
	names, files := readtest.Files(t, "testdata", func(b []byte) bool {
		f, err := tensorfile.OpenBytes(b, nil)
		return err == nil && f.Close() == nil
	})
	for i, b := range files {
		f, err := tensorfile.OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, depth := range []tensor.Depth{tensor.VerifyStructure, tensor.VerifyDigests,
			tensor.VerifyCanonical} {
			t.Run(names[i]+" is verified", func(t *testing.T) {
				p := progressCheck{t: t}
				if _, err := f.Verify(t.Context(), &tensor.VerifyOptions{Depth: depth,
					Progress: p.call}); err == nil {
					p.end(0)
				}
			})
		}
		for _, target := range tensorfile.Formats() {
			p := progressCheck{t: t}
			plan, err := convert.NewPlan(t.Context(), f, target,
				&convert.Options{Allow: convert.LossAll, Progress: p.call})
			if err != nil || plan.Err() != nil || (i+int(target))%3 != 0 && testing.Short() {
				continue
			}
			t.Run(names[i]+" becomes "+target.String(), func(t *testing.T) {
				p.t = t
				if err := plan.Write(t.Context(), io.Discard); err == nil {
					p.end(1)
				}
			})
		}
	}
}
