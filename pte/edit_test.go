package pte

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestEditWithoutChangesKeepsEveryByte(t *testing.T) {
	for _, name := range programs(t) {
		r := openFile(t, name)
		got := rewritten(t, NewEdit(r))
		if !bytes.Equal(program(t, got), program(t, r)) {
			t.Errorf("%s comes back changed", filepath.Base(name))
		}
	}
}

func TestRebuildingLosesNothing(t *testing.T) {
	for _, name := range programs(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			r := openFile(t, name)
			e := NewEdit(r)
			if err := e.takeApart(); err != nil {
				t.Fatal(err)
			}
			got := rewritten(t, e)
			sameFacts(t, r, got, "header")
			// A field that was absent, empty or stored as a default is so again: taken
			// apart once more, the trees agree.
			f := NewEdit(got)
			if err := f.takeApart(); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(e.draft.tree, f.draft.tree) {
				t.Error("the trees of fields differ")
			}
		})
	}
}

func TestSegmentAlignmentHoldsInTheFile(t *testing.T) {
	for _, name := range programs(t) {
		r := openFile(t, name)
		for _, n := range []int64{1, 12, 4096, 16384} {
			e := NewEdit(r)
			e.Unwrap()
			got := rewrittenWith(t, e, &WriterOptions{SegmentAlignment: n})
			sameFacts(t, r, got, "header")
			for _, s := range got.Program().Segments() {
				if s.Size > 0 && s.Offset%n != 0 {
					t.Errorf("%s: segment %d at %d is not aligned to %d", filepath.Base(name),
						s.Index, s.Offset, n)
				}
			}
		}
	}
}

func TestModernizeKeepsTheContentOfOldPrograms(t *testing.T) {
	for _, name := range oldPrograms(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			r := openFile(t, name)
			e := NewEdit(r)
			if err := e.Modernize(); err != nil {
				t.Fatal(err)
			}
			got := rewritten(t, e)
			sameFacts(t, r, got, "header", "tensors")
			if h := r.Header(); h.Length == 24 {
				if g := got.Header(); g.Length != 32 || g.SegmentBase != h.SegmentBase ||
					h.SegmentBase > 0 && g.SegmentBase+g.SegmentDataSize != got.Size() {
					t.Errorf("upgraded %+v to %+v", h, g)
				}
				if !bytes.Equal(got.buf[40:], r.buf[40:]) {
					t.Error("more than the header changed")
				}
			}
			for x := range r.Entries() {
				if x.Buffer == 0 {
					continue
				}
				y := got.value(x.valueID()).entry()
				if sha(t, x.Data) != sha(t, y.Data) {
					t.Errorf("%s changed", x.Name)
				}
			}
			if w := got.Warnings(); len(w) > 0 {
				t.Errorf("a modern program has warnings: %v", w)
			}
		})
	}
}

func TestTrailingBytesAreAWarningAndStay(t *testing.T) {
	r := openFile(t, "../testdata/pte/export-1.5.1-linear.pte")
	long := append(program(t, r), "trailing"...)
	x, err := OpenBytes(long, nil)
	if err != nil {
		t.Fatal(err)
	}
	if w := x.Warnings(); len(w) != 1 || !errors.Is(w[0], tensor.ErrMalformed) ||
		fieldOf(w[0]) != "" {
		t.Errorf("%v", w)
	}
	if got := rewritten(t, NewEdit(x)); !bytes.Equal(program(t, got), long) {
		t.Error("trailing bytes are lost")
	}
}

func TestReplaceRefusesSharedBytesUnlessAllowed(t *testing.T) {
	r := openFile(t, "../testdata/pte/export-1.5.1-methods.pte")
	p := NewEdit(r)
	var shared, alone *Entry
	count := map[uint32]int{}
	for e := range r.Entries() {
		count[e.Buffer]++
	}
	for e := range r.Entries() {
		if count[e.Buffer] > 1 && shared == nil {
			shared = e
		}
		if count[e.Buffer] == 1 && alone == nil {
			alone = e
		}
	}
	like := func(e *Entry) *tensor.Tensor {
		x := *e.Tensor
		x.Data = tensor.BlobOf(bytes.Repeat([]byte{0, 0, 128, 63}, int(x.Data.Size()/4)))
		return &x
	}
	if err := p.Replace(shared.Name, like(shared)); !errors.Is(err, errors.ErrUnsupported) ||
		!strings.Contains(err.Error(), "it shares its bytes with") {
		t.Fatalf("shared bytes: %v", err)
	}
	if err := p.Replace(alone.Name, like(alone)); err != nil {
		t.Fatal(err)
	}
	wrong := like(alone)
	wrong.Shape = append(tensor.Shape{1}, wrong.Shape...)
	if err := p.Replace(alone.Name, wrong); !errors.Is(err, errors.ErrUnsupported) {
		t.Error("another shape is taken")
	}
	p.AllowShared = true
	if err := p.Replace(shared.Name, like(shared)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "patched.pte")
	if err := p.WriteFile(t.Context(), file, nil); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	original := program(t, r)
	changed := map[uint32]bool{shared.Buffer: true, alone.Buffer: true}
	inside := func(i int64) bool {
		for e := range r.Entries() {
			if s, _ := e.Data.Stored(); changed[e.Buffer] && i >= s.Offset && i < s.Offset+s.Size {
				return true
			}
		}
		return false
	}
	if len(whole) != len(original) {
		t.Fatalf("%d bytes became %d", len(original), len(whole))
	}
	for i := range whole {
		if whole[i] != original[i] && !inside(int64(i)) {
			t.Fatalf("byte %d changed", i)
		}
	}
	got := openFile(t, file)
	for e := range got.Entries() {
		want := byte(63)
		if b, _ := e.Data.ReadAll(); changed[e.Buffer] != (b[3] == want && b[0] == 0 &&
			b[2] == 128) {
			t.Errorf("%s: %x", e.Name, b[:4])
		}
	}
}

