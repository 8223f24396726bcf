package atomicfile

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"
)

// createTemp creates .NAME.tmp-RANDOM in the directory of target.
func createTemp(target string, perm fs.FileMode) (*os.File, error) {
	dir, base := filepath.Split(target)
	for {
		temp := filepath.Join(dir,
			"."+shortened(base)+tempMark+strconv.FormatUint(rand.Uint64(), 36))
		f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if err == nil {
			Lock(f) // so that Clean leaves it alone; where that is not possible, its age has to do
		}
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

const (
	tempMark  = ".tmp-"
	maxRandom = 13 // digits of a uint64 to the base 36
)

// shortened cuts a file name so that hidden files can be named after it: file systems
// allow 255 bytes.
func shortened(base string) string {
	const longest = 255 - len(".") - len(tempMark) - maxRandom
	if len(base) <= longest {
		return base
	}
	cut := longest
	for cut > 0 && !utf8.RuneStart(base[cut]) {
		cut--
	}
	return base[:cut]
}

// isTemp reports whether a file name is that of a temporary file for base; base may be
// empty for any.
func isTemp(name, base string) bool {
	i := strings.LastIndex(name, tempMark)
	if i < 2 || name[0] != '.' || base != "" && name[1:i] != shortened(base) {
		return false
	}
	random := name[i+len(tempMark):]
	_, err := strconv.ParseUint(random, 36, 64)
	return err == nil && len(random) <= maxRandom && strings.ToLower(random) == random
}
