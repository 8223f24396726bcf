// Package layouts has the rules of the layouts that version 2 registers: sparse,
// quantised groups and blocks (§7 of its specification).
package layouts

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// The layouts of version 2 that are registered in addition to dense (§7).
const (
	CSR        = "zt.sparse_csr/1"
	COO        = "zt.sparse_coo/1"
	MX         = "zt.mx/1"
	QuantGroup = "zt.quant_group/1"
)

// Check checks a tensor of that many elements against the metadata rules of its layout,
// if the layout is registered. attributes is a CBOR map, or nil.
func Check(t *tensor.Tensor, elements uint64, attributes []byte) error {
	c := layoutCheck{t: t, elements: elements, attributes: attributes}
	switch {
	case t.Scheme == CSR:
		c.checkCSR()
	case t.Scheme == COO:
		c.checkCOO()
	case t.Scheme == MX:
		c.checkMX()
	case t.Scheme == QuantGroup:
		c.checkQuantGroup()
	case HasBlocks(t.Scheme):
		c.checkBlocks()
	}
	return c.err
}

// HasAttributes reports whether a layout has rules for the attributes of its tensors.
func HasAttributes(scheme string) bool {
	return scheme == MX || scheme == QuantGroup || HasBlocks(scheme)
}

// HasBlocks reports whether version 2 has a layout of that name for the quantised
// blocks of a .gguf file, such as gguf.q4_k/1: one part, data, of uint8, and the
// attributes elems_per_block and block_bytes.
func HasBlocks(scheme string) bool {
	name, hasPrefix := strings.CutPrefix(scheme, "gguf.")
	name, hasSuffix := strings.CutSuffix(name, "/1")
	return hasPrefix && hasSuffix && slices.Contains(ggufTypes, name)
}

// RegisteredScheme returns the Scheme of version 2 for a Scheme of version 1.
func RegisteredScheme(scheme string) string {
	switch scheme {
	case sparse.CSR:
		return CSR
	case sparse.COO:
		return COO
	}
	return scheme
}

// Normalize returns a sparse tensor of version 1 with the scheme and dtypes of version 2;
// other tensors stay as they are. Indices become uint64 unless all are uint32.
func Normalize(t *tensor.Tensor) *tensor.Tensor {
	if t.Scheme != sparse.CSR && t.Scheme != sparse.COO {
		return t
	}
	out := *t
	out.Scheme = RegisteredScheme(t.Scheme)
	out.Parts = slices.Clone(t.Parts)
	wide := false // the indices are of several types, or of one that version 2 does not have
	var first tensor.DType
	for i := range out.Parts {
		p := &out.Parts[i]
		index := slices.Contains(core.IndexRoles, p.Role)
		if p.DType == tensor.Unknown && index {
			p.DType = tensor.U64
		} else if p.DType == tensor.Unknown && p.Role == "values" {
			p.DType = t.DType
		}
		if index {
			first = cmp.Or(first, p.DType)
			wide = wide || p.DType != first || p.DType != tensor.U32 && p.DType != tensor.U64
		}
	}
	for i := range out.Parts {
		if p := &out.Parts[i]; wide && slices.Contains(core.IndexRoles, p.Role) {
			*p = sparse.Widen(context.Background(), *p)
		}
	}
	return &out
}

// A layoutCheck checks a tensor against the rules of its layout, and keeps the first
// error.
type layoutCheck struct {
	t          *tensor.Tensor
	elements   uint64
	attributes []byte
	err        error
}

// require fails with a message unless ok is set. It returns false after the first error.
func (c *layoutCheck) require(ok bool, format string, args ...any) bool {
	if !ok && c.err == nil {
		c.err = rule.Broken(rule.LayoutRule, format, args...)
	}
	return c.err == nil
}

// requireParts requires parts of exactly these roles.
func (c *layoutCheck) requireParts(roles ...string) bool {
	ok := len(c.t.Parts) == len(roles)
	for _, role := range roles {
		ok = ok && c.t.Part(role) != nil
	}
	return c.require(ok, "the parts of %s are %s", c.t.Scheme, strings.Join(roles, ", "))
}

// requireIndex requires a part of u32 or u64, and returns the size of one index in bytes.
func (c *layoutCheck) requireIndex(role string) uint64 {
	d := c.t.Part(role).DType
	c.require(d == tensor.U32 || d == tensor.U64, "%s of %v, not u32 or u64", role, c.dtype(role))
	return uint64(d.Size())
}

func (c *layoutCheck) dtype(role string) string {
	p := c.t.Part(role)
	if st, ok := p.Data.Stored(); ok && st.Type != "" {
		return st.Type
	}
	return p.DType.String()
}

func (c *layoutCheck) size(role string) uint64 { return uint64(c.t.Part(role).Data.Size()) }

// requireElements requires that a part of a known dtype has n elements.
func (c *layoutCheck) requireElements(role string, n uint64) {
	d := c.t.Part(role).DType
	if d == tensor.Unknown {
		return
	}
	want, ok := d.Bytes(int64(n)) // fails for a number beyond 63 bits, which is negative here
	c.require(ok && uint64(want) == c.size(role), "%d bytes of %s for %d elements of %v",
		c.size(role), role, n, d)
}

