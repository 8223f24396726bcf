package ztensor

import (
	"errors"
	"fmt"
	"maps"

	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// Append begins a new edition of the file of that name, with its tensors and attributes
// and those that are added. opts.Version must be that of the file or "",
// opts.Attributes are set in addition. 0.1 is errors.ErrUnsupported.
//
// Of version 1 the data is copied, and the new edition replaces the file when Close
// succeeds. To a file of version 2 data is added after its end, so that who has it open
// can go on reading. From the first Add until Close succeeds it cannot be opened; after
// an error, or Abort, it is what it was, and after a crash [Recover] makes it so. There
// must be one writer at a time. The result is never canonical. opts.Alignment is that
// of the file unless it is given.
func Append(name string, opts *WriterOptions) (*Writer, error) {
	r, err := Open(name, &ReaderOptions{NoMap: true})
	if err != nil {
		return nil, err
	}
	o, err := r.newEdition(opts)
	if err == nil {
		err = o.Check()
	}
	var w *core.Writer
	if err == nil {
		w, err = r.f.Generation.Extend(name, core.Settings(o))
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return &Writer{w}, nil
}

// newEdition returns the options of a new edition of the file.
func (r *Reader) newEdition(opts *WriterOptions) (WriterOptions, error) {
	var o WriterOptions
	if opts != nil {
		o = *opts
	}
	if o.Version != "" && o.Version != r.Version() {
		return o, fmt.Errorf("ztensor: %w: an edition as version %s of a file of version %s",
			errors.ErrUnsupported, o.Version, r.Version())
	}
	all := map[string]any{}
	for k, v := range r.AttributeValues() {
		all[k] = v
	}
	maps.Copy(all, o.Attributes)
	o.Version, o.Canonical, o.Attributes = r.Version(), false, all
	set := core.Settings(o)
	err := r.f.Generation.Edition(&set)
	return WriterOptions(set), err
}
