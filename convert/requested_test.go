package convert

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/tensor"
)

// A floatForm is how a float dtype has its bits: sign, exponent, fraction.
type floatForm struct {
	exponent, fraction, bias int
	specials                 string // ieee, fn: NaN has all bits, uz: NaN is negative zero, none
}

// floatForms are written from the standards, so that they prove the package that decodes.
var floatForms = map[tensor.DType]floatForm{
	tensor.F64:        {11, 52, 1023, "ieee"},
	tensor.F32:        {8, 23, 127, "ieee"},
	tensor.F16:        {5, 10, 15, "ieee"},
	tensor.BF16:       {8, 7, 127, "ieee"},
	tensor.F8E5M2:     {5, 2, 15, "ieee"},
	tensor.F8E4M3FN:   {4, 3, 7, "fn"},
	tensor.F8E4M3FNUZ: {4, 3, 8, "uz"},
	tensor.F8E5M2FNUZ: {5, 2, 16, "uz"},
	tensor.F6E2M3FN:   {2, 3, 1, "none"},
	tensor.F6E3M2FN:   {3, 2, 3, "none"},
	tensor.F4E2M1FN:   {2, 1, 1, "none"},
}

// An exact is the value of an element. nil is NaN.
type exact = *big.Float

func isInf(x exact) bool { return x != nil && x.IsInf() }

func same(a, b exact) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Cmp(b) == 0
}

// exactOf returns the value of the bits of one element of a real dtype.
func exactOf(d tensor.DType, b uint64) exact {
	number := func() *big.Float { return new(big.Float).SetPrec(64) }
	switch {
	case d == tensor.F8E8M0FNU && b == 0xff:
		return nil
	case d == tensor.F8E8M0FNU:
		return number().SetMantExp(big.NewFloat(1), int(b)-127)
	case d == tensor.I2, d == tensor.I4, d == tensor.I8, d == tensor.I16, d == tensor.I32,
		d == tensor.I64, d == tensor.QI8,
		d == tensor.QI32:
		unused := 64 - d.Bits()
		return number().SetInt64(int64(b) << unused >> unused)
	case !d.IsFloat():
		return number().SetUint64(b)
	}
	f := floatForms[d]
	e, frac := int(b>>f.fraction)&(1<<f.exponent-1), b&(1<<f.fraction-1)
	negative := b>>(f.exponent+f.fraction) != 0
	magnitude := b & (1<<(f.exponent+f.fraction) - 1)
	switch {
	case f.specials == "ieee" && e == 1<<f.exponent-1 && frac != 0,
		f.specials == "fn" && magnitude == 1<<(f.exponent+f.fraction)-1,
		f.specials == "uz" && negative && magnitude == 0:
		return nil
	case f.specials == "ieee" && e == 1<<f.exponent-1:
		return number().SetInf(negative)
	}
	if e == 0 {
		e = 1
	} else {
		frac |= 1 << f.fraction
	}
	x := number().SetMantExp(number().SetUint64(frac), e-f.bias-f.fraction)
	if negative {
		x.Neg(x)
	}
	return x
}

// bitsOf returns the bits of element i.
func bitsOf(d tensor.DType, b []byte, i int) (v uint64) {
	for k := range d.Bits() {
		at := i*d.Bits() + k
		v |= uint64(b[at/8]>>(at%8)&1) << k
	}
	return v
}

// elementsOf packs elements.
func elementsOf(d tensor.DType, all []uint64) []byte {
	b := make([]byte, (len(all)*d.Bits()+7)/8)
	for i, v := range all {
		for k := range d.Bits() {
			at := i*d.Bits() + k
			b[at/8] |= byte(v>>k&1) << (at % 8)
		}
	}
	return b
}

// codesOf returns elements of a dtype: all that there are, or of wide dtypes the corners
// and some more.
func codesOf(d tensor.DType) (all []uint64) {
	r := rand.New(rand.NewPCG(1, uint64(d)))
	switch bits := d.Bits(); {
	case d == tensor.Bool:
		return []uint64{0, 1}
	case bits <= 8:
		for i := range uint64(1) << bits {
			all = append(all, i)
		}
	case bits == 16:
		for i := range uint64(1 << 16) {
			if i%61 == 0 || i < 100 || i > 65500 || i&0x7fff > 0x7bf0 && i&0x7fff < 0x7c08 {
				all = append(all, i)
			}
		}
	default:
		top := ^uint64(0) >> (64 - bits)
		for i := range bits { // powers of two, one more and less, and each exponent
			v := uint64(1) << i
			all = append(all, v, v-1, v+1, top-v, top&^v, top>>i)
		}
		for range 500 {
			all = append(all, r.Uint64()&top>>r.IntN(bits))
		}
		if f, ok := floatForms[d]; ok {
			for e := uint64(0); e < 1<<f.exponent; e += 1 + e>>5 {
				all = append(all, e<<f.fraction, e<<f.fraction|1,
					1<<(bits-1)|e<<f.fraction|1<<(f.fraction-1))
			}
		}
	}
	return all
}

