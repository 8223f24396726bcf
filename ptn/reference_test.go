package ptn

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptnfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// expected is what ExecuTorch's own reader says of a file: interop/tools/ptnref.py.
type expected struct {
	Tensors map[string]struct {
		DType  string
		Shape  tensor.Shape
		SHA256 string
	}
	Aliases map[string]string
	Program any
	Wrong   *string // what its checks say of the program
}

// TestFilesOfTheReferenceHaveItsValues reads the files of testdata/ptn, and those that
// interop/ptn.sh makes, as ExecuTorch reads them.
func TestFilesOfTheReferenceHaveItsValues(t *testing.T) {
	dirs := []string{"../testdata/ptn"}
	if dir := os.Getenv("TENSORFILE_PTN"); dir != "" {
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		names, _ := filepath.Glob(filepath.Join(dir, "*.json"))
		if len(names) == 0 {
			t.Errorf("no files in %s", dir)
		}
		for _, name := range names {
			t.Run(filepath.Base(name), func(t *testing.T) {
				testReference(t, strings.TrimSuffix(name, ".json"))
			})
		}
	}
}

func testReference(t *testing.T, name string) {
	var want expected
	text, err := os.ReadFile(name + ".json")
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		err = d.Decode(&want)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(name, &ReaderOptions{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if want.Tensors != nil && r.Len() != len(want.Tensors) {
		t.Errorf("%d tensors, the reference has %d", r.Len(), len(want.Tensors))
	}
	for x := range r.Tensors() {
		if x.External {
			continue
		}
		b, err := x.Data.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		sum, w := sha256.Sum256(b), want.Tensors[x.Name]
		if x.DType.String() != w.DType || !x.Shape.Equal(w.Shape) ||
			hex.EncodeToString(sum[:]) != w.SHA256 {
			t.Errorf("%q: %v %v %x, want %v", x.Name, x.DType, x.Shape, sum, w)
		}
		owner, isAlias := r.Owner(x.Name)
		if want, ok := want.Aliases[x.Name]; owner != want || isAlias != ok {
			t.Errorf("the owner of %q is %q, want %q", x.Name, owner, want)
		}
	}
	got := described(r.Raw().Table(), ptnfb.TableProgram)
	if d := difference("program", got, want.Program); d != "" {
		t.Error(d)
	}
	report, err := r.Verify(t.Context(), nil)
	if (err != nil) != (want.Wrong != nil) {
		t.Errorf("Verify: %v, the reference: %v", err, want.Wrong)
	}
	if err == nil && len(report.Findings) > 0 {
		t.Errorf("findings: %v", report.Findings)
	}
}

// described gives a table the form that ptnref.py gives it.
func described(t flatbuffers.Table, table int) map[string]any {
	out := map[string]any{}
	if name := ptnfb.Schema.Tables[table].Name; strings.HasSuffix(name, "Arg") ||
		name == "AffineGroup" || name == "PackedQuant" {
		out["type"] = name
	}
	for i := range ptnfb.Schema.Tables[table].Fields {
		f := &ptnfb.Schema.Tables[table].Fields[i]
		slot := int(f.Slot)
		at := fb.FieldTarget(t, slot)
		element := func(i int) flatbuffers.Table {
			pos := flatbuffers.UOffsetT(at + 4 + 4*i)
			return flatbuffers.Table{Bytes: t.Bytes,
				Pos: pos + flatbuffers.GetUOffsetT(t.Bytes[pos:])}
		}
		switch {
		case f.Type == fb.Tag:
		case f.Kind == fb.Scalar:
			if pos := fb.FieldPos(t, slot); pos != 0 {
				out[f.Name] = scalar(t.Bytes[pos:], f.Type)
			} else {
				var zero [8]byte
				out[f.Name] = scalar(zero[:], f.Type)
				if f.Default != 0 {
					out[f.Name] = integer(f.Default)
				}
			}
		case at == 0:
		case f.Kind == fb.String:
			b, _ := fb.FieldBytes(t, slot, 1)
			out[f.Name] = string(b)
		case f.Kind == fb.Child:
			child, _ := fb.FieldTable(t, slot)
			out[f.Name] = described(child, int(f.Index))
		case f.Kind == fb.Union:
			child, _ := fb.FieldTable(t, slot)
			tag := t.GetUint8Slot(flatbuffers.VOffsetT(f.TagSlot()), 0)
			out[f.Name] = described(child, int(ptnfb.Schema.Unions[f.Index].Members[tag]))
		default:
			list := []any{}
			for i := range int(flatbuffers.GetUOffsetT(t.Bytes[at:])) {
				switch f.Kind {
				case fb.Scalars:
					list = append(list, scalar(t.Bytes[at+4+i*int(f.Size):], f.Type))
				case fb.Strings:
					x := element(i)
					n := flatbuffers.GetUOffsetT(x.Bytes[x.Pos:])
					list = append(list, string(x.Bytes[x.Pos+4:x.Pos+4+n]))
				case fb.Tables:
					list = append(list, described(element(i), int(f.Index)))
				}
			}
			out[f.Name] = list
		}
	}
	return out
}

// scalar returns a number as encoding/json does, a float as its text.
func scalar(b []byte, t fb.Type) any {
	switch t {
	case fb.Bool:
		return flatbuffers.GetBool(b)
	case fb.Int8:
		return integer(int64(flatbuffers.GetInt8(b)))
	case fb.Int32:
		return integer(int64(flatbuffers.GetInt32(b)))
	case fb.Int64:
		return integer(flatbuffers.GetInt64(b))
	case fb.Float64:
		return strconv.FormatFloat(flatbuffers.GetFloat64(b), 'g', -1, 64)
	}
	panic(fmt.Sprint("no type ", t))
}

func integer(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

// difference returns where two values of JSON differ, "" if they do not.
func difference(path string, got, want any) string {
	g, ok1 := got.(map[string]any)
	w, ok2 := want.(map[string]any)
	if ok1 && ok2 {
		for key := range w {
			if d := difference(path+"."+key, g[key], w[key]); d != "" {
				return d
			}
		}
		for key := range g {
			if _, ok := w[key]; !ok {
				return fmt.Sprintf("%s.%s is %v, absent for the reference", path, key, g[key])
			}
		}
		return ""
	}
	a, ok1 := got.([]any)
	b, ok2 := want.([]any)
	if ok1 && ok2 && len(a) == len(b) {
		for i := range a {
			if d := difference(fmt.Sprintf("%s[%d]", path, i), a[i], b[i]); d != "" {
				return d
			}
		}
		return ""
	}
	if f, isText := got.(string); isText && !reflect.DeepEqual(got, want) {
		x, err1 := strconv.ParseFloat(f, 64)
		text, _ := want.(string)
		y, err2 := strconv.ParseFloat(text, 64)
		if err1 == nil && err2 == nil && math.Float64bits(x) == math.Float64bits(y) {
			return ""
		}
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Sprintf("%s: %v, the reference: %v", path, got, want)
	}
	return ""
}
