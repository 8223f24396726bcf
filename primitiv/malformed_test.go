package primitiv_test

import (
	"errors"
	"os"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

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
