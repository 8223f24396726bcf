// Command write makes files with random content by our writer for upstream's packages
// to read:
//
//	go run ./interop/ztensor/write DIR
//
// Next to each VERSION-NAME.zt, VERSION-NAME.json says what was put in, hashed before
// the writer saw it, in the form of interop/compare.py.
package main

import (
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// rng is seeded anew for each run.
var rng = func() *rand.ChaCha8 {
	var seed [32]byte
	crand.Read(seed[:])
	return rand.NewChaCha8(seed)
}()

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: write DIR")
	}
	dir := os.Args[1]
	one := func(name string, o ztensor.WriterOptions, ts ...*tensor.Tensor) {
		o.Version = ztensor.Version10
		write(dir, name, o, ts...)
	}
	one("empty", ztensor.WriterOptions{})
	one("raw", ztensor.WriterOptions{}, everything()...)
	one("crc32c", ztensor.WriterOptions{Digest: ztensor.CRC32C}, everything()...)
	one("zstd", ztensor.WriterOptions{Level: 3}, everything()...)
	one("zstd-crc32c", ztensor.WriterOptions{Level: 19, Digest: ztensor.CRC32C}, everything()...)
	one("attributes",
		ztensor.WriterOptions{Attributes: map[string]any{"license": "MIT", "text": "naïve"}},
		dense("w", tensor.F32, tensor.Shape{2}))
	var many []*tensor.Tensor
	for i := range 10_000 {
		many = append(many,
			dense(fmt.Sprintf("layers.%d.weight", i), tensor.F16, tensor.Shape{int64(i % 5), 3}))
	}
	one("many", ztensor.WriterOptions{}, many...)
	version2(dir)
}

// version2 writes canonical files, and those that are not: compressed, in the order of
// adding, closer together.
func version2(dir string) {
	ts := []*tensor.Tensor{
		dense("scalar", tensor.F32, nil), dense("nothing", tensor.F32, tensor.Shape{2, 0, 3}),
		dense("große Matrix/重み", tensor.F32, tensor.Shape{500, 1000}),
	}
	for _, d := range []tensor.DType{tensor.F64, tensor.F32, tensor.F16, tensor.BF16, tensor.I64,
		tensor.I32, tensor.I16, tensor.I8, tensor.U64,
		tensor.U32, tensor.U16, tensor.U8, tensor.Bool, tensor.F8E4M3FN, tensor.F8E5M2,
		tensor.F8E4M3FNUZ, tensor.F8E5M2FNUZ, tensor.C64, tensor.C128} {
		ts = append(ts, dense(d.String(), d, tensor.Shape{3, 5, 1 + rnd(200)}))
	}
	// Last: in canonical form whatever belongs before it has to be there when it begins.
	ts = append(ts, dense("pieces", tensor.I16, tensor.Shape{100_000}))
	write(dir, "empty", ztensor.WriterOptions{Version: "2", Canonical: true})
	write(dir, "canonical", ztensor.WriterOptions{Version: "2", Canonical: true}, ts...)
	write(dir, "ordered", ztensor.WriterOptions{Version: "2", KeepOrder: true, Alignment: 4096},
		ts...)
	write(dir, "zstd", ztensor.WriterOptions{Version: "2", Level: 3, Alignment: 4096}, ts...)
	write(dir, "attributes",
		ztensor.WriterOptions{Version: "2",
			Attributes: map[string]any{"number": 1.5, "text": "naïve"}}, ts[0])
	write(dir, "sparse", ztensor.WriterOptions{Version: "2"}, csr("csr", 30, 40),
		csr("csr without rows", 0, 3), csr("csr of zeros", 5, 0))

	ts = append(ts, csr("csr", 30, 40))
	half := len(ts) / 2
	base := filepath.Join(dir, "2-appended")
	say(base, ts)
	for i, batch := range [][]*tensor.Tensor{ts[:half], ts[half : len(ts)-2], ts[len(ts)-2:]} {
		opts := &ztensor.WriterOptions{Version: "2", Level: i % 2}
		begin := ztensor.Append
		if i == 0 {
			begin = ztensor.Create
		}
		w, err := begin(base+".zt", opts)
		check(err)
		add(w, batch)
		check(w.Close())
	}
	base = filepath.Join(dir, "shards", "2-positional")
	check(os.MkdirAll(filepath.Dir(base), 0o777))
	say(base, ts)
	_, err := ztensor.WriteShards(context.Background(), base+".zt", tensor.Of(ts...),
		&ztensor.ShardOptions{MaxSize: 10_000})
	check(err)
}

