package command

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/tensor"
)

// openDirectory takes a directory for the file that is its model: the only one, an
// index or a root, whose path it sets, or all files of the primary set as one.
func (a *app) openDirectory(in *input) error {
	m, err := model.Open(in.path, &model.Options{Limits: a.limits, NoMap: a.noMap})
	if err != nil {
		return err
	}
	primary, err := primarySet(m)
	if err != nil {
		m.Close()
		return err
	}
	name := ""
	switch {
	case primary == nil:
	case primary.Index != "" && primary.Format == tensorfile.Safetensors.String():
		name = primary.Index
	case len(primary.Files) == 1 || primary.Format == tensorfile.ZTensor.String():
		name = primary.Files[0]
	}
	if name == "" {
		in.File, in.path = m.File(), ""
		a.cleanup = append(a.cleanup, func() { m.Close() })
		return nil
	}
	in.path = filepath.Join(m.Dir(), filepath.FromSlash(name))
	return m.Close()
}

// openPickleIndex opens the files that the index of a sharded checkpoint of PyTorch names, as
// one.
func (a *app) openPickleIndex(in *input) error {
	dir, base := filepath.Split(in.path)
	m, err := model.Open(cmp.Or(dir, "."), &model.Options{Limits: a.limits, NoMap: a.noMap})
	if err != nil {
		return err
	}
	primary, err := primarySet(m)
	if err == nil && (primary == nil || primary.Index != base) {
		err = fmt.Errorf("%w: another model in its directory comes first", errors.ErrUnsupported)
	}
	if err != nil {
		m.Close()
		return err
	}
	in.File, in.path = m.File(), ""
	a.cleanup = append(a.cleanup, func() { m.Close() })
	return nil
}

// primarySet returns the set that a directory is taken for, nil where that is several,
// those of components. A set that is damaged is refused: what is left of it is another
// model.
func primarySet(m *model.Model) (primary *model.Set, err error) {
	var files []string
	n := 0
	for s := range m.Sets() {
		if s.Primary {
			primary, n = s, n+1
			files = append(append(files, s.Index), s.Files...)
		}
	}
	if n == 0 || m.Ambiguous() {
		return nil, errDirectory
	}
	for _, f := range m.Findings() {
		switch f.Code {
		case model.ShadowedIndex, model.UnknownDType:
			continue
		}
		if f.Severity == tensor.SeverityError && slices.Contains(files, f.File) {
			return nil, advise("tensorfile check", fmt.Errorf("%s: %s: %w", f.File, f.Code, f.Err))
		}
	}
	if n > 1 {
		return nil, nil
	}
	return primary, nil
}
