package torch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// Modules have the tensors of their state_dict, in its order, and paths with their dicts.
func TestModulesHaveTheTensorsOfTheirState(t *testing.T) {
	r, err := Open("../testdata/torch/modules.pt", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want, err := Open("../testdata/torch/modules_state.pt", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	next := slices.Collect(want.Tensors())
	if r.Len() != len(next) {
		t.Fatalf("%d tensors, want %d", r.Len(), len(next))
	}
	i := 0
	for x := range r.Tensors() {
		if x.Name != next[i].Name || !x.Shape.Equal(next[i].Shape) ||
			sum(t, x.Data) != sum(t, next[i].Data) {
			t.Errorf("%s, want %s", x.Name, next[i].Name)
		}
		path := slices.DeleteFunc(r.Path(i), func(key string) bool {
			return slices.Contains(moduleFields, key)
		})
		if strings.Join(path, ".") != x.Name {
			t.Errorf("%s has the path %q", x.Name, r.Path(i))
		}
		i++
	}
	if got := r.Path(1); !slices.Equal(got,
		[]string{"model", "_modules", "1", "_parameters", "weight"}) {
		t.Errorf("%q", got)
	}
	if got := slices.Collect(r.Modules()); !slices.Equal(got,
		[]string{"model", "list.0", "list.1.again"}) {
		t.Errorf("modules %q", got)
	}
}

// moduleOf is an object with the dicts of an nn.Module, and more fields.
func moduleOf(parameters, buffers, modules, fields string) string {
	return name("a", "Net") + ")\x81}(" + str("_parameters") + parameters + str("_buffers") +
		buffers + str("_modules") + modules + fields + "ub"
}

func TestTensorsOutsideOfAStateDictAreFound(t *testing.T) {
	other := strings.Replace(floats(4), str("0"), str("1"), 1)
	second := file{"x/data/1", "0123456789abcdef"}
	for _, c := range []struct {
		name, pickle string
		tensors      string
		attributes   string
		warnings     int // but for the class
	}{
		{"a buffer", moduleOf("}", dictWith("b", other), "}", ""), "b", "", 1},
		{"a buffer that is not persistent", moduleOf(dictWith("w", floats(4)),
			dictWith("b", other), "}", str("_non_persistent_buffers_set")+
				call(name("builtins", "set"), "]"+str("b")+"a")),
			"w", `_non_persistent_buffers_set=["b"]`, 0},
		{"a parameter that is None", moduleOf(dictWith("bias", "N"), "}", "}",
			str("eps")+"K\x01"), "", "eps=1", 2},
		{"a tensor that is an attribute", moduleOf(dictWith("w", floats(4)), "}", "}",
			str("stride")+other), "w", "", 1},
		{"a parameter that is an attribute, too", moduleOf(dictWith("w", floats(4)+"q\x00"), "}",
			"}", str("_flat_weights")+"]h\x00a"), "w", "", 1},
		{"a module in a list that is an attribute", moduleOf(dictWith("w", floats(4)), "}",
			dictWith("0", "N"), str("list")+"]"+moduleOf(dictWith("v", other), "}", "}", "")+"a"),
			"w", "", 1},
		{"an object that has two dicts", name("a", "Net") + ")\x81}(" + str("_parameters") +
			dictWith("w", floats(4)) + str("_buffers") + dictWith("b", other) + "ub",
			"_parameters.w _buffers.b", "", 0},
		{"protocol 0", "}" + str("m") + strings.Replace(moduleOf(dictWith("w", floats(4)), "}",
			dictWith("sub", moduleOf(dictWith("v", other), "}", "}", "")), ""), ")\x81",
			"q\x000"+call(name("copy_reg", "_reconstructor"), "h\x00", name("builtins", "object"),
				"N"), 1) + "s", "m.w m.sub.v", `m.args=["a.Net","builtins.object",null]`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := OpenBytes(archive(c.pickle, second), nil)
			if err != nil {
				t.Fatal(err)
			}
			names, _ := rowsOf(t, r)
			var attributes []string
			for k, v := range r.Attributes() {
				attributes = append(attributes, k+"="+v)
			}
			if got := strings.Join(names, " "); got != c.tensors {
				t.Errorf("tensors %s, want %s", got, c.tensors)
			}
			if got := strings.Join(attributes, " "); got != c.attributes {
				t.Errorf("attributes %s, want %s", got, c.attributes)
			}
			unlisted := 0
			for _, w := range r.Warnings() {
				if tensor.FindingOf(w).Code == tensor.CodeUnlistedData {
					unlisted++
				}
			}
			if strings.Contains(c.pickle, "stride") && !strings.Contains(fmt.Sprint(r.Warnings()),
				" 16 bytes of stride, which the state_dict of its module does not have") {
				t.Errorf("%q", r.Warnings())
			}
			if unlisted != c.warnings {
				t.Errorf("%q, want %d", r.Warnings(), c.warnings)
			}
		})
	}
}
