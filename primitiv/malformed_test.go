package primitiv_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	z      = "\xce\x00\x00\x00\x00"
	most   = "\xce\xff\xff\xff\xff"
	float1 = "\xca\x3f\x80\x00\x00"
)

// malformed lists wrong and unusual files, with what the reference does (A accepts, R
// refuses) and how we refuse it. Where class is empty we accept it too.
var malformed = []struct {
	name   string
	file   []byte
	ref    byte
	class  tensor.Class
	offset int64
	field  string
}{
	{"empty", nil, 'R', "truncated", 0, "version_major"},
	{"a line feed first", join("\n", head(0x200), tensorOf2, 0), 'R', "malformed", 0,
		"version_major"},
	{"a protobuf of 2017", []byte("\x0a\x06\x0a\x02\x02\x03\x10\x01"), 'R', "malformed", 0,
		"version_major"},
	{"wrapped in an array", join("\x93", head(0x200), tensorOf2, 0), 'R', "malformed", 0,
		"version_major"},
	{"fixint version", join("\x00\x01", 0x200, tensorOf2, 0), 'R', "malformed", 0,
		"version_major"},
	{"version 0.0", join(0, 0, 0x200, tensorOf2, 0), 'R', "unsupported", 0, "version"},
	{"version 0.2", join(0, 2, 0x200, tensorOf2, 0), 'R', "unsupported", 0, "version"},
	{"version 1.0", join(1, 0, 0x200, tensorOf2, 0), 'R', "unsupported", 0, "version"},
	{"version 1.1", join(1, 1, 0x200, tensorOf2, 0), 'R', "unsupported", 0, "version"},
	{"version of two numbers, 2017-11-11", join(0, 0x400, "\x80\x80"), 'R', "unsupported", 0,
		"version"},
	{"data type 0x500", join(head(0x500), tensorOf2, 0), 'R', "malformed", 10, "data_type"},
	{"data type 0x201", join(head(0x201), tensorOf2, 0), 'R', "malformed", 10, "data_type"},
	{"data type 0xffffff00", join(head(0xffffff00), tensorOf2, 0), 'R', "malformed", 10,
		"data_type"},
	{"fixint dimension", join(head(0x200), "\x91\x02", 1, "\xc4\x08--------", 0), 'R', "malformed",
		16, "value.shape.dims[0]"},
	{"uint 64 dimension", join(head(0x200), "\x91\xcf\x00\x00\x00\x00\x00\x00\x00\x02", 1,
		"\xc4\x08--------", 0), 'R', "malformed", 16, "value.shape.dims[0]"},
	{"fixint batch", join(head(0x200), "\x91", 2, "\x01\xc4\x08--------", 0), 'R', "malformed", 21,
		"value.shape.batch"},
	{"fixint count of statistics", join(head(0x200), tensorOf2, "\x00"), 'R', "malformed", 36,
		"stats"},
	{"9 dimensions", join(head(0x200), "\x99", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "\xc4\x04----", 0),
		'R', "malformed", 15, "value.shape.dims"},
	{"16 dimensions, from the header alone", join(head(0x200), "\xdc\x00\x10"), 'R', "malformed",
		15, "value.shape.dims"},
	{"2^32-1 dimensions", join(head(0x200), "\xdd\xff\xff\xff\xff"), 'R', "malformed", 15,
		"value.shape.dims"},
	{"dimension 0", join(head(0x200), "\x91", 0, 1, "\xc4\x00", 0), 'R', "malformed", 16,
		"value.shape.dims[0]"},
	{"second dimension 0", join(head(0x200), "\x92", 2, 0, 1, "\xc4\x00", 0), 'R', "malformed", 21,
		"value.shape.dims[1]"},
	{"batch 0", join(head(0x200), "\x91", 2, 0, "\xc4\x00", 0), 'R', "malformed", 21,
		"value.shape.batch"},
	{"product that wraps to 1",
		join(head(0x200), "\x92", uint32(0xaaaaaaab), 3, 1, "\xc4\x04----", 0), 'A', "malformed",
		15, "value.shape"},
	{"batch that wraps to 1",
		join(head(0x200), tensorOf2, 1, "\xa1m\x91", 3, uint32(0xaaaaaaab), "\xc4\x04----"), 'A',
		"malformed", 43, `stats["m"].shape`},
	{"batch that wraps to 0",
		join(head(0x200), tensorOf2, 1, "\xa1m\x91", uint32(0x80000000), 2, "\xc4\x00"), 'A',
		"malformed", 43, `stats["m"].shape`},
	{"product that wraps to 0", join(head(0x200), "\x92", 65536, 65536, 1, "\xc4\x00", 0), 'R',
		"malformed", 15, "value.shape"},
	{"product of eight that wraps 64 bits",
		join(head(0x200), "\x98", uint32(1<<31), uint32(1<<31), uint32(1<<31), uint32(1<<31),
			uint32(1<<31), uint32(1<<31), uint32(1<<31), uint32(1<<31), 1, "\xc4\x00", 0), 'R',
		"malformed", 15, "value.shape"},
	{"dimension 2^32-1 with 4 bytes",
		join(head(0x200), "\x91", uint32(0xffffffff), 1, "\xc4\x04----", 0), 'R', "malformed", 26,
		"value.data"},
	{"value with a batch", join(head(0x200), "\x91", 1, 2, "\xc4\x08--------", 0), 'R',
		"malformed", 21, "value.shape.batch"},
	{"statistic with a batch",
		join(head(0x200), tensorOf2, 1, "\xa1m\x91", 1, 2, "\xc4\x08--------"), 'A', "", 0, ""},
	{"data too short", join(head(0x200), "\x91", 2, 1, "\xc4\x04----", 0), 'R', "malformed", 26,
		"value.data"},
	{"data too long", join(head(0x200), "\x91", 2, 1, "\xc4\x0c------------", 0), 'R', "malformed",
		26, "value.data"},
	{"data of 7 bytes", join(head(0x200), "\x91", 2, 1, "\xc4\x07-------", 0), 'R', "malformed",
		26, "value.data"},
	{"no data", join(head(0x200), "\x91", 2, 1, "\xc4\x00", 0), 'R', "malformed", 26,
		"value.data"},
	{"data of 4 GiB", join(head(0x200), "\x91", 2, 1, "\xc6\xff\xff\xff\xff----"), 'R',
		"malformed", 26, "value.data"},
	{"26 bytes that claim 1 GiB", join(head(0x200), "\x90", 1, "\xc6\x40\x00\x00\x00"), 'R',
		"malformed", 21, "value.data"},
	{"25 bytes that claim 1 GiB", join(head(0x300), 1, "\xdb\x40\x00\x00\x00"), 'R', "truncated",
		15, "parameters"},
	{"26 bytes with a name of 1 GiB", join(head(0x300), 1, "\x91\xdb\x40\x00\x00\x00"), 'R',
		"truncated", 15, "parameters"},
	{"data of 1 GiB, as the shape says",
		join(head(0x200), "\x91", 1<<28, 1, "\xc6\x40\x00\x00\x00"), 'R', "truncated", 26,
		"value.data"},
	{"data as a string", join(head(0x200), "\x91", 2, 1, "\xa8--------", 0), 'R', "malformed", 26,
		"value.data"},
	{"data as floats", join(head(0x200), "\x91", 2, 1, "\x92", float1, float1, 0), 'R',
		"malformed", 26, "value.data"},
	{"data as nil", join(head(0x200), "\x91", 2, 1, "\xc0", 0), 'R', "malformed", 26,
		"value.data"},
	{"name of 4 GiB", join(head(0x200), tensorOf2, 1, "\xdb\xff\xff\xff\xff", tensorOf2), 'R',
		"truncated", 41, "stats[0]"},
	{"name as binary data", join(head(0x200), tensorOf2, 1, "\xc4\x01m", tensorOf2), 'R',
		"malformed", 41, "stats[0]"},
	{"2^32-1 statistics", join(head(0x200), tensorOf2, most), 'R', "truncated", 36, "stats"},
	{"2^32-1 parameters", join(head(0x300), most), 'R', "truncated", 15, "parameters"},
	{"more statistics than there are", join(head(0x200), tensorOf2, 2, "\xa1m", tensorOf2), 'R',
		"truncated", 36, "stats"},
	{"more parameters than there are", join(head(0x300), 2, row(0)), 'R', "truncated", 15,
		"parameters"},
	{"fewer statistics than there are", join(head(0x200), tensorOf2, 1, stat(0), stat(1)), 'A',
		"malformed", 64, ""},
	{"fewer parameters than there are", join(head(0x300), 1, row(0), row(1)), 'A', "malformed", 49,
		""},
	{"a second file at the end", join(head(0x200), tensorOf2, 0, head(0x200), tensorOf2, 0), 'A',
		"malformed", 41, ""},
	{"one byte at the end", join(head(0x400), "\x80\x80", "\n"), 'A', "malformed", 17, ""},
	{"two statistics of one name", join(head(0x200), tensorOf2, 2, stat(0), stat(0)), 'A',
		"malformed", 64, `stats["a"]`},
	{"two parameters of one path", join(head(0x300), 2, row(0), row(0)), 'A', "malformed", 49,
		`parameters["a"]`},
	{"two parameters of one path, not in order", join(head(0x300), 3, row(1), row(0), row(1)), 'A',
		"malformed", 78, `parameters["b"]`},
	{"two settings of one name", join(head(0x400), "\x82", pair(0), pair(0), "\x80"), 'A',
		"malformed", 23, `uint_configs["a"]`},
	{"two floats of one name", join(head(0x400), "\x80\x82\xa1a", float1, "\xa1a", float1), 'A',
		"malformed", 24, `float_configs["a"]`},
	{"path as a string", join(head(0x300), 1, "\xa1w", tensorOf2, 0), 'R', "malformed", 20,
		"parameters[0].path"},
	{"path of binary data", join(head(0x300), 1, "\x91\xc4\x01w", tensorOf2, 0), 'R', "malformed",
		21, "parameters[0].path[0]"},
	{"path of integers", join(head(0x300), 1, "\x92\xa1w", 1, tensorOf2, 0), 'R', "malformed", 23,
		"parameters[0].path[1]"},
	{"path without names", join(head(0x300), 1, "\x90", tensorOf2, 0), 'R', "malformed", 20,
		"parameters[0].path"},
	{"path of 2^32-1 names", join(head(0x300), 1, "\xdd\xff\xff\xff\xff", tensorOf2, 0), 'R',
		"truncated", 20, "parameters[0].path"},
	{"statistics as a map", join(head(0x200), tensorOf2, "\x81", stat(0)), 'R', "malformed", 36,
		"stats"},
	{"model as a map", join(head(0x300), "\x81", row(0)), 'R', "malformed", 15, "parameters"},
	{"settings as arrays", join(head(0x400), "\x91", pair(0), "\x90"), 'R', "malformed", 15,
		"uint_configs"},
	{"settings exchanged", join(head(0x400), "\x81\xa1a", float1, "\x81", pair(0)), 'R',
		"malformed", 18, `uint_configs["a"]`},
	{"settings as nil", join(head(0x400), "\xc0\xc0"), 'R', "malformed", 15, "uint_configs"},
	{"float 64 setting", join(head(0x400), "\x80\x81\xa1a\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00"),
		'R', "malformed", 19, `float_configs["a"]`},
	{"second map missing", join(head(0x400), "\x80"), 'R', "truncated", 16, "float_configs"},
	{"settings 2^32-1", join(head(0x400), "\xdf\xff\xff\xff\xff"), 'R', "truncated", 15,
		"uint_configs"},
	{"nested arrays", join(head(0x200), strings.Repeat("\x91", 100_000)), 'R', "malformed", 16,
		"value.shape.dims[0]"},
	{"leading bytes", join("\x00", head(0x300), 0), 'R', "malformed", 0, "version_major"},

	{"names that are anything",
		join(head(0x300), 3, "\x91\xa0", tensorOf2, 0, "\x91\xa8../../\xff\x00", tensorOf2, 0,
			"\x91\xa4\x1b[2J", tensorOf2, 0), 'A', "", 0, ""},
	{"longer headers than needed",
		join(head(0x300), 1, "\xdc\x00\x01\xdb\x00\x00\x00\x01w\xdd\x00\x00\x00\x01", 2, 1,
			"\xc6\x00\x00\x00\x08--------", 0), 'A', "", 0, ""},
	{"longer maps than needed",
		join(head(0x400), "\xde\x00\x01", pair(0), "\xdf\x00\x00\x00\x01\xd9\x01a", float1), 'A',
		"", 0, ""},
	{"trailing ones", join(head(0x200), "\x93", 2, 1, 1, 1, "\xc4\x08--------", 0), 'A', "", 0,
		""},
	{"unsorted", join(head(0x300), 2, row(1), row(0)), 'A', "", 0, ""},
	{"a parameter below a parameter",
		join(head(0x300), 2, "\x91\xa1a", tensorOf2, 0, "\x92\xa1a\xa1b", tensorOf2, 0), 'R', "",
		0, ""},
	{"negative and infinite settings",
		join(head(0x400), "\x80\x82\xa1a\xca\xff\x80\x00\x00\xa1b\xca\xff\xff\xff\xff"), 'A', "",
		0, ""},
}

