package model

import (
	"path"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/quant"
)

// checkWeights returns what is wrong with the quantised weights of a set. While files are
// missing, nothing is said of parts that may be there.
func (m *Model) checkWeights(s *Set) (all []Finding) {
	whole := !s.unusable && len(s.Missing) == 0
	for _, sh := range s.shards {
		whole = whole && sh.open != nil
	}
	set := s.found()
	if len(set.Findings) == 0 {
		return nil
	}
	files := filesOf(s)
	for _, w := range set.Weights {
		if w.Scheme != "" {
			files[w.Name] = files[w.Parts[0].Tensor.Name]
		}
	}
	for _, f := range set.Findings {
		file := files[f.Tensor]
		if f.Tensor == "" {
			file = path.Join(s.part, "config.json")
		}
		if whole || f.Code != quant.MissingScale && f.Code != quant.OrphanScale {
			all = append(all, weightFinding(f, file))
		}
	}
	return all
}

// filesOf returns the file of each tensor of a set.
func filesOf(s *Set) map[string]string {
	r, i, files := s.file.Sys().(*reader), 0, map[string]string{}
	for t := range s.file.Tensors() {
		files[t.Name] = r.FileOf(i)
		i++
	}
	return files
}

// weightsByFile returns the quantised weights of the primary sets by the file of their
// codes.
func (m *Model) weightsByFile() map[string][]*quant.Weight {
	all := map[string][]*quant.Weight{}
	for _, s := range m.primary() {
		var files map[string]string
		for _, w := range s.found().Weights {
			if w.Scheme == "" || w.Err != nil {
				continue
			}
			if files == nil {
				files = filesOf(s)
			}
			file := files[w.Parts[0].Tensor.Name]
			all[file] = append(all[file], w)
		}
	}
	return all
}

// weightFinding returns a finding of package quant. Its text does not repeat the tensor.
func weightFinding(f quant.Finding, file string) Finding {
	text := strings.TrimPrefix(f.Err.Error(), "malformed: ")
	if _, rest, ok := strings.Cut(text, "tensor "+naming.Quote(f.Tensor)+": "); ok {
		text = rest
	}
	_, class := Code(f.Code).properties()
	return Finding{Severity: f.Severity, Code: Code(f.Code), File: file, Tensor: f.Tensor,
		Offset: -1, Err: &classed{text, class}}
}
