package model

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

// maxListed bounds how many names an error has.
const maxListed = 100

// Shards returns the names of the files that a name stands for, in their order: the
// shards that an index names, STEM-00001-of-00003.EXT and its siblings, or else the file
// itself. If files are missing, it returns the files that exist, and an error that is
// fs.ErrNotExist and names the missing ones. Only an index is read.
func Shards(fsys fs.FS, name string) ([]string, error) {
	dir := path.Dir(name)
	if _, ok := parseIndexName(name); ok {
		if there, _, err := present(fsys, []string{name}); len(there) == 0 {
			return nil, absentShards([]string{name}, 1, 1, err)
		}
		b, err := readBounded(fsys, name, maxJSON)
		if err != nil {
			return nil, err
		}
		x, err := safetensors.ParseIndex(b, tensor.Limits{})
		if err != nil {
			return nil, err
		}
		files := x.Files()
		for i, f := range files {
			if err := safetensors.CheckShardName(f); err != nil {
				return nil, err
			}
			files[i] = path.Join(dir, f)
		}
		there, missing, err := present(fsys, files)
		return there, absentShards(missing, len(missing), len(files), err)
	}
	s, ok := parseShard(name)
	if !ok {
		there, _, err := present(fsys, []string{name})
		return there, absentShards([]string{name}, 1-len(there), 1, err)
	}
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	var files []string
	numbers := map[int]bool{}
	for _, e := range entries {
		o, ok := parseShard(e.Name())
		if ok && o.Group() == s.Group() && o.I >= 1 && o.I <= o.N {
			files = append(files, path.Join(dir, e.Name()))
		}
	}
	there, _, err := present(fsys, files)
	for _, f := range there {
		o, _ := parseShard(f)
		numbers[o.I] = true
	}
	missing, n := missingShards(s, numbers, maxListed)
	for i := range missing {
		missing[i] = path.Join(dir, missing[i])
	}
	return there, absentShards(missing, n, s.N, err)
}

// present divides names into names of regular files, links followed, and others.
func present(fsys fs.FS, names []string) (there, missing []string, err error) {
	for _, name := range names {
		info, e := fs.Stat(fsys, name)
		switch {
		case e == nil && info.Mode().IsRegular():
			there = append(there, name)
			continue
		case e != nil && !errors.Is(e, fs.ErrNotExist) && err == nil:
			err = e
		}
		missing = append(missing, name)
	}
	return there, missing, err
}

func absentShards(names []string, count, of int, err error) error {
	if err != nil || count == 0 {
		return err
	}
	for i, n := range names {
		names[i] = naming.Quote(n)
	}
	list := strings.Join(names[:min(len(names), maxListed)], ", ")
	if count > maxListed {
		list += fmt.Sprintf(" and %d more", count-maxListed)
	}
	return fmt.Errorf("model: %d of %d files are missing: %s: %w", count, of, list, fs.ErrNotExist)
}
