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

// oldest is the release whose schema all later releases extend. Files of older releases
// cannot be distinguished from later files, and cannot be decoded.
const oldest release = 200

// A Requirement is a feature that a model uses and older releases of RTen refuse or
// ignore.
type Requirement struct {
	Release string // the first release that has the feature, such as 0.14.0
	What    string // the feature, such as operator If
	Field   string // the path of the first node that uses it
	since   release
}

// Requires returns the oldest release of RTen that runs the model correctly, and the
// features that need a later release than 0.2.0, the latest first. Information that RTen
// does not use, such as the dtypes of values, is not a feature. If an operator is newer
// than this library, lowest is empty.
func (m *Model) Requires() (lowest string, because []Requirement) {
	seen := make(map[string]bool)
	add := func(since release, n Node, format string, args ...any) {
		what := fmt.Sprintf(format, args...)
		if since <= oldest || seen[what] {
			return
		}
		seen[what] = true
		field := ""
		if n.m != nil {
			field = n.path("")
		}
		because = append(because, Requirement{since.String(), what, field, since})
	}
	if m.r.version == "2" {
		add(1100, Node{}, "version 2 of the file")
	}
	for c := range m.Constants() {
		if c.dtype == tensor.I8 || c.dtype == tensor.U8 {
			add(1400, c.n, "constants of %v", c.dtype)
		}
	}
	unknown := false
	for g := range m.Graphs() {
		for n := range g.Nodes() {
			if op, ok := n.Operator(); ok {
				unknown = unknown || !op.Type().Known()
				op.requires(add)
			}
		}
	}
	sort.SliceStable(because, func(i, j int) bool { return because[i].since > because[j].since })
	switch {
	case unknown:
		return "", because
	case len(because) == 0:
		return oldest.String(), nil
	}
	return because[0].Release, because
}

// requires calls add for the operator and for its stored attributes.
func (o Operator) requires(add func(since release, n Node, format string, args ...any)) {
	t := o.Type()
	rule := t.rule()
	add(rule.since, o.n, "operator %v", t)
	if rule.use == ignored || o.attrsTag() != int(rule.attrs) {
		return
	}
	table, raw := o.attrs()
	for i := range table.Fields {
		f := &table.Fields[i]
		a := o.attribute(f, raw)
		if f.Type == fb.Tag || !a.Set {
			continue
		}
		if e, ok := a.Value.(Enum); ok {
			add(enumSince(e), o.n, "%s %v", e.Type, e)
		}
		if since := factOf(table, f).since; since > rule.since && !neutral(f, a.Value) {
			add(since, o.n, "attribute %s of %v", f.Name, t)
		}
	}
}

// neutral reports whether a release that does not know the field computes the same as a
// later release.
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

// enumSince returns the first release with a number of an enum, 0 if it is as old as the
// enum.
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
