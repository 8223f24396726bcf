package repotest

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	. "github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
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

// target returns a Target of a format and version: with its Caps, and with Create of
// package tensorfile unless the options are others than those.
func target(f tensorfile.Format, version, options string,
	newWriter func(w io.Writer) Writer) Target {
	caps := f.CapsOf(version)
	x := Target{
		Name:      strings.Join(strings.Fields(f.String()+" "+version+" "+options), " "),
		NewWriter: newWriter,
		Open: func(b []byte) (Reader, error) {
			return tensorfile.OpenBytes(b, &tensorfile.Options{Format: f})
		},
		DTypes: caps.DTypes, Orders: caps.Orders.Hold, MaxRank: caps.MaxRank,
		One: caps.Names == tensorfile.OneName,
	}
	if f != tensorfile.NPY && f != tensorfile.PTE && !x.One {
		x.NewEdit = newEdit
	}
	if options == "" && f != tensorfile.PTE {
		x.Create = func(name string) (Writer, error) {
			return tensorfile.Create(name, f, &tensorfile.WriterOptions{Version: version})
		}
	}
	if !caps.ZeroDims {
		x.Refuses = append(x.Refuses, ZeroDim, HugeDim)
	}
	if caps.Sparse {
		x.Accepts = append(x.Accepts, Sparse)
	}
	if caps.Extras {
		x.Accepts = append(x.Accepts, Extras)
	}
	return x
}

// An edit is a tensorfile.Edit with Replace, which every Edit of a package has.
type edit struct {
	tensorfile.Edit
	replacer
}

type replacer interface {
	Replace(name string, t *tensor.Tensor) error
}

func newEdit(r Reader) (Edit, error) {
	e, err := tensorfile.NewEdit(r.(*tensorfile.File))
	if err != nil {
		return nil, err
	}
	return edit{e, e.Sys().(replacer)}, nil
}

// programs are the targets that have an Edit, but no Writer: their tensors are constants
// of a program.
func programs() []Target {
	x := target(tensorfile.PTE, "", "", nil)
	x.NewEdit = newEdit
	x.DTypes, x.FixedShape, x.Removes = []tensor.DType{tensor.F32}, true, errors.ErrUnsupported
	x.Base = func(t *testing.T, plain func(name string) *tensor.Tensor) ([]string, []byte) {
		names := []string{"a", "b", "c"}
		b := pte.NewBuilder()
		m := b.Method("forward")
		var refs []pte.Ref
		for _, n := range names {
			refs = append(refs, m.Constant(plain(n)).Name(n))
		}
		m.Return(refs...)
		var out bytes.Buffer
		if err := b.Write(t.Context(), &out, nil); err != nil {
			t.Fatal(err)
		}
		return names, out.Bytes()
	}
	x.Refuses = []string{EmptyName, NULName, NotUTF8Name}
	return []Target{x}
}

