package pte

import (
	"fmt"
	"iter"
	"strings"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Delegate is a part of a method that a backend compiled and runs itself. What its payload means only the backend
// knows.
type Delegate struct {
	Index int    // in the method's delegates
	ID    string // XnnpackBackend, CoreMLBackend, …
	// Inline tells that the payload is inside the flatbuffer; it is a segment otherwise.
	Inline bool
	// Reference is the index of the payload among the program's inline payloads or its segments. Delegates with the same
	// one share it.
	Reference uint32
	// Payload fails when it is read, if the program has no such payload.
	Payload tensor.Blob
	Specs   []CompileSpec
}

// A CompileSpec is a setting that the exporter gave to the backend.
type CompileSpec struct {
	Key   string
	Value []byte // a copy
}

func (d Delegate) String() string {
	return fmt.Sprintf("%s (%d bytes)", d.ID, d.Payload.Size())
}

func (m Method) delegates() iter.Seq[Delegate] {
	return func(yield func(Delegate) bool) {
		v := m.t.Objects(slotPlanDelegates)
		for i := range v.Len() {
			t := v.At(i)
			d := Delegate{Index: i, ID: text(t, slotDelegateID)}
			d.Payload = m.payload(&d, t)
			specs := t.Objects(slotDelegateSpecs)
			for k := range specs.Len() {
				s := specs.At(k)
				value, _ := s.Bytes(slotSpecValue, 1)
				d.Specs = append(d.Specs, CompileSpec{text(s, slotSpecKey), append([]byte{}, value...)})
			}
			if !yield(d) {
				return
			}
		}
	}
}

// payload finds the bytes of a delegate and fills in where they are.
func (m Method) payload(d *Delegate, t fb.Object) tensor.Blob {
	r := m.r
	bad := func(off int64, format string, args ...any) tensor.Blob {
		return tensor.NewBlob(&missing{err: malformed(r.at+off, m.field("delegates[%d].processed", d.Index), format, args...)})
	}
	p := t.Child(slotDelegateProcessed)
	if !p.Present() {
		return bad(t.Pos(), "absent")
	}
	d.Reference = p.Uint32(slotReferenceIndex, 0)
	switch l := ptefb.DataLocation(p.Uint8(slotReferenceLocation, 0)); l {
	case ptefb.DataLocationSEGMENT:
		return r.segmentBlob(d.Reference, func() (int64, string) {
			return p.At(slotReferenceIndex), m.field("delegates[%d].processed.index", d.Index)
		})
	case ptefb.DataLocationINLINE:
		d.Inline = true
		v := r.root.Objects(slotProgramInlineData)
		if int64(d.Reference) >= int64(v.Len()) {
			return bad(p.At(slotReferenceIndex), "%d of %d inline payloads", d.Reference, v.Len())
		}
		b, ok := v.At(int(d.Reference)).Bytes(slotOnly, 1)
		if !ok {
			return bad(v.At(int(d.Reference)).Pos(), "inline payload %d has no data", d.Reference)
		}
		return r.blob(r.at+v.At(int(d.Reference)).DataAt(slotOnly), int64(len(b)))
	default:
		return bad(p.At(slotReferenceLocation), "unknown location %d", l)
	}
}

// payloadSigns are what the payloads of known backends begin with.
var payloadSigns = [...]struct {
	at         int
	sign, what string
	ending     string
}{
	{4, "XH00", "XNNPACK graph with weights", "xnnpack"},
	{4, "XN00", "XNNPACK graph", "xnnpack"},
	{4, "XN01", "XNNPACK graph", "xnnpack"},
	{4, "VH00", "Vulkan graph with weights", "vulkan"},
	{4, "VK00", "Vulkan graph", "vulkan"},
	{4, "MP00", "MPS graph", "mps"},
	{4, "MLX0", "MLX graph", "mlx"},
	{4, "TOSA", "TOSA flatbuffer", "tosa"},
	{4, "EETO", "EETO flatbuffer", "eeto"},
	{0, "CMJR", "Core ML reference to named data", "json"},
	{0, "vela_bin_stream\x00", "Ethos-U command stream", "vela"},
	{0, "\xcd\xab\x78\x56", "QNN context", "qnn"},
}

// Recognize names what a delegate's payload or a named blob looks like by its first bytes, of which 16 are enough, and an
// ending for a file of it. Both are empty when nothing fits. It is a hint for people: nothing is verified.
func Recognize(head []byte) (what, ending string) {
	for _, s := range payloadSigns {
		if len(head) >= s.at && strings.HasPrefix(string(head[s.at:min(len(head), s.at+len(s.sign))]), s.sign) {
			return s.what, s.ending
		}
	}
	return "", ""
}
