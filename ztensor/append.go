package ztensor

import (
	"errors"
	"fmt"
	"maps"

	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// Append begins a new edition of the file of that name, with its tensors and
// attributes and those that are added. opts.Version must be that of the file or
// "", opts.Attributes are set beside the old ones. 1.0 to 1.2 and 2 can be
// appended to.
//
// Of version 1 the new edition appears in the place of the old one when Close
// succeeds; until then the old one stays as it is. So the data is copied once,
// where upstream's append cuts off the old manifest and loses the file if it is
// interrupted.
//
// To a file of version 2 data is added behind its end, and not a byte of it
// changes: who has it open can go on reading. From the first Add until Close
// succeeds nobody can open it; after an error, or Abort, it is what it was. Where
// the program, or the machine, does not come to either, [Recover] makes it so.
// Nobody else may append at the same time. The result is never in canonical form.
// opts.Alignment is that of the file unless it is given.
func Append(name string, opts *WriterOptions) (*Writer, error) {
	r, err := Open(name, &ReaderOptions{NoMap: true})
	if err != nil {
		return nil, err
	}
	w, err := r.extend(name, opts)
	if err != nil {
		r.Close()
		return nil, err
	}
	return &Writer{w}, nil
}

func (r *Reader) extend(name string, opts *WriterOptions) (*core.Writer, error) {
	o, err := r.newEdition(opts)
	if err != nil {
		return nil, err
	}
	if _, err := newLayout(o); err != nil {
		return nil, err
	}
	return r.f.Generation.Extend(name, core.Settings(o))
}

// newEdition returns the options of a new edition of the file: those that are given, with its
// version, and its attributes next to theirs.
func (r *Reader) newEdition(opts *WriterOptions) (WriterOptions, error) {
	var o WriterOptions
	if opts != nil {
		o = *opts
	}
	if o.Version != "" && o.Version != r.Version() {
		return o, fmt.Errorf("ztensor: %w: an edition as version %s of a file of version %s", errors.ErrUnsupported, o.Version, r.Version())
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