// everything is a tensor of every kind that version 1.0 has.
func everything() []*tensor.Tensor {
	var ts []*tensor.Tensor
	for _, d := range []tensor.DType{tensor.F64, tensor.F32, tensor.F16, tensor.BF16, tensor.I64,
		tensor.I32, tensor.I16, tensor.I8,
		tensor.U64, tensor.U32, tensor.U16, tensor.U8, tensor.Bool} {
		ts = append(ts, dense(d.String(), d, tensor.Shape{3, 5, 1 + rnd(200)}))
	}
	return append(ts,
		dense("scalar", tensor.F32, nil),
		dense("nothing", tensor.F32, tensor.Shape{2, 0, 3}),
		dense("große Matrix/重み", tensor.F32, tensor.Shape{500, 1000}),
		dense("pieces", tensor.I16, tensor.Shape{100_000}),
		dense(strings.Repeat("long", 200), tensor.U8, tensor.Shape{1}),
		csr("csr", 30, 40), csr("csr without rows", 0, 3), csr("csr of zeros", 5, 0),
		coo("coo", 7, 8, 9), coo("coo of one axis", 1000))
}

func rnd(n int64) int64 { return int64(rng.Uint64() % uint64(n)) }

// content is n elements, half of them zero, so that compressing has something to do.
func content(d tensor.DType, n int64) tensor.Blob {
	size, _ := d.Bytes(n)
	b := make([]byte, size)
	rng.Read(b[:size/2])
	if d == tensor.Bool {
		for i := range b {
			b[i] &= 1
		}
	}
	return tensor.BlobOf(b)
}

func dense(name string, d tensor.DType, shape tensor.Shape) *tensor.Tensor {
	n, _ := shape.Elements()
	return &tensor.Tensor{Name: name, DType: d, Shape: shape, Data: content(d, n)}
}

func u64s(v []uint64) tensor.Blob {
	b := make([]byte, 0, 8*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return tensor.BlobOf(b)
}

func csr(name string, rows, columns int64) *tensor.Tensor {
	indptr, indices := []uint64{0}, []uint64{}
	for range rows {
		for c := range columns {
			if rnd(10) == 0 {
				indices = append(indices, uint64(c))
			}
		}
		indptr = append(indptr, uint64(len(indices)))
	}
	return &tensor.Tensor{Name: name, DType: tensor.F32, Shape: tensor.Shape{rows, columns},
		Scheme: "sparse_csr", Parts: []tensor.Part{
			{Role: "values", DType: tensor.F32, Data: content(tensor.F32, int64(len(indices)))},
			{Role: "indices", DType: tensor.U64, Data: u64s(indices)},
			{Role: "indptr", DType: tensor.U64, Data: u64s(indptr)}}}
}

func coo(name string, shape ...int64) *tensor.Tensor {
	const nnz = 50
	var coords []uint64
	for _, d := range shape {
		for range nnz {
			coords = append(coords, uint64(rnd(d)))
		}
	}
	return &tensor.Tensor{Name: name, DType: tensor.F64, Shape: shape, Scheme: "sparse_coo",
		Parts: []tensor.Part{
			{Role: "values", DType: tensor.F64, Data: content(tensor.F64, nnz)},
			{Role: "coords", DType: tensor.U64, Data: u64s(coords)}}}
}

type row struct {
	Name   string  `json:"name,omitempty"`
	Role   string  `json:"role,omitempty"`
	DType  string  `json:"dtype,omitempty"`
	Shape  []int64 `json:"shape,omitempty"`
	SHA256 string  `json:"sha256,omitempty"`
	Parts  []row   `json:"parts,omitempty"`
}

func sum(b tensor.Blob) string {
	data, err := b.ReadAll()
	check(err)
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// say notes what is in a file, next to it.
func say(base string, ts []*tensor.Tensor) {
	said := struct {
		Tensors []row `json:"tensors"`
	}{[]row{}}
	for _, t := range ts {
		r := row{Name: t.Name, Shape: t.Shape}
		if t.Scheme == "" {
			r.DType, r.SHA256 = t.DType.String(), sum(t.Data)
		}
		for _, p := range t.Parts {
			r.Parts = append(r.Parts, row{Role: p.Role, SHA256: sum(p.Data)})
		}
		said.Tensors = append(said.Tensors, r)
	}
	b, err := json.Marshal(said)
	check(err)
	check(os.WriteFile(base+".json", b, 0o666))
}

// write makes a file and says what is in it.
func write(dir, name string, opts ztensor.WriterOptions, ts ...*tensor.Tensor) {
	base := filepath.Join(dir, opts.Version+"-"+name)
	say(base, ts)
	w, err := ztensor.Create(base+".zt", &opts)
	check(err)
	add(w, ts)
	check(w.Close())
}

// add adds tensors; the one called "pieces" goes in piece by piece.
func add(w *ztensor.Writer, ts []*tensor.Tensor) {
	for _, t := range ts {
		if t.Name != "pieces" {
			check(w.Add(t))
			continue
		}
		piece, err := w.Create(t.Name, t.DType, t.Shape)
		check(err)
		data, _ := t.Data.Bytes()
		for len(data) > 0 {
			n, err := piece.Write(data[:min(1+rnd(5000), int64(len(data)))])
			check(err)
			data = data[n:]
		}
		check(piece.Close())
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