func (c *layoutCheck) checkCSR() {
	if !c.require(len(c.t.Shape) == 2, "%d dimensions, not two", len(c.t.Shape)) ||
		!c.requireParts("values", "indices", "indptr") {
		return
	}
	w, w2 := c.requireIndex("indices"), c.requireIndex("indptr")
	if !c.require(w == w2, "indices of %s, indptr of %s", c.dtype("indices"), c.dtype("indptr")) {
		return
	}
	rows := uint64(c.t.Shape[0])
	if rows >= math.MaxUint64/w && c.err == nil {
		c.err = rule.Broken(rule.Shape, "indptr of %d rows", rows)
	}
	c.require(rows+1 == c.size("indptr")/w && c.size("indptr")%w == 0,
		"%d bytes of indptr for %d rows", c.size("indptr"), rows)
	c.require(c.size("indices")%w == 0, "%d bytes of indices of %d bytes", c.size("indices"), w)
	c.requireElements("values", c.size("indices")/w)
}

func (c *layoutCheck) checkCOO() {
	if !c.require(len(c.t.Shape) > 0, "no dimensions") || !c.requireParts("values", "coords") {
		return
	}
	w := c.requireIndex("coords") * uint64(len(c.t.Shape))
	if c.require(w > 0 && c.size("coords")%w == 0, "%d bytes of coords for %d dimensions",
		c.size("coords"), len(c.t.Shape)) {
		c.requireElements("values", c.size("coords")/w)
	}
}

func (c *layoutCheck) checkMX() {
	if !c.requireParts("data", "scales") {
		return
	}
	block, hasBlock := c.uint("block_size")
	axis, hasAxis := c.uint("axis")
	form, _ := c.text("scale_form")
	if !hasAxis && len(c.t.Shape) > 0 {
		axis = uint64(len(c.t.Shape) - 1)
	}
	if !c.require(hasBlock && block >= 2, "block_size is not an integer of at least 2") ||
		!c.require(axis < uint64(len(c.t.Shape)), "axis %d of %d", axis, len(c.t.Shape)) ||
		!c.require(form == "e8m0_exponent", "scale_form is %s", naming.Quote(form)) ||
		!c.require(uint64(c.t.Shape[axis])%block == 0, "a dimension of %d in blocks of %d",
			c.t.Shape[axis], block) {
		return
	}
	switch d := c.t.Part("data").DType; d {
	case tensor.F4E2M1FN, tensor.F8E4M3FN, tensor.F8E5M2, tensor.I8:
	default:
		c.require(false, "data of %s", c.dtype("data"))
	}
	c.require(c.t.Part("scales").DType == tensor.F8E8M0FNU, "scales of %s", c.dtype("scales"))
	c.requireElements("data", c.elements)
	c.requireElements("scales", c.elements/block)
}

var ggufTypes = []string{
	"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q8_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "q8_k",
	"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs",
	"mxfp4",
}

func (c *layoutCheck) checkBlocks() {
	if !c.requireParts("data") {
		return
	}
	per, _ := c.uint("elems_per_block")
	block, _ := c.uint("block_bytes")
	c.require(c.t.Parts[0].DType == tensor.U8, "data of %s", c.dtype("data"))
	if c.require(per > 0 && c.elements%per == 0, "%d elements in blocks of %d", c.elements, per) &&
		c.require(block > 0, "block_bytes is 0") {
		size, ok := Mul(c.elements/per, block)
		c.require(ok && size == c.size("data"), "%d bytes for %d blocks of %d", c.size("data"),
			c.elements/per, block)
	}
}

// raw returns the encoded value of an attribute; nil if there is none.
func (c *layoutCheck) raw(name string) []byte { return cbor.Find(c.attributes, name) }

func (c *layoutCheck) uint(name string) (uint64, bool) {
	in := cbor.Cursor{B: c.raw(name)}
	v := in.Uint()
	return v, in.Err == nil
}

func (c *layoutCheck) text(name string) (string, bool) {
	in := cbor.Cursor{B: c.raw(name)}
	v := in.Text()
	return string(v), in.Err == nil
}

// CheckData checks the indices of a tensor of layout CSR or COO. It reads them.
func CheckData(ctx context.Context, t *tensor.Tensor) error {
	if t.Scheme != CSR && t.Scheme != COO {
		return nil
	}
	return ruleOf(core.Unnamed(sparse.Check(ctx, t, &sparse.Options{Ordered: true})))
}

// ruleOf returns the rule.Error of an error of sparse.Check; errors of reading stay as
// they are.
func ruleOf(err error) error {
	var placed *tensor.FormatError
	var broken *rule.Error
	var twice *sparse.DuplicateError
	switch {
	case errors.As(err, &placed), errors.As(err, &broken):
		return err
	case errors.As(err, &twice):
		return rule.Broken(rule.LayoutData, "two values for element %d", twice.Element)
	case errors.Is(err, tensor.ErrMalformed):
		return rule.New(rule.LayoutData, err)
	}
	return err
}

// Mul returns a * b; false if it overflows.
// Mul returns a * b; false if it overflows.
func Mul(a, b uint64) (uint64, bool) {
	if a <= math.MaxInt32 && b <= math.MaxInt32 {
		return a * b, true
	}
	hi, lo := bits.Mul64(a, b)
	return lo, hi == 0
}
