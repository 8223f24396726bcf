package ztensor

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// A cborItem is one item of a manifest, to be changed and encoded again, rightly or not.
type cborItem struct {
	major byte
	n     uint64      // of integers and simple values
	text  []byte      // of strings; of floats, what follows the head
	items []*cborItem // of arrays, and of maps key by key
	wide  byte        // 1 to 4: a head longer than it need be
	lie   int         // how far the number of the head is wrong
}

// itemOf reads what upstream wrote, which is right.
func itemOf(b []byte) (*cborItem, []byte) {
	it := &cborItem{major: b[0] >> 5}
	info := b[0] & 31
	n, rest := uint64(info), b[1:]
	if info >= 24 {
		size := 1 << (info - 24)
		word := make([]byte, 8)
		copy(word[8-size:], rest)
		n, rest = binary.BigEndian.Uint64(word), rest[size:]
	}
	switch it.n = n; it.major {
	case 2, 3:
		it.text, rest = slices.Clone(rest[:n]), rest[n:]
	case 4, 5:
		for range n << (it.major - 4) {
			var one *cborItem
			one, rest = itemOf(rest)
			it.items = append(it.items, one)
		}
	case 7:
		if info > 24 {
			it.n, it.text = uint64(info), slices.Clone(b[1:1+1<<(info-24)])
		}
	}
	return it, rest
}

func (it *cborItem) append(b []byte) []byte {
	n := it.n
	switch it.major {
	case 2, 3:
		n = uint64(len(it.text))
	case 4, 5:
		n = uint64(len(it.items)) >> (it.major - 4)
	case 7:
		if it.text != nil {
			return append(append(b, 7<<5|byte(it.n)), it.text...)
		}
	}
	n += uint64(it.lie)
	least := byte(0)
	switch {
	case n >= 1<<32:
		least = 4
	case n >= 1<<16:
		least = 3
	case n >= 1<<8:
		least = 2
	case n >= 24:
		least = 1
	}
	switch width := max(least, it.wide); width {
	case 0:
		b = append(b, it.major<<5|byte(n))
	default:
		b = append(b, it.major<<5|(23+width))
		b = append(b, binary.BigEndian.AppendUint64(nil, n)[8-1<<(width-1):]...)
	}
	b = append(b, it.text...)
	for _, one := range it.items {
		b = one.append(b)
	}
	return b
}

// all is it and everything in it.
func (it *cborItem) all(to []*cborItem) []*cborItem {
	to = append(to, it)
	for _, one := range it.items {
		to = one.all(to)
	}
	return to
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func (it *cborItem) clone() *cborItem {
	c := *it
	c.text = slices.Clone(it.text)
	c.items = nil
	for _, one := range it.items {
		c.items = append(c.items, one.clone())
	}
	return &c
}

// sort brings all maps into the order that they must have.
func (it *cborItem) sort() {
	for _, one := range it.items {
		one.sort()
	}
	if it.major != 5 {
		return
	}
	type pair struct {
		key   []byte
		items []*cborItem
	}
	var pairs []pair
	for p := range slices.Chunk(it.items, 2) {
		pairs = append(pairs, pair{p[0].append(nil), p})
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return slices.Compare(a.key, b.key) })
	var items []*cborItem
	for _, p := range pairs {
		items = append(items, p.items...)
	}
	it.items = items
}

var words2 = strings.Fields(`f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8 bool f8_e4m3fn f8_e5m2 f8_e8m0 f4_e2m1 complex64 complex128 f8_e4m3fnuz
	dense zt.sparse_csr/1 zt.sparse_coo/1 zt.mx/1 other/1 zt.zstd-seekable/1 zstd data values indices indptr coords shard blob type dtype digest encoding
	decoded_length shape layout parts attributes objects shards size new xxh3:0123456789abcdef sha256:00 xxh3:A XXH3:a :a a: a:b:c .a a/b ..a a.. -`)

