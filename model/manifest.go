package model

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

// A treeFile is a file in the listing of a repository: as the Hub's API has it, and as
// huggingface_hub stores it.
type treeFile struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Size *int64 `json:"size"`
	OID  string `json:"oid"`
	LFS  *struct {
		OID  string `json:"oid"`
		Size *int64 `json:"size"`
	} `json:"lfs"`
	BlobID  string `json:"blob_id"`
	SHA256  string `json:"lfs_sha256"`
	LFSSize *int64 `json:"lfs_size"`
}

// expectation returns what the entry says. Where a file is in LFS, git has only a
// pointer.
func (t *treeFile) expectation(by string) (expectation, error) {
	digest, size := t.OID, t.Size
	switch {
	case t.LFS != nil:
		digest, size = t.LFS.OID, t.LFS.Size
	case t.SHA256 != "":
		digest, size = t.SHA256, t.LFSSize
	case t.BlobID != "":
		digest = t.BlobID
	}
	if size == nil {
		size = t.Size
	}
	if size == nil || *size < 0 {
		return expectation{}, errors.New("it has no size")
	}
	return expect(by, *size, digest), nil
}

// A manifest is a listing in one of the forms that CheckOptions.Manifest takes.
type manifest struct {
	files    listing
	tree     bool // of a repository, which has more files than a download with patterns
	problems []error
}

// parseManifest reads the JSON of a repository's tree, several pages or huggingface_hub's
// own form, or else lines of sha256sum. Entries that cannot be read are problems.
func parseManifest(b []byte, by string) *manifest {
	m := &manifest{files: listing{}}
	text := bytes.TrimLeft(b, " \t\r\n")
	if len(text) > 0 && (text[0] == '[' || text[0] == '{') {
		m.tree = true
		m.parseTree(text, by)
	} else {
		m.parseSums(b, by)
	}
	return m
}

func (m *manifest) problem(format string, args ...any) {
	if len(m.problems) <= maxFindings {
		m.problems = append(m.problems, fmt.Errorf("%w: "+format,
			append([]any{tensor.ErrMalformed}, args...)...))
	}
}

func (m *manifest) add(name string, x expectation, err error) {
	if err == nil {
		err = safetensors.CheckShardName(name)
	}
	if err != nil {
		m.problem("entry %s: %v", naming.Quote(name), err)
		return
	}
	m.files.add(path.Clean(name), x)
}

func (m *manifest) parseTree(b []byte, by string) {
	dec := json.NewDecoder(bytes.NewReader(b))
	for {
		var page json.RawMessage
		err := dec.Decode(&page)
		if err == io.EOF {
			return
		}
		if err != nil {
			m.problem("%v", err)
			return
		}
		var files []json.RawMessage
		if page[0] == '[' {
			json.Unmarshal(page, &files) // is an array
			for _, f := range files {
				m.treeEntry("", f, by)
			}
			continue
		}
		var tree struct {
			Files map[string]json.RawMessage `json:"files"`
		}
		if err := json.Unmarshal(page, &tree); err != nil || tree.Files == nil {
			m.problem("a JSON value without files")
			continue
		}
		for name, f := range tree.Files {
			m.treeEntry(name, f, by)
		}
	}
}

func (m *manifest) treeEntry(name string, b []byte, by string) {
	var t treeFile
	if err := json.Unmarshal(b, &t); err != nil {
		m.problem("entry %s: %v", naming.Quote(name), err)
		return
	}
	if t.Type == "directory" {
		return
	}
	if name == "" {
		name = t.Path
	}
	x, err := t.expectation(by)
	m.add(name, x, err)
}

// parseSums reads what sha256sum writes, or its form of BSD.
func (m *manifest) parseSums(b []byte, by string) {
	lines := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		name, digest, ok := parseSum(line)
		if !ok {
			m.problem("line %d: not DIGEST  NAME", n)
			continue
		}
		m.add(name, expect(by, -1, digest), nil)
	}
	if err := lines.Err(); err != nil {
		m.problem("%v", err)
	}
}

func parseSum(line string) (name, digest string, ok bool) {
	if rest, isBSD := strings.CutPrefix(line, "SHA256 ("); isBSD {
		name, digest, ok = cutLast(rest, ") = ")
		return name, digest, ok && len(digest) == 64 && isDigest(digest)
	}
	line, escaped := strings.CutPrefix(line, `\`)
	digest, name, ok = strings.Cut(line, " ")
	if !ok || name == "" || name[0] != ' ' && name[0] != '*' {
		return "", "", false
	}
	name = name[1:]
	if escaped {
		name = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r").Replace(name)
	}
	return name, digest, len(digest) == 64 && isDigest(digest)
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
