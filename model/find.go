package model

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Find lists the directories that hold weights, for OpenFS: dir itself, and those below
// it. A repository in a cache, or a pipeline, is listed as one directory. Find leaves out
// links, and directories whose names begin with a dot.
func Find(fsys fs.FS, dir string) ([]string, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name })
	}
	if has("snapshots") && (has("refs") || has("blobs")) || has("model_index.json") {
		return []string{dir}, nil
	}
	var all []string
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return !e.IsDir() && (isWeights(e.Name()) || isIndex(e.Name()))
	}) {
		all = append(all, dir)
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		below, err := Find(fsys, path.Join(dir, e.Name()))
		if err != nil {
			return all, err
		}
		all = append(all, below...)
	}
	return all, nil
}
