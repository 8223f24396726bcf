package ztensor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/tensor"
)

// Values come out in the order of their places, with what belongs to them, however little room there is, and however few runs
// are merged at a time; a repeated place is found wherever its two values lie.
func TestOrderer(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	rng := rand.New(rand.NewPCG(1, 2))
	all := func(n int) []uint64 {
		p := make([]uint64, n)
		for i, x := range rng.Perm(n) {
			p[i] = uint64(x) * 3
		}
		return p
	}
	rows := func(n, row int) (p []uint64) { // each in disorder
		for at := 0; at < n; at += row {
			for _, x := range all(row) {
				p = append(p, uint64(at)*3+x)
			}
		}
		return p
	}
	twice := all(1000)
	twice[900] = twice[3]
	for _, c := range []struct {
		name      string
		places    []uint64
		row       int // that settled knows of; 0 for none
		most, fan int
		temp      bool // is needed
	}{
		{"nothing", nil, 0, 10, 3, false},
		{"all in memory", all(1000), 0, 1000, 3, false},
		{"one more than there is room for", all(1001), 0, 1000, 3, true},
		{"many runs", all(1000), 0, 10, 3, true},
		{"a run more than are merged", all(40), 0, 10, 3, true},
		{"as many runs as are merged", all(30), 0, 10, 3, true},
		{"a value at a time", all(50), 0, 1, 2, true},
		{"rows that there is room for", rows(1000, 10), 10, 64, 3, false},
		{"rows of all the room", rows(1000, 50), 50, 50, 3, false},
		{"rows of more than the room", rows(1000, 100), 100, 64, 3, true},
		{"ascending", rows(1000, 1), 1, 10, 3, false},
		{"twice", twice, 0, 10, 3, true},
		{"twice in memory", twice, 0, 1000, 3, false},
	} {
		for _, width := range []int{0, 2} {
			var got []uint64
			o := newOrderer(t.Context(), width, int64(len(c.places)), func(at uint64, value []byte) error {
				if got = append(got, at); width > 0 && binary.LittleEndian.Uint16(value) != uint16(at+7) {
					t.Errorf("%s: %d has another's value", c.name, at)
				}
				return nil
			})
			o.most, o.fan = c.most, c.fan
			var err error
			for _, at := range c.places {
				settled := uint64(0)
				if c.row > 0 {
					settled = at / uint64(3*c.row) * uint64(3*c.row)
				}
				if err = o.add(at, settled, binary.LittleEndian.AppendUint16(nil, uint16(at+7))[:width]); err != nil {
					t.Fatal(c.name, err)
				}
			}
			err = o.end()
			if (o.temp != nil) != c.temp {
				t.Errorf("%s: a temporary file: %v", c.name, o.temp != nil)
			}
			o.close()
			want := slices.Sorted(slices.Values(c.places))
			if i := slices.Index(want, twice[3]); len(c.places) > 0 && &c.places[0] == &twice[0] {
				var r *repeated
				if !errors.As(err, &r) || r.at != twice[3] || !errors.Is(err, errors.ErrUnsupported) || !slices.Equal(got, want[:i+1]) {
					t.Errorf("%s: %v", c.name, err)
				}
			} else if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %d values in order, %v", c.name, len(got), err)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The end of the context is seen while runs are made, and while they are merged.
func TestOrdererEnds(t *testing.T) {
	for _, when := range []int{500, 4000} { // in the middle, and behind all
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		step := func() {
			if n++; n == when {
				cancel()
			}
		}
		o := newOrderer(ctx, 0, 4000, func(uint64, []byte) error { step(); return nil })
		o.most = 100
		var err error
		for i := range uint64(4000) {
			step()
			if err = o.add(i*1237%4001, 0, nil); err != nil {
				break
			}
		}
		if err == nil {
			err = o.end()
		}
		if o.close(); !errors.Is(err, context.Canceled) || n > when+100 {
			t.Errorf("%d: after %d, %v", when, n, err)
		}
		cancel()
	}
}

// sparseFile is a matrix of version 1.1 whose parts are compressed, and say this of themselves.
func sparseFile(t *testing.T, scheme string, shape []any, parts map[string][]byte, more map[string][]any) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := append([]byte(magic1), make([]byte, 56)...)
	components := map[string]any{}
	for role, data := range parts {
		b = append(b, make([]byte, (64-len(b)%64)%64)...)
		stored := z.EncodeAll(data, nil)
		word := "u64"
		if role == "values" {
			word = "u8"
		}
		components[role] = component12(word, len(b), len(stored), append([]any{"encoding", "zstd"}, more[role]...)...)
		b = append(b, stored...)
	}
	return footed(b, map[string]any{"version": "1.1.0", "objects": map[string]any{"s": object12(scheme, shape, components)}}, true)
}

// What no tensor of this shape can have is not put into a file: a bomb is cut where it is too long already, and none decodes
// to more than the limit.
func TestIndicesThatAreBombs(t *testing.T) {
	bomb := make([]byte, 64<<20)
	for _, c := range []struct {
		scheme string
		shape  []any
		parts  map[string][]byte
		most   map[string]int64
	}{
		{schemeCSR, []any{2, 4}, map[string][]byte{"values": {1, 2}, "indices": bomb, "indptr": bomb}, map[string]int64{"indices": 3 * 8, "indptr": 4 * 8}},
		{schemeCOO, []any{2, 4}, map[string][]byte{"values": {1, 2}, "coords": bomb}, map[string]int64{"coords": 5 * 8}},
	} {
		file := sparseFile(t, c.scheme, c.shape, c.parts, nil)
		r, err := OpenBytes(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := openSparse(t.Context(), r.Tensor("s"), indexRoles...)
		if err != nil {
			t.Fatal(err)
		}
		for role, most := range c.most {
			if n := s.Part(role).Data.Size(); n > most {
				t.Errorf("%s: %d bytes of %s", c.scheme, n, role)
			}
		}
		s.release()
		if _, err := Densify(t.Context(), r.Tensor("s")); !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%s: %v", c.scheme, err)
		}
		c.parts["values"] = bomb
		if r, err = OpenBytes(sparseFile(t, c.scheme, c.shape, c.parts, nil), &ReaderOptions{Limits: tensor.Limits{MaxDecoded: 1 << 20}}); err != nil {
			t.Fatal(err)
		}
		if _, err := Densify(t.Context(), r.Tensor("s")); !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("%s, limited: %v", c.scheme, err)
		}
	}
}

// Each part has its digest checked, also one that is decoded before it is looked at, in order and out of it.
func TestDigestsOfPartsThatAreHeld(t *testing.T) {
	u64 := func(v ...uint64) []byte {
		var b []byte
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		return b
	}
	for _, c := range []struct {
		scheme string
		parts  map[string][]byte
	}{
		{schemeCOO, map[string][]byte{"values": {1, 2}, "coords": u64(0, 1, 0, 1)}},
		{schemeCOO, map[string][]byte{"values": {1, 2}, "coords": u64(1, 0, 1, 0)}},
		{schemeCSR, map[string][]byte{"values": {1, 2}, "indices": u64(0, 1), "indptr": u64(0, 2, 2)}},
		{schemeCSR, map[string][]byte{"values": {1, 2}, "indices": u64(1, 0), "indptr": u64(0, 2, 2)}},
	} {
		for role := range c.parts {
			for _, wrong := range []bool{false, true} {
				more := map[string][]any{}
				if wrong {
					more[role] = []any{"digest", "crc32c:0x00000000"}
				}
				r, err := OpenBytes(sparseFile(t, c.scheme, []any{2, 4}, c.parts, more), nil)
				if err != nil {
					t.Fatal(err)
				}
				in, err := OpenDense(t.Context(), r.Tensor("s"))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, in); errors.Is(err, tensor.ErrChecksum) != wrong || !wrong && err != nil {
					t.Errorf("%s, %s wrong %v: %v", c.scheme, role, wrong, err)
				}
				in.Close()
				if _, err := Densify(t.Context(), r.Tensor("s")); errors.Is(err, tensor.ErrChecksum) != wrong {
					t.Errorf("Densify: %s, %s wrong %v: %v", c.scheme, role, wrong, err)
				}
			}
		}
	}
}

// A panic of what a stream reads, on its own goroutine, goes on in the goroutine of who reads it.
func TestAPanicOfAPartIsTheReaders(t *testing.T) {
	x := &tensor.Tensor{Name: "x", DType: tensor.U8, Shape: tensor.Shape{2}, Scheme: schemeCOO, Parts: []tensor.Part{
		{Role: "values", DType: tensor.U8, Data: tensor.BlobOf([]byte{1, 2})},
		{Role: "coords", DType: tensor.U64, Data: tensor.BlobFunc(16, func() (io.ReadCloser, error) { panic("of a part") })}}}
	in, err := OpenDense(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer func() {
		if r := recover(); r != "of a part" {
			t.Errorf("recovered %v", r)
		}
	}()
	_, err = io.Copy(&bytes.Buffer{}, in)
	t.Errorf("no panic, %v", err)
}
