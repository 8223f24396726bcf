package model

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
)

// A cache is the repository in Hugging Face's cache that a directory is a snapshot of:
//
//	models--ORG--NAME/refs/main             the commit
//	models--ORG--NAME/snapshots/COMMIT/…    links to blobs
//	models--ORG--NAME/blobs/DIGEST
type cache struct {
	repo       string // within the fs.FS
	repository string // ORG/NAME
	commit     string
}

// locate returns what a directory is in a cache, and the directory to read, which
// for a repository is a snapshot of it; nil outside of caches. The findings are of the
// refs.
func locate(fsys fs.FS, dir, revision string) (*cache, string, []Finding, error) {
	if isSnapshot(fsys, dir) {
		repo := path.Dir(path.Dir(dir))
		return newCache(repo, path.Base(dir)), dir, nil, nil
	}
	if !isDir(fsys, path.Join(dir, "snapshots")) ||
		!isDir(fsys, path.Join(dir, "refs")) && !isDir(fsys, path.Join(dir, "blobs")) {
		if revision != "" {
			return nil, "", nil, fmt.Errorf("model: revision %s: %w: not a repository in a cache",
				naming.Quote(revision), fs.ErrInvalid)
		}
		return nil, dir, nil, nil
	}
	snapshots, err := fs.ReadDir(fsys, path.Join(dir, "snapshots"))
	if err != nil {
		return nil, "", nil, err
	}
	has := func(commit string) bool {
		return slices.ContainsFunc(snapshots,
			func(e fs.DirEntry) bool { return e.Name() == commit })
	}
	refs, err := readRefs(fsys, path.Join(dir, "refs"))
	if err != nil {
		return nil, "", nil, err
	}
	var found []Finding
	for _, r := range refs {
		if !has(r.commit) {
			found = append(found, finding(MissingSnapshot, "snapshots/"+r.commit, "",
				"refs/%s names it", r.name))
		}
	}
	commit := revision
	for _, r := range refs {
		if r.name == cmp.Or(revision, "main") && (has(r.commit) || revision != "") {
			commit = r.commit
		}
	}
	switch {
	case commit == "" && len(snapshots) == 1:
		commit = snapshots[0].Name()
	case commit == "" && len(snapshots) == 0:
		return newCache(dir, ""), "", found, nil
	case commit == "":
		return nil, "", nil, fmt.Errorf("model: %d snapshots, no refs/main and no revision",
			len(snapshots))
	case !isElement(commit) || !has(commit) && revision == commit:
		return nil, "", nil, fmt.Errorf("model: revision %s: %w", naming.Quote(revision),
			fs.ErrNotExist)
	}
	return newCache(dir, commit), path.Join(dir, "snapshots", commit), found, nil
}

// cacheDirs returns a directory and, if it is a snapshot or a repository in a cache, the
// repository and the blobs that repositories share.
func cacheDirs(fsys fs.FS, dir string) []string {
	repo := dir
	if isSnapshot(fsys, dir) {
		repo = path.Dir(path.Dir(dir))
	} else if !isDir(fsys, path.Join(dir, "snapshots")) {
		return []string{dir}
	}
	return []string{dir, repo, path.Join(repo, "../blobs")}
}

// linkTargets returns the directories to which links may lead, without links.
func (d *directory) linkTargets() (roots []string) {
	dirs := []string{d.dir}
	if d.cache != nil { // blobs of the repository, and those that repositories share
		dirs = append(dirs, path.Join(d.cache.repo, "blobs"), path.Join(d.cache.repo, "../blobs"))
	}
	for _, dir := range dirs {
		if at, err := source.Follow(d.fsys, d.local, dir); err == nil {
			roots = append(roots, at)
		}
	}
	return roots
}

// isSnapshot reports whether a directory is one by where it is.
func isSnapshot(fsys fs.FS, dir string) bool {
	parent := path.Dir(dir)
	return path.Base(parent) == "snapshots" && isDir(fsys, path.Join(path.Dir(parent), "blobs"))
}

func isDir(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.IsDir()
}

// newCache takes the repository's name from the name of its directory, such as
// models--ORG--NAME.
func newCache(repo, commit string) *cache {
	c := &cache{repo: repo, commit: commit}
	if kind, name, ok := strings.Cut(path.Base(repo), "--"); ok && kind != "" {
		c.repository = strings.ReplaceAll(name, "--", "/")
	}
	return c
}

// A ref is a name for a commit, such as main or pr/3.
type ref struct{ name, commit string }

// maxRef is more than a commit has bytes.
const maxRef = 1 << 10

func readRefs(fsys fs.FS, dir string) (refs []ref, err error) {
	err = fs.WalkDir(fsys, dir, func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || !e.Type().IsRegular():
			return err
		}
		info, err := e.Info()
		if err != nil || info.Size() > maxRef {
			return err
		}
		b, err := fs.ReadFile(fsys, name)
		if commit := strings.TrimSpace(string(b)); err == nil && isElement(commit) {
			refs = append(refs, ref{strings.TrimPrefix(name, dir+"/"), commit})
		}
		return err
	})
	return refs, err
}

// incomplete finds downloads that are under way or broke off.
func (d *directory) incomplete() (found []Finding) {
	blobs, err := fs.ReadDir(d.fsys, path.Join(d.cache.repo, "blobs"))
	if err != nil {
		return nil
	}
	for _, e := range blobs {
		if strings.HasSuffix(e.Name(), ".incomplete") {
			found = append(found, finding(IncompleteDownload, "../../blobs/"+e.Name(), "",
				"a download that is under way or broke off"))
		}
	}
	return found
}

// blobDigest returns the digest that a snapshot's link names. Further links are not
// followed: in a store that repositories share, a blob is a link to another name.
func (d *directory) blobDigest(e *entry) (digest string, ok bool) {
	if d.cache == nil || e.link == "" || path.Base(path.Dir(e.link)) != "blobs" {
		return "", false
	}
	digest = path.Base(e.link)
	return digest, isDigest(digest)
}