// convertedTo converts one tensor, allowing what is to be allowed.
func convertedTo(t *testing.T, x *tensor.Tensor, to tensorfile.Format,
	o *Options) (*tensor.Tensor, *Plan, error) {
	p, err := NewPlan(t.Context(), tensorfile.FromTensors([]*tensor.Tensor{x}, nil), to, o)
	if err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	if err := p.Write(t.Context(), &out); err != nil {
		return nil, p, err
	}
	end, err := tensorfile.OpenBytes(out.Bytes(), nil)
	if err != nil {
		return nil, p, err
	}
	return end.Tensor(x.Name), p, nil
}

// asks returns Options that make every element one of a dtype.
func asks(to tensor.DType, allow LossKind) *Options {
	return &Options{Allow: allow, Map: func(t *tensor.Tensor) (string, tensor.DType, bool) {
		return t.Name, to, true
	}}
}

// For every pair of dtypes, a loss is named if and only if there is a value that does not
// survive; a number that becomes an infinity or NaN is an error of Write that names it,
// and one that an integer dtype does not have is a loss of the tensor.
func TestRequestedDTypesLoseWhatTheyName(t *testing.T) {
	for _, from := range tensor.DTypes() {
		if from.IsComplex() {
			continue
		}
		codes := codesOf(from)
		for _, to := range tensor.DTypes() {
			if to == from || to.IsInt() && to.Size() == 0 { // which no format has
				continue
			}
			if err := tensor.CanConvert(from, to); err != nil {
				checkRefused(t, from, to)
				continue
			}
			switch {
			case to.IsComplex():
			case exactOnly(to):
				checkExactPair(t, from, to, codes)
			default:
				checkRoundedPair(t, from, to, codes)
			}
		}
	}
}

func checkRefused(t *testing.T, from, to tensor.DType) {
	t.Helper()
	x := &tensor.Tensor{Name: "x", DType: from, Shape: tensor.Shape{8},
		Data: tensor.BlobOf(make([]byte, from.Bits()))}
	_, _, err := convertedTo(t, x, tensorfile.PTD, asks(to, LossAll))
	var option *OptionError
	if !errors.As(err, &option) || option.Option != "Map" || !errors.Is(err, tensor.ErrDType) ||
		!strings.Contains(err.Error(), `tensor "x": `) {
		t.Errorf("%v to %v: %v", from, to, err)
	}
}

func checkExactPair(t *testing.T, from, to tensor.DType, codes []uint64) {
	t.Helper()
	isBool := to == tensor.Bool
	bits, low := to.Bits(), uint64(0)
	if exactOf(to, 1<<(bits-1)).Sign() < 0 {
		low = 1 << (bits - 1)
	}
	high := ^uint64(0)>>(64-bits) ^ low
	if isBool {
		high = 1
	}
	fits := func(x exact) bool {
		return x != nil && x.IsInt() && x.Cmp(exactOf(to, low)) >= 0 &&
			x.Cmp(exactOf(to, high)) <= 0
	}
	var good, bad []uint64
	for _, c := range codes {
		if fits(exactOf(from, c)) {
			good = append(good, c)
		} else {
			bad = append(bad, c)
		}
	}
	x := tensorOf(from, good)
	y, p, err := convertedTo(t, x, tensorfile.PTD, asks(to, LossScale))
	if err != nil || len(requests(p)) > 0 {
		t.Errorf("%v to %v: %v, %v", from, to, err, p)
		return
	}
	compare(t, from, to, x, y)
	for i := 0; i < len(bad); i += max(1, len(bad)/20) {
		_, p, err := convertedTo(t, tensorOf(from, bad[i:i+1]), tensorfile.PTD,
			asks(to, LossScale))
		var refused *LossError
		if !errors.As(err, &refused) || len(refused.Losses) != 1 ||
			refused.Losses[0].Kind != LossTensors ||
			!strings.Contains(err.Error(), "element 0 of "+from.String()+" is ") {
			t.Errorf("%v %#x to %v: %v, %v", from, bad[i], to, err, p)
		}
	}
}

func tensorOf(d tensor.DType, codes []uint64) *tensor.Tensor {
	return &tensor.Tensor{Name: "x", DType: d, Shape: tensor.Shape{int64(len(codes))},
		Data: tensor.BlobOf(elementsOf(d, codes))}
}

