package layouts

import (
	"slices"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// A quantGroup has the attributes of a tensor of layout QuantGroup.
type quantGroup struct {
	*layoutCheck
	zeroForm, zeroPacking string // form and packing of zero_point
	scaleForm             string
	group, axis           uint64 // group is 0 without groups
	word                  string // dtype name of the words of data
	width                 uint64 // bytes of a word
	perWord               uint64 // values in a word
}

func (c *layoutCheck) checkQuantGroup() {
	g := quantGroup{layoutCheck: c}
	if g.readAttributes() {
		g.checkDTypes()
		g.checkSizes()
	}
}

// readAttributes reads and checks the attributes, and requires the parts that they name.
// It returns false after an error.
func (g *quantGroup) readAttributes() bool {
	zero := layoutCheck{attributes: g.raw("zero_point")}
	g.zeroForm, _ = zero.text("form")
	g.zeroPacking, _ = zero.text("packing")
	roles := []string{"data", "scales"}
	if g.zeroForm == "tensor" {
		roles = append(roles, "zeros")
	}
	if !g.require(slices.Contains([]string{"none", "implied", "tensor"}, g.zeroForm),
		"zero_point.form is %s", naming.Quote(g.zeroForm)) || !g.requireParts(roles...) {
		return false
	}
	if g.zeroForm == "implied" {
		v := zero.raw("value")
		g.require(len(v) > 0 && v[0]>>5 <= cbor.Negint, "zero_point.value is no integer")
	}
	g.scaleForm, _ = g.text("scale_form")
	bits, _ := g.uint("bits")
	var hasGroup, hasAxis, isWord bool
	g.group, hasGroup = g.uint("group_size")
	g.axis, hasAxis = g.uint("axis")
	packing := layoutCheck{attributes: g.raw("packing")}
	order, _ := packing.text("order")
	g.perWord, _ = packing.uint("per_word")
	g.word, _ = packing.text("word")
	g.width, isWord = map[string]uint64{"u8": 1, "u16": 2, "u32": 4, "u64": 8}[g.word]
	rank := len(g.t.Shape)
	switch {
	case !g.require(slices.Contains([]uint64{2, 3, 4, 5, 6, 8}, bits), "%d bits", bits):
	case !g.require(hasGroup, "group_size is missing"):
	case !g.require(hasAxis && g.axis < uint64(rank), "axis %d of %d", g.axis, rank):
	case !g.require(isWord, "packing.word is %s", naming.Quote(g.word)):
	case !g.require(order == "lsb_first" || order == "msb_first", "packing.order is %s",
		naming.Quote(order)):
	case !g.require(8*g.width%bits == 0 && g.perWord == 8*g.width/bits,
		"%d values of %d bits in a word of %d", g.perWord, bits, 8*g.width):
	case !g.require(g.group == 0 || uint64(g.t.Shape[g.axis])%g.group == 0,
		"a dimension of %d in groups of %d", g.t.Shape[g.axis], g.group):
	}
	return g.err == nil
}

// checkDTypes checks the dtypes of data and scales.
func (g *quantGroup) checkDTypes() {
	g.require(slices.Contains(map[uint64][]tensor.DType{
		1: {tensor.U8, tensor.I8}, 2: {tensor.U16, tensor.I16}, 4: {tensor.U32, tensor.I32},
		8: {tensor.U64, tensor.I64},
	}[g.width], g.t.Part("data").DType), "data of %s in words of %s", g.dtype("data"), g.word)
	allowed, ok := map[string][]tensor.DType{
		"e8m0_exponent": {tensor.F8E8M0FNU},
		"f32_factors":   {tensor.F16, tensor.BF16, tensor.F32, tensor.F64},
		"f16_factors":   {tensor.F16, tensor.BF16},
	}[g.scaleForm]
	g.require(ok, "scale_form is %s", naming.Quote(g.scaleForm))
	g.require(slices.Contains(allowed, g.t.Part("scales").DType), "scales of %s",
		g.dtype("scales"))
}

// checkSizes checks the sizes of all parts.
func (g *quantGroup) checkSizes() {
	along := uint64(g.t.Shape[g.axis])
	if !g.require(along > 0 && g.elements%g.perWord == 0, "%d values in words of %d",
		g.elements, g.perWord) {
		return
	}
	// Without groups the equation of §7 gives each element a scale, and its prose gives
	// each row one: both are accepted.
	rows := g.elements / along
	scales := []uint64{along * rows, rows}
	if g.group > 0 {
		scales = []uint64{along / g.group * rows}
	}
	g.require(g.size("data") == g.elements/g.perWord*g.width, "%d bytes of data", g.size("data"))
	each := uint64(g.t.Part("scales").DType.Size())
	g.require(each > 0 && slices.ContainsFunc(scales,
		func(n uint64) bool { return g.size("scales") == n*each }), "%d bytes of scales",
		g.size("scales"))
	if g.zeroForm != "tensor" {
		return
	}
	isPlain := g.zeroPacking == "plain"
	g.require(isPlain || g.zeroPacking == "same_as_data", "zero_point.packing is %s",
		naming.Quote(g.zeroPacking))
	each = uint64(g.t.Part("zeros").DType.Size())
	g.require(slices.ContainsFunc(scales, func(n uint64) bool {
		if isPlain {
			return g.size("zeros") == n*each
		}
		return n%g.perWord == 0 && g.size("zeros") == n/g.perWord*g.width
	}), "%d bytes of zeros", g.size("zeros"))
}
