package ptn

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptnfb"
)

// The helpers of tests in several files.

// A table is a table of a FlatBuffer by slot: strings, lists of strings, tables, lists of
// tables, unions, lists of int32 and int64, numbers and bools.
type table map[int]any

// A union is a member with its number. Its slot is the slot of the value.
type union struct {
	tag   ptnfb.ArgumentValue
	table table
}

func (t table) write(b *fb.Builder) fb.Offset {
	refs, slots := map[int]fb.Offset{}, slices.Sorted(maps.Keys(t))
	for _, slot := range slots {
		v := t[slot]
		switch v := v.(type) {
		case string:
			refs[slot] = b.String(v)
		case []string:
			list := make([]fb.Offset, len(v))
			for i, s := range v {
				list[i] = b.String(s)
			}
			refs[slot] = b.Offsets(list)
		case table:
			refs[slot] = v.write(b)
		case []table:
			list := make([]fb.Offset, len(v))
			for i, x := range v {
				list[i] = x.write(b)
			}
			refs[slot] = b.Offsets(list)
		case union:
			refs[slot] = v.table.write(b)
		case []int32:
			p, _ := binary.Append(nil, binary.LittleEndian, v)
			refs[slot] = b.Scalars(p, 4, 4)
		case []int64:
			p, _ := binary.Append(nil, binary.LittleEndian, v)
			refs[slot] = b.Scalars(p, 8, 8)
		}
	}
	b.Begin()
	for _, slot := range slots {
		v := t[slot]
		switch v := v.(type) {
		case int64:
			b.Scalar(slot, 8, uint64(v), 0)
		case int:
			b.Scalar(slot, 4, uint64(v), 0)
		case int8:
			b.Scalar(slot, 1, uint64(v), 0)
		case bool:
			b.Scalar(slot, 1, 1, 0)
		case union:
			b.Scalar(slot-2, 1, uint64(v.tag), 0)
			b.Ref(slot, refs[slot])
		default:
			b.Ref(slot, refs[slot])
		}
	}
	return b.End()
}

