package rten

import (
	"errors"
	"iter"
	"strings"
	"unicode/utf8"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
)

// schemaVersion is the schema version that every release of RTen has.
const schemaVersion = 1

// A Model is a read-only view of the verified flatbuffer of a file. It is safe for
// concurrent use. It and the values that it returns stay valid after Close of the Reader,
// except the data of tensors.
type Model struct {
	r    *Reader
	buf  []byte
	base int64 // of buf in the file

	// All graphs, depth first, and all constants in the order of the nodes, as found by
	// check. The records are small: a hostile file may have very many.
	graphs    []graphRecord
	constants []constantRecord

	// Indices that the first call builds.
	subgraphs func() map[graphKey]int
	links     func() []graphLinks
}

type graphRecord struct {
	pos  uint32 // of the Graph table
	up   uint32 // index into graphs; 0 for the top graph itself
	node uint32 // of the operator in the graph above
	attr *fb.Field
}

type constantRecord struct {
	payload
	pos   uint32 // of the Node table
	node  uint32
	graph uint32
}

// A graphKey finds a subgraph by the attribute that holds it.
type graphKey struct {
	up, node uint32
	attr     *fb.Field
}

func (m *Model) graphIndex() map[graphKey]int {
	index := make(map[graphKey]int, len(m.graphs))
	for i, g := range m.graphs[1:] {
		index[graphKey{g.up, g.node, g.attr}] = i + 1
	}
	return index
}

// Raw returns the flatbuffer's accessor that flatc generates, for callers that need every
// field. The buffer was verified; the caller must not change it.
func (m *Model) Raw() *rtenfb.Model { return rtenfb.GetRootAsModel(m.buf, 0) }

// Graph returns the top graph.
func (m *Model) Graph() *Graph { return m.graph(0) }

// Graphs yields the top graph and every subgraph, depth first.
func (m *Model) Graphs() iter.Seq[*Graph] { return format.Each(len(m.graphs), m.graph) }

func (m *Model) graph(i int) *Graph {
	g := &Graph{m: m, i: i}
	g.raw.Init(m.buf, flatbuffers.UOffsetT(m.graphs[i].pos))
	return g
}

// metadataFields returns the fields of the schema's table Metadata, whose names are the
// keys.
func metadataFields() []fb.Field { return rtenfb.Schema.Tables[rtenfb.TableMetadata].Fields }

// metadataIndex returns the index of the field key. It fails with errors.ErrUnsupported
// if there is no such field, or value is not UTF-8.
func metadataIndex(key, value string) (int, error) {
	var names []string
	for i, f := range metadataFields() {
		switch names = append(names, f.Name); {
		case f.Name != key:
		case !utf8.ValidString(value):
			return 0, errs.New(errors.ErrUnsupported, "the value of %s is not UTF-8", key)
		default:
			return i, nil
		}
	}
	return 0, errs.New(errors.ErrUnsupported, "the format has no metadata named %s, only %s",
		naming.Quote(key), strings.Join(names, ", "))
}

// Metadata yields the keys and values of the metadata that is set. The keys are
// onnx_hash, description, license, commit, code_repository, model_repository, run_id and
// run_url.
func (m *Model) Metadata() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		raw := m.Raw().Metadata(nil)
		if raw == nil {
			return
		}
		for _, f := range metadataFields() {
			s, ok := fb.FieldBytes(raw.Table(), int(f.Slot), 1)
			if ok && !yield(f.Name, le.String(s)) {
				return
			}
		}
	}
}

// Constants yields the constants of all graphs, depth first in the order of the nodes.
func (m *Model) Constants() iter.Seq[Constant] { return format.Each(len(m.constants), m.Constant) }

// Constant returns the constant with that index among the constants of all graphs. It
// panics if there is none.
func (m *Model) Constant(i int) Constant {
	rec := &m.constants[i]
	return Constant{Node{m, int(rec.graph), int(rec.node), flatbuffers.UOffsetT(rec.pos)},
		rec.payload}
}

// filePos returns the offset in the file of a byte of the flatbuffer.
func (m *Model) filePos(pos int) int64 { return m.base + int64(pos) }

// fail returns an error at pos of the flatbuffer.
func (m *Model) fail(class error, pos int, field, format string, args ...any) error {
	return errs.At(m.filePos(pos), field, class, format, args...)
}
