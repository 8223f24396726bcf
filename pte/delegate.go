package pte

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Delegate is a part of a method that a backend compiled and runs itself. What its
// payload means only the backend knows.
type Delegate struct {
	Index int    // in the method's delegates
	ID    string // XnnpackBackend, CoreMLBackend, …
	// Payload fails when it is read, if the program has no such payload.
	Payload tensor.Blob
	Specs   []CompileSpec
}

// A CompileSpec is a setting that the exporter gave to the backend.
type CompileSpec struct {
	Key   string
	Value []byte // a copy
}

// delegatePrefix begins the names of the payloads of delegates in Reader.Blobs.
const delegatePrefix = "delegate/"

func delegateName(method string, index int) string {
	return delegatePrefix + method + "/" + strconv.Itoa(index)
}

// Delegates are the parts of the method that a backend runs, in the order of the file.
func (m Method) Delegates() []Delegate {
	all := make([]Delegate, m.t.DelegatesLength())
	for i := range all {
		all[i], _ = m.Delegate(i)
	}
	return all
}

// Delegate returns a delegate by its index, false where there is none.
func (m Method) Delegate(i int) (Delegate, bool) {
	if i < 0 || i >= m.t.DelegatesLength() {
		return Delegate{}, false
	}
	var t ptefb.BackendDelegate
	m.t.Delegates(&t, i)
	d := Delegate{Index: i, ID: string(t.Id())}
	x, _, err := m.payload(i, &t)
	d.Payload = m.r.blobOf(x, err)
	for _, s := range fb.Each(t.CompileSpecsLength(), t.CompileSpecs) {
		value := append([]byte{}, s.ValueBytes()...)
		d.Specs = append(d.Specs, CompileSpec{string(s.Key()), value})
	}
	return d, true
}

// payload finds the bytes of a delegate. The site is that of the index.
func (m Method) payload(i int, t *ptefb.BackendDelegate) (extent, site, error) {
	r, s := m.r, m.site(ptefb.TableBackendDelegate, t, delegatePath, i, 0)
	p := t.Processed(nil)
	if p == nil {
		s = s.field(ptefb.SlotBackendDelegateProcessed)
		return extent{}, s, r.malformed(s, "absent: the runtime's process would end")
	}
	s = m.site(ptefb.TableBackendDelegateDataReference, p, delegatePath+".processed", i, 0)
	n, index := p.Index(), s.field(ptefb.SlotBackendDelegateDataReferenceIndex)
	switch l := p.Location(); l {
	case ptefb.DataLocationSEGMENT:
		x, err := r.segment(n, index)
		return x, index, err
	case ptefb.DataLocationINLINE:
		var data ptefb.BackendDelegateInlineData
		if all := r.root.BackendDelegateDataLength(); int64(n) >= int64(all) {
			return extent{}, index, r.malformed(index, "%d of %d inline payloads", n, all)
		}
		r.root.BackendDelegateData(&data, int(n))
		x, ok := r.inline(data.Table(), ptefb.SlotBackendDelegateInlineDataData)
		if !ok {
			index.at = int(data.Table().Pos)
			return x, index, r.malformed(index,
				"inline payload %d has no data: the runtime's process would end", n)
		}
		return x, index, nil
	default:
		s = s.field(ptefb.SlotBackendDelegateDataReferenceLocation)
		return extent{}, s, r.error(errors.ErrUnsupported, s, "%d", uint8(l))
	}
}

// payloadSigns are what the payloads of known backends begin with.
var payloadSigns = [...]struct {
	at        int
	sign      string
	what      string
	extension string
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

// Recognize names what a delegate's payload or a named blob looks like by its first
// bytes, of which 16 are enough, and an extension for a file of it. Both are empty when
// nothing fits. It is a hint: nothing is verified.
func Recognize(head []byte) (what, extension string) {
	for _, s := range payloadSigns {
		if bytes.HasPrefix(head[min(s.at, len(head)):], []byte(s.sign)) {
			return s.what, s.extension
		}
	}
	return "", ""
}
