package command

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tensorfile/tensorfile/model"
)

// openDirectory opens the model in a directory as the input: all files of the primary set
// as one file, or if the set has a root, it sets the path of the root. If index, the name
// of the index of a sharded PyTorch checkpoint, is not empty, it fails unless the primary
// set has that index.
func (a *app) openDirectory(in *input, dir, index string) error {
	m, err := model.Open(dir, &model.Options{Limits: a.limits, NoMap: a.noMap})
	if err != nil {
		return err
	}
	primary, err := in.take(m)
	switch {
	case err != nil:
		return err
	case index != "" && (primary == nil || primary.Index != index):
		return advise("tensorfile check", fmt.Errorf(
			"%w: another model in its directory comes first", errors.ErrUnsupported))
	case primary != nil && index == "" && primary.Root() != "":
		in.File, in.path = nil, filepath.Join(m.Dir(), filepath.FromSlash(primary.Root()))
	}
	return nil
}

// take makes all files of the primary set of a model the input, and returns the set; nil
// if the model has several sets. The input closes the model.
func (in *input) take(m *model.Model) (*model.Set, error) {
	in.dir = m
	primary, err := m.Whole()
	if errors.Is(err, model.ErrNoModel) {
		return nil, err
	} else if err != nil {
		return nil, advise("tensorfile check", err)
	}
	if in.File, in.path = m.File(), ""; primary != nil {
		in.set = cmp.Or(primary.Index, primary.Files[0])
	}
	return primary, nil
}
