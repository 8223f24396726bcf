package convert

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/onnx"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/ptn"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// Random files come back as they went in, but for the losses that were named, by
// field and kind; and a loss is named only where something differs.
func TestEveryDifferenceIsANamedLoss(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	for _, from := range append(forms(), form{tensorfile.PTE, ""}) {
		for _, to := range forms() {
			t.Run(from.String()+" to "+to.String(), func(t *testing.T) {
				r := rand.New(rand.NewPCG(7, uint64(from.format)<<8|uint64(to.format)))
				for range rounds {
					c := randomContents(r, from, to.caps().MaxTensors != 1)
					checkNamed(t, c.file(t, from), to)
					if t.Failed() {
						return
					}
				}
			})
		}
	}
}

// The same of the files that other programs made.
func TestEveryDifferenceOfOtherFilesIsANamedLoss(t *testing.T) {
	names, files := readtest.Files(t, "../testdata", func(b []byte) bool { return len(b) < 1<<18 })
	for i, name := range names {
		if strings.Contains(name, "malformed") {
			continue
		}
		src, err := tensorfile.OpenBytes(files[i], nil)
		if err != nil {
			continue
		}
		if _, err := src.Verify(t.Context(), nil); err != nil {
			continue // of which nothing may arrive
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			for j, to := range forms() {
				if testing.Short() && (i+j)%7 != 0 {
					continue
				}
				if to.caps().MaxTensors == 0 || src.Len() == 1 {
					checkNamed(t, src, to)
				}
			}
		})
	}
}

// values returns the elements in row-major order, as numbers where another tensor has
// another dtype.
func values(t *testing.T, x *tensor.Tensor, other tensor.DType) []byte {
	t.Helper()
	if x.DType == other {
		return rowMajor(t, x)
	}
	to := tensor.F64
	if x.DType.IsComplex() {
		to = tensor.C128
	}
	same := *x
	if x.DType != to {
		as, err := tensor.As(x, to)
		if err != nil {
			t.Fatal(err)
		}
		same = *as
	}
	return rowMajor(t, &same)
}

// checkNamed converts src and compares the named losses with the differences.
func checkNamed(t *testing.T, src *tensorfile.File, to form) {
	t.Helper()
	p := planOf(t, src, to)
	named := map[string]LossKind{}
	for _, l := range p.Losses() {
		named[l.Field] |= l.Kind
	}
	var out bytes.Buffer
	if err := p.Write(t.Context(), &out); err != nil {
		if p.checkEmpty() != nil {
			return
		}
		t.Fatalf("to %v: %v: losses %v", to, err, p.Losses())
	}
	end := open(t, out.Bytes())
	written := slices.Collect(end.Tensors())
	arrived := func(it *item) *tensor.Tensor {
		for k, y := range written {
			// names may be none
			inOrder := to.format == tensorfile.NPY || to.format == tensorfile.RTen
			if y != nil && (inOrder || y.Name == it.t.Name) {
				written[k] = nil
				return y
			}
		}
		t.Fatalf("to %v: %s is not in the file", to, naming.Quote(it.t.Name))
		return nil
	}
	differs, items := map[string]LossKind{}, p.items
	i := -1
	for x := range src.Tensors() {
		var y *tensor.Tensor
		if i++; p.rewrite != nil {
			y = written[i]
		} else if len(items) > 0 && items[0].src.Name == x.Name {
			y, items = arrived(&items[0]), items[1:]
		}
		for field, kind := range tensorDifferences(t, src, end, x, y, named[fieldOf(x)]) {
			differs[field] |= kind
		}
	}
	maps.Copy(differs, attributeDifferences(src, end, p))
	maps.Copy(differs, blobDifferences(t, src, end))
	maps.Copy(differs, programDifferences(src, end))
	for _, w := range src.Warnings() { // no target has elements without a tensor
		if f := tensor.FindingOf(w); f.Code == tensor.CodeUnlistedData {
			differs[f.Field] |= LossTensors
		}
	}
	for field, kind := range named {
		if differs[field]&LossShape != 0 { // dimensions of 1 hide whether elements moved
			kind &^= LossReorder
		}
		if differs[field]&(LossWiden|LossNarrow) != 0 { // another dtype ends the use of a scale
			kind &^= LossScale
		}
		if kind != differs[field] {
			t.Errorf("to %v: %s: %q is named, %q differs", to, field, kind, differs[field])
		}
	}
	for field, kind := range differs {
		if named[field] == 0 {
			t.Errorf("to %v: %s: %q differs, and is not named", to, field, kind)
		}
	}
}

// tensorDifferences compares x of src with y, which it became.
func tensorDifferences(
	t *testing.T, src, end *tensorfile.File, x, y *tensor.Tensor, named LossKind,
) map[string]LossKind {
	t.Helper()
	if y == nil {
		return map[string]LossKind{fieldOf(x): LossTensors}
	}
	all, differs := map[string]LossKind{}, LossKind(0)
	if x.Name != y.Name {
		differs |= LossNames
	}
	if x.Dense() != y.Dense() {
		differs |= LossDensify
	}
	if !x.Shape.Equal(y.Shape) {
		differs |= LossShape
	} else if x.Dense() && !sameStorage(x.Shape, x.Order, y.Order) {
		differs |= LossReorder
	}
	if x.Dense() && x.DType != y.DType || !x.Dense() && y.Dense() &&
		x.Part("values").DType != y.DType {
		if differs |= named & (LossWiden | LossNarrow); named&(LossWiden|LossNarrow) == 0 {
			t.Errorf("%v became %v, and that is not named", x, y)
		}
	}
	if named&LossNarrow == 0 {
		if !bytes.Equal(elements(t, x, y), elements(t, y, x)) {
			t.Errorf("%v became %v with other values", x, y)
		}
	}
	for i := range x.Parts {
		if role := x.Parts[i].Role; x.Dense() && y.Part(role) == nil {
			all[fieldOf(x)+"."+role] = LossParts
		}
	}
	_, isBlocks := format.BlocksOf(x)
	for k, v := range ownAttributes(src, x) {
		if isBlocks && end.Format() == tensorfile.GGUF &&
			(k == "elems_per_block" || k == "block_bytes") {
			continue // its type says it
		}
		if got, ok := ownAttributes(end, y)[k]; !ok || !sameValue(v, got) {
			all[fieldOf(x)+".attributes["+naming.Quote(k)+"]"] = LossAttributes
		}
	}
	if differs != 0 {
		all[fieldOf(x)] = differs
	}
	return all
}

