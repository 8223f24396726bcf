package model

import (
	"crypto/sha1"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
)

// A listed is a file system with digests, as a repository of the Hub.
type listed struct {
	fstest.MapFS
	wrong string // a file whose digest is another
}

func (l listed) Repository() (name, at string) { return "acme/tiny", commit }

func (l listed) Digest(name string) (sha, git string) {
	f := l.MapFS[name]
	switch {
	case f == nil:
		return "", ""
	case name == l.wrong:
		return fmt.Sprintf("%x", sha256.Sum256(nil)), ""
	case isWeights(name):
		return fmt.Sprintf("%x", sha256.Sum256(f.Data)), ""
	}
	return "", fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(f.Data), f.Data)))
}

func repositoryOf(t *testing.T) listed {
	files := fstest.MapFS{}
	for name, v := range with(tiny(t),
		map[string]any{"README.md": "tiny", "onnx/model.onnx": "x"}) {
		files[name] = &fstest.MapFile{Data: []byte(v.(string)), Mode: 0o444}
	}
	return listed{MapFS: files}
}

func TestRepositoryOpensWithDigestsOfItsListing(t *testing.T) {
	l := repositoryOf(t)
	m, err := OpenFS(l, ".", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	wantFindings(t, m.Findings())
	r, err := m.Check(t.Context(), &CheckOptions{Deep: true})
	if err != nil || r.Kind != "hub" || r.Repository != "acme/tiny" || r.Commit != commit ||
		r.Read.Hashed != 7 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestWrongDigestOfARepositoryIsAFinding(t *testing.T) {
	l := repositoryOf(t)
	for name := range l.MapFS {
		if isWeights(name) {
			l.wrong = name
		}
	}
	m, err := OpenFS(l, ".", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	wantFindings(t, m.Findings()) // nothing was read
	r, err := m.Check(t.Context(), &CheckOptions{Deep: true})
	if err == nil || len(r.Findings) != 1 || r.Findings[0].Code != DigestMismatch ||
		r.Findings[0].File != l.wrong {
		t.Errorf("%v, %v", r.Findings, err)
	}
}

// A manifest is compared with the digests of a repository without reading a file.
func TestManifestIsComparedWithoutReadingARepository(t *testing.T) {
	l := repositoryOf(t)
	manifest := ""
	name := ""
	for file, f := range l.MapFS {
		manifest += fmt.Sprintf("%x  %s\n", sha256.Sum256(f.Data), file)
		if isWeights(file) {
			name = file
		}
	}
	m, err := OpenFS(unread{l}, ".", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	found := len(m.Findings()) // files that cannot be read
	r, _ := m.Check(t.Context(), &CheckOptions{Manifest: []byte(manifest)})
	if len(r.Findings) != found {
		t.Errorf("the same digests: %v", r.Findings)
	}
	other := []byte(fmt.Sprintf("%x  %s\n", sha256.Sum256(nil), name))
	r, _ = m.Check(t.Context(), &CheckOptions{Manifest: other})
	var mismatches []Finding
	for _, f := range r.Findings {
		if f.Code == DigestMismatch {
			mismatches = append(mismatches, f)
		}
	}
	if len(mismatches) != 1 || mismatches[0].File != name {
		t.Errorf("another digest: %v", r.Findings)
	}
}

// unread is a file system whose files cannot be opened.
type unread struct{ listed }

func (unread) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}
