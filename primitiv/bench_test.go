package primitiv_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

// Ratios are what counts: compare with the baseline of the same run, as in
//
//	go test -run '^$' -bench . -count 10 ./primitiv

// manyModel is a model of n parameters [16, 8], with names as in a transformer.
func manyModel(n int) []byte {
	layers := []string{"input_layernorm.weight", "mlp.down_proj.weight", "mlp.gate_proj.weight",
		"mlp.up_proj.weight",
		"self_attn.k_proj.weight", "self_attn.o_proj.weight", "self_attn.q_proj.weight",
		"self_attn.v_proj.weight"}
	data := make([]byte, 512)
	var b bytes.Buffer
	b.Write(join(head(0x300), n))
	for i := range n {
		name := fmt.Sprintf("model.layers.%06d.%s", i/len(layers), layers[i%len(layers)])
		b.Write(join("\x91", item(0xd9, 0, name, 0, nil), "\x92", 16, 8, 1, "\xc5\x02\x00", data,
			0))
	}
	return b.Bytes()
}

type handRow struct {
	name       string
	dims       []uint64
	data, size uint64
}

// handWalk is what a program does that is written for such models alone: it checks type
// codes, bounds and sizes, and keeps a row a parameter, with a name of its own if
// owned, else with one that is gone with the file. It looks neither for duplicates nor
// at anything that it does not expect.
func handWalk(b []byte, owned bool) (rows []handRow, ok bool) {
	p := 0
	u32 := func() uint64 {
		if len(b)-p < 5 || b[p] != 0xce {
			ok = false
			return 0
		}
		p += 5
		return uint64(binary.BigEndian.Uint32(b[p-4:]))
	}
	ok = true
	if u32() != 0 || u32() != 1 || u32() != 0x300 {
		return nil, false
	}
	n := int(u32())
	if n > len(b)/20 {
		return nil, false
	}
	rows = make([]handRow, 0, n)
	dims := make([]uint64, 0, 2*n)
	for range n {
		if len(b)-p < 3 || b[p] != 0x91 || b[p+1] != 0xd9 || int(b[p+2]) >= len(b)-p-3 {
			return nil, false
		}
		var row handRow
		if name := b[p+3 : p+3+int(b[p+2])]; owned {
			row.name = string(name)
		} else {
			row.name = le.String(name)
		}
		p += 3 + len(row.name)
		rank := int(b[p]) - 0x90
		if p++; rank < 0 || rank > 8 {
			return nil, false
		}
		row.size = 4
		first := len(dims)
		for range rank {
			d := u32()
			if row.size *= d; d == 0 || row.size > 1<<32 {
				return nil, false
			}
			dims = append(dims, d)
		}
		row.dims = dims[first:]
		row.size *= u32()
		var size uint64
		switch {
		case len(b)-p >= 2 && b[p] == 0xc4:
			size = uint64(b[p+1])
			p += 2
		case len(b)-p >= 3 && b[p] == 0xc5:
			size = uint64(binary.BigEndian.Uint16(b[p+1:]))
			p += 3
		case len(b)-p >= 5 && b[p] == 0xc6:
			size = uint64(binary.BigEndian.Uint32(b[p+1:]))
			p += 5
		default:
			return nil, false
		}
		if size != row.size || size > uint64(len(b)-p) {
			return nil, false
		}
		row.data = uint64(p)
		if p += int(size); u32() != 0 || !ok {
			return nil, false
		}
		rows = append(rows, row)
	}
	return rows, p == len(b)
}

func saved(b *testing.B, data []byte) string {
	b.Helper()
	name := filepath.Join(b.TempDir(), "model")
	if err := os.WriteFile(name, data, 0o666); err != nil {
		b.Fatal(err)
	}
	return name
}

func inTurn(b *testing.B, bytes int64, ours, baseline func()) {
	b.SetBytes(bytes)
	readtest.InTurns(b, baseline, readtest.Turn{Name: "ours", Do: ours})
}

// 100,000 parameters of 512 bytes: open and list, against the hand walk over the same
// bytes.
func BenchmarkOpenAndList(b *testing.B) {
	for _, n := range []int{10, 1_000, 100_000} {
		data := manyModel(n)
		name := saved(b, data)
		sum := 0
		list := func(r *primitiv.Reader, err error) {
			if err != nil {
				b.Fatal(err)
			}
			for x := range r.Tensors() {
				sum += len(x.Name) + int(x.Shape[0]) + int(x.Size())
			}
			r.Close()
		}
		hand := func(data []byte, owned bool) {
			rows, ok := handWalk(data, owned)
			for i := range rows {
				sum += len(rows[i].name) + int(rows[i].dims[0]) + int(rows[i].size)
			}
			if !ok || len(rows) != n {
				b.Fatal(len(rows))
			}
		}
		opened := func(noMap bool) func() {
			return func() { list(primitiv.Open(name, &primitiv.ReaderOptions{NoMap: noMap})) }
		}
		handMapped := func() {
			src, err := source.Open(name, false)
			if err != nil {
				b.Fatal(err)
			}
			data, ok := src.Bytes(0, src.Size())
			if !ok {
				b.Skip("not mapped here")
			}
			hand(data, true)
			src.Close()
		}
		size := int64(len(data))
		bytes := func() { list(primitiv.OpenBytes(data, nil)) }
		b.Run(fmt.Sprintf("bytes/%d", n),
			func(b *testing.B) { inTurn(b, size, bytes, func() { hand(data, true) }) })
		b.Run(fmt.Sprintf("bytes-borrowed/%d", n),
			func(b *testing.B) { inTurn(b, size, bytes, func() { hand(data, false) }) })
		b.Run(fmt.Sprintf("mapped/%d", n),
			func(b *testing.B) { inTurn(b, size, opened(false), handMapped) })
		b.Run(fmt.Sprintf("unmapped/%d", n),
			func(b *testing.B) { inTurn(b, size, opened(true), handMapped) })
	}
}

