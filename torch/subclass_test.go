package torch

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// A tensor subclass without a storage of its own has the tensors of its state, in each
// form that torch writes.
func TestSubclassesHaveTheTensorsOfTheirState(t *testing.T) {
	wrapper := func(class, state string) string {
		return call(name("torch._tensor", "_rebuild_from_type_v2"),
			name("torch._utils", "_rebuild_wrapper_subclass"), class,
			tup(class, name("torch", "float32"), ints(4), ints(1), integer(0), str("strided"),
				str("cpu"), "\x89"), state)
	}
	class := name("torchao", "Q")
	state := "}(" + str("data") + floats(4) + str("axis") + "K\x01u"
	parameter := func(args ...string) string {
		return call(name("torch._utils", "_rebuild_parameter"), append(args, "\x88", "N")...)
	}
	withState := func(args ...string) string {
		return call(name("torch._utils", "_rebuild_parameter_with_state"),
			append(args, "\x88", "N", dictWith("extra", floats(4)))...)
	}
	one := []string{"w.data"}
	for _, c := range []struct {
		name   string
		pickle string
		want   []string
		class  string // "": the attribute is absent
	}{
		{"a dict", wrapper(class, state), one, "torchao.Q"},
		{"a state of slots", wrapper(class, tup("N", state)), one, "torchao.Q"},
		{"another state", wrapper(class, tup(floats(4))), []string{"w.state.0"}, "torchao.Q"},
		{"no state", wrapper(class, "N"), nil, "torchao.Q"},
		{"a subclass in a subclass", wrapper(class, dictWith("inner", wrapper(class, state))),
			[]string{"w.inner.data"}, "torchao.Q"},
		{"a parameter", parameter(wrapper(class, state)), one, "torchao.Q"},
		{"a parameter with attributes", withState(wrapper(class, state)),
			[]string{"w.data", "w.extra"}, "torchao.Q"},
		{"a subclass of parameters", call(name("torch._tensor", "_rebuild_from_type_v2"),
			name("torch._utils", "_rebuild_parameter"), name("a", "P"),
			tup(wrapper(class, state), "\x88", "N"), dictWith("more", floats(4))),
			[]string{"w.data", "w.more"}, "a.P"},
		{"a subclass with elements", call(name("torch._tensor", "_rebuild_from_type_v2"),
			rebuild, name("a", "P"), tup(storageOf("FloatStorage", "0", 4), integer(0), ints(4),
				ints(1), "\x89", "N"), dictWith("more", floats(4))),
			[]string{"w", "w.more"}, "a.P"},
		{"a subclass of torch 1.8", call(name("torch.tensor", "_rebuild_from_type"),
			rebuild, name("a", "P"), tup(storageOf("FloatStorage", "0", 4), integer(0), ints(4),
				ints(1), "\x89", "N"), dictWith("more", floats(4))),
			[]string{"w", "w.more"}, "a.P"},
		{"a parameter with attributes twice", call(name("torch._tensor",
			"_rebuild_from_type_v2"), name("torch._utils", "_rebuild_parameter_with_state"),
			name("a", "P"), tup(floats(4), "\x88", "N", dictWith("inner", floats(4))),
			dictWith("outer", floats(4))), []string{"w", "w.inner", "w.outer"}, "a.P"},
		{"BUILD after it", wrapper(class, "N") + state + "b", one, "torchao.Q"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := OpenBytes(archive(dictWith("w", c.pickle)), nil)
			if err != nil {
				t.Fatal(err)
			}
			names, attributes := rowsOf(t, r)
			if !slices.Equal(names, c.want) || c.class != attributes["w.class"] {
				t.Errorf("%q, %q; want %q of %s", names, attributes, c.want, c.class)
			}
			if c.class == "torchao.Q" && (attributes["w.dtype"] != "torch.float32" ||
				attributes["w.shape"] != "[4]") {
				t.Errorf("%q", attributes)
			}
			isUnlisted := func(err error) bool {
				return tensor.FindingOf(err).Code == tensor.CodeUnlistedData
			}
			if slices.ContainsFunc(r.Warnings(), isUnlisted) != (len(c.want) == 0) {
				t.Errorf("warnings: %v", r.Warnings())
			}
		})
	}
	for name, pickle := range map[string]string{
		"a class that is none": wrapper("N", state),
		"too few arguments": call(name("torch._utils", "_rebuild_wrapper_subclass"), class,
			name("torch", "float32")),
	} {
		if _, err := OpenBytes(archive(pickle), nil); !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The state of a shared tensor is of the one parameter alone.
func TestStateOfASharedTensorIsOfOneParameter(t *testing.T) {
	r, err := OpenBytes(archive("}("+str("a")+floats(4)+"q\x00"+str("b")+
		call(name("torch._utils", "_rebuild_parameter_with_state"), "h\x00", "\x88", "N",
			dictWith("extra", floats(4)))+"u"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if names, _ := rowsOf(t, r); !slices.Equal(names, []string{"a", "b", "b.extra"}) {
		t.Error(names)
	}
}

// A storage that no listed tensor refers to is a warning, whatever hides it.
func TestUnlistedStoragesAreAWarning(t *testing.T) {
	other := tensorOf(storageOf("FloatStorage", "1", 4), 0, []int64{4}, []int64{1})
	member := file{"x/data/1", "0123456789abcdef"}
	seen := floats(4)
	hook := dictWith("hook", other)
	constant := file{"x/constants/1", "0123456789abcdef"}
	for name, b := range map[string][]byte{
		"a value that is dropped":   archive(other+"0"+seen, member),
		"a value in the memo alone": archive(other+"q\x000"+seen, member),
		"a key that comes again": archive("}("+str("a")+other+str("a")+seen+"u",
			member),
		"attributes of a dict": archive(call(name("collections", "OrderedDict"))+str("a")+
			seen+"s"+dictWith("_metadata", other)+"b", member),
		"hooks of a tensor": archive(call(rebuild, storageOf("FloatStorage", "0", 4),
			integer(0), ints(4), ints(1), "\x89", hook), member),
		"arguments of a parameter": archive(call(name("torch._utils", "_rebuild_parameter"),
			seen, "\x88", hook), member),
		"a state that is replaced": archive(name("a", "B")+")\x81"+other+"b"+seen+"b", member),
		"a member without a name":  archive(seen, member),
		"a constant of a program": archive(seen, file{"x/constants.pkl", tup(other) + "."},
			constant),
		"a constant without a name": archive(seen, constant),
		"a storage of a legacy stream": legacy(legacyStorage(4)+"0N", "]"+str("0")+"a",
			count(4)+"0123456789abcdef"),
	} {
		t.Run(name, func(t *testing.T) {
			r, err := OpenBytes(b, nil)
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, w := range r.Warnings() {
				if f := tensor.FindingOf(w); f.Code == tensor.CodeUnlistedData {
					found = append(found, w.Error())
					if f.Offset < 0 || string(b[f.Offset:][:16]) != "0123456789abcdef" {
						t.Errorf("offset %d", f.Offset)
					}
				}
			}
			if len(found) != 1 || !strings.Contains(found[0], "16 bytes") {
				t.Fatalf("%q", found)
			}
			report, err := r.Verify(t.Context(), nil)
			if err != nil || !slices.ContainsFunc(report.Findings, func(f tensor.Finding) bool {
				return f.Code == tensor.CodeUnlistedData && f.Err.Error() == found[0]
			}) {
				t.Errorf("Verify: %v, %v", report.Findings, err)
			}
			if _, err := OpenBytes(b, &ReaderOptions{Strict: true}); err == nil {
				t.Error("Strict opens it")
			}
		})
	}
	// Storage that is listed, in part or as a part of a tensor, or that has no bytes, is
	// no warning.
	coords := tensorOf(storageOf("LongStorage", "1", 2), 0, []int64{1, 2}, []int64{2, 1})
	values := tensorOf(storageOf("FloatStorage", "0", 4), 0, []int64{2}, []int64{1})
	for name, b := range map[string][]byte{
		"one element": archive(tensorOf(storageOf("FloatStorage", "0", 4), 0, []int64{1},
			[]int64{1})),
		"none": archive(tensorOf(storageOf("FloatStorage", "0", 4), 0, []int64{0}, []int64{1})),
		"a sparse tensor": archive(call(name("torch._utils", "_rebuild_sparse_tensor"),
			str("torch.sparse_coo"), tup(coords, values, ints(4))),
			file{"x/data/1", count(0) + count(1)}),
		"an empty member":   archive(seen, file{"x/data/1", ""}),
		"another directory": archive(seen, file{"x/traced_inputs/0", "x"}),
	} {
		if r, err := OpenBytes(b, nil); err != nil || len(r.Warnings()) > 0 {
			t.Errorf("%s: %v, %v", name, r.Warnings(), err)
		}
	}
}
