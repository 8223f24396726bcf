package model

import (
	"encoding/hex"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// An expectation is what a listing says of a file.
type expectation struct {
	by     string // what says it
	size   int64  // -1: nothing
	sha256 string // "" where it does not say
	sha1   string // of git: over "blob SIZE\x00" and the content
	blob   bool   // the name of a blob
	edited bool   // people edit the file, so that a difference is a warning
}

// A listing has expectations by file.
type listing map[string][]expectation

func (l listing) add(name string, x expectation) { l[name] = append(l[name], x) }

// isDigest reports whether a name is one of SHA-256 or of git.
func isDigest(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && (len(s) == 64 || len(s) == 40)
}

// expect makes an expectation of a digest by its length.
func expect(by string, size int64, digest string) expectation {
	x := expectation{by: by, size: size}
	switch digest = strings.ToLower(digest); {
	case !isDigest(digest):
	case len(digest) == 64:
		x.sha256 = digest
	default:
		x.sha1 = digest
	}
	return x
}

// implicit collects what a directory itself says of its files: the names of blobs, and
// the listings that huggingface_hub stores next to a snapshot or in a directory it
// downloads to.
func (d *directory) implicit() listing {
	if d.repository != nil {
		return d.digests()
	}
	all := listing{}
	for name, e := range d.entries {
		if digest, ok := d.blobDigest(e); ok {
			x := expect("its name", -1, digest)
			x.blob = true
			all.add(name, x)
		}
	}
	if d.cache != nil {
		d.tree(all, path.Join(d.cache.repo, "trees", d.cache.commit+".json"), false)
		return all
	}
	const local = ".cache/huggingface"
	commit := ""
	root := d.path(local + "/download")
	fs.WalkDir(d.fsys, root, func(name string, e fs.DirEntry, err error) error {
		file, ok := strings.CutSuffix(strings.TrimPrefix(name, root+"/"), ".metadata")
		if err != nil || !ok || !e.Type().IsRegular() || len(all) > maxLocal {
			return nil
		}
		if info, err := e.Info(); err != nil || info.Size() > maxRef {
			return nil
		}
		b, err := fs.ReadFile(d.fsys, name)
		lines := strings.Split(string(b), "\n")
		if err != nil || len(lines) < 2 {
			return nil
		}
		commit = strings.TrimSpace(lines[0])
		x := expect("the metadata of its download", -1, strings.TrimSpace(lines[1]))
		x.edited = !isWeights(file) && !isIndex(file)
		all.add(file, x)
		return nil
	})
	if isElement(commit) {
		d.tree(all, d.path(local+"/trees/"+commit+".json"), true)
	}
	return all
}

// maxLocal bounds how many files of metadata are read.
const maxLocal = 100_000

// tree adds what a stored listing says, if there is one.
func (d *directory) tree(all listing, name string, local bool) {
	info, err := fs.Stat(d.fsys, name)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	b, err := readBounded(d.fsys, name, d.limits.MaxMetadata)
	if err != nil {
		return
	}
	for file, list := range parseManifest(b, "trees/"+path.Base(name)).files {
		for _, x := range list {
			x.edited = local && !isWeights(file) && !isIndex(file)
			all.add(file, x)
		}
	}
}

func isIndex(name string) bool { _, ok := parseIndexName(name); return ok }

// sizes compares sizes with a listing.
func (d *directory) sizes(l listing) (found []Finding) {
	for _, name := range slices.Sorted(maps.Keys(l)) {
		e := d.look(name)
		i := slices.IndexFunc(l[name],
			func(x expectation) bool { return x.size >= 0 && x.size != e.size })
		if !e.regular || i < 0 {
			continue
		}
		x := l[name][i]
		f := finding(SizeMismatch, name, "", "%d bytes, %s says %d", e.size, x.by, x.size)
		if x.edited {
			f.Severity = tensor.SeverityWarning
		}
		found = append(found, f)
	}
	return found
}
