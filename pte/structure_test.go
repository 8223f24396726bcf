package pte

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestLeafPathsFollowTheStructure(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"$", []string{""}},
		{"T2#2#0(T2#1#1($,$),D0())", []string{"[0][0]", "[0][1]"}},
		{"T2#0#2(T0(),D2#1#1('mask':$,7:$))", []string{"[1]['mask']", "[1]['7']"}},
		{"L3#1#0#1($,,$)", []string{"[0]", "[2]"}},
		{"N1#1($)", []string{"[0]"}},
		{`[1, {"type": "builtins.tuple", "context": "null", "children_spec": [{"type": "builtins.tuple", "context": "null", "children_spec": [{"type": null, "context": null, "children_spec": []}]}, {"type": "builtins.dict", "context": "[\"x\"]", "children_spec": [{"type": null, "context": null, "children_spec": []}]}]}]`,
			[]string{"[0][0]", "[1]['x']"}},
	} {
		got, err := LeafPaths(c.in)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

// TestHostileStructuresAreRefused has deep nesting, huge counts, unterminated quotes,
// huge JSON.
func TestHostileStructuresAreRefused(t *testing.T) {
	for _, c := range []struct {
		in    string
		class error
	}{
		{"T", tensor.ErrMalformed},
		{"T1", tensor.ErrMalformed},
		{"T1#1", tensor.ErrMalformed},
		{"T1#1($", tensor.ErrMalformed},
		{"T1#1($,$)", tensor.ErrMalformed},
		{"T2#1#1($)", tensor.ErrMalformed},
		{"T999999999#1($)", tensor.ErrMalformed},
		{"T99999999999999999999($)", tensor.ErrMalformed},
		{"D1#1('x:$)", tensor.ErrMalformed},
		{"D1#1('x'$)", tensor.ErrMalformed},
		{"D1#1(:$)x", tensor.ErrMalformed},
		{"$$", tensor.ErrMalformed},
		{"X", tensor.ErrMalformed},
		{"[", tensor.ErrMalformed},
		{"[1]", tensor.ErrMalformed},
		{`[1, 5]`, tensor.ErrMalformed},
		{`[2, {"type": null}]`, errors.ErrUnsupported},
		{strings.Repeat("T1#1(", 1000) + "$" + strings.Repeat(")", 1000), tensor.ErrLimit},
		{"[1, " + strings.Repeat(`{"type":"builtins.list","children_spec":[`,
			100) + strings.Repeat(`]}`, 100) + "]", tensor.ErrLimit},
		{"[1, " + strings.Repeat(`{"type":"builtins.list","children_spec":[`,
			100_000) + strings.Repeat(`]}`, 100_000) + "]", tensor.ErrMalformed},
		// A long key in the path of many leaves, or of many nodes without leaves.
		{"D1#1('" + strings.Repeat("k", 10_000) + "':T10000" + strings.Repeat("#1",
			10_000) + "($" + strings.Repeat(",$", 9_999) + "))", tensor.ErrLimit},
		{"D1#1('" + strings.Repeat("k", 10_000) + "':T10000" + strings.Repeat("#1",
			10_000) + "(" + strings.Repeat(",", 9_999) + "))", tensor.ErrLimit},
	} {
		if s, err := LeafPaths(c.in); !errors.Is(err, c.class) {
			t.Errorf("%.40s: %v, %v", c.in, s, err)
		}
	}
}

func TestStructuresOfTheExporterHaveALeafForEveryInput(t *testing.T) {
	for _, name := range programs(t) {
		r := openFile(t, name)
		for m := range r.Program().Methods() {
			in, out := m.Structure()
			for s, n := range map[string]int{in: len(m.Inputs()), out: len(m.Outputs())} {
				paths, err := LeafPaths(s)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				} else if got := len(paths); n > 0 && got > n {
					t.Errorf("%s %s: %d leaves for %d values", name, m.Name(), got, n)
				}
			}
		}
	}
}
