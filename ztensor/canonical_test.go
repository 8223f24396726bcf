package ztensor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// rewritten copies an open file with our writer.
func rewritten(t *testing.T, r *Reader, o *WriterOptions) []byte {
	t.Helper()
	o.Attributes = map[string]any{}
	for k, v := range r.AttributeValues() {
		o.Attributes[k] = v
	}
	return write(t, o, func(w *Writer) {
		for ten := range r.Tensors() {
			own := map[string]any{}
			for k, v := range r.TensorAttributes(ten) {
				own[k] = v
			}
			if err := w.TensorAttributes(ten.Name, own); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.AddAll(t.Context(), tensor.Each(r.Tensors())); err != nil {
			t.Fatal(err)
		}
	})
}

// Files made by upstream's writer.
func TestWriterMakesUpstreamsCanonicalBytes(t *testing.T) {
	add := func(ts ...*tensor.Tensor) func(w *Writer) {
		return func(w *Writer) {
			for _, x := range ts {
				if err := w.Add(x); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, c := range []struct {
		name         string
		opts         WriterOptions
		add          func(w *Writer)
		sum, content string
	}{
		{"nothing", WriterOptions{Version: "1.0"}, add(),
			"17a4b8e64c4aa605243dd8f78e0ba3ab6ee6c24f76eb64222b436420c32796a9",
			"sha256:cdbccfb030f9f9559ff19c0bd40bda2dc6cd34fb7546baba75837e2cd45b0733"},
		{"one", WriterOptions{Version: "1.0"},
			add(tensor.New("w", tensor.Shape{4}, []float32{1, 2, 3, 4})),
			"6290bcf756b2f1d216e627fdcb36e96b1b70ff11267b92e9d0546bc653af755b",
			"sha256:2ae42536833607d7225c76bda05aee8f7a9c96103088dc39cc14fe3c4e41d0c5"},
		{"order, sharing, attributes",
			WriterOptions{Version: "1.0", Attributes: map[string]any{"pi": 1.5, "n": -42}},
			func(w *Writer) {
				if err := w.TensorAttributes("aa", map[string]any{"k": 1}); err != nil {
					t.Fatal(err)
				}
				add(tensor.New("c", tensor.Shape{1}, []uint16{0x0302}),
					tensor.New("b", tensor.Shape{3}, []bool{true, false, true}),
					tensor.New("aa", tensor.Shape{2}, []uint8{2, 3}))(w)
			}, "bde4a670522ccd3d9fa794139877ffe8529a57b1453e45331c65cf8b0153ceeb",
			"sha256:22dc1cae5807cb24eae95841eea0fa9b5c6bbfbf44bbf2858f13df56add2a89c"},
	} {
		c.opts.Version, c.opts.Canonical = "2", true
		b := write(t, &c.opts, c.add)
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != c.sum {
			t.Errorf("%s: other bytes: %d\n%x", c.name, len(b), b[len(b)-400:])
			continue
		}
		r, err := OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := r.ContentDigest(SHA256); err != nil || d != c.content {
			t.Errorf("%s: content %s, %v", c.name, d, err)
		}
	}
}

func TestFilesOfVersion2SurviveRewriting(t *testing.T) {
	for _, g := range goldens(t, "2") {
		t.Run(g.name, func(t *testing.T) {
			r, err := Open("../testdata/ztensor/"+g.name+".zt", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for _, o := range []WriterOptions{{Canonical: true}, {Alignment: 4096},
				{KeepOrder: true}, {Level: 3}} {
				o.Version = "2"
				canonical := o.Canonical
				if canonical && g.name == "crate-2.1.1-names" {
					continue // which has one that is not in NFC
				}
				b := rewritten(t, r, &o)
				if canonical && len(g.CanonicalViolations) == 0 && !bytes.Equal(b, g.data) {
					t.Error("the canonical file came out otherwise")
				}
				back, err := OpenBytes(b, &ReaderOptions{Strict: true})
				if err != nil {
					t.Fatal(err)
				}
				depth := tensor.VerifyDigests
				if canonical {
					depth = tensor.VerifyCanonical
				}
				if report, err := back.Verify(t.Context(),
					&tensor.VerifyOptions{Strict: true, Depth: depth}); err != nil {
					t.Errorf("%+v: %v", o, report.Findings)
				}
				if d, err := back.ContentDigest(SHA256); err != nil || d != g.ContentDigest {
					t.Errorf("%+v: content %s, %v", o, d, err)
				}
			}
		})
	}
}

func TestStreamedTensorsOfVersion2MakeTheSameFile(t *testing.T) {
	data := noise(5<<20+7, 1)
	for _, o := range []WriterOptions{{Canonical: true}, {Level: 3}, {}} {
		o.Version = "2"
		whole := write(t, &o, func(w *Writer) {
			for _, name := range []string{"a", "b", "c"} {
				x := tensor.New(name, tensor.Shape{int64(len(data))}, data)
				if name != "b" {
					x = tensor.New(name, tensor.Shape{1}, []byte(name))
				}
				if err := w.Add(x); err != nil {
					t.Fatal(err)
				}
			}
		})
		pieces := write(t, &o, func(w *Writer) {
			if !o.Canonical {
				w.Add(tensor.New("a", tensor.Shape{1}, []byte("a")))
			} else { // kept, and written when b comes
				w.Add(tensor.New("c", tensor.Shape{1}, []byte("c")))
				w.Add(tensor.New("a", tensor.Shape{1}, []byte("a")))
			}
			p, err := w.Create("b", tensor.U8, tensor.Shape{int64(len(data))})
			if err != nil {
				t.Fatal(err)
			}
			for rest := data; len(rest) > 0; {
				n := min(len(rest), 1+rand.IntN(1<<20))
				if _, err := p.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if !o.Canonical {
				w.Add(tensor.New("c", tensor.Shape{1}, []byte("c")))
			}
		})
		if !bytes.Equal(whole, pieces) {
			t.Errorf("%+v: other bytes", o)
		}
		r, err := OpenBytes(pieces, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Tensor("b").Data.ReadAll(); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A tensor that cannot be in the file is refused before a byte of it is written, and
// harms nothing.
func TestVersion2RefusesWhatItCannotHold(t *testing.T) {
	w := NewWriter(io.Discard, &WriterOptions{Version: "2", Canonical: true})
	one := func(name string) *tensor.Tensor { return tensor.New(name, tensor.Shape{1}, []byte{1}) }
	extra := one("extra")
	extra.Parts = []tensor.Part{{Role: "x", DType: tensor.U8, Data: tensor.BlobOf([]byte{1})}}
	strange := one("strange")
	strange.DType, strange.Shape = tensor.QI8, tensor.Shape{1}
	deep := tensor.New("deep", make(tensor.Shape, 65), []byte{})
	for _, x := range []*tensor.Tensor{one(""), one("a\x00"), one(string(make([]byte, 1025))),
		one("e\u0301"), extra, strange, deep} {
		if err := w.Add(x); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%q: %v", x.Name, err)
		}
	}
	unsorted := &tensor.Tensor{Name: "s", Scheme: sparse.CSR, Shape: tensor.Shape{1, 3},
		DType: tensor.U8, Parts: []tensor.Part{
			{Role: "values", DType: tensor.U8, Data: tensor.BlobOf([]byte{1, 2})},
			{Role: "indices", DType: tensor.U32,
				Data: tensor.BlobOf([]byte{2, 0, 0, 0, 1, 0, 0, 0})},
			{Role: "indptr", DType: tensor.U32,
				Data: tensor.BlobOf([]byte{0, 0, 0, 0, 2, 0, 0, 0})},
		}}
	if err := w.Add(unsorted); !errors.Is(err, tensor.ErrMalformed) {
		t.Error(err)
	}
	if err := w.AddAll(t.Context(), tensor.Of(one("m"))); err != nil {
		t.Error(err)
	}
	if err := w.Add(one("b")); !errors.Is(err, errors.ErrUnsupported) {
		t.Error("a tensor that belongs before one that was written:", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// A tensor that breaks a rule of its layout is refused, by the rule; repaired, a strict
// reader takes it.
func TestLayoutsOfVersion2AreHeldToTheirRulesOnWriting(t *testing.T) {
	part := func(role string, d tensor.DType, n int) tensor.Part {
		return tensor.Part{Role: role, DType: d, Data: tensor.BlobOf(make([]byte, n))}
	}
	with := func(shape tensor.Shape, scheme string, parts ...tensor.Part) *tensor.Tensor {
		return &tensor.Tensor{Name: "x", DType: tensor.U8, Shape: shape, Scheme: scheme,
			Parts: parts}
	}
	type attributes = map[string]any
	mx := attributes{"block_size": 32, "axis": 1, "scale_form": "e8m0_exponent"}
	quant := func(change ...any) attributes {
		a := attributes{"bits": 4, "group_size": 4, "axis": 1, "scale_form": "f16_factors",
			"packing":    attributes{"word": "u32", "order": "lsb_first", "per_word": 8},
			"zero_point": attributes{"form": "tensor", "packing": "plain"}}
		for i := 0; i < len(change); i += 2 {
			if a[change[i].(string)] = change[i+1]; change[i+1] == nil {
				delete(a, change[i].(string))
			}
		}
		return a
	}
	data, scales, zeros := part("data", tensor.I32, 16), part("scales", tensor.F16, 16),
		part("zeros", tensor.U8, 8)
	goodMX := with(tensor.Shape{2, 32}, layouts.MX, part("data", tensor.F4E2M1FN, 32),
		part("scales", tensor.F8E8M0FNU, 2))
	goodQuant := with(tensor.Shape{4, 8}, layouts.QuantGroup, data, scales, zeros)
	q4 := attributes{"elems_per_block": 32, "block_bytes": 18}
	goodGGUF := with(tensor.Shape{2, 32}, "gguf.q4_0/1", part("data", tensor.U8, 36))
	goodCOO := with(tensor.Shape{2, 3}, layouts.COO, part("values", tensor.U8, 1),
		part("coords", tensor.U32, 8))
	f4 := func(last byte) *tensor.Tensor {
		return &tensor.Tensor{Name: "x", DType: tensor.F4E2M1FN, Shape: tensor.Shape{3},
			Data: tensor.BlobOf([]byte{0xff, last})}
	}
	for _, c := range []struct {
		name, rule     string
		bad            *tensor.Tensor
		badAttributes  attributes
		good           *tensor.Tensor
		goodAttributes attributes
	}{
		{"mx without attributes", rule.LayoutRule, goodMX, nil, goodMX, mx},
		{"mx block", rule.LayoutRule, goodMX,
			attributes{"block_size": 1, "scale_form": "e8m0_exponent"}, goodMX,
			attributes{"block_size": 32, "scale_form": "e8m0_exponent"}},
		{"mx axis", rule.LayoutRule, goodMX,
			attributes{"block_size": 32, "axis": 2, "scale_form": "e8m0_exponent"}, goodMX, mx},
		{"mx form", rule.LayoutRule, goodMX, attributes{"block_size": 32}, goodMX, mx},
		{"mx parts", rule.LayoutRule,
			with(tensor.Shape{2, 32}, layouts.MX, part("data", tensor.F4E2M1FN, 32)), mx, goodMX,
			mx},
		{"mx type", rule.LayoutRule,
			with(tensor.Shape{2, 32}, layouts.MX, part("data", tensor.U8, 64),
				part("scales", tensor.F8E8M0FNU, 2)), mx, goodMX, mx},
		{"mx scales", rule.LayoutRule,
			with(tensor.Shape{2, 32}, layouts.MX, part("data", tensor.F4E2M1FN, 32),
				part("scales", tensor.F8E8M0FNU, 4)), mx, goodMX, mx},
		{"mx size", rule.LayoutRule,
			with(tensor.Shape{2, 32}, layouts.MX, part("data", tensor.F4E2M1FN, 31),
				part("scales", tensor.F8E8M0FNU, 2)), mx, goodMX, mx},
		{"mx blocks", rule.LayoutRule,
			with(tensor.Shape{2, 33}, layouts.MX, part("data", tensor.F4E2M1FN, 33),
				part("scales", tensor.F8E8M0FNU, 2)), mx, goodMX, mx},
		{"quant bits", rule.LayoutRule, goodQuant, quant("bits", 7), goodQuant, quant()},
		{"quant bits of no word", rule.LayoutRule, goodQuant, quant("bits", 3), goodQuant,
			quant()},
		{"quant group", rule.LayoutRule, goodQuant, quant("group_size", 3), goodQuant, quant()},
		{"quant no group", rule.LayoutRule, goodQuant, quant("group_size", nil), goodQuant,
			quant()},
		{"quant axis", rule.LayoutRule, goodQuant, quant("axis", nil), goodQuant, quant()},
		{"quant word", rule.LayoutRule, goodQuant,
			quant("packing", attributes{"word": "u8", "order": "lsb_first", "per_word": 2}),
			goodQuant, quant()},
		{"quant order", rule.LayoutRule, goodQuant,
			quant("packing", attributes{"word": "u32", "order": "", "per_word": 8}), goodQuant,
			quant()},
		{"quant per word", rule.LayoutRule, goodQuant,
			quant("packing", attributes{"word": "u32", "order": "lsb_first", "per_word": 4}),
			goodQuant, quant()},
		{"quant form", rule.LayoutRule, goodQuant, quant("scale_form", "f32"), goodQuant,
			quant("scale_form", "f32_factors")},
		{"quant zeros", rule.LayoutRule, goodQuant,
			quant("zero_point", attributes{"form": "none"}),
			with(tensor.Shape{4, 8}, layouts.QuantGroup, data, scales),
			quant("zero_point", attributes{"form": "none"})},
		{"quant implied", rule.LayoutRule,
			with(tensor.Shape{4, 8}, layouts.QuantGroup, data, scales),
			quant("zero_point", attributes{"form": "implied", "value": 1.5}),
			with(tensor.Shape{4, 8}, layouts.QuantGroup, data, scales),
			quant("zero_point", attributes{"form": "implied", "value": -8})},
		{"quant packing of zeros", rule.LayoutRule, goodQuant,
			quant("zero_point", attributes{"form": "tensor"}), goodQuant, quant()},
		{"quant scales", rule.LayoutRule,
			with(tensor.Shape{4, 8}, layouts.QuantGroup, data, part("scales", tensor.F16, 14),
				zeros), quant(), goodQuant, quant()},
		{"gguf block", rule.LayoutRule, goodGGUF, attributes{"elems_per_block": 32}, goodGGUF, q4},
		{"gguf elements", rule.LayoutRule, goodGGUF,
			attributes{"elems_per_block": 48, "block_bytes": 18}, goodGGUF, q4},
		{"gguf size", rule.LayoutRule,
			with(tensor.Shape{2, 32}, "gguf.q4_0/1", part("data", tensor.U8, 35)), q4, goodGGUF,
			q4},
		{"gguf type", rule.LayoutRule,
			with(tensor.Shape{2, 32}, "gguf.q4_0/1", part("data", tensor.I8, 36)), q4, goodGGUF,
			q4},
		{"coo types", rule.LayoutRule,
			with(tensor.Shape{2, 3}, layouts.COO, part("values", tensor.U8, 1),
				part("coords", tensor.I32, 8)), nil, goodCOO, nil},
		{"coo size", rule.LayoutRule,
			with(tensor.Shape{2, 3}, layouts.COO, part("values", tensor.U8, 2),
				part("coords", tensor.U32, 8)), nil, goodCOO, nil},
		{"coo twice", rule.LayoutData,
			with(tensor.Shape{2, 3}, layouts.COO, part("values", tensor.U8, 2),
				part("coords", tensor.U32, 16)), nil, goodCOO, nil},
		{"f4", rule.LayoutData, f4(0x10), nil, f4(0x0f), nil},
	} {
		for _, level := range []int{0, 3} {
			options := &WriterOptions{Version: "2", Level: level}
			add := func(x *tensor.Tensor, a attributes) (*bytes.Buffer, error) {
				var out bytes.Buffer
				w := NewWriter(&out, options)
				err := w.TensorAttributes("x", a)
				if err == nil {
					err = w.Add(x)
				}
				if e := w.Close(); err == nil { // where data is only looked at when it is written
					err = e
				}
				return &out, err
			}
			var broken *rule.Error
			if _, err := add(c.bad, c.badAttributes); !errors.As(err, &broken) ||
				broken.Rule != c.rule {
				t.Errorf("%s: %v", c.name, err)
			}
			b, err := add(c.good, c.goodAttributes)
			if err != nil {
				t.Errorf("%s, repaired: %v", c.name, err)
				continue
			}
			r, err := OpenBytes(b.Bytes(), &ReaderOptions{Strict: true})
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if report, err := r.Verify(t.Context(),
				&tensor.VerifyOptions{Strict: true}); err != nil {
				t.Errorf("%s: %v", c.name, report.Findings)
			}
		}
	}
	// Attributes that come later, and the last half byte of a tensor that comes in
	// pieces.
	w := NewWriter(io.Discard, &WriterOptions{Version: "2"})
	if err := errors.Join(w.TensorAttributes("x", q4), w.Add(goodGGUF)); err != nil {
		t.Fatal(err)
	}
	if err := w.TensorAttributes("x",
		attributes{"elems_per_block": 1, "block_bytes": 1}); !errors.Is(err, tensor.ErrMalformed) {
		t.Error(err)
	}
	if err := w.TensorAttributes("x",
		attributes{"elems_per_block": 32, "block_bytes": 18, "note": "more"}); err != nil {
		t.Error(err)
	}
	for _, level := range []int{0, 3} {
		w := NewWriter(io.Discard, &WriterOptions{Version: "2", Level: level})
		p, err := w.Create("f4", tensor.F4E2M1FN, tensor.Shape{3})
		if err != nil {
			t.Fatal(err)
		}
		p.Write([]byte{0xff})
		p.Write([]byte{0x1f})
		var broken *rule.Error
		if err := p.Close(); !errors.As(err, &broken) || broken.Rule != rule.LayoutData {
			t.Error(err)
		}
	}
}

// A disk that fails, data that fails and a context that ends stop the line of
// frames: nothing waits for ever, and the error is the one that happened.
func TestCompressingStopsAtTheFirstError(t *testing.T) {
	data := noise(6<<20, 9)
	bad := errors.New("no more")
	good := func(name string) *tensor.Tensor {
		return tensor.New(name, tensor.Shape{int64(len(data))}, data)
	}
	for _, space := range []int64{0, 8, 100_000, 1 << 20, 5 << 20} {
		w := NewWriter(readtest.FailingWriter(io.Discard, space),
			&WriterOptions{Version: "2", Level: 1})
		err := w.AddAll(t.Context(), tensor.Of(good("a"), good("b")))
		if err == nil {
			err = w.Close()
		}
		if !errors.Is(err, readtest.ErrInjected) {
			t.Errorf("%d bytes: %v", space, err)
		}
		if err := w.Add(good("c")); !errors.Is(err, readtest.ErrInjected) {
			t.Error("and goes on:", err)
		}
	}
	broken := good("broken")
	broken.Data = tensor.BlobFunc(int64(len(data)), func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(bytes.NewReader(data[:3<<20]), iotest.ErrReader(bad))),
			nil
	})
	w := NewWriter(io.Discard, &WriterOptions{Version: "2", Level: 1})
	if err := w.AddAll(t.Context(), tensor.Of(good("a"), broken, good("c"))); !errors.Is(err,
		bad) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stops := good("stops")
	stops.Data = tensor.BlobFunc(int64(len(data)), func() (io.ReadCloser, error) {
		cancel()
		return io.NopCloser(bytes.NewReader(data)), nil
	})
	w = NewWriter(io.Discard, &WriterOptions{Version: "2", Level: 1})
	if err := w.AddAll(ctx, tensor.Of(good("a"), stops)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
