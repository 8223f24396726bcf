package ptn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/schema/ptnfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// shared has a weight with two aliases and a buffer that the method writes, a tensor that
// the program does not know, and a member that is not part of the package.
func shared(t testing.TB) []byte {
	t.Helper()
	p := sound()
	m := p.at(methods, 0)
	f := meta(ptnfb.ScalarTypeFLOAT, 2, 3)
	constant := func(name, key string) table {
		return table{ptnfb.SlotNamedTensorRefName: name, ptnfb.SlotNamedTensorRefDataKey: key,
			ptnfb.SlotNamedTensorRefMeta: f,
			ptnfb.SlotNamedTensorRefKind: int8(ptnfb.InputKindBUFFER)}
	}
	state := constant("s", "state")
	state[ptnfb.SlotNamedTensorRefMutated] = true
	grown(m, constants, constant("v", "b.weight"), constant("u", "a.weight"), state)
	m.at(specs, 1)[ptnfb.SlotOutputSpecTarget] = "state"
	data := weights(49, map[string]any{
		"fc.weight": entry{"F32", []int64{2, 3}, [2]int64{0, 24}},
		"state":     entry{"F32", []int64{2, 3}, [2]int64{24, 48}},
		"unknown":   entry{"U8", []int64{1}, [2]int64{48, 49}}})
	for i := range 49 {
		data[len(data)-49+i] = byte(i)
	}
	return archived(t, member{programMember, p.bytes(t)}, member{weightsMember, data},
		member{aliasesMember, []byte(`{"a.weight":"fc.weight","b.weight":"fc.weight"}`)},
		member{"notes", []byte("kept")})
}

// contents are names with the bytes of their tensors, and with an asterisk where the name
// is an alias.
func contents(t testing.TB, r *Reader) map[string]string {
	t.Helper()
	all := map[string]string{}
	for x := range r.Tensors() {
		b, err := x.Data.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		name := x.Name
		if _, ok := r.Owner(name); ok {
			name += "*"
		}
		all[name] = fmt.Sprintf("%v%v %x", x.DType, x.Shape, b)
	}
	return all
}

