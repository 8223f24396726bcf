package onnx

import (
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A parser reads a ModelProto. Its result takes memory in proportion to the bytes that it
// has parsed: see charge.
type parser struct {
	cursor
	r         *Reader
	proto     proto // of the tensor at hand
	shapes    format.Arena[int64]
	entries   format.Arena[entry]
	externals format.Arena[externalData]
	location  string // of the last tensor in another file, and that file
	file      *dataFile
	items     int64 // tensors and nodes
	used      int64 // bytes of memory
}

// A parsed model may take freeMemory bytes, and memoryRatio bytes for each parsed byte.
const (
	freeMemory  = 1 << 20
	memoryRatio = 16
)

// charge counts n bytes of memory for the result, and fails if they are too many.
func (p *parser) charge(n int) {
	if p.used += int64(n); p.used > freeMemory && (p.used-freeMemory)/memoryRatio > p.walked {
		p.fail(tensor.ErrLimit, p.pos, "", "%d bytes of metadata take more than %d bytes of "+
			"memory",
			p.walked, p.used)
	}
}

// countItem counts a tensor or node, and fails if there are too many.
func (p *parser) countItem(off int64) {
	if p.items++; p.items > p.limits.MaxTensors {
		p.fail(tensor.ErrLimit, off, "", "more than %d tensors and nodes", p.limits.MaxTensors)
	}
}

// targets says what to do with the fields of a message, by number: a *string or *int64 is
// set, a func is called with a delimited field, and checkOnly and packedIntegers are
// checked. Other fields are skipped.
type targets []any

// A checkOnly field is a message that is parsed for errors and not stored. A
// packedIntegers field is packed numbers that are checked in the same way.
type (
	checkOnly struct {
		name   string
		fields targets
	}
	packedIntegers struct{}
)

var (
	metadataProps = checkOnly{"metadata_props", nil}
	annotation    = checkOnly{"quantization_annotation",
		targets{2: checkOnly{"quant_parameter_tensor_names", nil}}}
	nodeDevices = checkOnly{"device_configurations", targets{2: checkOnly{"sharding_spec", targets{
		2: packedIntegers{},
		3: checkOnly{"index_to_device_group_map", targets{2: packedIntegers{}}},
		4: checkOnly{"sharded_dim", targets{2: checkOnly{"simple_sharding", nil}}},
	}}}}
)

// read reads the message in a field, which is element index of the fields of that name.
func (p *parser) read(f field, name string, index int, to targets) {
	m := p.enter(f, name, index)
	p.fields(m, to)
	p.leave()
}

func (p *parser) fields(m message, to targets) {
	for f, ok := p.next(&m); ok; f, ok = p.next(&m) {
		number, wire := f.key>>3, f.key&7
		if number >= uint32(len(to)) {
			continue
		}
		switch t := to[number].(type) {
		case *string:
			if wire == delimited {
				*t = p.name(f)
			}
		case *int64:
			if wire == varint {
				*t = int64(f.v)
			}
		case func(f field):
			if wire == delimited {
				t(f)
			}
		case checkOnly:
			if wire == delimited {
				p.read(f, t.name, -1, t.fields)
			}
		case packedIntegers:
			if wire == delimited {
				p.packed(f, varint, func(uint64) {})
			}
		}
	}
}

// model reads the whole file.
func (p *parser) model(out *Model) {
	p.fields(message{0, p.size}, targets{
		1: &out.IRVersion,
		2: &out.Producer,
		3: &out.ProducerVersion,
		4: &out.Domain,
		5: &out.ModelVersion,
		6: func(f field) { out.Doc = p.text(f) },
		7: func(f field) { p.graph(f, "graph", -1, &out.Graph) },
		8: func(f field) { out.Opsets = append(out.Opsets, p.opset(f, len(out.Opsets))) },
		14: func(f field) {
			out.metadata = append(out.metadata, p.keyValue(f, "metadata_props", len(out.metadata)))
		},
		20: func(f field) { p.training(f, out) },
		25: func(f field) {
			out.Functions = append(out.Functions, p.function(f,
				len(out.Functions)))
		},
		26: checkOnly{"configuration", nil},
	})
}

// opset reads an OperatorSetIdProto.
func (p *parser) opset(f field, index int) (o Opset) {
	p.charge(32)
	p.read(f, "opset_import", index, targets{1: &o.Domain, 2: &o.Version})
	return o
}

// keyValue reads a StringStringEntryProto.
func (p *parser) keyValue(f field, name string, index int) (kv [2]string) {
	p.charge(48)
	m := p.enter(f, name, index)
	for f, ok := p.next(&m); ok; f, ok = p.next(&m) {
		switch f.key {
		case 1<<3 | delimited:
			kv[0] = p.name(f)
		case 2<<3 | delimited:
			kv[1] = p.text(f)
		}
	}
	p.leave()
	return kv
}

// training reads a TrainingInfoProto.
func (p *parser) training(f field, out *Model) {
	p.charge(32)
	var t Training
	p.read(f, "training_info", len(out.Training), targets{
		1: func(f field) { p.graph(f, "initialization", -1, &t.Initialization) },
		2: func(f field) { p.graph(f, "algorithm", -1, &t.Algorithm) },
		3: checkOnly{"initialization_binding", nil},
		4: checkOnly{"update_binding", nil},
	})
	out.Training = append(out.Training, t)
}

// graph reads a GraphProto. If *to is not nil, it adds to that graph: in protobuf a
// message may be split into several fields.
func (p *parser) graph(f field, name string, index int, to **Graph) {
	g := *to
	m := p.enter(f, name, index)
	if g == nil {
		g = &Graph{field: p.fieldPath("")}
		p.charge(256 + len(g.field))
		*to = g
	}
	p.fields(m, targets{
		1: func(f field) { p.node(f, g) },
		2: func(f field) { g.Name = p.text(f) },
		5: func(f field) {
			e := p.tensor(f, "initializer", len(g.initializers)-g.sparse)
			e.tensor.Name = p.proto.name
			g.initializers = appended(g.initializers, e)
		},
		11: func(f field) { g.Inputs = append(g.Inputs, p.value(f, "input", len(g.Inputs))) },
		12: func(f field) { g.Outputs = append(g.Outputs, p.value(f, "output", len(g.Outputs))) },
		13: func(f field) { g.Values = append(g.Values, p.value(f, "value_info", len(g.Values))) },
		14: annotation,
		15: func(f field) {
			x := p.newSparse(f.at)
			p.sparseProto(f, "sparse_initializer", g.sparse, x)
			e := p.sparseEntry(x, "sparse_initializer", g.sparse)
			e.tensor.Name = x.parts[0].name
			g.sparse++
			g.initializers = appended(g.initializers, e)
		},
		16: metadataProps,
	})
	p.leave()
}

// function reads a FunctionProto.
func (p *parser) function(f field, index int) *Function {
	m := p.enter(f, "functions", index)
	g := &Graph{field: p.fieldPath("")}
	o := &Function{Graph: g}
	p.charge(512 + len(g.field))
	named := func(list *[]Value) func(f field) {
		return func(f field) {
			p.charge(32)
			*list = append(*list, Value{Name: p.name(f), at: f.at})
		}
	}
	p.fields(m, targets{
		1:  &o.Name,
		4:  named(&g.Inputs),
		5:  named(&g.Outputs),
		6:  func(f field) { o.Attributes = p.appendName(o.Attributes, f) },
		7:  func(f field) { p.node(f, g) },
		9:  func(f field) { o.Opsets = append(o.Opsets, p.opset(f, len(o.Opsets))) },
		10: &o.Domain,
		11: func(f field) {
			o.Defaults = append(o.Defaults, p.attribute(f, "attribute_proto", len(o.Defaults)))
		},
		12: func(f field) { g.Values = append(g.Values, p.value(f, "value_info", len(g.Values))) },
		13: &o.Overload,
		14: metadataProps,
	})
	p.leave()
	g.Name = o.Name
	return o
}

func (p *parser) appendName(list []string, f field) []string {
	p.charge(16)
	return append(list, p.name(f))
}

// node reads a NodeProto of a graph.
func (p *parser) node(f field, g *Graph) {
	p.countItem(f.at)
	p.charge(192)
	n := Node{at: f.at}
	p.read(f, "node", len(g.Nodes), targets{
		1: func(f field) { n.Inputs = p.appendName(n.Inputs, f) },
		2: func(f field) { n.Outputs = p.appendName(n.Outputs, f) },
		3: &n.Name,
		4: &n.OpType,
		5: func(f field) {
			n.Attributes = append(n.Attributes, p.attribute(f, "attribute", len(n.Attributes)))
		},
		7:  &n.Domain,
		8:  &n.Overload,
		9:  metadataProps,
		10: nodeDevices,
	})
	g.Nodes = append(g.Nodes, n)
}

// The numbers of AttributeProto.AttributeType.
const (
	floatType = iota + 1
	intType
	textType
	tensorType
	graphType
	floatsType
	intsType
	textsType
	tensorsType
	graphsType
	sparseType
	sparsesType
	typeType
	typesType
	numAttributeTypes
)

// preferred is the order in which the value of an attribute is chosen if it has several.
// Scalars come last: some writers set them to zero in attributes of other types.
var preferred = [...]int{tensorType, sparseType, tensorsType, sparsesType, graphType, graphsType,
	intsType, floatsType, textsType, typeType, typesType, intType, floatType, textType}

// attribute reads an AttributeProto.
func (p *parser) attribute(f field, name string, index int) Attribute {
	p.charge(96)
	var a Attribute
	var have [numAttributeTypes]any
	declared, ref := 0, ""
	var one *Graph
	var t *proto // not p.proto, which a graph in the same attribute may overwrite
	var sparse *sparseParts
	m := p.enter(f, name, index)
	for f, ok := p.next(&m); ok; f, ok = p.next(&m) {
		switch f.key {
		case 1<<3 | delimited:
			a.Name = p.name(f)
		case 2<<3 | fixed32:
			have[floatType] = math.Float32frombits(uint32(f.v))
		case 3<<3 | varint:
			have[intType] = int64(f.v)
		case 4<<3 | delimited:
			have[textType] = p.text(f)
		case 5<<3 | delimited:
			if t == nil {
				t = new(proto)
				t.reset(f.at)
			}
			p.tensorProto(f, "t", -1, t)
		case 6<<3 | delimited:
			p.graph(f, "g", -1, &one)
			have[graphType] = one
		case 7<<3 | delimited, 7<<3 | fixed32:
			list := listOf[float32](have[floatsType])
			p.packed(f, fixed32, func(v uint64) {
				list = append(list, math.Float32frombits(uint32(v)))
			})
			have[floatsType] = list
		case 8<<3 | delimited, 8<<3 | varint:
			list := listOf[int64](have[intsType])
			p.packed(f, varint, func(v uint64) { list = append(list, int64(v)) })
			have[intsType] = list
		case 9<<3 | delimited:
			p.charge(16)
			have[textsType] = append(listOf[string](have[textsType]), p.text(f))
		case 10<<3 | delimited:
			list := listOf[*tensor.Tensor](have[tensorsType])
			have[tensorsType] = append(list, &p.tensor(f, "tensors", len(list)).tensor)
		case 11<<3 | delimited:
			list := append(listOf[*Graph](have[graphsType]), nil)
			p.graph(f, "graphs", len(list)-1, &list[len(list)-1])
			have[graphsType] = list
		case 14<<3 | delimited:
			if have[typeType] == nil {
				have[typeType] = new(Type)
			}
			p.typeProto(f, "tp", -1, have[typeType].(*Type))
		case 15<<3 | delimited:
			list := append(listOf[*Type](have[typesType]), new(Type))
			p.typeProto(f, "type_protos", len(list)-1, list[len(list)-1])
			have[typesType] = list
		case 20<<3 | varint:
			declared = int(int32(f.v))
		case 21<<3 | delimited:
			ref = p.name(f)
		case 22<<3 | delimited:
			if sparse == nil {
				sparse = p.newSparse(f.at)
			}
			p.sparseProto(f, "sparse_tensor", -1, sparse)
		case 23<<3 | delimited:
			list := listOf[*tensor.Tensor](have[sparsesType])
			x := p.newSparse(f.at)
			p.sparseProto(f, "sparse_tensors", len(list), x)
			have[sparsesType] = append(list,
				&p.sparseEntry(x, "sparse_tensors", len(list)).tensor)
		}
	}
	if t != nil {
		p.path = append(p.path, step{"t", -1})
		have[tensorType] = &p.newEntry(t).tensor
		p.leave()
	}
	if sparse != nil {
		have[sparseType] = &p.sparseEntry(sparse, "sparse_tensor", -1).tensor
	}
	p.leave()
	a.choose(&have, declared, ref)
	return a
}

// listOf returns a value of an attribute as a list.
func listOf[T any](v any) []T {
	list, _ := v.([]T)
	return list
}

// choose sets the value of an attribute: the value of the declared type, or the first in
// the order of preferred. If a type is declared, zero scalars of other types are ignored.
func (a *Attribute) choose(have *[numAttributeTypes]any, declared int, ref string) {
	if ref != "" {
		a.Value = Ref(ref)
	} else if declared > 0 && declared < numAttributeTypes {
		if a.Value = have[declared]; a.Value == nil {
			a.Value = zeroOf(declared)
		}
		have[declared] = nil
	}
	for _, i := range preferred {
		switch v := have[i]; {
		case v == nil || declared != 0 && (v == float32(0) || v == int64(0) || v == ""):
		case a.Value == nil:
			a.Value, a.mismatched = v, declared != 0
		default:
			a.others, a.mismatched = append(a.others, v), true
		}
	}
}

// zeroOf returns the value of an attribute that has no field for it: proto3 writers leave
// out zeros, and all writers leave out empty lists.
func zeroOf(declared int) any {
	switch declared {
	case floatType:
		return float32(0)
	case intType:
		return int64(0)
	case textType:
		return ""
	case floatsType:
		return []float32{}
	case intsType:
		return []int64{}
	case textsType:
		return []string{}
	}
	return nil
}

// value reads a ValueInfoProto.
func (p *parser) value(f field, name string, index int) Value {
	p.charge(32)
	v := Value{at: f.at}
	p.read(f, name, index, targets{
		1: &v.Name,
		2: func(f field) {
			if v.Type == nil {
				v.Type = new(Type)
			}
			p.typeProto(f, "type", -1, v.Type)
		},
		4: metadataProps,
	})
	return v
}

// typeProto reads a TypeProto into t. If it has several kinds, the last one counts.
func (p *parser) typeProto(f field, name string, index int, t *Type) {
	p.charge(80)
	kind := func(name string, k TypeKind, to func() targets) func(f field) {
		return func(f field) {
			if t.Kind != k {
				*t = Type{Kind: k}
			}
			elem := int64(t.Elem)
			fields := to()
			if fields[1] == nil {
				fields[1] = &elem
			}
			p.read(f, name, -1, fields)
			t.Elem = int(int32(elem))
		}
	}
	inner := func(f field) {
		if t.Of == nil {
			t.Of = new(Type)
		}
		p.typeProto(f, "elem_type", -1, t.Of)
	}
	shaped := func() targets { return targets{1: nil, 2: func(f field) { p.shape(f, t) }} }
	one := func() targets { return targets{1: inner} }
	p.read(f, name, index, targets{
		1: kind("tensor_type", TensorType, shaped),
		4: kind("sequence_type", SequenceType, one),
		5: kind("map_type", MapType, func() targets { return targets{1: nil, 2: inner} }),
		7: kind("opaque_type", OpaqueType, func() targets { return targets{1: nil} }),
		8: kind("sparse_tensor_type", SparseTensorType, shaped),
		9: kind("optional_type", OptionalType, one),
	})
}

// shape reads a TensorShapeProto.
func (p *parser) shape(f field, t *Type) {
	t.Ranked = true
	p.read(f, "shape", -1, targets{1: func(f field) {
		p.charge(32)
		var d Dim
		m := p.enter(f, "dim", len(t.Dims))
		for f, ok := p.next(&m); ok; f, ok = p.next(&m) {
			switch f.key {
			case 1<<3 | varint:
				d = Dim{Size: int64(f.v), fixed: true}
			case 2<<3 | delimited:
				d = Dim{Symbol: p.name(f)}
			}
		}
		p.leave()
		t.Dims = append(t.Dims, d)
	}})
}

// A proto is a TensorProto as it is stored.
type proto struct {
	at        int64 // offset of its field
	dims      []int64
	dataType  int
	name      string
	raw       byteRange // of raw_data; n is negative if it is absent
	typed     []typedField
	strings   int64     // entries of string_data
	text      byteRange // of the fields string_data, tags included
	scattered bool      // other fields are between the fields string_data
	segment   bool
	external  bool // data_location is EXTERNAL
	pairs     []pair
}

// byteRange is a range of the file.
type byteRange struct{ off, n int64 }

// A typedField is the parts of one of the typed fields.
type typedField struct {
	field uint32
	parts []fieldPart
}

// A pair is an entry of external_data.
type pair struct {
	key, value string
	at         int64
}

// reset empties x and reuses its memory.
func (x *proto) reset(at int64) {
	*x = proto{at: at, dims: x.dims[:0], typed: x.typed[:0], pairs: x.pairs[:0]}
	x.raw.n = -1
}

// tensor reads a TensorProto, in p.proto, and adds it to the tensors of the file.
func (p *parser) tensor(f field, name string, index int) *entry {
	p.proto.reset(f.at)
	p.tensorProto(f, name, index, &p.proto)
	p.path = append(p.path, step{name, index})
	e := p.newEntry(&p.proto)
	p.leave()
	return e
}

// tensorProto reads a TensorProto, and adds it to x.
func (p *parser) tensorProto(f field, name string, index int, x *proto) {
	m := p.enter(f, name, index)
	for f, ok := p.next(&m); ok; f, ok = p.next(&m) {
		switch f.key {
		case 1<<3 | varint:
			x.dims = append(x.dims, int64(f.v))
		case 1<<3 | delimited:
			p.packed(f, varint, func(v uint64) { x.dims = append(x.dims, int64(v)) })
		case 2<<3 | varint:
			x.dataType = int(int32(f.v))
		case 3<<3 | delimited:
			p.read(f, "segment", -1, nil)
			x.segment = true
		case floatData<<3 | delimited, floatData<<3 | fixed32, int32Data<<3 | delimited,
			int32Data<<3 | varint, int64Data<<3 | delimited, int64Data<<3 | varint,
			doubleData<<3 | delimited, doubleData<<3 | fixed64, uint64Data<<3 | delimited,
			uint64Data<<3 | varint:
			p.typedPart(f, m.next, x)
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
			x.raw = byteRange{f.off, f.n}
		case 13<<3 | delimited:
			kv := p.keyValue(f, "external_data", len(x.pairs))
			x.pairs = append(x.pairs, pair{kv[0], kv[1], f.at})
		case 14<<3 | varint:
			x.external = f.v == 1
		case 16<<3 | delimited:
			p.read(f, "metadata_props", -1, nil)
		}
	}
	p.leave()
}

// typedPart adds a typed field that ends at end to x.
func (p *parser) typedPart(f field, end int64, x *proto) {
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
		t.parts = append(t.parts, fieldPart{off: f.off, n: f.n})
		return
	}
	if k := len(t.parts) - 1; k >= 0 && t.parts[k].tagged &&
		t.parts[k].off+t.parts[k].n == f.at {
		t.parts[k].n = end - t.parts[k].off
		return
	}
	p.charge(24)
	t.parts = append(t.parts, fieldPart{off: f.at, n: end - f.at, tagged: true})
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

// sparseProto reads a SparseTensorProto, and adds it to x.
func (p *parser) sparseProto(f field, name string, index int, x *sparseParts) {
	m := p.enter(f, name, index)
	for f, ok := p.next(&m); ok; f, ok = p.next(&m) {
		switch f.key {
		case 1<<3 | delimited:
			p.tensorProto(f, "values", -1, &x.parts[0])
		case 2<<3 | delimited:
			p.tensorProto(f, "indices", -1, &x.parts[1])
		case 3<<3 | varint:
			x.dims = append(x.dims, int64(f.v))
		case 3<<3 | delimited:
			p.packed(f, varint, func(v uint64) { x.dims = append(x.dims, int64(v)) })
		}
	}
	p.leave()
}

// newEntry adds the tensor of a TensorProto to the tensors of the file.
func (p *parser) newEntry(x *proto) *entry {
	e := p.addEntry(x.at)
	p.fillEntry(e, x)
	return e
}

// addEntry adds an empty tensor to the tensors of the file.
func (p *parser) addEntry(at int64) *entry {
	p.countItem(at)
	p.charge(256)
	e := &p.entries.Take(1)[0]
	e.at = at
	p.r.entries = appended(p.r.entries, e)
	return e
}

// appended appends to a list whose capacity doubles: append grows a long list by less,
// and copies it more often.
func appended(list []*entry, e *entry) []*entry {
	if len(list) == cap(list) {
		list = slices.Grow(list, max(8, len(list)))
	}
	return append(list, e)
}

// dimensions checks the dimensions of a tensor, and returns a copy.
func (p *parser) dimensions(off int64, dims []int64) tensor.Shape {
	if limit := min(p.limits.MaxRank, maxRank); int64(len(dims)) > limit {
		p.fail(tensor.ErrLimit, off, "dims", "%d dimensions, the limit is %d", len(dims), limit)
		return nil
	}
	shape := tensor.Shape(p.shapes.Take(len(dims)))
	copy(shape, dims)
	if _, ok := shape.Elements(); !ok {
		p.fail(tensor.ErrMalformed, off, "dims", "%v is negative or beyond 2^63 elements", shape)
	}
	return shape
}

// extent returns a range of the file that is inside a message.
func (p *parser) extent(off, n int64) source.Extent {
	x, err := p.r.src.Extent(off, n)
	if err != nil && p.err == nil {
		p.err = err
	}
	return x
}
