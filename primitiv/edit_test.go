package primitiv_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestEditOfNothingKeepsEveryByte(t *testing.T) {
	files, _ := goldens(t)
	files["shape"] = join(head(0), "\x92", 2, 3, 5)
	files["tensor"] = join(head(0x100), "\x91", 2, 3, "\xc4\x18", "abcdefghijklmnopqrstuvwx")
	for name, data := range files {
		if got := edited(t, open(t, data),
			func(*primitiv.Edit) error { return nil }); !bytes.Equal(got, data) {
			t.Errorf("%s has changed", name)
		}
	}
}

func TestEditMovesAValueWithItsStatistics(t *testing.T) {
	files, _ := goldens(t)
	data := files["model-nested.primitiv"]
	column := tensor.New("", tensor.Shape{2}, []float32{5, 6})
	const (
		attention = "decoder.attention.w[3, 4] decoder.attention.w:Adam.m2[3, 4] decoder.attention.w:Adam.m1[3, 4] "
		decoder   = "decoder.b[3] decoder.b:MomentumSGD.m[3] "
	)
	if got := names(open(t, data)); !strings.HasPrefix(got, attention+decoder) {
		t.Fatal(got)
	}
	for name, c := range map[string]struct {
		change func(e *primitiv.Edit) error
		want   string // what comes first
	}{
		"a value moves with its statistics": {func(e *primitiv.Edit) error {
			return e.Rename("decoder.b", "a.b.c")
		},
			"a.b.c[3] a.b.c:MomentumSGD.m[3] " + attention},
		"two values swap": {func(e *primitiv.Edit) error {
			return errors.Join(e.Rename("decoder.b", "decoder.attention.w"),
				e.Rename("decoder.attention.w", "decoder.b"))
		}, "decoder.attention.w[3] decoder.attention.w:MomentumSGD.m[3] decoder.b[3, 4] "},
		"a statistic, by the old name of its value": {func(e *primitiv.Edit) error {
			return errors.Join(e.Rename("decoder.b", "a"),
				e.Rename("decoder.b:MomentumSGD.m", "decoder.b:m"))
		}, "a[3] a:m[3] "},
		"a statistic, by the new name of its value": {func(e *primitiv.Edit) error {
			return errors.Join(e.Rename("decoder.b:MomentumSGD.m", "a:m"),
				e.Rename("decoder.b", "a"))
		}, "a[3] a:m[3] "},
		"a value is removed with its statistics": {func(e *primitiv.Edit) error {
			return e.Remove("decoder.attention.w")
		}, decoder},
		"a statistic is removed": {func(e *primitiv.Edit) error {
			return e.Remove("decoder.attention.w:Adam.m2")
		},
			"decoder.attention.w[3, 4] decoder.attention.w:Adam.m1[3, 4] " + decoder},
		"a value is replaced": {func(e *primitiv.Edit) error {
			return e.Replace("decoder.b", column)
		}, attention + "decoder.b[2] decoder.b:MomentumSGD.m[3] "},
		"a statistic is replaced": {func(e *primitiv.Edit) error {
			return e.Replace("decoder.b:MomentumSGD.m", column)
		}, attention + "decoder.b[3] decoder.b:MomentumSGD.m[2] "},
		"a submodel moves": {func(e *primitiv.Edit) error {
			return errors.Join(e.Rename("decoder.b", "a.d.b"),
				e.Rename("decoder.attention.w", "a.d.attention.w"))
		}, "a.d.attention.w[3, 4] a.d.attention.w:Adam.m2[3, 4] "},
	} {
		r := open(t, data)
		if got := names(open(t, edited(t, r, c.change))); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
		if got := edited(t, r, func(*primitiv.Edit) error { return nil }); !bytes.Equal(got,
			data) {
			t.Errorf("%s: the Reader has changed", name)
		}
	}
}

