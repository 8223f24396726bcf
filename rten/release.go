package rten

import (
	"fmt"
	"slices"
	"sort"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A release is a version of RTen: 1301 is 0.13.1.
type release uint16

func (r release) String() string {
	return "0." + strconv.Itoa(int(r/100)) + "." + strconv.Itoa(int(r%100))
}

// oldest is the release whose schema is the basis of all later ones. Files of
// before it cannot be told from later ones, and cannot be decoded.
const oldest release = 200

// A Requirement is something in a model that older releases of RTen refuse, or
// would compute otherwise because they ignore it.
type Requirement struct {
	Release string // the first that has it, such as 0.14.0
	What    string // in the schema's words, such as operator If
	Field   string // where it is first met
}

// Requires returns the lowest release of RTen that runs the model as it is meant,
// and everything that asks for more than the oldest one, 0.2.0, the newest
// first. What a file only says about itself, such as the dtypes of its
// values, asks for nothing. An operator that is newer than this library gives
// an empty release.
func (m *Model) Requires() (lowest string, because []Requirement) {
	type need struct {
		release release
		Requirement
	}
	seen := make(map[string]bool)
	var needs []need
	unknown := false
	add := func(r release, graph, node int, format string, args ...any) {
		what := fmt.Sprintf(format, args...)
		if r <= oldest || seen[what] {
			return
		}
		seen[what] = true
		field := ""
		if graph >= 0 {
			field = m.fieldPath(graph, node, "")
		}
		needs = append(needs, need{r, Requirement{r.String(), what, field}})
	}
	if m.r.v2 {
		add(1100, -1, -1, "version 2 of the file")
	}
	for c := range m.Constants() {
		if c.dtype == tensor.I8 || c.dtype == tensor.U8 {
			add(1400, c.n.graph, c.n.index, "constants of %v", c.dtype)
		}
	}
	for g := range m.Graphs() {
		for n := range g.Nodes() {
			op, ok := n.Operator()
			if !ok {
				continue
			}
			t := op.Type()
			if !t.Known() {
				unknown = true
				continue
			}
			add(rules[t].since, n.graph, n.index, "operator %v", t)
			if rules[t].use == ignored || op.attrsTag() != int(rules[t].attrs) {
				continue
			}
			table, raw, _ := op.attrs()
			for i := range table.Fields {
				f := &table.Fields[i]
				if f.Type == fb.Tag {
					continue
				}
				a := op.attribute(f, raw)
				if !a.Set {
					continue
				}
				if e, ok := a.Value.(Enum); ok {
					if r := enumSince(e); r != 0 {
						add(r, n.graph, n.index, "%s %v", e.Type, e)
					}
				}
				since := factOf(table, f).since
				if since > rules[t].since && !neutral(f, a.Value) {
					add(since, n.graph, n.index, "attribute %s of %v", f.Name, t)
				}
			}
		}
	}
	sort.SliceStable(needs, func(i, j int) bool { return needs[i].release > needs[j].release })
	lowest = oldest.String()
	if len(needs) > 0 {
		lowest = needs[0].Release
	}
	if unknown {
		lowest = ""
	}
	for _, n := range needs {
		because = append(because, n.Requirement)
	}
	return lowest, because
}

// neutral reports whether a release that does not know the field computes the
// same as one that does.
func neutral(f *fb.Field, value any) bool {
	v, ok := value.([]uint32)
	if !ok {
		return !f.Optional && f.Kind == fb.Scalar && value == defaultValue(f)
	}
	same := uint32(0)
	if f.Name == "dilations" {
		same = 1
	}
	return !f.Optional && !slices.ContainsFunc(v, func(x uint32) bool { return x != same })
}

// enumSince is the release that brought a number of an enum, 0 where that is its first
// use.
func enumSince(e Enum) release {
	switch e.Type + "." + e.String() {
	case "CoordTransformMode.AlignCorners":
		return 300
	case "DataType.Int8", "DataType.UInt8":
		return 1400
	case "CoordTransformMode.PytorchHalfPixel":
		return 1700
	case "PadMode.Edge", "PadMode.Wrap":
		return 2200
	}
	return 0
}
