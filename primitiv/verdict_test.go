package primitiv_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

var update = flag.Bool("update", false,
	"write testdata/primitiv/verdicts.txt anew, with TENSORFILE_PRIMITIVREF")

// places are all places of the grammar: each makes a file whose item there has the code.
var places = []struct {
	name string
	file func(code byte) []byte
}{
	{"version_major", func(c byte) []byte {
		return join(item(c, 0, "", 0, elem), 1, 0x200, tensorOf2, 0)
	}},
	{"version_minor", func(c byte) []byte {
		return join(0, item(c, 1, "", 0, elem), 0x200, tensorOf2, 0)
	}},
	{"data_type", func(c byte) []byte {
		return join(0, 1, item(c, 0x200, "", 0, elem), tensorOf2, 0)
	}},
	{"shape.dims", func(c byte) []byte {
		dims := item(c, 1, "\x02", 1, func(i int) []byte { return join([]int{2, 1}[min(i, 1)]) })
		if c == 0x80 || c == 0x90 {
			return join(head(0x200), dims, 1, "\xc4\x04\x00\x00\x80?", 0)
		}
		return join(head(0x200), dims, 1, "\xc4\x08\x00\x00\x80?\x00\x00\x00@", 0)
	}},
	{"shape.dims[0]", func(c byte) []byte {
		return join(head(0x200), "\x91", item(c, 2, "\x02", 2, elem), 1,
			"\xc4\x08\x00\x00\x80?\x00\x00\x00@", 0)
	}},
	{"shape.batch", func(c byte) []byte {
		return join(head(0x200), "\x91", 2, item(c, 1, "\x01", 1, elem),
			"\xc4\x08\x00\x00\x80?\x00\x00\x00@", 0)
	}},
	{"data", func(c byte) []byte {
		return join(head(0x200), "\x91", 2, 1,
			item(c, 8, "12345678", 2, func(int) []byte { return []byte("\xca\x3f\x80\x00\x00") }),
			0)
	}},
	{"stats", func(c byte) []byte {
		return join(head(0x200), tensorOf2, item(c, 1, "", 1, stat), stat(0))
	}},
	{"stats[0].name", func(c byte) []byte {
		return join(head(0x200), tensorOf2, 1, item(c, 0, "name", 1, elem), tensorOf2)
	}},
	{"parameters", func(c byte) []byte {
		return join(head(0x300), item(c, 1, "", 1, row), row(0))
	}},
	{"path", func(c byte) []byte {
		return join(head(0x300), 1, item(c, 1, "w", 1, name), tensorOf2, 0)
	}},
	{"path[0]", func(c byte) []byte {
		return join(head(0x300), 1, "\x91", item(c, 1, "w", 1, name), tensorOf2, 0)
	}},
	{"uint_configs", func(c byte) []byte {
		return join(head(0x400), item(c, 1, "", 1, pair), "\x80")
	}},
	{"uint_configs.key", func(c byte) []byte {
		return join(head(0x400), "\x81", item(c, 1, "key", 1, name), 7, "\x80")
	}},
	{"uint_configs.value", func(c byte) []byte {
		return join(head(0x400), "\x81", setting, item(c, 7, "7", 1, elem), "\x80")
	}},
	{"float_configs", func(c byte) []byte {
		return join(head(0x400), "\x80",
			item(c, 1, "", 1, func(i int) []byte { return join(name(i), "\xca\x3f\x80\x00\x00") }))
	}},
	{"float_configs.key", func(c byte) []byte {
		return join(head(0x400), "\x80\x81", item(c, 1, "key", 1, name), "\xca\x3f\x80\x00\x00")
	}},
	{"float_configs.value", func(c byte) []byte {
		return join(head(0x400), "\x80\x81\xa5A.eta", item(c, 1, "1", 1, elem))
	}},
}

func elem(int) []byte { return join(1) }