// 100,000 parameters by their names, in random order, against a Go map.
func BenchmarkLookup(b *testing.B) {
	r, err := primitiv.OpenBytes(manyModel(100_000), nil)
	if err != nil {
		b.Fatal(err)
	}
	byName := make(map[string]*tensor.Tensor)
	var names []string
	for t := range r.Tensors() {
		byName[t.Name] = t
		names = append(names, t.Name)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(names),
		func(i, j int) { names[i], names[j] = names[j], names[i] })
	find := func(lookup func(name string) *tensor.Tensor) func() {
		return func() {
			for _, name := range names {
				if lookup(name).Name != name {
					b.Fatal(name)
				}
			}
		}
	}
	readtest.InTurns(b, find(func(name string) *tensor.Tensor { return byName[name] }),
		readtest.Turn{Name: "Tensor", Do: find(r.Tensor)})
}

// bigModel is a model of 256 MiB in 16 tensors, in a file.
func bigModel(b *testing.B) (name string, size int64, model parameters) {
	b.Helper()
	for i := range 16 {
		x := make([]float32, 4<<20)
		for j := range x {
			x[j] = float32(i*j) / 3
		}
		t := tensor.New("", tensor.Shape{4 << 10, 1 << 10}, x)
		t.Order = tensor.ColumnMajor(2)
		model = append(model, primitiv.Parameter{Path: []string{"layer", fmt.Sprint(i)}, Value: t})
	}
	name = filepath.Join(b.TempDir(), "big")
	if err := model.WriteFile(name, nil); err != nil {
		b.Fatal(err)
	}
	return name, 256 << 20, model
}

// 256 MiB into buffers of the caller, from the mapping, against copy.
func BenchmarkLoad(b *testing.B) {
	name, size, _ := bigModel(b)
	r, err := primitiv.Open(name, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var tensors []*tensor.Tensor
	var buffers [][]float32
	for t := range r.Tensors() {
		n, _ := t.Shape.Elements()
		tensors, buffers = append(tensors, t), append(buffers, make([]float32, n))
		if _, ok := t.Data.Bytes(); !ok {
			b.Skip("not mapped here")
		}
	}
	inTurn(b, size, func() {
		for i, t := range tensors {
			if err := tensor.LoadInto(buffers[i], t); err != nil {
				b.Fatal(err)
			}
		}
	}, func() {
		for i, t := range tensors {
			p, _ := t.Data.Bytes()
			copy(le.Bytes(buffers[i]), p)
		}
	})
}

// 256 MiB into a file, against os.File.Write of the same bytes: what stands before each
// tensor, and its data. Either neither waits for the disk (plain), or both do, as
// WriteFile does (durable).
func BenchmarkSave(b *testing.B) {
	_, size, model := bigModel(b)
	name := filepath.Join(b.TempDir(), "f")
	into := func(sync bool, write func(f *os.File) error) func() {
		return func() {
			f, err := os.Create(name)
			if err == nil {
				err = write(f)
			}
			if err == nil && sync {
				err = f.Sync()
			}
			if err != nil {
				b.Fatal(err)
			}
			f.Close()
			os.Remove(name)
		}
	}
	var image bytes.Buffer
	if err := model.Write(&image, nil); err != nil {
		b.Fatal(err)
	}
	r, err := primitiv.OpenBytes(image.Bytes(), nil)
	if err != nil {
		b.Fatal(err)
	}
	var pieces [][]byte
	at := int64(0)
	for t := range r.Tensors() {
		data, _ := model[len(pieces)/2].Value.Data.Bytes()
		st, _ := t.Data.Stored()
		start := st.Offset
		pieces = append(pieces, slices.Clone(image.Bytes()[at:start]), data)
		at = start + t.Size()
	}
	image = bytes.Buffer{}
	byHand := func(f *os.File) error {
		for _, p := range pieces {
			if _, err := f.Write(p); err != nil {
				return err
			}
		}
		return nil
	}
	b.Run("plain", func(b *testing.B) {
		inTurn(b, size, into(false, func(f *os.File) error { return model.Write(f, nil) }),
			into(false, byHand))
	})
	b.Run("durable", func(b *testing.B) {
		inTurn(b, size, func() {
			if err := model.WriteFile(name, nil); err != nil {
				b.Fatal(err)
			}
			os.Remove(name)
		}, into(true, byHand))
	})
}