// elements returns the bytes of the elements of x, in a form that other has too: the
// elements of a scheme that nothing makes dense are the bytes of its parts.
func elements(t *testing.T, x, other *tensor.Tensor) []byte {
	t.Helper()
	dense := func(x *tensor.Tensor) *tensor.Tensor {
		if x.Dense() || !sparse.Known(x.Scheme) {
			return x
		}
		d, err := sparse.Densify(t.Context(), x, &sparse.Options{Duplicates: sparse.Sum})
		if err != nil {
			t.Fatalf("%v: %v", x, err)
		}
		return d
	}
	if x = dense(x); x.Dense() {
		all := values(t, x, dense(other).DType)
		for _, p := range x.Parts {
			if other.Part(p.Role) != nil {
				b, _ := p.Data.ReadAll()
				all = append(all, b...)
			}
		}
		return all
	}
	var all []byte
	byRole := func(a, b tensor.Part) int { return strings.Compare(a.Role, b.Role) }
	for _, p := range slices.SortedFunc(slices.Values(x.Parts), byRole) {
		b, err := p.Data.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

// ownAttributes returns the attributes that x has in a .zt.
func ownAttributes(f *tensorfile.File, x *tensor.Tensor) map[string]ztensor.Value {
	if z, ok := f.Sys().(*ztensor.Reader); ok {
		return maps.Collect(z.TensorAttributes(x))
	}
	return nil
}

// sameValue reports whether two attributes have the same value of the same kind.
func sameValue(a, b ztensor.Value) bool {
	_, text1 := a.Text()
	_, text2 := b.Text()
	return a.String() == b.String() && text1 == text2 && a.HasTag() == b.HasTag()
}

// A kind says what an attribute is in addition to its text.
type kind struct {
	isText, hasTag bool
	typeName       string // of a .gguf
}

func kindsOf(f *tensorfile.File) map[string]kind {
	kinds := map[string]kind{}
	for k, v := range valuesOf(f) {
		switch v := v.(type) {
		case ztensor.Value:
			_, isText := v.Text()
			kinds[k] = kind{isText, v.HasTag(), ""}
		case gguf.Value:
			kinds[k] = kind{v.Type() == gguf.TypeString, false, v.TypeName()}
		}
	}
	return kinds
}

func attributeDifferences(src, end *tensorfile.File, p *Plan) map[string]LossKind {
	differs := map[string]LossKind{}
	was, is, got := kindsOf(src), kindsOf(end), maps.Collect(end.Attributes())
	for k, text := range src.Attributes() {
		x, y := kind{isText: true}, kind{isText: true}
		if typed, ok := was[k]; ok {
			x = typed
		}
		if typed, ok := is[k]; ok {
			y = typed
		}
		if src.Format() != end.Format() {
			x.typeName, y.typeName = "", ""
		}
		v, ok := got[k]
		if !ok && k == formatKey && src.Format() == tensorfile.Safetensors {
			continue // it is for readers of that format
		}
		if (!ok || v != text || x != y) && p.kind == 0 {
			differs["attributes["+naming.Quote(k)+"]"] = LossAttributes
		}
	}
	return differs
}

func blobDifferences(t *testing.T, src, end *tensorfile.File) map[string]LossKind {
	t.Helper()
	differs := map[string]LossKind{}
	got := maps.Collect(end.Blobs())
	for name, b := range src.Blobs() {
		want, err := b.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		y, ok := got[name]
		if !ok {
			differs["blobs["+naming.Quote(name)+"]"] = LossBlobs
		} else if have, err := y.ReadAll(); err != nil || !bytes.Equal(want, have) {
			t.Errorf("the blob %s has other bytes, %v", naming.Quote(name), err)
		}
	}
	return differs
}

// programDifferences returns what is neither tensor nor attribute nor blob.
func programDifferences(src, end *tensorfile.File) map[string]LossKind {
	differs := map[string]LossKind{}
	switch r := src.Sys().(type) {
	case *primitiv.Reader:
		if r.Kind() == primitiv.KindShape && end.Format() != tensorfile.Primitiv {
			differs["shape"] = LossShape
		}
	case *pte.Reader:
		differs["program"] = LossGraph
		if r.Bundle() != nil {
			differs["test_cases"] = LossGraph
		}
	case *ptn.Reader:
		differs["program"] = LossGraph
	case *onnx.Reader:
		if g := r.Model().Graph; len(g.Nodes)+len(g.Inputs)+len(g.Outputs) > 0 {
			differs["program"] = LossGraph
		}
	case *rten.Reader:
		kept, ok := end.Sys().(*rten.Reader)
		if computes(r.Model()) && !(ok && computes(kept.Model())) {
			differs["program"] = LossGraph
		}
	}
	return differs
}
