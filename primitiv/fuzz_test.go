package primitiv_test

import (
	"bytes"
	"testing"

	"github.com/tensorfile/tensorfile/primitiv"
)

func seed(f *testing.F) {
	files, _ := goldens(f)
	for _, data := range files {
		if len(data) < 1<<10 {
			f.Add(data)
		}
	}
	for _, m := range malformed {
		if len(m.file) < 1<<10 {
			f.Add(m.file)
		}
	}
}

// Whatever opens can be walked; memory, bytes in windows, and all allowances agree.
func FuzzOpen(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := primitiv.OpenBytes(data, nil)
		q, err2 := primitiv.NewReader(bytes.NewReader(data), int64(len(data)), nil)
		if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("%v, through a reader %v", err, err2)
		}
		if err == nil {
			for _, r := range []*primitiv.Reader{r, q} {
				if err := walk(r); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// What is read and written comes out the same when it is read and written again.
func FuzzRoundTrip(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := primitiv.OpenBytes(data, nil)
		if err != nil || len(r.Warnings()) > 0 {
			return
		}
		once := copyOf(t, r, primitiv.WriterOptions{})
		again := open(t, once)
		if twice := copyOf(t, again, primitiv.WriterOptions{}); !bytes.Equal(once, twice) {
			t.Fatalf("%x, then %x", once, twice)
		}
		if dump(t, again) != dump(t, r) || again.Shape().String() != r.Shape().String() {
			t.Fatal("other content")
		}
	})
}