func edited(t testing.TB, b []byte, change func(e *Edit) error) (*Reader, error) {
	t.Helper()
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := NewEdit(r)
	if err := change(e); err != nil {
		return nil, err
	}
	var out, again bytes.Buffer
	if err := e.Write(t.Context(), &out, nil); err != nil {
		return nil, err
	}
	if err := e.Write(t.Context(), &again, nil); err != nil || !bytes.Equal(out.Bytes(),
		again.Bytes()) {
		t.Fatalf("written again it differs: %v", err)
	}
	r, err = OpenBytes(out.Bytes(), &ReaderOptions{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err != nil {
		t.Fatal(err)
	}
	return r, nil
}

// keys are the names that the program refers to, and what its outputs replace.
func keys(r *Reader) (all []string) {
	for m := range r.Methods() {
		for c := range m.Constants() {
			all = append(all, c.Key)
		}
		for o := range m.Outputs() {
			if o.Target != "" {
				all = append(all, "-> "+o.Target)
			}
		}
	}
	return all
}

func TestEditsChangeValuesAndNames(t *testing.T) {
	x := func(fill float32) *tensor.Tensor {
		return tensor.New("x", tensor.Shape{2, 3}, slices.Repeat([]float32{fill}, 6))
	}
	const old, state, unknown = "000102030405060708090a0b0c0d0e0f1011121314151617",
		"18191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f", "30"
	ones, twos := strings.Repeat("0000803f", 6), strings.Repeat("00000040", 6)
	unchanged := "fc.weight b.weight a.weight state -> state"
	for _, c := range []struct {
		name   string
		change func(e *Edit) error
		want   string // names, and bytes
		keys   string
	}{
		{"nothing", func(e *Edit) error { return nil },
			"a.weight " + old + " b.weight* fc.weight* state " + state + " unknown " + unknown,
			unchanged},
		{"a new name of the stored one", func(e *Edit) error { return e.Rename("fc.weight", "z") },
			"a.weight " + old + " b.weight* state " + state + " unknown " + unknown + " z*",
			"z b.weight a.weight state -> state"},
		{"a new name of an alias", func(e *Edit) error { return e.Rename("a.weight", "zé\n") },
			"b.weight " + old + " fc.weight* state " + state + " unknown " + unknown + " zé\n*",
			"fc.weight b.weight zé\n state -> state"},
		{"a new name of state", func(e *Edit) error { return e.Rename("state", "kv") },
			"a.weight " + old + " b.weight* fc.weight* kv " + state + " unknown " + unknown,
			"fc.weight b.weight a.weight kv -> kv"},
		{"two names change places", func(e *Edit) error {
			return errors.Join(e.Rename("state", "a.weight"), e.Rename("a.weight", "state"))
		}, "a.weight " + state + " b.weight " + old + " fc.weight* state* unknown " + unknown,
			"fc.weight b.weight state a.weight -> a.weight"},
		{"new values of an alias", func(e *Edit) error { return e.Replace("a.weight", x(1)) },
			"a.weight " + ones + " b.weight " + old + " fc.weight* state " + state +
				" unknown " + unknown,
			unchanged},
		{"new values of the stored one", func(e *Edit) error {
			return e.Replace("fc.weight",
				x(1))
		},
			"a.weight " + old + " b.weight* fc.weight " + ones + " state " + state + " unknown " +
				unknown, unchanged},
		{"new values of all", func(e *Edit) error {
			return errors.Join(e.Replace("fc.weight", x(1)), e.Replace("a.weight", x(2)),
				e.Replace("b.weight", x(1)), e.Rename("b.weight", "c"))
		},
			"a.weight " + twos + " c " + ones + " fc.weight " + ones + " state " + state +
				" unknown " +
				unknown, "fc.weight c a.weight state -> state"},
		{"new values of state that equal another's", func(e *Edit) error {
			return e.Replace("state", x(1))
		}, "a.weight " + old + " b.weight* fc.weight* state " + ones + " unknown " + unknown,
			unchanged},
		{"a tensor less", func(e *Edit) error { return e.Remove("unknown") },
			"a.weight " + old + " b.weight* fc.weight* state " + state, unchanged},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := edited(t, shared(t), c.change)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			all := contents(t, r)
			for _, name := range slices.Sorted(maps.Keys(all)) {
				got += " " + name
				if !strings.HasSuffix(name, "*") {
					_, data, _ := strings.Cut(all[name], "] ")
					got += " " + data
				}
			}
			if got != " "+c.want {
				t.Errorf("got%s\nwant %s", got, c.want)
			}
			if got := strings.Join(keys(r), " "); got != c.keys {
				t.Errorf("the program refers to %s, not %s", got, c.keys)
			}
			members := ""
			for s := range r.Spans() {
				if s.Kind == tensor.SpanUnused {
					members += s.Name
				}
			}
			if members != "notes" {
				t.Errorf("other members: %q", members)
			}
		})
	}
}

