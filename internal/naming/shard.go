package naming

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// A Shard is the name STEM-00001-of-00003.EXT of one of several files.
type Shard struct {
	Stem, Ext string
	I, N      int // from 1
	// The numbers of digits differ in model-00001-of-000163.safetensors.
	Digits, DigitsOfN int
}

// ParseShard returns the shard that the last element of a path names. Both numbers have
// at least five digits.
func ParseShard(name string) (s Shard, ok bool) {
	base := path.Base(name)
	s.Ext = path.Ext(base)
	rest := strings.TrimSuffix(base, s.Ext)
	of := strings.LastIndex(rest, "-of-")
	if of < 0 {
		return s, false
	}
	dash := strings.LastIndexByte(rest[:of], '-')
	if dash < 1 {
		return s, false
	}
	i, n := rest[dash+1:of], rest[of+len("-of-"):]
	if len(i) < 5 || len(n) < 5 {
		return s, false
	}
	var err1, err2 error
	s.I, err1 = digits(i)
	s.N, err2 = digits(n)
	s.Stem, s.Digits, s.DigitsOfN = rest[:dash], len(i), len(n)
	return s, err1 == nil && err2 == nil
}

func digits(s string) (int, error) {
	if s[0] < '0' || s[0] > '9' {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return int(n), err
}

// Group is what the siblings of a shard share.
func (s Shard) Group() Shard { s.I = 0; return s }

// Name returns the name of shard i.
func (s Shard) Name(i int) string {
	return fmt.Sprintf("%s-%0*d-of-%0*d%s", s.Stem, s.Digits, i, s.DigitsOfN, s.N, s.Ext)
}