// change makes one change to a manifest.
func change(r *rand.Rand, root *cborItem, file int) {
	all := root.all(nil)
	it := pick(r, all...)
	number := func(old uint64) uint64 {
		return pick(r,
			0, 1, 2, 23, 24, 255, 256, 4096, 8192, 65536, 1<<30, 1<<31-1, 1<<31, 1<<32, 1<<53+1,
			1<<63-1, 1<<63, ^uint64(0), ^uint64(0)-4095, ^uint64(0)-uint64(r.IntN(5000)),
			old+1, old-1, old*2, old/2, old+4096, old-4096, old^4096, uint64(file),
			uint64(file)-40, uint64(file)&^4095-4096, 1<<r.IntN(64), uint64(r.IntN(100)),
			r.Uint64(),
		)
	}
	random := func() *cborItem {
		switch r.IntN(12) {
		case 0:
			return &cborItem{major: 0, n: number(uint64(r.IntN(70000)))}
		case 1:
			return &cborItem{major: 1, n: number(uint64(r.IntN(70000)))}
		case 2:
			return &cborItem{major: 2, text: []byte(pick(r, words2...))}
		case 3, 4, 5:
			return &cborItem{major: 3, text: []byte(pick(r, words2...))}
		case 6:
			return &cborItem{major: 4}
		case 7:
			return &cborItem{major: 5}
		case 8:
			return &cborItem{major: 7, n: uint64(20 + r.IntN(4))}
		case 9:
			return &cborItem{major: 7, n: 25,
				text: []byte(pick(r, "\x7e\x00", "\x7e\x01", "\x00\x01", "\x80\x00", "\x7c\x00",
					"\x3c\x00"))}
		case 10:
			return &cborItem{major: 7, n: 26,
				text: binary.BigEndian.AppendUint32(nil,
					pick(r, 0x3f800000, 0x3f800001, 0x7f800000, 0x7fc00000, 0x33800000, 0x33000000,
						r.Uint32()))}
		default:
			return &cborItem{major: 7, n: 27,
				text: binary.BigEndian.AppendUint64(nil,
					pick(r, 0x3ff0000000000000, 0x3ff0000000000001, 0x7ff8000000000000,
						0x3ff0000020000000, r.Uint64()))}
		}
	}
	switch r.IntN(14) {
	case 0, 1, 2: // another value in the place of a number or word
		switch it.major {
		case 0, 1:
			it.n = number(it.n)
		case 3:
			it.text = []byte(pick(r, words2...))
		default:
			*it = *random()
		}
	case 3:
		*it = *random()
	case 4:
		if len(it.text) > 0 {
			it.text[r.IntN(len(it.text))] = byte(r.Uint32())
		}
	case 5:
		it.text = append(it.text,
			pick(r, "x", "\x00", "é", "\xff", "/", strings.Repeat("n", 1024), "\xed\xa0\x80",
				"e\u0301")...)
	case 6:
		it.wide = byte(1 + r.IntN(4))
	case 7:
		if r.IntN(4) == 0 {
			it.lie = pick(r, 1, -1, 1<<30, math.MaxInt)
		} else {
			it.n = number(it.n)
		}
	case 8: // one less
		if step := 1 + int(it.major&1); it.major>>1 == 2 && len(it.items) > 0 {
			i := r.IntN(len(it.items)/step) * step
			it.items = slices.Delete(it.items, i, i+step)
		}
	case 9: // one more
		if it.major == 4 {
			it.items = slices.Insert(it.items, r.IntN(len(it.items)+1), random())
		} else if it.major == 5 {
			it.items = append(it.items, random(), random())
		}
	case 10: // the same twice, or next to another name
		if it.major == 5 && len(it.items) > 0 {
			i := r.IntN(len(it.items)/2) * 2
			key := it.items[i].clone()
			if r.IntN(4) > 0 {
				key.text = append(key.text, 'x')
			}
			it.items = append(it.items, key, it.items[i+1].clone())
		}
	case 11: // two change places
		other := pick(r, all...)
		a, b := it.clone(), other.clone()
		*it, *other = *b, *a
	case 12: // deeper
		for range pick(r, 1, 20, 24, 25, 26, 27, 28, 29, 30, 31, 32) {
			inner := it.clone()
			if r.IntN(2) == 0 {
				*it = cborItem{major: 4, items: []*cborItem{inner}}
			} else {
				*it = cborItem{major: 5, items: []*cborItem{{major: 3, text: []byte("k")}, inner}}
			}
		}
	case 13:
		it.major = byte(r.IntN(8))
	}
}

// mutant2 makes a copy of a file of version 2 that is wrong in other ways than a
// flipped bit: its hash is right nevertheless.
func mutant2(r *rand.Rand, file []byte) []byte {
	foot := file[len(file)-40:]
	at, n := int(binary.LittleEndian.Uint64(foot)), int(binary.LittleEndian.Uint64(foot[8:]))
	head, man := slices.Clone(file[:at]), slices.Clone(file[at:at+n])
	f := slices.Clone(foot)
	switch kind := r.IntN(20); {
	case kind < 15:
		root, _ := itemOf(man)
		for range 1 + r.IntN(1+r.IntN(3)) {
			change(r, root, len(file))
		}
		if r.IntN(8) > 0 {
			root.sort()
		}
		man = root.append(nil)
		if r.IntN(100) == 0 {
			man = append(man, byte(r.Uint32()))
		}
	case kind < 17:
		for range 1 + r.IntN(3) {
			man[r.IntN(len(man))] = byte(r.Uint32())
		}
	case kind < 19: // data
		for range 1 + r.IntN(3) {
			if len(head) <= 4096 {
				break
			}
			i := 4096 + r.IntN(len(head)-4096)
			if r.IntN(3) > 0 {
				i = 4096 + (i-4096)&^4095 + r.IntN(64) // where blobs begin
			}
			if i < len(head) {
				head[i] = byte(r.Uint32())
			}
		}
	default:
		man = append(man, make([]byte, r.IntN(5000))...)
	}
	binary.LittleEndian.PutUint64(f[8:], uint64(len(man)))
	binary.LittleEndian.PutUint64(f[16:], xxh3.Hash(man))
	out := append(append(head, man...), f...)
	if f := out[len(out)-40:]; r.IntN(40) == 0 {
		binary.LittleEndian.PutUint64(f[8*r.IntN(3):],
			pick(r, 0, 1, 4096, 8192, 65536, uint64(len(out)), uint64(len(out))&^4095, 1<<30,
				1<<30+1, 1<<63, ^uint64(0), ^uint64(4095), r.Uint64()))
	} else if r.IntN(100) == 0 {
		f[24+r.IntN(16)] ^= 1 << r.IntN(8)
	}
	return out
}

