package pte

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
)

// A call is one that ExecuTorch's runtime answered for an exporter's program: NAME.json
// has it.
type call struct {
	Method  string
	Inputs  []answer
	First   []answer `json:"outputs"`
	Second  []answer `json:"outputs_of_second_call"`
	Refused string   `json:"error"`
}

func (c call) args() []string {
	var all []string
	for _, in := range c.Inputs {
		switch in.Tag {
		case "Tensor":
			shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(in.Shape), " ", ","), "[]")
			all = append(all, in.DType+":"+shape+":"+in.Hex)
		case "Int":
			all = append(all, fmt.Sprintf("int=%v", in.Value))
		case "Bool":
			all = append(all, fmt.Sprintf("bool=%d", map[any]int{true: 1}[in.Value]))
		case "Double":
			all = append(all, fmt.Sprintf("double=%v", in.Value))
		}
	}
	return all
}

// ways are the ways in which a program is written anew. Each returns the files that the
// runtime needs in addition.
var ways = []struct {
	name string
	do   func(t *testing.T, r *Reader, file string) []string
}{
	{"as it is", func(t *testing.T, r *Reader, file string) []string {
		return writeRebuilt(t, NewEdit(r), file)
	}},
	{"rebuilt", func(t *testing.T, r *Reader, file string) []string {
		e := NewEdit(r)
		if err := e.takeApart(); err != nil {
			t.Fatal(err)
		}
		return writeRebuilt(t, e, file)
	}},
	{"aligned to 16384", func(t *testing.T, r *Reader, file string) []string {
		if err := NewEdit(r).WriteFile(t.Context(), file,
			&WriterOptions{SegmentAlignment: 16384}); err != nil {
			t.Fatal(err)
		}
		return nil
	}},
	{"upgraded and modern", func(t *testing.T, r *Reader, file string) []string {
		e := NewEdit(r)
		if err := e.Modernize(); err != nil {
			t.Fatal(err)
		}
		return writeRebuilt(t, e, file)
	}},
	{"weights in a ptd", func(t *testing.T, r *Reader, file string) []string {
		e := NewEdit(r)
		out, err := e.Externalize(func(x *Entry) string { return "ours/" + x.Name })
		if err != nil {
			t.Fatal(err)
		}
		writeRebuilt(t, e, file)
		if len(out) == 0 {
			return nil
		}
		name := strings.TrimSuffix(file, ".pte") + ".ptd"
		if err := ptd.WriteFile(t.Context(), name, tensor.Of(out...), nil); err != nil {
			t.Fatal(err)
		}
		return []string{name}
	}},
	{"weights in a ptd and back", func(t *testing.T, r *Reader, file string) []string {
		e := NewEdit(r)
		out, err := e.Externalize(func(x *Entry) string { return "ours/" + x.Name })
		if err != nil {
			t.Fatal(err)
		}
		byName := make(map[string]*tensor.Tensor)
		for _, x := range out {
			byName[x.Name] = x
		}
		back := NewEdit(rewritten(t, e))
		if _, err := back.Internalize(func(name string) *tensor.Tensor {
			return byName[name]
		}); err != nil {
			t.Fatal(err)
		}
		return writeRebuilt(t, back, file)
	}},
	{"patched with its own weights", func(t *testing.T, r *Reader, file string) []string {
		p := NewEdit(r)
		p.AllowShared = true
		for e := range r.Entries() {
			if e.Buffer == 0 || e.External {
				continue
			}
			if err := p.Replace(e.Name, e.Tensor); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.WriteFile(t.Context(), file, nil); err != nil {
			t.Fatal(err)
		}
		return nil
	}},
}

func writeRebuilt(t *testing.T, e *Edit, file string) []string {
	t.Helper()
	if err := e.WriteFile(t.Context(), file, nil); err != nil {
		t.Fatal(err)
	}
	return nil
}

// TestRewrittenProgramsRun gives programs that we wrote anew to the runtime, with the
// inputs that it had for the exporter's file, and requires the outputs that it gave then.
func TestRewrittenProgramsRun(t *testing.T) {
	etrun(t)
	for _, name := range programs(t) {
		if !strings.HasPrefix(filepath.Base(name), "export-") || strings.HasSuffix(name, ".bpte") {
			continue
		}
		b, err := os.ReadFile(strings.TrimSuffix(name, ".pte") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var facts struct{ Run []call }
		if err := json.Unmarshal(b, &facts); err != nil {
			t.Fatal(err)
		}
		for _, way := range ways {
			t.Run(strings.TrimSuffix(filepath.Base(name), ".pte")+"/"+way.name,
				func(t *testing.T) {
					r := openFile(t, name)
					file := filepath.Join(t.TempDir(), "p.pte")
					data := way.do(t, r, file)
					if x := strings.TrimSuffix(name, ".pte") + ".ptd"; len(data) == 0 ||
						strings.Contains(name, "external") {
						if _, err := os.Stat(x); err == nil {
							data = append(data, x)
						}
					}
					ran := 0
					for _, c := range facts.Run {
						if c.Refused != "" {
							continue // the exporter's own file did not run
						}
						args := c.args()
						for _, d := range data {
							args = append(args, "-d", d)
						}
						first, second := runProgram(t, file, c.Method, args...)
						if !reflect.DeepEqual(first, c.First) ||
							c.Second != nil && !reflect.DeepEqual(second, c.Second) {
							t.Errorf("%s gives\n%v %v, the exporter's file\n%v %v", c.Method,
								first,
								second, c.First, c.Second)
						}
						ran++
					}
					if ran == 0 {
						t.Skip("the runtime does not run the exporter's own file")
					}
				})
		}
	}
}

// TestOldProgramsRun gives the runtime programs of old releases after they were brought
// up to date: those with constants inside the flatbuffer it refuses as they are.
func TestOldProgramsRun(t *testing.T) {
	etrun(t)
	for _, name := range oldPrograms(t) {
		b, err := os.ReadFile(strings.TrimSuffix(name, ".pte") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var facts struct{ Run []string }
		if err := json.Unmarshal(b, &facts); err != nil {
			t.Fatal(err)
		}
		for _, m := range facts.Run {
			t.Run(filepath.Base(name)+"/"+m, func(t *testing.T) {
				e := NewEdit(openFile(t, name))
				if err := e.Modernize(); err != nil {
					t.Fatal(err)
				}
				file := filepath.Join(t.TempDir(), "p.pte")
				writeRebuilt(t, e, file)
				got, _ := runProgram(t, file, m)
				if len(got) == 0 {
					t.Error("no outputs")
				}
				if strings.Contains(name, "inline-constants") {
					// x + w on the inputs that etrun makes itself
					wantFloats(t, got[0], -2, 0.25, 1.375, -0.75, 0.5, 1.75)
				}
			})
		}
	}
}
