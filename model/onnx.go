package model

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/onnx"
	"github.com/tensorfile/tensorfile/tensor"
)

// joinData gives ONNX models the files that have elements of their tensors, which are no
// sets of their own, whatever their names are, and checks them.
func (m *Model) joinData() {
	taken := map[string]bool{}
	for _, s := range m.sets {
		if len(s.shards) != 1 || s.shards[0].open == nil {
			continue
		}
		root := s.shards[0].file
		r, ok := root.open.Sys().(*onnx.Reader)
		if !ok {
			continue
		}
		for _, d := range r.DataFiles() {
			s.root = true
			name := path.Join(path.Dir(root.name), d.Name)
			if f := m.files[name]; f == nil || f.open == nil {
				taken[name] = true
			}
			f := m.join(s, d.Name, name)
			if taken[name] { // what was taken for weights of its own, such as a pickle
				f.data, f.findings = true, findings{}
			}
			f.mapped = max(f.mapped, int64(d.Tensors))
			m.checkDataFile(root, f, d)
		}
		m.checkONNX(root, r)
	}
	m.sets = slices.DeleteFunc(m.sets, func(s *Set) bool {
		return !s.root && len(s.Files) == 1 && taken[s.Files[0]]
	})
}

// checkONNX adds what a model's own reader finds without reading elements. Whether a file
// is there, and long enough, is said of the file, once.
func (m *Model) checkONNX(root *file, r *onnx.Reader) {
	report, _ := r.Verify(context.Background(),
		&tensor.VerifyOptions{Depth: tensor.VerifyStructure})
	for _, f := range report.Findings {
		code := Code(f.Code)
		switch {
		case code == MissingShard, code == Truncated,
			code == "" && f.Severity != tensor.SeverityError:
			continue
		case code == "":
			code = limitOr(f.Err, Malformed)
		}
		root.findings.add(findingOf(code, root.name, f.Err))
	}
}

// checkDataFile compares a file with what a model says of it.
func (m *Model) checkDataFile(root, f *file, d onnx.DataFile) {
	if !f.regular || d.Err != nil {
		return // missing, which checkSet reports, or unreadable
	}
	if d.Size < d.End {
		x := finding(Truncated, f.name, "", "%d bytes, the tensors of %s end at %d", d.Size,
			root.name, d.End)
		if what := m.recognize(f); what == pointerFile {
			x = pointer(f.name)
		} else if what != "" {
			x = finding(WrongFormat, f.name, "", "%s under this name", what)
		}
		x.Tensors = f.mapped
		f.findings.add(x)
		return
	}
	if d.Alignment < onnx.DataAlignment {
		f.findings.add(finding(UnalignedData, f.name, "",
			"tensors begin at multiples of %d bytes, not of %d, as the format recommends",
			d.Alignment, onnx.DataAlignment))
	}
	if by := m.refusing(root, f, d.Name); by != "" {
		f.findings.add(finding(RefusedLink, f.name, "", "%s", by))
	}
}

const pointerFile = "pointer"

// recognize returns what a file is by its start, pointerFile for one of Git LFS; "" where
// it is not known.
func (m *Model) recognize(f *file) string {
	in, err := m.fsys.Open(m.path(f.name))
	if err != nil {
		return ""
	}
	defer in.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(in, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF {
		return ""
	}
	if isPointer(head[:n]) {
		return pointerFile
	}
	what, _ := tensorfile.Recognize(f.name, head[:n], f.size)
	return what
}

// refusing returns why programs refuse to read a file with elements through a link; ""
// where the file is not reached by one. onnx 1.23 reads no links, hard ones included;
// onnxruntime those whose target is below the directory of the model, or of the target of
// the model.
func (m *Model) refusing(root, f *file, location string) string {
	if info, err := fs.Lstat(m.fsys, m.path(f.name)); err == nil && hardLinks(info) > 1 {
		return "a file of several names: onnx refuses to read it, onnxruntime does not"
	}
	follow := func(name string) (string, bool) {
		at, err := source.Follow(m.fsys, m.local, name)
		return at, err == nil
	}
	dir, ok1 := follow(path.Dir(m.path(root.name)))
	target, ok2 := follow(m.path(f.name))
	own, ok3 := follow(m.path(root.name))
	if ok1 && ok2 && target == path.Join(dir, location) {
		return ""
	}
	below := func(dir string) bool { return dir == "." || strings.HasPrefix(target, dir+"/") }
	if ok2 && (ok1 && below(dir) || ok3 && below(path.Dir(own))) {
		return "a link: onnx refuses to read it, onnxruntime does not"
	}
	return "a link out of the directory of " + naming.Quote(root.name) +
		": onnx and onnxruntime refuse to read it"
}
