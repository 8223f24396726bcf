package onnx

import (
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A parser reads a ModelProto. What it keeps takes memory in proportion to what it has
// walked over: see charge.
type parser struct {
	cursor
	r         *Reader
	proto     proto // of the tensor at hand
	shapes    format.Arena[int64]
	entries   format.Arena[entry]
	externals format.Arena[external]
	location  string // of the last tensor in another file, and that file
	file      *dataFile
	things    int64 // tensors and nodes
	used      int64 // bytes of memory
}

// Small messages of a model may take more memory than the file, by freeMemory and beyond
// that memoryRatio times what was walked over.
const (
	freeMemory  = 1 << 20
	memoryRatio = 16
)

// charge counts memory for what a message is kept in.
func (p *parser) charge(n int) {
	if p.used += int64(n); p.used > freeMemory && (p.used-freeMemory)/memoryRatio > p.walked {
		p.fail(tensor.ErrLimit, p.pos, "", "%d bytes of metadata take more than %d bytes of "+
			"memory",
			p.walked, p.used)
	}
}

// add counts a tensor or node.
func (p *parser) add(off int64) {
	if p.things++; p.things > p.limits.MaxTensors {
		p.fail(tensor.ErrLimit, off, "", "more than %d tensors and nodes", p.limits.MaxTensors)
	}
}

// model reads the whole file.
func (p *parser) model(out *Model) {
	m := message{0, p.size}
	opsets, metadata, functions := 0, 0, 0
	for f, ok := p.next(&m); ok; f, ok = p.next(&m) {
		switch f.key {
		case 1<<3 | varint:
			out.IRVersion = int64(f.v)
		case 2<<3 | delimited:
			out.Producer = p.text(f)
		case 3<<3 | delimited:
			out.ProducerVersion = p.text(f)
		case 4<<3 | delimited:
			out.Domain = p.text(f)
		case 5<<3 | varint:
			out.ModelVersion = int64(f.v)
		case 6<<3 | delimited:
			out.Doc = p.text(f)
		case 7<<3 | delimited:
			if out.Graph == nil {
				out.Graph = new(Graph)
			}
			sub := p.enter(f, "graph", -1)
			p.graph(&sub, out.Graph)
			p.leave()
		case 8<<3 | delimited:
			out.Opsets = append(out.Opsets, p.opset(f, opsets))
			opsets++
		case 14<<3 | delimited:
			sub := p.enter(f, "metadata_props", metadata)
			out.metadata = append(out.metadata, p.entry(&sub))
			p.leave()
			metadata++
		case 20<<3 | delimited:
			p.training(f, out)
		case 25<<3 | delimited:
			sub := p.enter(f, "functions", functions)
			out.Functions = append(out.Functions, p.function(&sub))
			p.leave()
			functions++
		case 26<<3 | delimited:
			p.skim(f, "configuration", configuration)
		}
	}
}

// opset reads an OperatorSetIdProto.
func (p *parser) opset(f field, index int) (o Opset) {
	m := p.enter(f, "opset_import", index)
	for f, ok := p.next(&m); ok; f, ok = p.next(&m) {
		switch f.key {
		case 1<<3 | delimited:
			o.Domain = p.name(f)
		case 2<<3 | varint:
			o.Version = int64(f.v)
		}
	}
	p.leave()
	p.charge(32)
	return o
}

// entry reads a StringStringEntryProto.
func (p *parser) entry(m *message) (kv [2]string) {
	for f, ok := p.next(m); ok; f, ok = p.next(m) {
		switch f.key {
		case 1<<3 | delimited:
			kv[0] = p.name(f)
		case 2<<3 | delimited:
			kv[1] = p.text(f)
		}
	}
	p.charge(48)
	return kv
}

// training reads a TrainingInfoProto.
func (p *parser) training(f field, out *Model) {
	var t Training
	graph := func(f field, name string, g **Graph) {
		if *g == nil {
			*g = new(Graph)
		}
		m := p.enter(f, name, -1)
		p.graph(&m, *g)
		p.leave()
	}
	m := p.enter(f, "training_info", len(out.Training))
	for f, ok := p.next(&m); ok; f, ok = p.next(&m) {
		switch f.key {
		case 1<<3 | delimited:
			graph(f, "initialization", &t.Initialization)
		case 2<<3 | delimited:
			graph(f, "algorithm", &t.Algorithm)
		case 3<<3 | delimited:
			p.skim(f, "initialization_binding", stringEntry)
		case 4<<3 | delimited:
			p.skim(f, "update_binding", stringEntry)
		}
	}
	p.leave()
	p.charge(32)
	out.Training = append(out.Training, t)
}

// graph reads a GraphProto, or more of one that is in pieces.
func (p *parser) graph(m *message, g *Graph) {
	if g.field == "" {
		g.field = p.where("")
		p.charge(256 + len(g.field))
	}
	for f, ok := p.next(m); ok; f, ok = p.next(m) {
		switch f.key {
		case 1<<3 | delimited:
			p.node(f, "node", g)
		case 2<<3 | delimited:
			g.Name = p.text(f)
		case 5<<3 | delimited:
			p.proto.reset(f.at)
			sub := p.enter(f, "initializer", len(g.initializers)-g.sparse)
			p.tensorProto(&sub, &p.proto)
			e := p.newEntry(&p.proto)
			e.tensor.Name = p.proto.name
			p.leave()
			g.initializers = appended(g.initializers, e)
		case 11<<3 | delimited:
			g.Inputs = append(g.Inputs, p.value(f, "input", len(g.Inputs)))
		case 12<<3 | delimited:
			g.Outputs = append(g.Outputs, p.value(f, "output", len(g.Outputs)))
		case 13<<3 | delimited:
			g.Values = append(g.Values, p.value(f, "value_info", len(g.Values)))
		case 14<<3 | delimited:
			p.skim(f, "quantization_annotation", annotation)
		case 15<<3 | delimited:
			x := p.newSparse(f.at)
			sub := p.enter(f, "sparse_initializer", g.sparse)
			p.sparseProto(&sub, x)
			e := p.sparseEntry(x)
			e.tensor.Name = x.parts[0].name
			p.leave()
			g.sparse++
			g.initializers = appended(g.initializers, e)
		case 16<<3 | delimited:
			p.skim(f, "metadata_props", stringEntry)
		}
	}
}

// function reads a FunctionProto.
func (p *parser) function(m *message) *Function {
	o := &Function{Graph: &Graph{field: p.where("")}}
	p.charge(512 + len(o.Graph.field))
	untyped := func(f field) Value {
		p.charge(32)
		return Value{Name: p.name(f), at: f.at}
	}
	for f, ok := p.next(m); ok; f, ok = p.next(m) {
		switch f.key {
		case 1<<3 | delimited:
			o.Name = p.name(f)
		case 4<<3 | delimited:
			o.Graph.Inputs = append(o.Graph.Inputs, untyped(f))
		case 5<<3 | delimited:
			o.Graph.Outputs = append(o.Graph.Outputs, untyped(f))
		case 6<<3 | delimited:
			o.Attributes = append(o.Attributes, untyped(f).Name)
		case 7<<3 | delimited:
			p.node(f, "node", o.Graph)
		case 9<<3 | delimited:
			o.Opsets = append(o.Opsets, p.opset(f, len(o.Opsets)))
		case 10<<3 | delimited:
			o.Domain = p.name(f)
		case 11<<3 | delimited:
			o.Defaults = append(o.Defaults, p.attribute(f, "attribute_proto", len(o.Defaults)))
		case 12<<3 | delimited:
			o.Graph.Values = append(o.Graph.Values, p.value(f, "value_info", len(o.Graph.Values)))
		case 13<<3 | delimited:
			o.Overload = p.name(f)
		case 14<<3 | delimited:
			p.skim(f, "metadata_props", stringEntry)
		}
	}
	o.Graph.Name = o.Name
	return o
}

// node reads a NodeProto.
func (p *parser) node(f field, name string, g *Graph) {
	p.add(f.at)
	p.charge(192)
	n := Node{at: f.at}
	m := p.enter(f, name, len(g.Nodes))
	for f, ok := p.next(&m); ok; f, ok = p.next(&m) {
		switch f.key {
		case 1<<3 | delimited:
			p.charge(16)
			n.Inputs = append(n.Inputs, p.name(f))
		case 2<<3 | delimited:
			p.charge(16)
			n.Outputs = append(n.Outputs, p.name(f))
		case 3<<3 | delimited:
			n.Name = p.name(f)
		case 4<<3 | delimited:
			n.OpType = p.name(f)
		case 5<<3 | delimited:
			n.Attributes = append(n.Attributes, p.attribute(f, "attribute", len(n.Attributes)))
		case 7<<3 | delimited:
			n.Domain = p.name(f)
		case 8<<3 | delimited:
			n.Overload = p.name(f)
		case 9<<3 | delimited:
			p.skim(f, "metadata_props", stringEntry)
		case 10<<3 | delimited:
			p.skim(f, "device_configurations", nodeDevices)
		}
	}
	p.leave()
	g.Nodes = append(g.Nodes, n)
}

// attribute reads an AttributeProto.
func (p *parser) attribute(f field, name string, index int) Attribute {
	p.charge(96)
	var a Attribute
	var number struct{ f, i, s, tensor bool }
	var single float32
	var integer int64
	var text string
	var floats []float32
	var ints []int64
	var strings []string
	var one *Graph
	var graphs []*Graph
	var tensors []*tensor.Tensor
	var typ *Type
	var types []*Type
	var sparse *sparseParts
	var t *proto // of its own: a graph in the same attribute has tensors too
	m := p.enter(f, name, index)
	for f, ok := p.next(&m); ok; f, ok = p.next(&m) {
		switch f.key {
		case 1<<3 | delimited:
			a.Name = p.name(f)
		case 2<<3 | fixed32:
			number.f, single = true, math.Float32frombits(uint32(f.v))
		case 3<<3 | varint:
			number.i, integer = true, int64(f.v)
		case 4<<3 | delimited:
			number.s, text = true, p.text(f)
		case 5<<3 | delimited:
			if t == nil {
				t = new(proto)
				t.reset(f.at)
			}
			sub := p.enter(f, "t", -1)
			p.tensorProto(&sub, t)
			p.leave()
		case 6<<3 | delimited:
			if one == nil {
				one = new(Graph)
			}
			sub := p.enter(f, "g", -1)
			p.graph(&sub, one)
			p.leave()
		case 7<<3 | delimited, 7<<3 | fixed32:
			p.packed(f, fixed32, func(v uint64) {
				floats = append(floats, math.Float32frombits(uint32(v)))
			})
		case 8<<3 | delimited, 8<<3 | varint:
			p.packed(f, varint, func(v uint64) { ints = append(ints, int64(v)) })
		case 9<<3 | delimited:
			p.charge(16)
			strings = append(strings, p.text(f))
		case 10<<3 | delimited:
			p.proto.reset(f.at)
			sub := p.enter(f, "tensors", len(tensors))
			p.tensorProto(&sub, &p.proto)
			tensors = append(tensors, &p.newEntry(&p.proto).tensor)
			p.leave()
		case 11<<3 | delimited:
			g := new(Graph)
			sub := p.enter(f, "graphs", len(graphs))
			p.graph(&sub, g)
			p.leave()
			graphs = append(graphs, g)
		case 14<<3 | delimited:
			if typ == nil {
				typ = new(Type)
			}
			p.typeProto(f, "tp", -1, typ)
		case 15<<3 | delimited:
			types = append(types, new(Type))
			p.typeProto(f, "type_protos", len(types)-1, types[len(types)-1])
		case 20<<3 | varint:
			a.declared = int32(f.v)
		case 21<<3 | delimited:
			a.Value = Ref(p.name(f))
		case 22<<3 | delimited:
			if sparse == nil {
				sparse = p.newSparse(f.at)
			}
			sub := p.enter(f, "sparse_tensor", -1)
			p.sparseProto(&sub, sparse)
			p.leave()
		case 23<<3 | delimited:
			x := p.newSparse(f.at)
			sub := p.enter(f, "sparse_tensors", len(tensors))
			p.sparseProto(&sub, x)
			tensors = append(tensors, &p.sparseEntry(x).tensor)
			p.leave()
		}
	}
	// Of several values the first of these is the attribute's, unless one has the type
	// that is declared.
	set := func(has bool, declared int32, v func() any) {
		switch {
		case !has:
		case a.Value == nil:
			a.Value = v()
		case a.declared == declared:
			a.Value, a.others = v(), append(a.others, a.Value)
		default:
			a.others = append(a.others, v())
		}
	}
	if ref, ok := a.Value.(Ref); ok && ref == "" {
		a.Value = nil
	}
	if t != nil {
		p.path = append(p.path, step{"t", -1})
		e := p.newEntry(t)
		p.leave()
		set(true, 4, func() any { return &e.tensor })
	}
	if sparse != nil {
		p.path = append(p.path, step{"sparse_tensor", -1})
		e := p.sparseEntry(sparse)
		p.leave()
		set(true, 11, func() any { return &e.tensor })
	}
	set(tensors != nil, 9, func() any { return tensors })
	set(one != nil, 5, func() any { return one })
	set(graphs != nil, 10, func() any { return graphs })
	set(ints != nil, 7, func() any { return ints })
	set(floats != nil, 6, func() any { return floats })
	set(strings != nil, 8, func() any { return strings })
	set(typ != nil, 13, func() any { return typ })
	set(types != nil, 14, func() any { return types })
	set(number.i && (integer != 0 || a.declared == 2), 2, func() any { return integer })
	set(number.f && (single != 0 || a.declared == 1), 1, func() any { return single })
	set(number.s && (text != "" || a.declared == 3), 3, func() any { return text })
	if a.Value == nil {
		a.Value = zeroOf(a.declared)
	}
	p.leave()
	return a
}

// zeroOf returns the value of an attribute without a field for one: proto3 writers leave
// out what is zero, and every writer empty lists.
func zeroOf(declared int32) any {
	switch declared {
	case 1:
		return float32(0)
	case 2:
		return int64(0)
	case 3:
		return ""
	case 6:
		return []float32{}
	case 7:
		return []int64{}
	case 8:
		return []string{}
	}
	return nil
}

// value reads a ValueInfoProto.
func (p *parser) value(f field, name string, index int) (v Value) {
	p.charge(32)
	v.at = f.at
	m := p.enter(f, name, index)
	for f, ok := p.next(&m); ok; f, ok = p.next(&m) {
		switch f.key {
		case 1<<3 | delimited:
			v.Name = p.name(f)
		case 2<<3 | delimited:
			if v.Type == nil {
				v.Type = new(Type)
			}
			p.typeProto(f, "type", -1, v.Type)
		case 4<<3 | delimited:
			p.skim(f, "metadata_props", stringEntry)
		}
	}
	p.leave()
	return v
}

// typeProto reads a TypeProto. Its kinds exclude each other: the last one counts.
func (p *parser) typeProto(f field, name string, index int, t *Type) {
	p.charge(80)
	m := p.enter(f, name, index)
	kind := func(f field, name string, k TypeKind) message {
		if t.Kind != k {
			*t = Type{Kind: k}
		}
		return p.enter(f, name, -1)
	}
	for f, ok := p.next(&m); ok; f, ok = p.next(&m) {
		var of message
		elem, inner := -1, -1 // fields
		switch f.key {
		case 1<<3 | delimited:
			of, elem = kind(f, "tensor_type", TensorType), 1
		case 8<<3 | delimited:
			of, elem = kind(f, "sparse_tensor_type", SparseTensorType), 1
		case 4<<3 | delimited:
			of, inner = kind(f, "sequence_type", SequenceType), 1
		case 5<<3 | delimited:
			of, elem, inner = kind(f, "map_type", MapType), 1, 2
		case 9<<3 | delimited:
			of, inner = kind(f, "optional_type", OptionalType), 1
		case 7<<3 | delimited:
			of = kind(f, "opaque_type", OpaqueType)
		default:
			continue
		}
		for f, ok := p.next(&of); ok; f, ok = p.next(&of) {
			switch {
			case f.key == elem<<3|varint:
				t.Elem = int(int32(f.v))
			case f.key == 2<<3|delimited && inner < 0 && elem > 0:
				t.Ranked = true
				p.shape(f, t)
			case f.key == inner<<3|delimited:
				if t.Of == nil {
					t.Of = new(Type)
				}
				p.typeProto(f, "elem_type", -1, t.Of)
			}
		}
		p.leave()
	}
	p.leave()
}

// shape reads a TensorShapeProto.
func (p *parser) shape(f field, t *Type) {
	m := p.enter(f, "shape", -1)
	for f, ok := p.next(&m); ok; f, ok = p.next(&m) {
		if f.key != 1<<3|delimited {
			continue
		}
		p.charge(32)
		var d Dim
		sub := p.enter(f, "dim", len(t.Dims))
		for f, ok := p.next(&sub); ok; f, ok = p.next(&sub) {
			switch f.key {
			case 1<<3 | varint:
				d = Dim{Size: int64(f.v), fixed: true}
			case 2<<3 | delimited:
				d = Dim{Symbol: p.name(f)}
			}
		}
		p.leave()
		t.Dims = append(t.Dims, d)
	}
	p.leave()
}

// A kind is a message that is checked and not kept: its fields that are messages, by
// number, and those that are packed varints.
type kind struct {
	messages map[int]kind
	numbers  []int
}

var (
	stringEntry   = kind{}
	annotation    = kind{messages: map[int]kind{2: stringEntry}}
	configuration = kind{}
	nodeDevices   = kind{messages: map[int]kind{2: {
		messages: map[int]kind{
			3: {numbers: []int{2}},
			4: {messages: map[int]kind{2: {}}},
		},
		numbers: []int{2},
	}}}
)

// skim checks a message that is not kept.
func (p *parser) skim(f field, name string, k kind) {
	m := p.enter(f, name, -1)
	for f, ok := p.next(&m); ok; f, ok = p.next(&m) {
		if sub, ok := k.messages[f.key>>3]; ok && f.key&7 == delimited {
			p.skim(f, "message", sub)
		}
		for _, n := range k.numbers {
			if f.key == n<<3|delimited {
				p.packed(f, varint, func(uint64) {})
			}
		}
	}
	p.leave()
}

// A proto is a TensorProto as it is stored.
type proto struct {
	at       int64 // offset of its field
	dims     []int64
	dataType int
	name     string
	raw      data // of raw_data; not set where n is negative
	typed    []typedField
	strings  int64 // entries of string_data
	text     data  // the fields of them, tags included, where they follow each other
	// scattered: other fields are between them
	scattered bool
	segment   bool
	external  bool // data_location
	pairs     []pair
}

// data is a range of the file.
type data struct{ off, n int64 }

// A typedField is the pieces of one of the typed fields.
type typedField struct {
	field  int
	pieces []piece
}

// A pair is an entry of external_data.
type pair struct {
	key, value string
	at         int64
}

func (x *proto) reset(at int64) {
	*x = proto{at: at, dims: x.dims[:0], typed: x.typed[:0], pairs: x.pairs[:0]}
	x.raw.n = -1
}

// tensorProto reads a TensorProto, or more of one.
func (p *parser) tensorProto(m *message, x *proto) {
	for f, ok := p.next(m); ok; f, ok = p.next(m) {
		switch f.key {
		case 1<<3 | varint:
			x.dims = append(x.dims, int64(f.v))
		case 1<<3 | delimited:
			p.packed(f, varint, func(v uint64) { x.dims = append(x.dims, int64(v)) })
		case 2<<3 | varint:
			x.dataType = int(int32(f.v))
		case 3<<3 | delimited:
			p.skim(f, "segment", kind{})
			x.segment = true
		case floatData<<3 | delimited, floatData<<3 | fixed32, int32Data<<3 | delimited,
			int32Data<<3 | varint, int64Data<<3 | delimited, int64Data<<3 | varint,
			doubleData<<3 | delimited, doubleData<<3 | fixed64, uint64Data<<3 | delimited,
			uint64Data<<3 | varint:
			p.typedPiece(f, m.next, x)
		case stringData<<3 | delimited:
			if x.strings == 0 {
				x.text.off = f.at
			}
			x.scattered = x.scattered || f.at != x.text.off+x.text.n
			x.strings++
			x.text.n = m.next - x.text.off
		case 8<<3 | delimited:
			x.name = p.name(f)
		case rawData<<3 | delimited:
			x.raw = data{f.off, f.n}
		case 13<<3 | delimited:
			sub := p.enter(f, "external_data", len(x.pairs))
			kv := p.entry(&sub)
			p.leave()
			x.pairs = append(x.pairs, pair{kv[0], kv[1], f.at})
		case 14<<3 | varint:
			x.external = f.v == 1
		case 16<<3 | delimited:
			p.skim(f, "metadata_props", stringEntry)
		}
	}
}

// typedPiece adds a field that ends at end to the typed ones.
func (p *parser) typedPiece(f field, end int64, x *proto) {
	number := f.key >> 3
	i := 0
	for i < len(x.typed) && x.typed[i].field != number {
		i++
	}
	if i == len(x.typed) {
		x.typed = append(x.typed, typedField{field: number})
	}
	t := &x.typed[i]
	if f.key&7 == delimited {
		width := int64(1)
		switch number {
		case floatData:
			width = 4
		case doubleData:
			width = 8
		}
		if f.n%width != 0 {
			p.fail(tensor.ErrMalformed, f.at, fieldNames[number],
				"%d bytes, no multiple of %d", f.n, width)
		}
		p.charge(24)
		t.pieces = append(t.pieces, piece{off: f.off, n: f.n})
		return
	}
	if k := len(t.pieces) - 1; k >= 0 && t.pieces[k].tagged &&
		t.pieces[k].off+t.pieces[k].n == f.at {
		t.pieces[k].n = end - t.pieces[k].off
		return
	}
	p.charge(24)
	t.pieces = append(t.pieces, piece{off: f.at, n: end - f.at, tagged: true})
}

// sparseParts is a SparseTensorProto.
type sparseParts struct {
	at    int64
	parts [2]proto // values, indices
	dims  []int64
}

func (p *parser) newSparse(at int64) *sparseParts {
	p.charge(512)
	x := &sparseParts{at: at}
	x.parts[0].reset(at)
	x.parts[1].reset(at)
	return x
}

// sparseProto reads a SparseTensorProto, or more of one.
func (p *parser) sparseProto(m *message, x *sparseParts) {
	for f, ok := p.next(m); ok; f, ok = p.next(m) {
		switch f.key {
		case 1<<3 | delimited, 2<<3 | delimited:
			i := f.key>>3 - 1
			sub := p.enter(f, [2]string{"values", "indices"}[i], -1)
			p.tensorProto(&sub, &x.parts[i])
			p.leave()
		case 3<<3 | varint:
			x.dims = append(x.dims, int64(f.v))
		case 3<<3 | delimited:
			p.packed(f, varint, func(v uint64) { x.dims = append(x.dims, int64(v)) })
		}
	}
}

// newEntry adds the tensor of a TensorProto to those of the file.
func (p *parser) newEntry(x *proto) *entry {
	e := p.take(x.at)
	p.fill(e, x)
	return e
}

// take adds an empty tensor to those of the file.
func (p *parser) take(at int64) *entry {
	p.add(at)
	p.charge(256)
	e := &p.entries.Take(1)[0]
	e.at = at
	p.r.entries = appended(p.r.entries, e)
	return e
}

// appended appends to a list that doubles: append copies a long one more often.
func appended(list []*entry, e *entry) []*entry {
	if len(list) == cap(list) {
		list = slices.Grow(list, max(8, len(list)))
	}
	return append(list, e)
}

// dimensions checks the dimensions of a tensor, and returns a copy.
func (p *parser) dimensions(off int64, dims []int64) tensor.Shape {
	if most := min(p.limits.MaxRank, maxRank); int64(len(dims)) > most {
		p.fail(tensor.ErrLimit, off, "dims", "%d dimensions, the limit is %d", len(dims), most)
		return nil
	}
	shape := tensor.Shape(p.shapes.Take(len(dims)))
	copy(shape, dims)
	if _, ok := shape.Elements(); !ok {
		p.fail(tensor.ErrMalformed, off, "dims", "%v is negative or beyond 2^63 elements", shape)
	}
	return shape
}

// extent returns a range of the file, which is inside a message.
func (p *parser) extent(off, n int64) source.Extent {
	x, err := p.r.src.Extent(off, n)
	if err != nil && p.err == nil {
		p.err = err
	}
	return x
}
