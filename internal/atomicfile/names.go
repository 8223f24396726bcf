package atomicfile

import (
	"io/fs"
	"path/filepath"
	"strings"
)

// InSet reports whether a set whose index has that name may have a file of the other
// name, both without directory. A journal writes no other files.
//
//	m.safetensors.index.json  m.safetensors, m, m-00001-of-00002.safetensors
//	m.zt                      m-00001.zt
//	m-00001-of-00002.gguf     m-00002-of-00002.gguf
//	m, which no file has      m-00001-of-00002.zt, m_ and 64 digits.ptd
//	m.pte, m.bpte             any .ptd
func InSet(index, name string) bool {
	if name == index || isReplaced(index, name) {
		return true
	}
	if ext := filepath.Ext(index); ext == ".pte" || ext == ".bpte" {
		return filepath.Ext(name) == ".ptd"
	}
	if hash, ok := strings.CutPrefix(name, index+"_"); ok {
		hash, ok = strings.CutSuffix(hash, ".ptd")
		return ok && len(hash) == 64 && strings.Trim(hash, "0123456789abcdef") == ""
	}
	s, ok := shardOf(name)
	if !ok || s.count == "" || strings.HasSuffix(index, indexSuffix) {
		return false
	}
	first, isFirst := shardOf(index)
	return s.prefix == index || isFirst && s == first
}

const indexSuffix = ".index.json"

// isReplaced reports whether a set may remove the file of that name when it has no such
// file any more.
func isReplaced(index, name string) bool {
	plain, hasIndex := strings.CutSuffix(index, indexSuffix)
	ext := filepath.Ext(plain)
	stem := strings.TrimSuffix(plain, ext)
	s, ok := shardOf(name)
	if !hasIndex {
		return ok && s == shard{prefix: stem, ext: ".zt"}
	}
	return name == index || name == plain || name == stem ||
		ok && s.count != "" && s.prefix == stem && s.ext == ext
}

// A shard is what the name of a shard says, without its number.
type shard struct{ prefix, count, ext string }

// shardOf takes PREFIX-00001.EXT and PREFIX-00001-of-00002.EXT apart; the numbers have at
// least five digits.
func shardOf(name string) (s shard, ok bool) {
	s.ext = filepath.Ext(name)
	rest := strings.TrimSuffix(name, s.ext)
	if i := strings.LastIndex(rest, "-of-"); i >= 0 && isNumber(rest[i+len("-of-"):]) {
		rest, s.count = rest[:i], rest[i+len("-of-"):]
	}
	i := strings.LastIndexByte(rest, '-')
	if i < 0 || !isNumber(rest[i+1:]) {
		return shard{}, false
	}
	s.prefix = rest[:i]
	return s, true
}

func isNumber(s string) bool { return len(s) >= 5 && strings.Trim(s, "0123456789") == "" }

// sets are the names of the files of a directory, and the prefixes of its shards, each
// with a slash.
type sets map[string]bool

// setsOf returns the sets of a directory, to which temporary files belong too.
func setsOf(entries []fs.DirEntry) sets {
	all := sets{}
	for _, e := range entries {
		name := e.Name()
		if base, ok := tempOf(name); ok {
			name = base
		}
		if !e.Type().IsRegular() {
			continue
		}
		all[name] = true
		if s, ok := shardOf(name); ok {
			all[s.prefix+"/"] = true
		}
	}
	return all
}

// have reports whether there is a file that a set of that index may have.
func (s sets) have(index string) bool {
	plain, hasIndex := strings.CutSuffix(index, indexSuffix)
	stem := strings.TrimSuffix(plain, filepath.Ext(plain))
	return s[index] || s[index+"/"] || s[stem+"/"] || hasIndex && (s[plain] || s[stem])
}