func TestEditRefusesWhatAPackageCannotHave(t *testing.T) {
	x := tensor.New("x", tensor.Shape{2, 3}, make([]float32, 6))
	column := *x
	column.Order = tensor.Order{1, 0}
	for _, c := range []struct {
		name   string
		change func(e *Edit) error
		class  error
	}{
		{"an absent name", func(e *Edit) error { return e.Rename("q", "r") }, tensor.ErrNoTensor},
		{"an absent tensor", func(e *Edit) error { return e.Replace("q", x) }, tensor.ErrNoTensor},
		{"an absent one to remove", func(e *Edit) error { return e.Remove("q") },
			tensor.ErrNoTensor},
		{"a tensor that is needed", func(e *Edit) error { return e.Remove("a.weight") },
			errors.ErrUnsupported},
		{"a name that is taken", func(e *Edit) error { return e.Rename("state", "a.weight") },
			tensor.ErrDuplicate},
		{"the name of a buffer", func(e *Edit) error { return e.Rename("state", "cache") },
			tensor.ErrDuplicate},
		{"no name", func(e *Edit) error { return e.Rename("state", "") }, errors.ErrUnsupported},
		{"a reserved name", func(e *Edit) error { return e.Rename("state", "__metadata__") },
			errors.ErrUnsupported},
		{"a name that is not text", func(e *Edit) error { return e.Rename("state", "\xff") },
			errors.ErrUnsupported},
		{"a long name", func(e *Edit) error {
			return e.Rename("state", strings.Repeat("x",
				1<<20+1))
		},
			errors.ErrUnsupported},
		{"another shape", func(e *Edit) error {
			return e.Replace("state", tensor.New("x", tensor.Shape{6}, make([]float32, 6)))
		}, errors.ErrUnsupported},
		{"another dtype", func(e *Edit) error {
			return e.Replace("state", tensor.New("x", tensor.Shape{2, 3}, make([]int32, 6)))
		}, errors.ErrUnsupported},
		{"another order", func(e *Edit) error { return e.Replace("state", &column) },
			errors.ErrUnsupported},
		{"an attribute", func(e *Edit) error { return e.SetAttribute("a", "b") },
			errors.ErrUnsupported},
		{"memory that changes", func(e *Edit) error {
			b := make([]byte, 24)
			t := &tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{2, 3},
				Data: tensor.BlobOf(b)}
			err := e.Replace("state", t)
			b[3] = 1
			return err
		}, tensor.ErrChecksum},
	} {
		if r, err := edited(t, shared(t), c.change); !errors.Is(err, c.class) || r != nil {
			t.Errorf("%s: got %v, want %v", c.name, err, c.class)
		}
	}
	if _, err := edited(t, shared(t),
		func(e *Edit) error { return e.RemoveAttribute("a") }); err != nil {
		t.Errorf("an absent attribute: %v", err)
	}
}

func TestEditOfAProgramRenamesAndRefusesToReplace(t *testing.T) {
	p := sound()
	packed(p)
	b := p.bytes(t)
	r, err := edited(t, b, func(e *Edit) error { return e.Rename("fc.weight", "a longer name") })
	if err != nil || r.Tensor("a longer name") == nil || r.archive != nil {
		t.Fatal(err)
	}
	_, err = edited(t, b, func(e *Edit) error {
		return e.Replace("fc.weight", tensor.New("", tensor.Shape{2, 8}, make([]uint8, 16)))
	})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	whole := archived(t, member{programMember, b}, member{weightsMember, packedWeights()})
	r, err = edited(t, whole, func(e *Edit) error { return e.Rename("scale", "s") })
	if err != nil {
		t.Fatal(err)
	}
	for m := range r.Methods() {
		for c := range m.Constants() {
			if c.Info.Quant.Scale != "s" {
				t.Errorf("the scale is %q", c.Info.Quant.Scale)
			}
		}
	}
}

