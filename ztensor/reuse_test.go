package ztensor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// One buffer for all tensors: what is in the file is what each was when it was
// added, or writing fails.
func TestBuffersUsedAgainLeaveNoWrongValues(t *testing.T) {
	buffer := make([]byte, 200_000)
	fill := func(i int) *tensor.Tensor {
		for k := range buffer {
			buffer[k] = byte(i + k%7)
		}
		return tensor.New(fmt.Sprintf("t%d", i), tensor.Shape{int64(len(buffer))}, buffer)
	}
	for _, o := range []WriterOptions{
		{Version: "1.0"}, {Version: "1.0", Digest: CRC32C}, {Version: "1.0", Level: 3},
		{Version: "1.0", Digest: SHA256, Level: 1},
		{Version: "2"}, {Version: "2", Level: 3}, {Version: "2", Canonical: true},
	} {
		for _, how := range []string{"Add", "AddAll"} {
			if how == "AddAll" && !o.Canonical {
				continue // reads while ts runs: to change the memory then is a race
			}
			t.Run(fmt.Sprintf("%s of %+v", how, o), func(t *testing.T) {
				var out bytes.Buffer
				w := NewWriter(&out, &o)
				var err error
				if how == "Add" {
					for i := range 5 {
						if err = w.Add(fill(i)); err != nil {
							t.Fatal(err)
						}
					}
				} else {
					err = w.AddAll(t.Context(), func(yield func(*tensor.Tensor, error) bool) {
						for i := range 5 {
							if !yield(fill(i), nil) {
								return
							}
						}
					})
				}
				if err == nil {
					err = w.Close()
				}
				streams := how == "Add" && !o.Canonical
				if err != nil {
					if out.Len() > 0 {
						t.Errorf("%d bytes were written", out.Len())
					}
					if streams || !errors.Is(err, tensor.ErrChecksum) {
						t.Error(err)
					}
					return
				}
				if o.Canonical {
					t.Error("what was kept has changed, and no error says so")
				}
				r, err := OpenBytes(out.Bytes(), nil)
				if err != nil {
					t.Fatal(err)
				}
				for i := range 5 {
					want := fill(i)
					have, err := r.Tensor(want.Name).Data.ReadAll()
					if err != nil || !bytes.Equal(have, buffer) {
						t.Errorf("%s has other bytes, %v", want.Name, err)
					}
				}
			})
		}
	}
}

// Equal content is stored once in canonical form, also where it was compared
// with memory that has changed since it was written.
func TestSharingWithMemoryThatHasChangedIsAnError(t *testing.T) {
	one, second := []byte{1, 2, 3}, []byte{1, 2, 3}
	w := NewWriter(io.Discard, &WriterOptions{Version: "2", Canonical: true})
	if err := w.AddAll(t.Context(), tensor.Of(tensor.New("a", tensor.Shape{3}, one))); err != nil {
		t.Fatal(err)
	}
	one[0] = 9
	if err := w.AddAll(t.Context(),
		tensor.Of(tensor.New("b", tensor.Shape{3}, second))); !errors.Is(err, tensor.ErrChecksum) {
		t.Error(err)
	}
}

// An option that does not fit the version is an error whose message names both.
func TestOptionsThatDoNotFitTheVersionAreNamed(t *testing.T) {
	for _, c := range []struct {
		o    WriterOptions
		says []string
	}{
		{WriterOptions{Version: "2", Digest: CRC32C},
			[]string{"digest", "crc32c", "version 2", "xxh3"}},
		{WriterOptions{Version: "2", Digest: SHA256},
			[]string{"digest", "sha256", "version 2", "xxh3"}},
		{WriterOptions{Version: "2", Generator: "x"}, []string{"generator", "version 2"}},
		{WriterOptions{Version: "1.0", Digest: XXH3},
			[]string{"digest", "xxh3", "version 1.0", "crc32c"}},
		{WriterOptions{Version: "1.0", Canonical: true}, []string{"canonical", "version 1.0"}},
		{WriterOptions{Version: "1.0", Alignment: 4096}, []string{"alignment", "version 1.0"}},
		{WriterOptions{Version: "1.1"}, []string{`"1.1"`, "1.0 and 2"}},
		{WriterOptions{Version: "1.2"}, []string{`"1.2"`, "1.0 and 2"}},
	} {
		err := c.o.Check()
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%+v: %v", c.o, err)
			continue
		}
		for _, word := range c.says {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%+v: %v does not say %s", c.o, err, word)
			}
		}
	}
	for _, o := range []WriterOptions{
		{Canonical: true, Level: 1}, {Canonical: true, KeepOrder: true},
		{Canonical: true, Alignment: 4096},
	} {
		if err := o.Check(); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	for _, o := range []WriterOptions{{Digest: XXH3}, {Version: "1.0", Generator: "x"},
		{Version: "1.0", KeepOrder: true}} {
		if err := o.Check(); err != nil {
			t.Error(err)
		}
	}
	shards := &ShardOptions{MaxSize: 1, Writer: &WriterOptions{Version: "1.0"}}
	if _, err := WriteShards(t.Context(), filepath.Join(t.TempDir(), "x.zt"), tensor.Of(),
		shards); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("shards of version 1.0: %v", err)
	}
}

func TestTagsOfAttributesAreFound(t *testing.T) {
	for value, want := range map[string]bool{"\x01": false, "\x61x": false, "\xc1\x01": true,
		"\x81\xc1\x01": true, "\xa1\xc1\x01\x02": true, "": false} {
		if got := (Value{[]byte(value)}).HasTag(); got != want {
			t.Errorf("%x: %v", value, got)
		}
	}
}
