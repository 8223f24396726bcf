package repotest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// damagedFiles are files with one tensor, of which a payload byte is wrong.
func damagedFiles(t *testing.T) map[string][]byte {
	values := make([]float32, 12_000)
	for i := range values {
		values[i] = float32(i) * 1.25
	}
	x := tensor.New("x", tensor.Shape{100, 120}, values)
	out := map[string][]byte{}
	make := func(name string, write func(w io.Writer) error) {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(name, err)
		}
		f, err := tensorfile.OpenBytes(b.Bytes(), nil)
		if err != nil {
			t.Fatal(name, err)
		}
		st, _ := f.Tensor("x").Data.Stored()
		b.Bytes()[st.Offset+st.Size/2] ^= 1
		out[name] = b.Bytes()
	}
	type writer interface {
		Add(*tensor.Tensor) error
		Close() error
	}
	one := func(w writer) error { return errors.Join(w.Add(x), w.Close()) }
	make("zTensor 1.0", func(w io.Writer) error {
		return one(ztensor.NewWriter(w,
			&ztensor.WriterOptions{Version: "1.0", Digest: ztensor.CRC32C}))
	})
	make("zTensor 2", func(w io.Writer) error {
		return one(ztensor.NewWriter(w, &ztensor.WriterOptions{Version: "2"}))
	})
	make("npz", func(w io.Writer) error { return one(npz.NewWriter(w, nil)) })
	return out
}

// Whether a digest is checked may depend on Strict, never on mapping.
func TestDigestsAreCheckedMappedOrNot(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	for format, b := range damagedFiles(t) {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		for how, open := range map[string]func(o tensorfile.Options) (*tensorfile.File, error){
			"mapped": func(o tensorfile.Options) (*tensorfile.File,
				error) {
				return tensorfile.Open(name, &o)
			},
			"unmapped": func(o tensorfile.Options) (*tensorfile.File, error) {
				o.NoMap = true
				return tensorfile.Open(name, &o)
			},
			"bytes": func(o tensorfile.Options) (*tensorfile.File, error) {
				return tensorfile.OpenBytes(b, &o)
			},
			"reader": func(o tensorfile.Options) (*tensorfile.File, error) {
				return tensorfile.NewReader(bytes.NewReader(b), int64(len(b)), &o)
			},
		} {
			for _, strict := range []bool{false, true} {
				f, err := open(tensorfile.Options{Strict: strict})
				if err != nil {
					t.Fatal(format, how, err)
				}
				for way, use := range waysToRead(t, f.Tensor("x")) {
					err := use.read()
					if want := strict || use.checks; errors.Is(err, tensor.ErrChecksum) != want ||
						!want && err != nil {
						t.Errorf("%s, %s, strict %v: %s: %v", format, how, strict, way, err)
					}
				}
				f.Close()
			}
		}
	}
}

// A way to read a tensor, and whether it checks digests without Strict.
type wayToRead struct {
	checks bool
	read   func() error
}

func waysToRead(t *testing.T, x *tensor.Tensor) map[string]wayToRead {
	into := func(name string, write func(name string) error) wayToRead {
		return wayToRead{true, func() error {
			name := filepath.Join(t.TempDir(), name)
			err := write(name)
			if _, e := os.Stat(name); e == nil {
				t.Errorf("%s appeared", name)
			}
			return err
		}}
	}
	loose := func(read func() error) wayToRead { return wayToRead{false, read} }
	ts := tensor.Of(x)
	return map[string]wayToRead{
		"WriteTo": {true, func() error { _, err := x.Data.WriteTo(io.Discard); return err }},
		"Open": {true, func() error {
			r, err := x.Data.Open()
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.Copy(io.Discard, r)
			return err
		}},
		"View": loose(func() error {
			_, err := tensor.View[float32](x)
			if errors.Is(err, tensor.ErrNoView) {
				_, err = tensor.Load[float32](x)
			}
			return err
		}),
		"Bytes": loose(func() error {
			if p, ok := x.Data.Bytes(); ok && len(p) > 0 {
				return nil
			}
			_, err := x.Data.ReadAll()
			return err
		}),
		"Load":    loose(func() error { _, err := tensor.Load[float32](x); return err }),
		"Convert": loose(func() error { _, err := tensor.Convert[float32](x); return err }),
		"ReadAll": loose(func() error { _, err := x.Data.ReadAll(); return err }),
		"ReadAt": loose(func() error {
			_, err := x.Data.ReadAt(make([]byte, 10), 5)
			return err
		}),
		"Reordered": {true, func() error {
			_, err := tensor.Reordered(x, tensor.Order{1, 0})
			return err
		}},
		"Section": loose(func() error {
			part, err := x.Data.Section(4, 40)
			if err == nil {
				_, err = part.WriteTo(io.Discard)
			}
			return err
		}),
		"safetensors": into("m.safetensors",
			func(name string) error { return safetensors.WriteFile(t.Context(), name, ts, nil) }),
		"ptd": into("m.ptd",
			func(name string) error { return ptd.WriteFile(t.Context(), name, ts, nil) }),
		"npz": into("m.npz",
			func(name string) error { return npz.WriteFile(t.Context(), name, ts, nil) }),
		"npy": {true, func() error { return npy.NewWriter(io.Discard, nil).Add(x) }},
		"ztensor": into("m.zt",
			func(name string) error { return ztensor.WriteFile(t.Context(), name, ts, nil) }),
		"ztensor 1.0": into("m.zt", func(name string) error {
			return ztensor.WriteFile(t.Context(), name, ts, &ztensor.WriterOptions{Version: "1.0"})
		}),
		"primitiv": into("m.primitiv", func(name string) error {
			return primitiv.WriteFile(t.Context(), name, ts,
				&primitiv.WriterOptions{Reorder: true})
		}),
		"rten": {true, func() error {
			g := rten.NewGraphBuilder()
			g.Constant(x)
			return g.Write(t.Context(), io.Discard, nil)
		}},
		"rten 1": {true, func() error {
			g := rten.NewGraphBuilder()
			g.Constant(x)
			return g.Write(t.Context(), io.Discard, &rten.WriterOptions{Version: "1"})
		}},
		"rten inline": {true, func() error {
			g := rten.NewGraphBuilder()
			g.Constant(x)
			return g.Write(t.Context(), io.Discard, &rten.WriterOptions{InlineElements: 1 << 20})
		}},
		"gguf": into("m.gguf",
			func(name string) error { return gguf.WriteFile(t.Context(), name, ts, nil) }),
		"pte": into("m.pte", func(name string) error {
			p := pte.NewBuilder()
			m := p.Method("forward")
			m.Return(m.Constant(x))
			return p.WriteFile(t.Context(), name, nil)
		}),
	}
}