// Every type code in every place, with the verdict of the reference, which verdicts.txt
// holds.
func TestEveryTypeCodeHasTheVerdictOfTheReference(t *testing.T) {
	file := filepath.Join(testdata, "verdicts.txt")
	var text strings.Builder
	fmt.Fprintf(&text, "# The verdicts of primitiv on every MessagePack type code, 00 to ff, in every place: A accepts, R refuses. See verdict_test.go.\n")
	var files [][]byte
	for _, p := range places {
		for code := range 256 {
			files = append(files, p.file(byte(code)))
		}
	}
	if os.Getenv("TENSORFILE_PRIMITIVREF") != "" {
		for v := verdicts(t, files); v != ""; v = v[256:] {
			fmt.Fprintf(&text, "%s %s\n", places[len(places)-len(v)/256].name, v[:256])
		}
		if *update {
			if err := os.WriteFile(file, []byte(text.String()), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(text.String(), "\n") > 1 && string(golden) != text.String() {
		t.Error("the reference says other things than verdicts.txt")
	}
	accepted := 0
	for i, line := range strings.Split(strings.TrimSpace(string(golden)), "\n")[1:] {
		name, verdict, _ := strings.Cut(line, " ")
		if len(verdict) != 256 || name != places[i].name {
			t.Fatalf("line %q", line)
		}
		for code := range 256 {
			_, err := primitiv.OpenBytes(files[256*i+code], nil)
			if accepts := verdict[code] == 'A'; accepts != (err == nil) {
				t.Errorf("%s = %02x: the reference says %c, we %v", name, code, verdict[code], err)
			} else if accepts {
				accepted++
			}
			if err != nil && tensor.ClassOf(err) != tensor.ClassMalformed &&
				tensor.ClassOf(err) != tensor.ClassTruncated {
				t.Errorf("%s = %02x: %v", name, code, err)
			}
		}
	}
	t.Logf("%d files, %d of them accepted", len(files), accepted)
	if len(files) != 18*256 || accepted < 150 {
		t.Errorf("%d files, %d of them accepted", len(files), accepted)
	}
}

// differs compares our verdict with the reference's. We refuse what wraps around in 32
// bits, a second item of one name, and bytes after the end, and take a model whose
// parameters lie below each other, with a warning, and the two kinds that the reference
// has no reader for.
func differs(verdict byte, data []byte) string {
	r, err := primitiv.OpenBytes(data, nil)
	isOurs := err != nil && (strings.HasSuffix(tensor.FindingOf(err).Field, "shape") ||
		strings.Contains(err.Error(), "after the end") ||
		strings.Contains(err.Error(), "a second "))
	switch {
	case verdict == 'A' && err != nil && !isOurs:
		return fmt.Sprintf("the reference accepts what we refuse: %v", err)
	case verdict != 'A' && err == nil && r.Kind() != primitiv.KindShape &&
		r.Kind() != primitiv.KindTensor &&
		!slices.ContainsFunc(r.Warnings(), func(err error) bool {
			return strings.HasSuffix(tensor.FindingOf(err).Field, "path")
		}):
		return "the reference refuses what we accept"
	}
	return ""
}

// Files of the reference with random damage.
func TestDamagedFilesGetTheVerdictOfTheReference(t *testing.T) {
	reference(t)
	files, _ := goldens(t)
	random := rand.New(rand.NewPCG(21, 0))
	var names []string
	for name, data := range files {
		if len(data) < 1<<10 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var damaged [][]byte
	var from []string
	for range 8000 {
		name := names[random.IntN(len(names))]
		b := slices.Clone(files[name])
		at := random.IntN(len(b))
		switch random.IntN(6) {
		case 0:
			b[at] ^= 1 << random.IntN(8)
		case 1:
			b[at] = byte(random.Uint32())
		case 2:
			b = b[:at]
		case 3:
			b = slices.Insert(b, at, byte(random.Uint32()))
		case 4:
			b = slices.Delete(b, at, min(len(b), at+1+random.IntN(8)))
		case 5: // a piece of another file
			other := files[names[random.IntN(len(names))]]
			lo := random.IntN(len(other))
			b = slices.Concat(b[:at], other[lo:min(len(other), lo+1+random.IntN(40))], b[at:])
		}
		damaged, from = append(damaged, b), append(from, name)
	}
	v := verdicts(t, damaged)
	for i, b := range damaged {
		if d := differs(v[i], b); d != "" {
			t.Errorf("case %d from %s, %x: %s", i, from[i], b, d)
		}
	}
	t.Logf("%d accepted of %d, %d crashes of the reference", strings.Count(v, "A"), len(v),
		strings.Count(v, "X"))
}