// TestEveryWeightIsReplaced replaces weights with themselves and with others, alone and
// together with changes that rebuild the flatbuffer.
func TestEveryWeightIsReplaced(t *testing.T) {
	for _, name := range programs(t) {
		for _, rebuild := range []bool{false, true} {
			r := openFile(t, name)
			same, other := NewEdit(r), NewEdit(r)
			same.AllowShared, other.AllowShared = true, true
			for x := range r.Entries() {
				if x.Buffer == 0 || x.External || x.Data.Size() == 0 {
					continue
				}
				y := *x.Tensor
				y.Data = tensor.BlobOf(bytes.Repeat([]byte{1}, int(x.Data.Size())))
				for e, v := range map[*Edit]*tensor.Tensor{same: x.Tensor, other: &y} {
					if err := e.Replace(x.Name, v); err != nil {
						t.Fatal(name, x.Name, err)
					}
				}
			}
			if rebuild {
				if err := errors.Join(same.takeApart(), other.takeApart()); err != nil {
					t.Fatal(err)
				}
			}
			got, changed := rewritten(t, same), rewritten(t, other)
			if !rebuild {
				a, _ := got.in.Metadata(0, got.in.Size())
				b, _ := r.in.Metadata(0, r.in.Size())
				if !bytes.Equal(a, b) {
					t.Errorf("%s: the same weights make another file", name)
				}
			}
			if (changed.Bundle() == nil) != (r.Bundle() == nil) {
				t.Errorf("%s: the bundle is gone", name)
			}
			for x := range r.Entries() {
				if x.Buffer == 0 || x.External {
					continue
				}
				v := got.value(x.valueID()).entry()
				w := changed.value(x.valueID()).entry()
				b, err := w.Data.ReadAll()
				if sha(t, v.Data) != sha(t, x.Data) || err != nil ||
					!bytes.Equal(b, bytes.Repeat([]byte{1}, len(b))) {
					t.Errorf("%s, rebuilt %v: %s has other bytes, %v", name, rebuild, x.Name, err)
				}
			}
		}
	}
}

// renameIn is a Rename and a Write.
func renameIn(t *testing.T, r *Reader, old, new string) error {
	e := NewEdit(r)
	return errors.Join(e.Rename(old, new), e.Write(t.Context(), io.Discard, nil))
}