func TestEditWriteFails(t *testing.T) {
	r, err := OpenBytes(shared(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	e := NewEdit(r)
	if err := e.Rename("state", "kv"); err != nil {
		t.Fatal(err)
	}
	err = readtest.FailedWrites(func(w io.Writer) error { return e.Write(t.Context(), w, nil) })
	if err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	name := filepath.Join(t.TempDir(), "x.ptn")
	if err := e.WriteFile(ctx, name, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("a file of an ended context")
	}
	done, total := int64(0), int64(0)
	opts := WriterOptions{Progress: func(d, t int64) { done, total = d, t }}
	if err := e.WriteFile(t.Context(), name, &opts); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || done != total || done != info.Size() {
		t.Errorf("progress ends with %d of %d, %v", done, total, err)
	}
}

// TestEditsForTheReferenceAreWritten edits the packages that the reference wrote, for
// its own reader to judge: interop/ptn.sh.
func TestEditsForTheReferenceAreWritten(t *testing.T) {
	in, out := os.Getenv("TENSORFILE_PTN"), os.Getenv("TENSORFILE_PTN_OUT")
	if out == "" {
		in, out = "../testdata/ptn", t.TempDir()
	}
	names, _ := filepath.Glob(filepath.Join(in, "*.ptn"))
	if len(names) == 0 {
		t.Fatalf("no files in %s", in)
	}
	for _, name := range names {
		r, err := Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		e, want, i := NewEdit(r), map[string]string{}, 0
		for x := range r.Tensors() {
			b, err := x.Data.ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			to := x.Name
			if i%2 == 0 {
				to = fmt.Sprintf("renamed/%d é \"%s\"", i, x.Name)
				err = e.Rename(x.Name, to)
			}
			if i%3 == 0 {
				for k := range b { // bools stay bools
					b[k] ^= 1
				}
				err = errors.Join(err, e.Replace(x.Name, &tensor.Tensor{DType: x.DType,
					Shape: x.Shape,
					Data:  tensor.BlobOf(b)}))
			}
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(b)
			want[to] = fmt.Sprintf("%v %v %x", x.DType, x.Shape, sum)
			i++
		}
		file := filepath.Join(out, filepath.Base(name))
		if err := e.WriteFile(t.Context(), file, nil); err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(want)
		if err := os.WriteFile(file+".want", text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, broken := r.Verify(t.Context(), nil)
		w, err := Open(file, &ReaderOptions{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Verify(t.Context(), nil); (err == nil) != (broken == nil) {
			t.Errorf("%s: %v, before %v", name, err, broken)
		}
		for n, s := range want {
			x := w.Tensor(n)
			if x == nil {
				t.Fatalf("%s: no %q", name, n)
			}
			b, _ := x.Data.ReadAll()
			sum := sha256.Sum256(b)
			if got := fmt.Sprintf("%v %v %x", x.DType, x.Shape, sum); got != s {
				t.Errorf("%s: %q is %s, not %s", name, n, got, s)
			}
		}
		w.Close()
		r.Close()
	}
}

// FuzzEdit renames and replaces what it can, and opens what that gives.
func FuzzEdit(f *testing.F) {
	for _, b := range append(seeds(f), shared(f)) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := OpenBytes(b, nil)
		if err != nil || r.Len() > 1000 {
			return
		}
		e, want := NewEdit(r), map[string]string{}
		for x := range r.Tensors() {
			data, err := x.Data.ReadAll()
			if err != nil {
				return
			}
			if len(want)%2 == 0 && len(want) > 0 && !x.External && x.DType.Known() {
				if err := e.Replace(x.Name, &tensor.Tensor{DType: x.DType, Shape: x.Shape,
					Data: tensor.BlobOf(data)}); err != nil {
					t.Fatal(err)
				}
			}
			to := fmt.Sprintf("to %d", len(want))
			if err := e.Rename(x.Name, to); err != nil {
				t.Fatal(err)
			}
			want[to] = fmt.Sprintf("%v%v %x", x.DType, x.Shape, data)
		}
		var out bytes.Buffer
		if err := e.Write(t.Context(), &out, nil); err != nil {
			return // a program whose parts lie over each other
		}
		w, err := OpenBytes(out.Bytes(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for x := range w.Tensors() {
			data, _ := x.Data.ReadAll()
			if got := fmt.Sprintf("%v%v %x", x.DType, x.Shape,
				data); got != want[x.Name] && r.archive != nil {
				t.Errorf("%q is %s, not %s", x.Name, got, want[x.Name])
			}
		}
	})
}