func (t table) bytes(tb testing.TB) []byte {
	tb.Helper()
	var b fb.Builder
	p, err := b.Finish(t.write(&b), ptnfb.ProgramIdentifier)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// at returns the table that fields and indices of lists lead to.
func (t table) at(path ...int) table {
	var v any = t
	for _, k := range path {
		switch x := v.(type) {
		case table:
			v = x[k]
		case []table:
			v = x[k]
		}
		if u, ok := v.(union); ok {
			v = u.table
		}
	}
	return v.(table)
}

func meta(dtype ptnfb.ScalarType, sizes ...int64) table {
	dims := []table{}
	for _, n := range sizes {
		dims = append(dims, table{ptnfb.SlotDimMin: n, ptnfb.SlotDimMax: n})
	}
	return table{ptnfb.SlotTensorMetaDtype: int8(dtype), ptnfb.SlotTensorMetaSizes: dims}
}

func argument(tag ptnfb.ArgumentValue, t table) table {
	return table{ptnfb.SlotNamedArgumentArg: table{ptnfb.SlotArgumentValue: union{tag, t}}}
}

func tensorArgument(name string) table {
	return argument(ptnfb.ArgumentValueTensorArg, table{ptnfb.SlotTensorArgName: name})
}

func value(name string, m table) table {
	return table{ptnfb.SlotTensorValueName: name, ptnfb.SlotTensorValueMeta: m}
}

func placeholder(name string) table {
	return table{ptnfb.SlotNodeName: name, ptnfb.SlotNodeOpKind: int8(ptnfb.OpKindPLACEHOLDER)}
}

// sound is a program of one method: y = linear(x, w), and the buffer becomes x. The
// values of w are in the package's file of weights.
func sound() table {
	f := ptnfb.ScalarTypeFLOAT
	return table{ptnfb.SlotProgramVersion: "1", ptnfb.SlotProgramMethods: []table{{
		ptnfb.SlotMethodName: "forward",
		ptnfb.SlotMethodGraph: table{
			ptnfb.SlotGraphNodes: []table{placeholder("x"), placeholder("w"), placeholder("b"), {
				ptnfb.SlotNodeName:    "y",
				ptnfb.SlotNodeTarget:  "torch.ops.aten.linear.default",
				ptnfb.SlotNodeInputs:  []table{tensorArgument("x"), tensorArgument("w")},
				ptnfb.SlotNodeOutputs: []table{{ptnfb.SlotOutputName: "y"}},
			}},
			ptnfb.SlotGraphInputs:  []string{"x"},
			ptnfb.SlotGraphOutputs: []string{"y", "x"},
			ptnfb.SlotGraphTensorValues: []table{value("x", meta(f, 2, 3)),
				value("y", meta(f, 2, 2)), value("b", meta(f, 2, 3))},
		},
		ptnfb.SlotMethodConstants: []table{{
			ptnfb.SlotNamedTensorRefName: "w", ptnfb.SlotNamedTensorRefDataKey: "fc.weight",
			ptnfb.SlotNamedTensorRefMeta: meta(f, 2, 3),
			ptnfb.SlotNamedTensorRefKind: int8(ptnfb.InputKindPARAMETER),
		}},
		ptnfb.SlotMethodMutableBuffers: []table{{
			ptnfb.SlotMutableBufferSpecName: "b", ptnfb.SlotMutableBufferSpecFqn: "cache"}},
		ptnfb.SlotMethodOutputSpecs: []table{{ptnfb.SlotOutputSpecName: "y"}, {
			ptnfb.SlotOutputSpecName: "x", ptnfb.SlotOutputSpecTarget: "cache",
			ptnfb.SlotOutputSpecKind: int8(ptnfb.OutputKindBUFFER_MUTATION)}},
	}}}
}

// entry is a tensor in a header of safetensors.
type entry struct {
	DType   string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// weights returns a file of safetensors with size bytes of data.
func weights(size int, entries map[string]any) []byte {
	text, _ := json.Marshal(entries)
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(b, text...), make([]byte, size)...)
}

// weight is what sound expects.
func weight() []byte {
	return weights(24, map[string]any{"fc.weight": entry{"F32", []int64{2, 3}, [2]int64{0, 24}}})
}

// A member is a file of an archive.
type member struct {
	name string
	data []byte
}

func archived(tb testing.TB, members ...member) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		f, err := w.CreateHeader(&zip.FileHeader{Name: m.name})
		if err == nil {
			_, err = f.Write(m.data)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func seeds(f testing.TB) (all [][]byte) {
	names, _ := filepath.Glob("../testdata/ptn/*.pt[ng]")
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, b)
	}
	p := sound()
	packed(p)
	return append(all, p.bytes(f), archived(f, member{programMember, p.bytes(f)},
		member{weightsMember, packedWeights()}, member{aliasesMember, []byte(`{"a":"scale"}`)}))
}

const (
	methods   = ptnfb.SlotProgramMethods
	graph     = ptnfb.SlotMethodGraph
	nodes     = ptnfb.SlotGraphNodes
	values    = ptnfb.SlotGraphTensorValues
	constants = ptnfb.SlotMethodConstants
	specs     = ptnfb.SlotMethodOutputSpecs
	buffers   = ptnfb.SlotMethodMutableBuffers
	inputs    = ptnfb.SlotNodeInputs
	results   = ptnfb.SlotNodeOutputs
)

// grown returns a list of tables with tables at its end.
func grown(t table, slot int, tables ...table) {
	t[slot] = append(slices.Clone(t[slot].([]table)), tables...)
}

// packed makes the weight of sound packed: 2 × 8 elements of 4 bits in groups of 4.
func packed(p table) table {
	m := meta(ptnfb.ScalarTypeBYTE, 2, 8)
	scheme := table{
		ptnfb.SlotAffineGroupScaleDataKey: "scale", ptnfb.SlotAffineGroupGroupSize: 4,
		ptnfb.SlotAffineGroupScaleDtype: int8(ptnfb.ScalarTypeHALF),
		ptnfb.SlotAffineGroupQuantMin:   -8, ptnfb.SlotAffineGroupQuantMax: 7,
	}
	m[ptnfb.SlotTensorMetaQuant] = table{
		ptnfb.SlotQuantSpecScheme: union{ptnfb.ArgumentValue(ptnfb.QuantSchemeAffineGroup),
			scheme}}
	p.at(methods, 0, constants, 0)[ptnfb.SlotNamedTensorRefMeta] = m
	return scheme
}

// packedWeights has what packed expects.
func packedWeights() []byte {
	return weights(16, map[string]any{"fc.weight": entry{"U8", []int64{8}, [2]int64{0, 8}},
		"scale": entry{"F16", []int64{2, 2}, [2]int64{8, 16}}})
}