// compare returns how many elements of x are other numbers in y, and how many are none.
func compare(t *testing.T, from, to tensor.DType, x, y *tensor.Tensor) (rounded, overflow int) {
	t.Helper()
	a, err1 := x.Data.ReadAll()
	b, err2 := y.Data.ReadAll()
	if err1 != nil || err2 != nil || y.DType != to || x.DType != from {
		t.Fatalf("%v to %v: %v, %v, %v", from, to, y, err1, err2)
	}
	n, _ := x.Shape.Elements()
	for i := range int(n) {
		was, is := exactOf(from, bitsOf(from, a, i)), exactOf(to, bitsOf(to, b, i))
		if same(was, is) {
			continue
		}
		if is == nil || isInf(is) {
			overflow++
		} else {
			rounded++
		}
		if exactOnly(to) {
			t.Fatalf("%v %v became %v %v", from, was, to, is)
		}
	}
	return rounded, overflow
}

func checkRoundedPair(t *testing.T, from, to tensor.DType, codes []uint64) {
	t.Helper()
	x := tensorOf(from, codes)
	y, p, err := convertedTo(t, x, tensorfile.PTD, asks(to, LossOverflow|LossScale))
	if err != nil {
		t.Errorf("%v to %v: %v", from, to, err)
		return
	}
	rounded, overflow := compare(t, from, to, x, y)
	_, q, err := convertedTo(t, x, tensorfile.PTD, asks(to, LossScale))
	checkRequests(t, fmt.Sprintf("%v becomes %v", from, to), rounded, overflow, p, q, err)
}

// checkRequests checks a plan that allows overflow, and one that does not and whose Write
// has this error: both name a loss if and only if they lose something without an error.
func checkRequests(t *testing.T, reason string, rounded, overflow int, p, q *Plan, err error) {
	t.Helper()
	for plan, lost := range map[*Plan]int{p: rounded + overflow, q: rounded} {
		named := requests(plan)
		if (len(named) > 0) != (lost > 0) ||
			lost > 0 && (named[0].Field != `tensors["x"]` || named[0].Reason != reason) {
			t.Errorf("%s: %d are rounded, %d overflow, named: %v", reason, rounded, overflow,
				named)
		}
	}
	if overflow == 0 && err != nil || overflow > 0 && (!errors.Is(err, tensor.ErrOverflow) ||
		!strings.Contains(err.Error(), `tensor "x": element `)) {
		t.Errorf("%s: %d overflow: %v", reason, overflow, err)
	}
}

// The same for complex numbers, whose parts have a float dtype.
func TestRequestedComplexDTypesLoseWhatTheyName(t *testing.T) {
	halves := map[tensor.DType]tensor.DType{tensor.C32: tensor.F16, tensor.C64: tensor.F32,
		tensor.C128: tensor.F64}
	for from, of := range halves {
		codes := codesOf(of)
		codes = codes[:len(codes)/2*2]
		x := &tensor.Tensor{Name: "x", DType: from, Shape: tensor.Shape{int64(len(codes) / 2)},
			Data: tensor.BlobOf(elementsOf(of, codes))}
		for to, half := range halves {
			if to == from {
				continue
			}
			y, p, err := convertedTo(t, x, tensorfile.PTD, asks(to, LossOverflow))
			if err != nil {
				t.Fatal(err)
			}
			rounded, overflow := compare(t, of, half, tensorOf(of, codes),
				&tensor.Tensor{DType: half, Data: y.Data})
			_, q, err := convertedTo(t, x, tensorfile.PTD, asks(to, 0))
			checkRequests(t, fmt.Sprintf("%v becomes %v", from, to), rounded, overflow, p, q, err)
		}
	}
	for _, d := range tensor.DTypes() {
		for to, half := range halves {
			if tensor.CanConvert(d, to) == nil && !d.IsComplex() &&
				widens(d, to) != widens(d, half) {
				t.Errorf("%v to %v: widens %v, to %v %v", d, to, widens(d, to), half,
					widens(d, half))
			}
		}
	}
}