func TestEditRefusesWhatAFileCannotHave(t *testing.T) {
	files, _ := goldens(t)
	r := open(t, files["model-nested.primitiv"])
	e := primitiv.NewEdit(r)
	for name, err := range map[string]error{
		"rename": e.Rename("absent", "x"), "remove": e.Remove("absent"),
		"replace":           e.Replace("absent", tensor.New("", nil, []float32{1})),
		"rename a submodel": e.Rename("decoder", "x"), "remove a submodel": e.Remove("decoder"),
	} {
		if !errors.Is(err, tensor.ErrNoTensor) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := e.Replace("decoder.b",
		tensor.New("", tensor.Shape{2}, []float32{1})); !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("a wrong shape: %v", err)
	}
	if err := errors.Join(e.SetAttribute("a", "b")); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	for name, change := range map[string]func(e *primitiv.Edit) error{
		"another's name": func(e *primitiv.Edit) error {
			return e.Rename("scale", "decoder.b")
		},
		"below another": func(e *primitiv.Edit) error {
			return e.Rename("scale", "decoder.b.x")
		},
		"the name of a submodel": func(e *primitiv.Edit) error {
			return e.Rename("scale", "decoder")
		},
	} {
		e := primitiv.NewEdit(r)
		if err := change(e); err != nil {
			t.Fatal(err)
		}
		if err := e.Write(t.Context(), io.Discard, nil); !errors.Is(err, tensor.ErrDuplicate) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e = primitiv.NewEdit(r)
	if err := e.Rename("decoder.b:MomentumSGD.m", "scale:m"); err != nil {
		t.Fatal(err)
	}
	if err := e.Write(t.Context(), io.Discard, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a statistic of another value: %v", err)
	}
	p := open(t, files["parameter-matrix.primitiv"])
	if err := primitiv.NewEdit(p).Rename("value", "x"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the name of a value alone: %v", err)
	}
	e = primitiv.NewEdit(p)
	if err := e.Remove("value"); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "f")
	if err := e.WriteFile(t.Context(), name, nil); !errors.Is(err, tensor.ErrNoTensor) {
		t.Errorf("nothing left: %v", err)
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file appeared: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := primitiv.NewEdit(r).WriteFile(cancelled, name, nil); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := primitiv.WriteFile(cancelled, name, tensor.Of(), nil); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := readtest.FailedWrites(func(w io.Writer) error {
		return primitiv.NewEdit(r).Write(t.Context(), w, nil)
	}); err != nil {
		t.Error(err)
	}
}

func TestEditChangesOptimizersTensorsAndParameters(t *testing.T) {
	files, _ := goldens(t)
	optimizer := edited(t, open(t, files["optimizer-Adam-default.primitiv"]),
		func(e *primitiv.Edit) error {
			if err := e.SetAttribute(primitiv.Epoch, "-1"); !errors.Is(err, tensor.ErrDType) {
				t.Errorf("a negative epoch: %v", err)
			}
			return errors.Join(e.SetAttribute(primitiv.Epoch, "7"), e.RemoveAttribute("Adam.eps"))
		})
	o := open(t, optimizer).Optimizer()
	if o.Uints[0].Value != 7 || len(o.Floats) != 6 {
		t.Errorf("%+v", o)
	}
	batched := tensor.New("", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6})
	batched.Order = tensor.ColumnMajor(2)
	file := edited(t, open(t,
		join(head(0x100), "\x91", 2, 3, "\xc4\x18", "abcdefghijklmnopqrstuvwx")),
		func(e *primitiv.Edit) error {
			return e.Replace("tensor", batched)
		})
	if r := open(t, file); r.Shape().String() != "[2]x3" {
		t.Errorf("the batch of a replaced tensor: %v", r.Shape())
	}
	value := edited(t, open(t, files["parameter-six-optimizers.primitiv"]),
		func(e *primitiv.Edit) error {
			return errors.Join(e.Remove("value:Adam.m1"),
				e.Rename("value:Adam.m2", "value:second"))
		})
	r := open(t, value)
	if r.Tensor("value:Adam.m1") != nil || r.Tensor("value:second") == nil {
		t.Error(names(r))
	}
}
