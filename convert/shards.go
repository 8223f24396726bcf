package convert

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/ztensor"
)

// Shards returns the names of all shards of a model, and their number, if f, the file of
// that name, is the first shard. For another shard, or if the other names are not known,
// it returns the name of f and the number of shards, for Options.Shards. For a file that
// is not a shard it returns the name of f and 1.
//
// Metadata show that a .gguf is a shard. Another file is a shard if it is named
// NAME-00001-of-00003, or if a root of zTensor 2 next to it names it.
func Shards(name string, f *tensorfile.File) (names []string, count int) {
	if no, n, ok := splitOf(f); ok {
		prefix, named := strings.CutSuffix(name, gguf.ShardName("", no, n))
		if !named || no != 0 {
			return []string{name}, n
		}
		for i := range n {
			names = append(names, gguf.ShardName(prefix, i, n))
		}
		return names, n
	}
	s, ok := naming.ParseShard(name)
	if !ok || s.I < 1 || s.I > s.N {
		return []string{name}, max(1, shardsOfRoot(name, f))
	}
	if s.I > 1 {
		return []string{name}, s.N
	}
	dir := strings.TrimSuffix(name, s.Name(1))
	for i := range s.N {
		names = append(names, dir+s.Name(i+1))
	}
	return names, s.N
}

// splitOf returns which shard a .gguf is, false for other files and for a model of one
// file.
func splitOf(f *tensorfile.File) (no, count int, ok bool) {
	r, isGGUF := f.Sys().(*gguf.Reader)
	if !isGGUF {
		return 0, 0, false
	}
	no, count, ok = r.Split()
	return no, count, ok && count > 1
}

// shardsOfRoot returns the number of files of the zTensor 2 model whose root, next to
// this file, names it; 0 if there is none.
func shardsOfRoot(name string, f *tensorfile.File) int {
	if r, ok := f.Sys().(*ztensor.Reader); !ok || r.Version() != ztensor.Version2 {
		return 0
	}
	dir, base := filepath.Split(name)
	ext := filepath.Ext(base)
	stem := strings.TrimSuffix(base, ext)
	for at := len(stem) - 1; at > 0; at-- {
		if stem[at] != '-' {
			continue
		}
		root := filepath.Join(dir, stem[:at]+ext)
		if info, err := os.Stat(root); err != nil || !info.Mode().IsRegular() {
			continue
		}
		r, err := ztensor.Open(root, nil)
		if err != nil {
			continue // which is reported where it is opened
		}
		count, isShard := 1, false // the root
		for s := range r.Shards() {
			count++
			isShard = isShard || s.Name == stem[at+1:]
		}
		r.Close()
		if isShard {
			return count
		}
	}
	return 0
}

// planShards adds a loss if the sources are not all files of a model.
func (p *Plan) planShards() {
	count := p.opts.Shards
	for _, f := range p.files {
		if _, n, ok := splitOf(f); ok {
			count = max(count, n)
		}
	}
	if len(p.files) < count {
		p.lose(LossTensors, "shards", "%d of the %d files of a model: the tensors of the "+
			"others would be missing", len(p.files), count)
	}
}
