package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"
)

// createTemp creates .NAME.tensorfile-tmp-RANDOM in the directory of target.
func createTemp(target string, perm fs.FileMode) (*os.File, error) {
	dir, base := filepath.Split(target)
	for {
		f, err := os.OpenFile(filepath.Join(dir, tempName(base, rand.Uint64())),
			os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if err == nil {
			Lock(f) // so that Clean leaves it alone; where that is not possible, its age has to do
		}
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// The names of hidden files have the name of the program and a number of fixed length, so
// that no file of another program is taken for one.
const (
	tempMark      = ".tensorfile-tmp-"
	journalSuffix = ".tensorfile-journal"
	randomDigits  = 13 // of a uint64 to the base 36
)

func tempName(base string, random uint64) string {
	return fmt.Sprintf(".%s%s%0*s", shortened(base), tempMark, randomDigits,
		strconv.FormatUint(random, 36))
}

// shortened cuts a file name so that hidden files can be named after it: file systems
// allow 255 bytes.
func shortened(base string) string {
	const longest = 255 - len(".") - len(tempMark) - randomDigits // journalSuffix is shorter
	if len(base) <= longest {
		return base
	}
	cut := longest
	for cut > 0 && !utf8.RuneStart(base[cut]) {
		cut--
	}
	return base[:cut]
}

// tempOf returns the name, perhaps shortened, of the file for which a temporary file of
// that name is written. It is false for other names.
func tempOf(name string) (base string, ok bool) {
	i := strings.LastIndex(name, tempMark)
	if i < 2 || name[0] != '.' {
		return "", false
	}
	random := name[i+len(tempMark):]
	_, err := strconv.ParseUint(random, 36, 64)
	ok = err == nil && len(random) == randomDigits && strings.ToLower(random) == random
	return name[1:i], ok
}

// isTemp reports whether a file name is the name of a temporary file for base.
func isTemp(name, base string) bool {
	of, ok := tempOf(name)
	return ok && of == shortened(base)
}