// The verdict of z21 judge on a file.
type verdict struct {
	Open     string   // "ok", or why not
	Manifest *bool    // nil: refused; false: a data shard
	Digest   string   `json:"content_digest"`
	Departs  []string `json:"canonical_violations"`
	Objects  []struct {
		Name, Layout string
		Shape        []uint64
		Parts        []struct {
			Name                    string
			Shard                   *string
			Offset, Length, Decoded uint64
		}
	}
	Tensors []struct {
		Name  string
		CSR   *struct{ Err string }
		Parts []struct {
			Name   string
			Read   struct{ SHA256, Err string }
			Verify string
		}
	}
}

// TestVerdictsAreTheSameAsCrate holds what we make of wrong files of version 2 against
// upstream's crate: which are refused, what is listed and read of the others, and
// whether that verifies. TENSORFILE_MUTANTS is their number, TENSORFILE_SEED makes them
// other ones.
func TestVerdictsAreTheSameAsCrate(t *testing.T) {
	crate := os.Getenv("TENSORFILE_ZTCRATE")
	if crate == "" {
		t.Skip("TENSORFILE_ZTCRATE does not name the ztensor crate's program: interop/ztensor.sh builds it, with TENSORFILE_FULL, and runs this test")
	}
	mutants := 50_000
	if n, err := strconv.Atoi(os.Getenv("TENSORFILE_MUTANTS")); err == nil {
		mutants = n
	}
	seed, _ := strconv.ParseUint(os.Getenv("TENSORFILE_SEED"), 10, 64)
	r := rand.New(rand.NewPCG(seed, 2))
	var files [][]byte
	for _, g := range goldens(t, "2") {
		files = append(files, g.data)
	}
	cmd := exec.Command(crate, "judge")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	lines := bufio.NewReaderSize(out, 1<<20)
	name := filepath.Join(t.TempDir(), "m.zt")
	counts := map[string]int{}
	for i := range mutants {
		b := mutant2(r, pick(r, files...))
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(in, name)
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var v verdict
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		kind, err := v.holds(t, b)
		if counts[kind]++; err != nil {
			keep := filepath.Join(os.TempDir(), fmt.Sprintf("mutant2-%d-%d.zt", seed, i))
			t.Errorf("%v (kept in %s, %v)", err, keep, os.WriteFile(keep, b, 0o666))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%6d %s", counts[kind], kind)
	}
}

// holds compares what the crate says of a file with what we do, and says of what kind
// the file is.
func (v *verdict) holds(t *testing.T, b []byte) (kind string, err error) {
	r, err := OpenBytes(b, nil)
	var broken *rule.Error
	ours := "none"
	if errors.As(err, &broken) {
		ours = broken.Rule
	}
	_, theirs, _ := strings.Cut(v.Open, "rule: ")
	theirs, _, _ = strings.Cut(theirs, ",")
	switch {
	case v.Manifest == nil && err == nil:
		return "?", fmt.Errorf("not refused, and it should be: %s", v.Open)
	case ours == rule.DenseSize && ours != theirs &&
		// R1: the crate takes a size that overflows for one that it does not know
		v.overflows():
		return "refused, the size of a dense tensor overflows", nil
	case v.Manifest == nil && errors.Is(err, tensor.ErrLimit):
		return "refused by both, by us for a number of 64 bits that comes before", nil
	case v.Manifest == nil && ours != theirs && ours != "none":
		return "refused by both, of several broken rules for different ones", nil
	case v.Manifest == nil && ours != theirs:
		return "?", fmt.Errorf("refused for %s: %v", v.Open, err)
	case v.Manifest == nil:
		return "refused by both, and for the same rule", nil
	case errors.Is(err, tensor.ErrLimit): // so small a file exceeds no other
		return "refused, a number of 64 bits", nil
	case err != nil:
		return "?", fmt.Errorf("refused, and it should not be: %v", err)
	}
	defer r.Close()
	if !*v.Manifest {
		if r.Len() > 0 {
			return "?", errors.New("a data shard has tensors")
		}
		return "a data shard", nil
	}
	if d, err := r.ContentDigest(SHA256); err == nil && d != v.Digest ||
		err != nil && strings.HasPrefix(v.Digest, "sha256:") {
		return "?", fmt.Errorf("content %s, %v, not %s", d, err, v.Digest)
	}
	departs, err := r.CanonicalViolations(t.Context())
	if err != nil {
		return "?", err
	}
	// the crate looks at no padding, and at no name of an attribute (R5)
	departs = slices.DeleteFunc(departs, func(err error) bool {
		f := tensor.FindingOf(err)
		return len(v.Departs) == 0 && (f.Field == "" && f.Offset >= 0 ||
			strings.Contains(f.Field, "attributes[") && f.Offset < 0)
	})
	if len(departs) == 0 != (len(v.Departs) == 0) {
		return "?", fmt.Errorf("canonical: %v, not %q", departs, v.Departs)
	}
	parts, err := v.lists(r)
	switch {
	case err != nil:
		return "?", err
	case v.Open != "ok":
		return "listed alike, shards are not there", nil
	}
	kind, wrong := "read alike", false
	for _, o := range v.Tensors {
		for _, p := range o.Parts {
			got, err := parts[o.Name+"\x00"+p.Name].ReadAll()
			sum := sha256.Sum256(got)
			switch {
			case err == nil && hex.EncodeToString(sum[:]) != p.Read.SHA256,
				err != nil && p.Read.Err == "":
				return "?", fmt.Errorf("%s: %d bytes read, %v, not %v", o.Name, len(got), err, p)
			case err != nil:
				kind = "read alike, but for a part that neither reads"
			}
			wrong = wrong || strings.HasPrefix(p.Verify, "Err")
		}
		if o.CSR != nil {
			// Check reads no values, and the crate at no digests.
			err := sparse.Check(t.Context(), r.Tensor(o.Name), nil)
			if err == nil && strings.Contains(o.CSR.Err, rule.LayoutData) ||
				err != nil && o.CSR.Err == "" && !errors.Is(err, tensor.ErrChecksum) {
				return "?", fmt.Errorf("%s: %v, not %s", o.Name, err, o.CSR.Err)
			}
		}
	}
	report, err := r.Verify(t.Context(), nil)
	if err == nil && wrong {
		return "?", errors.New("verified, and it should not be")
	}
	for _, f := range report.Findings {
		if kind != "read alike" {
			break // the crate decodes no part without a digest to verify it
		}
		// Nor does it check content.
		if f.Severity == tensor.SeverityError && f.Class != tensor.ClassUnsupported && !wrong &&
			(!errors.As(f.Err, &broken) || broken.Rule != rule.LayoutData) {
			return "?", fmt.Errorf("it should verify: %v", f.Err)
		}
	}
	return kind, nil
}

// overflows reports whether an object has more bytes than 64 bits count.
func (v *verdict) overflows() bool {
	for _, o := range v.Objects {
		n := 16.0 // the largest elements have so many bytes
		for _, d := range o.Shape {
			n *= float64(d)
		}
		if n >= 1<<63 {
			return true
		}
	}
	return false
}

// lists compares what is in the file, and returns the parts.
func (v *verdict) lists(r *Reader) (map[string]tensor.Blob, error) {
	parts := map[string]tensor.Blob{}
	for t := range r.Tensors() {
		if t.Dense() {
			parts[t.Name+"\x00data"] = t.Data
		}
		for _, p := range t.Parts {
			parts[t.Name+"\x00"+p.Role] = p.Data
		}
	}
	n := 0
	for _, o := range v.Objects {
		t := r.Tensor(o.Name)
		if t == nil || fmt.Sprint(o.Shape) != fmt.Sprint([]int64(t.Shape)) ||
			o.Layout != "dense" && o.Layout != t.Scheme && o.Layout != "" {
			return nil, fmt.Errorf("%v, not %v", t, o)
		}
		for _, p := range o.Parts {
			data := parts[o.Name+"\x00"+p.Name]
			st, ok := data.Stored()
			if !ok || uint64(st.Offset) != p.Offset || uint64(st.Size) != p.Length ||
				uint64(data.Size()) != p.Decoded || p.Shard != nil && st.File != *p.Shard {
				return nil, fmt.Errorf("%s: %+v, not %v", o.Name, st, p)
			}
			n++
		}
	}
	if n != len(parts) || r.Len() != len(v.Objects) {
		return nil, fmt.Errorf("%d parts of %d tensors, not %d of %d", len(parts), r.Len(), n,
			len(v.Objects))
	}
	return parts, nil
}