// Every row of the table, in memory and through a reader, without memory, and the
// reference's column if there is a reference.
func TestMalformedFilesGetTheirVerdict(t *testing.T) {
	var files [][]byte
	for _, m := range malformed {
		files = append(files, m.file)
		t.Run(m.name, func(t *testing.T) {
			var err error
			used := readtest.Allocated(func() { _, err = primitiv.OpenBytes(m.file, nil) })
			if used > 64<<10+8*int64(len(m.file)) {
				t.Errorf("%d bytes allocated", used)
			}
			if got := api.Same(t, m.file,
				func(*primitiv.Reader) string { return "" }); err == nil && got != "" ||
				err != nil && got != err.Error() {
				t.Errorf("%q, %v", got, err)
			}
			if m.class == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var fe *tensor.FormatError
			if !errors.As(err, &fe) {
				t.Fatalf("%v", err)
			}
			if c := tensor.ClassOf(err); c != m.class || fe.Offset != m.offset ||
				fe.Field != m.field || fe.Format != "primitiv" {
				t.Errorf("%s at %d, %q: %v", c, fe.Offset, fe.Field, err)
			}
		})
	}
	if os.Getenv("TENSORFILE_PRIMITIVREF") == "" {
		return
	}
	for i, v := range verdicts(t, files) {
		if byte(v) != malformed[i].ref {
			t.Errorf("%s: the reference says %c", malformed[i].name, v)
		}
	}
}
