package command

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tensorfile/tensorfile/model"
)

// openDirectory takes a directory for the file that is its model: the only one, an
// index or a root, whose path it sets, or all files of the primary set as one. With
// index, the name of one of a sharded checkpoint of PyTorch in the directory, it takes
// all files that the index names.
func (a *app) openDirectory(in *input, dir, index string) error {
	m, err := model.Open(dir, &model.Options{Limits: a.limits, NoMap: a.noMap})
	if err != nil {
		return err
	}
	primary, err := m.Whole()
	if err == nil && index != "" && (primary == nil || primary.Index != index) {
		err = fmt.Errorf("%w: another model in its directory comes first", errors.ErrUnsupported)
	}
	name := ""
	if err != nil {
		m.Close()
		return adviseCheck(err)
	}
	if primary != nil && index == "" {
		name = primary.Root()
	}
	in.set, in.dir = firstOf(primary), m
	if name == "" {
		in.File, in.path = m.File(), ""
		return nil
	}
	in.path = filepath.Join(m.Dir(), filepath.FromSlash(name))
	return nil
}

// firstOf returns the index of a set, or its first file; "" of several sets.
func firstOf(s *model.Set) string {
	if s == nil {
		return ""
	}
	return cmp.Or(s.Index, s.Files[0])
}

// adviseCheck returns what shows why a directory is not one model.
func adviseCheck(err error) error {
	if errors.Is(err, model.ErrNoModel) {
		return err
	}
	return advise("tensorfile check", err)
}
