// Package page computes what the page in the browser shows: results of the packages
// inspect and model, as JSON. A process serves them, WebAssembly computes them in the
// browser, or a report contains them. The page itself is in web.
package page

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Source is an open file that a page shows.
type Source struct {
	Name string
	// Path is the path or address of the file, empty if it is Name.
	Path string
	// Remote says that reading the file takes requests over the network.
	Remote bool
	File   *tensorfile.File
	// Model, if not nil, is the directory of File.
	Model *model.Model
	// Config, if not nil, describes quantised weights, from the configuration of the
	// model.
	Config *quant.Config
	// External, if not nil, returns a tensor whose elements are in another file.
	External func(name string) *tensor.Tensor
	// Strict makes warnings of verify errors.
	Strict bool
	// Limits bound how much is decoded.
	Limits tensor.Limits
}

// A Session has the files of one page: the file that it shows, and a file to compare it
// with, if there is one. It is safe for concurrent use.
type Session struct{ files []*file }

// A file is a Source with its tensors. The page refers to a tensor by its index, and to
// quantised weights by the indices after the last tensor.
type file struct {
	Source
	tensors []*tensor.Tensor
	found   func() *quant.Set
	weights func() []*quant.Weight
}

func newFile(src Source) *file {
	f := &file{Source: src, tensors: slices.Collect(src.File.Tensors())}
	f.found = sync.OnceValue(func() *quant.Set { return quant.Find(src.File, src.Config) })
	f.weights = sync.OnceValue(func() (all []*quant.Weight) {
		for _, w := range f.found().Weights {
			if w.Scheme != "" {
				all = append(all, w)
			}
		}
		return all
	})
	return f
}

// NewSession returns a Session of open files, which it does not close.
func NewSession(sources ...Source) *Session {
	s := &Session{}
	for _, src := range sources {
		s.files = append(s.files, newFile(src))
	}
	return s
}

// Progress is called with the bytes of a call that are done, and with all bytes.
type Progress func(done, total int64)

// params are the parameters of all methods. A method ignores parameters that it does not
// use.
type params struct {
	File   int     `json:"file"`
	Tensor int     `json:"tensor"`
	Part   string  `json:"part"`
	Index  []int64 `json:"index"` // the first element shown, one for each dimension
	Rows   int     `json:"rows"`  // dimension of the rows
	Cols   int     `json:"cols"`  // dimension of the columns
	Plain  bool    `json:"plain"` // a picture without colour channels
	Open   []int   `json:"open"`  // blocks that are not collapsed
}

// Call returns the result of a method, for encoding/json. args are its parameters as
// JSON. progress may be nil. Call fails if there is no such method, file or tensor, and
// if reading the file fails.
func (s *Session) Call(ctx context.Context, method string, args []byte,
	progress Progress) (any, error) {
	var p params
	if err := json.Unmarshal(args, &p); err != nil {
		return nil, fmt.Errorf("page: parameters: %w", err)
	}
	if p.File < 0 || p.File >= len(s.files) {
		return nil, fmt.Errorf("page: file %d of %d", p.File, len(s.files))
	}
	f := s.files[p.File]
	progress = progress.rarely()
	switch method {
	case "files":
		names := []string{}
		for _, f := range s.files {
			name := f.Name
			if s.files[0].Name == s.files[len(s.files)-1].Name { // in two directories
				name = cmp.Or(f.Path, name)
			}
			names = append(names, name)
		}
		return names, nil
	case "facts":
		return f.facts(), nil
	case "tensors":
		return f.rows(), nil
	case "weights":
		return f.weightRows(), nil
	case "verify":
		return f.verify(ctx, progress)
	case "values":
		return f.values(ctx, p)
	case "picture":
		return f.picture(ctx, p)
	case "stats":
		return f.stats(ctx, p, progress)
	case "plan":
		return f.plan(), nil
	case "graph":
		return f.graph(nil)
	case "blocks":
		return f.graph(&p.Open)
	case "diff":
		if len(s.files) < 2 {
			return nil, fmt.Errorf("page: no second file")
		}
		return diff(ctx, s.files[0], s.files[len(s.files)-1], progress)
	}
	return nil, fmt.Errorf("page: no method %.40q", method)
}

// rarely returns a Progress that calls p at most once for each percent.
func (p Progress) rarely() Progress {
	last := int64(-1)
	return func(done, total int64) {
		if p == nil || total <= 0 {
			return
		}
		if percent := int64(100 * float64(done) / float64(total)); percent != last {
			last = percent
			p(done, total)
		}
	}
}

// A difference has the differences between two files, and a summary in one line.
type difference struct {
	*inspect.DiffReport
	Summary string `json:"summary"`
}

func diff(ctx context.Context, a, b *file, progress Progress) (*difference, error) {
	report, err := inspect.Diff(ctx, a.File, b.File, &inspect.DiffOptions{
		Figures:  true,
		External: a.External,
		Progress: progress,
	})
	if err != nil {
		return nil, err
	}
	return &difference{report, report.Summary()}, nil
}

// An Error is the error of a call.
type Error struct {
	Message string       `json:"message"`
	Class   tensor.Class `json:"class"`
}

// ErrorOf returns what the page shows of an error.
func ErrorOf(err error) *Error { return &Error{err.Error(), tensor.ClassOf(err)} }
