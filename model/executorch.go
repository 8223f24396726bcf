package model

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

// joinPrograms gives ExecuTorch programs the .ptd files of their directory, which are no
// sets of their own then, and looks for the external tensors of the programs in them.
func (m *Model) joinPrograms() {
	data := map[string][]*file{} // by part
	var programs []*Set
	for _, s := range m.sets {
		switch {
		case len(s.shards) != 1:
		case s.Format == tensorfile.PTE:
			programs = append(programs, s)
		case s.Format == tensorfile.PTD:
			data[s.part] = append(data[s.part], s.shards[0].file)
		}
	}
	joined := map[string]bool{}
	used := map[string][]string{} // names, by part
	opaque := map[string]bool{}   // parts with programs that may use others
	for _, s := range programs {
		s.root = true
		program := s.shards[0].file
		for _, f := range data[s.part] {
			m.join(s, f.name, f.name)
			joined[f.name] = true
		}
		if program.open == nil {
			opaque[s.part] = true
			continue
		}
		if r, ok := program.open.Sys().(*pte.Reader); ok {
			checkWeights(program, r, data[s.part])
			for m := range r.Program().Methods() { // a delegate may use any key
				opaque[s.part] = opaque[s.part] || len(m.Delegates()) > 0
			}
			for e := range r.Entries() {
				used[s.part] = append(used[s.part], e.Name)
			}
		}
	}
	for _, s := range programs {
		for _, f := range data[s.part] {
			if f.open != nil && !opaque[s.part] {
				checkUnused(f, used[s.part])
			}
		}
		opaque[s.part] = true // once
	}
	m.sets = slices.DeleteFunc(m.sets, func(s *Set) bool {
		return !s.root && len(s.Files) == 1 && joined[s.Files[0]]
	})
}

// checkUnused notes keys of a file that no program uses.
func checkUnused(f *file, used []string) {
	var keys []string
	for t := range f.open.Tensors() {
		keys = append(keys, t.Name)
	}
	for name := range f.open.Blobs() {
		keys = append(keys, name)
	}
	isUsed, _ := naming.Build(len(used), func(i int) string { return used[i] })
	keys = slices.DeleteFunc(keys, func(name string) bool { return isUsed.Lookup(name) >= 0 })
	if len(keys) > 0 {
		x := finding(UnusedWeights, f.name, "", "no program next to it has %d of its keys, such "+
			"as %s", len(keys), naming.Quote(keys[0]))
		x.Tensors = int64(len(keys))
		f.findings.add(x)
	}
}

// checkWeights adds what is wrong with the external tensors of a program, each of which
// may be in any of the files. Nothing is said if one of the files could not be opened.
func checkWeights(program *file, r *pte.Reader, data []*file) {
	if slices.ContainsFunc(data, func(f *file) bool { return f.open == nil }) {
		return
	}
	var first *pte.Entry // of those that are in no file, because there is none
	said, absent := map[string]bool{}, int64(0)
	for e := range r.Entries() {
		if !e.External || e.Name == "" || said[e.Name] {
			continue
		}
		if len(data) == 0 {
			said[e.Name] = true
			if absent++; first == nil {
				first = e
			}
			continue
		}
		err, in := checkExternal(e, data)
		if err == nil {
			continue
		}
		said[e.Name] = true
		f := findingOf(Code(err.Code), program.name, err)
		_, text, _ := strings.Cut(err.Err.Error(), ": ") // after its class
		f.Tensor, f.Err = e.Name, &classed{text + ", in " + in, err}
		program.findings.add(f)
	}
	if absent > 0 {
		f := finding(MissingWeights, program.name, "", "no .ptd next to it has its external "+
			"tensors, such as %s, %v%v", naming.Quote(first.Name), first.DType, first.Shape)
		f.Tensors = absent
		program.findings.add(f)
	}
}

// checkExternal returns nil if one of the files has the external tensor, and else why
// those that were looked at, whose names it returns, do not: all files, or those that
// have another tensor of that name.
func checkExternal(e *pte.Entry, data []*file) (err *tensor.FormatError, in string) {
	var names []string
	for _, f := range data {
		t := f.open.Tensor(e.Name)
		mismatch := e.CheckExternal(t)
		if mismatch == nil {
			return nil, ""
		}
		if err == nil || t != nil && err.Code == tensor.CodeMissingWeights {
			err, names = nil, nil
			errors.As(mismatch, &err)
		}
		if t != nil || err.Code == tensor.CodeMissingWeights {
			names = append(names, naming.Quote(path.Base(f.name)))
		}
	}
	return err, strings.Join(names, ", ")
}