func TestNamesAndMetadataAreEdited(t *testing.T) {
	r := openFile(t, "../testdata/pte/export-1.5.1-methods.pte")
	e := NewEdit(r)
	values := map[string]any{"get_max_seq_len": 256, "get_name": "größe", "get_new": 0.5,
		"use_kv_cache": nil, "flag": true}
	for name, v := range values {
		if err := e.setGetter(name, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(e.RemoveAttribute("get_rope"), e.Rename("decode/0", "first of decode"),
		e.Rename("encode/0", "decode/1"), e.Rename("decode/1", "encode/0"),
		e.setGetter("added", 1), e.RemoveAttribute("added"), e.RemoveAttribute("flag"),
		e.setGetter("flag", true)); err != nil {
		t.Fatal(err)
	}
	got := rewritten(t, e)
	sameFacts(t, r, got, "methods", "tensors", "run")
	all := maps.Collect(got.Program().Metadata())
	values["get_max_seq_len"] = int64(256)
	for name, v := range values {
		if x, ok := all[name]; !ok || x != v {
			t.Errorf("%s is %v, not %v", name, x, v)
		}
	}
	_, rope := all["get_rope"]
	if _, added := all["added"]; rope || added ||
		got.root.ExecutionPlanLength() != r.root.ExecutionPlanLength()+1 {
		t.Errorf("%d methods: %v", got.root.ExecutionPlanLength(), all)
	}
	if x := entryOf(got, "first of decode"); x == nil || x.Value != 0 ||
		sha(t, x.Data) != sha(t, entryOf(r, "decode/0").Data) || entryOf(got, "decode/1") == nil ||
		entryOf(got, "decode/1").Method.Name() != "encode" ||
		entryOf(got, "encode/0").Method.Name() != "decode" {
		t.Error("a tensor has another name or other bytes")
	}
	for what, err := range map[string]error{
		"a method":  NewEdit(r).setGetter("forward", 1),
		"removed":   NewEdit(r).RemoveAttribute("forward"),
		"no name":   renameIn(t, r, "decode/0", ""),
		"a zero":    renameIn(t, r, "decode/0", "a\x00"),
		"a removal": NewEdit(r).Remove("decode/0"),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if name := filepath.Join(t.TempDir(), "p.pte"); os.Getenv("TENSORFILE_ETRUN") != "" {
		if err := e.WriteFile(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
		for method, want := range map[string]any{"get_max_seq_len": 256.0, "get_name": "größe",
			"flag": true} {
			if a, _ := runProgram(t, name, method); a[0].Value != want {
				t.Errorf("%s gives %+v", method, a)
			}
		}
	}
}

func TestNamedBlobsAreEdited(t *testing.T) {
	b := NewBuilder()
	b.Metadata("version", 1)
	shared := tensor.BlobOf([]byte("shared"))
	b.Named("a", shared, 0)
	b.Named("b", shared, 0)
	b.Named("c", tensor.BlobOf([]byte("alone")), 64)
	r := opened(t, b)
	e := NewEdit(r)
	if err := errors.Join(e.RemoveBlob("named/a"), e.RenameBlob("named/b", "named/new/b"),
		e.RemoveBlob("named/c")); err != nil {
		t.Fatal(err)
	}
	got := rewritten(t, e)
	n := 0
	for key, x := range got.Blobs() {
		n++
		if p, _ := x.ReadAll(); key != "named/new/b" || string(p) != "shared" {
			t.Errorf("%s is %q", key, p)
		}
	}
	if n != 1 || bytes.Contains(program(t, got), []byte("alone")) {
		t.Errorf("%d blobs are left", n)
	}
	for _, taken := range []string{"b", "c"} { // which come later, and stay
		e := NewEdit(r)
		if err := e.RenameBlob("named/a", "named/"+taken); err != nil {
			t.Fatal(err)
		}
		if err := e.Write(t.Context(), io.Discard, nil); !errors.Is(err, tensor.ErrDuplicate) {
			t.Errorf("%s has a key twice: %v", taken, err)
		}
	}
	swap := NewEdit(r)
	if err := errors.Join(swap.RenameBlob("named/a", "named/c"),
		swap.RenameBlob("named/c", "named/a")); err != nil {
		t.Fatal(err)
	}
	for d := range rewritten(t, swap).Program().NamedData() {
		if d.Key == "a" && sha(t, d.Data) != sha(t, tensor.BlobOf([]byte("alone"))) {
			t.Error("two blobs do not swap their keys")
		}
	}
	for what, err := range map[string]error{
		"absent":      NewEdit(r).RemoveBlob("named/d"),
		"not named":   NewEdit(r).RenameBlob("named/a", "x"),
		"a zero byte": NewEdit(r).RenameBlob("named/a", "named/a\x00"),
	} {
		if err == nil {
			t.Error(what)
		}
	}
}

// A value that no edit may make is kept where a file has it and the edit is about
// something else.
func TestNamesThatStayMayBeAnything(t *testing.T) {
	b := craft(t, base(t, "rich"), func(c crafted) {
		c.tree.Children(ptefb.SlotProgramNamedData)[0].SetString(ptefb.SlotNamedDataKey,
			"zero\x00byte")
		c.of(16).Child(ptefb.SlotTensorExtraTensorInfo).SetString(
			ptefb.SlotExtraTensorInfoFullyQualifiedName, "also\x00here")
	})
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := NewEdit(r)
	if err := e.setGetter("tag", "new"); err != nil {
		t.Error(err)
	}
	again := rewritten(t, e)
	var has []string
	for key := range again.Program().NamedData() {
		has = append(has, key.Key)
	}
	for x := range again.Entries() {
		has = append(has, x.Name)
	}
	for _, name := range []string{"zero\x00byte", "also\x00here"} {
		if !slices.Contains(has, name) {
			t.Errorf("%q is not there any more: %q", name, has)
		}
	}
}

// An Edit that is written twice gives the same bytes.
func TestEditIsWrittenTwice(t *testing.T) {
	names, files := readtest.Files(t, "../testdata/pte", func(b []byte) bool {
		_, err := OpenBytes(b, nil)
		return err == nil
	})
	moved := 0
	for i, b := range files {
		r, err := OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		e := NewEdit(r)
		ts, err := e.Externalize(nil)
		if err != nil {
			continue
		}
		moved += len(ts)
		var first, again bytes.Buffer
		if err := errors.Join(e.Write(t.Context(), &first, nil),
			e.Write(t.Context(), &again, nil)); err != nil {
			t.Errorf("%s: %v", names[i], err)
		}
		if !bytes.Equal(first.Bytes(), again.Bytes()) {
			t.Errorf("%s: %d bytes, then %d others", names[i], first.Len(), again.Len())
		}
	}
	if moved == 0 {
		t.Error("nothing was moved out of any file")
	}
}
