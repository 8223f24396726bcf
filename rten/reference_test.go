package rten

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// facts are the facts of testdata/rten/*.json.
type facts struct {
	Version       string
	SchemaVersion int `json:"schema_version"`
	Inputs        []string
	Outputs       []string
	Operators     map[string]int
	Metadata      map[string]string
	Tensors       []struct {
		Name   string
		DType  string
		Shape  []int64
		Bytes  int64
		SHA256 string
		Offset *int64
	}
	GraphInputs   []int            `json:"graph inputs"`
	GraphOutputs  []int            `json:"graph outputs"`
	GraphCaptures []int            `json:"graph captures"`
	Nodes         []map[string]any `json:"nodes"`
}

func TestFactsEqualTheReference(t *testing.T) {
	graphs, nodes, attributes := 0, 0, 0
	for _, file := range referenceFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want facts
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			r, err := Open(strings.TrimSuffix(file, ".json")+".rten", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			c := factCheck{t: t}
			c.file(r, &want)
			c.graph(r.Model().Graph(),
				map[string]any{"inputs": want.GraphInputs, "outputs": want.GraphOutputs,
					"captures": want.GraphCaptures, "nodes": want.Nodes})
			graphs += c.graphs
			nodes += c.nodes
			attributes += c.attributes
			for _, w := range r.Warnings() {
				var fe *tensor.FormatError // inputs of size 0, which the exporters write
				if !errors.As(w, &fe) || !strings.Contains(fe.Field, ".shape[") {
					t.Errorf("warning: %v", w)
				}
			}
			if _, err := r.Verify(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	t.Logf("%d graphs, %d nodes, %d attributes", graphs, nodes, attributes)
}

type factCheck struct {
	t                         *testing.T
	graphs, nodes, attributes int
}

func (c *factCheck) equal(what string, got, want any) {
	c.t.Helper()
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if string(g) != string(w) && !(string(g) == "null" && string(w) == "[]") {
		c.t.Errorf("%s: %s, the reference says %s", what, g, w)
	}
}

func (c *factCheck) file(r *Reader, want *facts) {
	c.equal("version", r.Version(), want.Version)
	c.equal("schema_version", int(r.Model().Raw().SchemaVersion()), want.SchemaVersion)
	g := r.Model().Graph()
	label := func(ids []int) []string {
		names := []string{}
		for _, id := range ids {
			names = append(names, g.Node(id).Label())
		}
		return names
	}
	c.equal("inputs", label(g.Inputs()), want.Inputs)
	c.equal("outputs", label(g.Outputs()), want.Outputs)
	meta := map[string]string{}
	for k, v := range r.Attributes() {
		meta[k] = v
	}
	c.equal("metadata", meta, want.Metadata)
	counts := map[string]int{}
	for g := range r.Model().Graphs() {
		for n := range g.Nodes() {
			if op, ok := n.Operator(); ok {
				counts[op.Type().String()]++
			}
		}
	}
	c.equal("operators", counts, want.Operators)
	if r.Len() != len(want.Tensors) {
		c.t.Fatalf("%d tensors, the reference says %d", r.Len(), len(want.Tensors))
	}
	i := 0
	for x := range r.Tensors() {
		w := want.Tensors[i]
		c.equal("name", x.Name, w.Name)
		c.equal(w.Name+" dtype", x.DType.String(), w.DType)
		if !x.Shape.Equal(w.Shape) {
			c.t.Errorf("%s: shape %v, the reference says %v", w.Name, x.Shape, w.Shape)
		}
		c.equal(w.Name+" bytes", x.Size(), w.Bytes)
		b, err := x.Data.ReadAll()
		if err != nil {
			c.t.Error(err)
		}
		sum := sha256.Sum256(b)
		c.equal(w.Name+" sha256", hex.EncodeToString(sum[:]), w.SHA256)
		stored, ok := x.Data.Stored()
		if k := r.Model().Constant(i); k.Inline() != (w.Offset == nil) || !ok ||
			w.Offset != nil && stored.Offset != *w.Offset {
			c.t.Errorf("%s: stored at %d, the reference says %v", w.Name, stored.Offset, w.Offset)
		}
		if err := x.Check(); err != nil {
			c.t.Error(err)
		}
		i++
	}
}

func (c *factCheck) graph(g *Graph, want map[string]any) {
	c.graphs++
	c.equal("inputs", g.Inputs(), want["inputs"])
	c.equal("outputs", g.Outputs(), want["outputs"])
	c.equal("captures", g.Captures(), want["captures"])
	var nodes []map[string]any
	switch w := want["nodes"].(type) {
	case []map[string]any:
		nodes = w
	case []any:
		for _, n := range w {
			nodes = append(nodes, n.(map[string]any))
		}
	}
	if g.Len() != len(nodes) {
		c.t.Fatalf("%d nodes, the reference says %d", g.Len(), len(nodes))
	}
	for n := range g.Nodes() {
		c.node(n, nodes[n.Index()])
	}
}

func (c *factCheck) node(n Node, want map[string]any) {
	c.nodes++
	at := fmt.Sprintf("%s nodes[%d] ", n.Graph().Path(), n.Index())
	var name any
	if s, ok := n.Name(); ok {
		name = s
	}
	c.equal(at+"name", name, want["name"])
	c.equal(at+"kind", map[NodeKind]string{OperatorNode: "OperatorNode",
		ConstantNode: "ConstantNode", ValueNode: "ValueNode"}[n.Kind()], want["kind"])
	if v, ok := n.Value(); ok {
		var dtype, shape any
		if d, ok := v.DType(); ok {
			dtype = d.String()
		}
		if dims, ok := v.Shape(); ok {
			list := []any{}
			for _, d := range dims {
				if s, ok := d.Symbol(); ok {
					list = append(list, s)
				} else {
					size, _ := d.Size()
					list = append(list, size)
				}
			}
			shape = list
		}
		c.equal(at+"dtype", dtype, want["dtype"])
		c.equal(at+"shape", shape, want["shape"])
	}
	op, ok := n.Operator()
	if !ok {
		return
	}
	c.equal(at+"type", op.Type().String(), want["type"])
	c.equal(at+"inputs", op.Inputs(), want["inputs"])
	c.equal(at+"outputs", op.Outputs(), want["outputs"])
	table, _ := want["attrs"].(string)
	c.equal(at+"attrs", op.AttrsTable(), table)
	got := map[string]any{}
	for a := range op.Attributes() {
		if table == "" {
			if a.Set {
				c.t.Errorf("%s%s is set without a table", at, a.Name)
			}
			continue
		}
		c.attributes++
		switch x := a.Value.(type) {
		case *Graph:
			w, _ := want[a.Name].(map[string]any)
			c.graph(x, w)
			delete(want, a.Name)
			continue
		case Enum:
			got[a.Name] = x.Number
		case nil:
			continue
		default:
			if v := reflect.ValueOf(x); v.Kind() == reflect.Slice && !a.Set {
				continue // the bindings have nothing where RTen fills in
			}
			got[a.Name] = x
		}
		if table == "ConstantOfShapeAttrs" {
			kind := 1
			if _, ok := a.Value.(float32); ok {
				kind = 2
			}
			got["value_type"] = kind
			got["value"] = map[string]any{"value": a.Value}
		}
	}
	for _, k := range []string{"name", "kind", "type", "inputs", "outputs", "attrs"} {
		delete(want, k)
	}
	for k, v := range want {
		if f, ok := v.(float64); ok && got[k] != nil &&
			reflect.TypeOf(got[k]).Kind() == reflect.Float32 {
			want[k] = float32(f)
		}
		if m, ok := v.(map[string]any); ok && k == "value" {
			if f, ok := m["value"].(float64); ok {
				m["value"] = float32(f)
			}
		}
	}
	if w, ok := want["pad_mode"]; ok { // its name before 0.11
		want["auto_pad"] = w
		delete(want, "pad_mode")
	}
	for k := range got {
		if _, ok := want[k]; ok {
			continue
		}
		if a, _ := op.Attribute(k); !a.Set {
			delete(got, k) // newer than these bindings
		}
	}
	c.equal(at+"attributes", got, want)
}