// targets are all formats that are written from tensors, in each version and in each
// way that differs.
func targets() (all []Target) {
	add := func(x Target, refuses ...string) {
		x.Refuses = append(x.Refuses, refuses...)
		all = append(all, x)
	}
	for _, version := range tensorfile.ZTensor.Writes() {
		refuses := []string{NotUTF8Name}
		if version == "2" {
			refuses = append(refuses, EmptyName, NULName, Name1025, Name65532)
		}
		for options, o := range map[string]ztensor.WriterOptions{"": {}, "zstd": {Level: 1},
			"canonical": {Canonical: true}} {
			if o.Canonical && version != "2" {
				continue
			}
			o.Version = version
			x := target(tensorfile.ZTensor, version, options,
				func(w io.Writer) Writer { return ztensor.NewWriter(w, &o) })
			x.Streams, x.Accepts = !o.Canonical, append(x.Accepts, UnknownSize)
			if o.Canonical {
				x.Refuses = append(x.Refuses, UnicodeName)
			}
			if options != "" {
				x.NewEdit = nil // a revision has options of its own
			}
			if version != "1.0" { // parts of any scheme
				x.Accepts = append(x.Accepts, BlocksOf)
			}
			add(x, refuses...)
		}
	}
	add(target(tensorfile.PTD, "", "",
		func(w io.Writer) Writer { return ptd.NewWriter(w, nil) }),
		EmptyName, NULName, NotUTF8Name, HugeDim)
	for _, version := range tensorfile.RTen.Writes() {
		x := target(tensorfile.RTen, version, "", func(w io.Writer) Writer {
			return rten.NewWriter(w, &rten.WriterOptions{Version: version})
		})
		x.Nameless, x.FixedShape = true, true
		add(x, NotUTF8Name, HugeDim)
	}
	x := target(tensorfile.Primitiv, "", "",
		func(w io.Writer) Writer { return primitiv.NewWriter(w, nil) })
	x.Trailing, x.Suffix = true, true // a parameter and a model of one path
	add(x)
	x = target(tensorfile.Primitiv, "", "tensor", func(w io.Writer) Writer {
		return primitiv.NewWriter(w, &primitiv.WriterOptions{Kind: primitiv.KindTensor})
	})
	x.Trailing, x.One, x.Empty = true, true, tensor.ErrNoTensor
	add(x)
	x = target(tensorfile.Primitiv, "", "parameter", func(w io.Writer) Writer {
		return primitiv.NewWriter(w, &primitiv.WriterOptions{Kind: primitiv.KindParameter})
	})
	x.Trailing, x.One, x.Empty = true, true, tensor.ErrNoTensor
	add(x)
	for _, keep := range []bool{false, true} {
		options := ""
		if keep {
			options = "in the order given"
		}
		x = target(tensorfile.Safetensors, "", options, func(w io.Writer) Writer {
			return safetensors.NewWriter(w, &safetensors.WriterOptions{KeepOrder: keep})
		})
		if keep {
			x.NewEdit = nil // it always keeps the order
		}
		add(x, NotUTF8Name, ReservedName)
	}
	x = target(tensorfile.NPY, "", "", func(w io.Writer) Writer { return npy.NewWriter(w, nil) })
	x.Streams, x.Empty = true, tensor.ErrNoTensor
	add(x)
	for _, compress := range []bool{false, true} {
		options := ""
		if compress {
			options = "compressed"
		}
		x = target(tensorfile.NPZ, "", options, func(w io.Writer) Writer {
			return npz.NewWriter(w, &npz.WriterOptions{Compress: compress})
		})
		x.Streams, x.Suffix = true, true
		add(x, NotUTF8Name, NULName, Name65532)
	}
	x = target(tensorfile.GGUF, "3", "",
		func(w io.Writer) Writer { return gguf.NewWriter(w, nil) })
	x.Accepts = append(x.Accepts, Blocks, BlocksOf)
	add(x, NULName, NotUTF8Name, Name64, Name1025, Name65532)
	slices.SortFunc(all, func(a, b Target) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// TestWritersOfAllFormatsKeepTheRulesOfALifecycle is the lifecycle of the Writers of
// all formats. Files of what they accept go to the directory TENSORFILE_LIFECYCLE, for
// interop.
func TestWritersOfAllFormatsKeepTheRulesOfALifecycle(t *testing.T) {
	for _, x := range targets() {
		t.Run(x.Name, func(t *testing.T) {
			Writers(t, x, keep)
		})
	}
}

// TestEditsOfAllFormatsKeepTheRulesOfALifecycle is the lifecycle of the Edits of all
// formats, likewise.
func TestEditsOfAllFormatsKeepTheRulesOfALifecycle(t *testing.T) {
	for _, x := range append(targets(), programs()...) {
		if x.NewEdit == nil || x.One {
			continue
		}
		t.Run(x.Name, func(t *testing.T) {
			Edits(t, x, keep)
		})
	}
}

func keep(name string, b []byte) {
	if dir := os.Getenv("TENSORFILE_LIFECYCLE"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			panic(err)
		}
	}
}