// The same for quantised blocks that become numbers, whose values are float32.
func TestRequestedNumbersOfBlocksLoseWhatTheyName(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i, kind := range allBlocks() {
		if testing.Short() && i%4 != 0 {
			continue
		}
		data := make([]byte, 60*kind.Bytes)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		x := &tensor.Tensor{Name: "x", Shape: tensor.Shape{60, kind.Elements}, Scheme: kind.Name,
			Parts: []tensor.Part{{Role: "blocks", Data: tensor.BlobOf(data)}}}
		single, err := tensor.As(x, tensor.F32)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range tensor.DTypes() {
			if !to.IsFloat() || tensor.CanConvert(tensor.F32, to) != nil {
				continue
			}
			y, p, err := convertedTo(t, x, tensorfile.PTD,
				&Options{Dequantize: to, Allow: LossOverflow})
			if err != nil {
				t.Fatalf("%s to %v: %v", kind.Name, to, err)
			}
			rounded, overflow := compare(t, tensor.F32, to, single, y)
			_, q, err := convertedTo(t, x, tensorfile.PTD, &Options{Dequantize: to})
			checkRequests(t, fmt.Sprintf("%s becomes %v", kind.Name, to), rounded, overflow, p, q,
				err)
		}
	}
}

func allBlocks() (all []ggml.Type) {
	for n := range uint32(64) {
		if kind, ok := ggml.Number(n); ok {
			all = append(all, kind)
		}
	}
	return all
}

// The same of numbers that become quantised blocks.
func TestRequestedBlocksLoseWhatTheyName(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i, kind := range allBlocks() {
		if testing.Short() && i%4 != 0 {
			continue
		}
		if !kind.CanEncode() {
			continue
		}
		quantize := func(*tensor.Tensor) string { return strings.ToLower(kind.Name) }
		for _, from := range tensor.DTypes() {
			if tensor.CanConvert(from, tensor.F32) != nil {
				continue
			}
			codes := slices.DeleteFunc(codesOf(from), func(c uint64) bool {
				x := exactOf(from, c)
				tooLarge := func() bool { f, _ := x.Float32(); return math.IsInf(float64(f), 0) }
				return x == nil || isInf(x) || kind.Name == "MXFP4" && tooLarge()
			})
			small := slices.DeleteFunc(slices.Clone(codes), func(c uint64) bool {
				f, _ := exactOf(from, c).Float64()
				return math.Abs(f) > 1000
			})
			rows := int64(30)
			all := make([]uint64, rows*kind.Elements)
			for i := range all {
				switch row := i / int(kind.Elements); {
				case row == 0: // a block of equal elements
					all[i] = small[len(small)-1]
				case row == 1: // and one of two
					all[i] = []uint64{small[1], small[len(small)-1]}[i%2]
				case row%2 == 0:
					all[i] = codes[r.IntN(len(codes))]
				default:
					all[i] = small[r.IntN(len(small))]
				}
			}
			x := tensorOf(from, all)
			x.Shape = tensor.Shape{rows, kind.Elements}
			y, p, err := convertedTo(t, x, tensorfile.GGUF, &Options{Quantize: quantize,
				Allow: LossOverflow | LossScale})
			if err != nil {
				t.Fatalf("%v to %s: %v", from, kind.Name, err)
			}
			if y, err = tensor.As(y, tensor.F32); err != nil {
				t.Fatal(err)
			}
			rounded, overflow := compare(t, from, tensor.F32, x, y)
			_, q, err := convertedTo(t, x, tensorfile.GGUF,
				&Options{Quantize: quantize, Allow: LossScale})
			checkRequests(t, fmt.Sprintf("%v becomes %s", from, kind.Name), rounded, overflow, p,
				q, err)
		}
	}
}

// The element that an error names is the one that is too large for its block.
func TestOverflowOfABlockNamesItsElement(t *testing.T) {
	values := make([]float32, 64*40)
	values[64*33+40] = -2.5e38
	x := tensor.New("w", tensor.Shape{40, 64}, values)
	_, _, err := convertedTo(t, x, tensorfile.GGUF,
		&Options{Quantize: func(*tensor.Tensor) string { return "Q8_0" }})
	want := `tensor "w": element 2152 of float32 is -2.5e+38, which does not fit Q8_0`
	if !errors.Is(err, tensor.ErrOverflow) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// A dtype that a target lacks is narrowed only as far as it is allowed, and never to
// infinity.
func TestNarrowingForTheTargetDoesNotOverflow(t *testing.T) {
	x := tensor.New("w", tensor.Shape{2}, []float64{1, 1e39})
	_, _, err := convertedTo(t, x, tensorfile.RTen, &Options{Allow: LossNarrow})
	if !errors.Is(err, tensor.ErrOverflow) || !strings.Contains(err.Error(),
		`tensor "w": element 1 of float64 is 1e+39, which does not fit float32`) {
		t.Error(err)
	}
	y, _, err := convertedTo(t, x, tensorfile.RTen, &Options{Allow: LossNarrow | LossOverflow})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := y.Data.ReadAll()
	if !math.IsInf(float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4:]))), 1) {
		t.Errorf("% x", b)
	}
}
