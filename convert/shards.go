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

// Shards returns the names of the files of a model of which f, the file of that name, is
// the first shard, and their number: the name itself and 1 for a file that is no shard.
// For another shard, or where the names of the others cannot be known, it returns the
// name itself and the number of files, which is for Options.Shards.
//
// A .gguf says that it is a shard. Others are shards by the name NAME-00001-of-00003, or
// by the root of a zTensor 2 next to them.
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

// splitOf returns what a .gguf says of the shard that it is. It is false for other files,
// and for a model that is one file.
func splitOf(f *tensorfile.File) (no, count int, ok bool) {
	r, isGGUF := f.Sys().(*gguf.Reader)
	if !isGGUF {
		return 0, 0, false
	}
	no, count, ok = r.Split()
	return no, count, ok && count > 1
}

// shardsOfRoot returns how many files a zTensor 2 has of which this one is a shard, by
// the root next to it; 0 where it is none.
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

// planShards names what is missing where the sources are not all files of a model.
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
