package torch

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestMalformedFilesAreRefused(t *testing.T) {
	malformed, unsupported, truncated, limit := tensor.ErrMalformed, errors.ErrUnsupported,
		io.ErrUnexpectedEOF, tensor.ErrLimit
	quantizer := func(scales, axis string) string {
		return call(name("torch._utils", "_rebuild_qtensor"), storageOf("QInt8Storage", "0", 16),
			integer(0), ints(4, 4), ints(4, 1),
			tup(name("torch", "per_channel_affine"), scales, scales, axis), "\x89", "N")
	}
	sparse := func(layout string, parts ...string) string {
		return call(name("torch._utils", "_rebuild_sparse_tensor"),
			call(name("torch.serialization", "_get_layout"), str(layout)), tup(parts...))
	}
	huge := "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x40" // 2^62
	half := "\x8a\x08\x00\x00\x00\x00\x01\x00\x00\x00" // 2^32
	halved := strings.Replace(storageOf("FloatStorage", "0", 4), "I4", "I2", 1)
	laughs := "]q\x00"
	for i := range 40 {
		laughs += fmt.Sprintf("](h%ch%ceq%c", i, i, i+1)
	}
	doubled := "N\x85"
	for range 60 {
		doubled += "2\x86"
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"INST": {archive("(S'id'\nios\nsystem\n"), unsupported},
		"OBJ": {archive("(" + osSystem + "S'id'\no"),
			unsupported},
		"EXT1":                           {archive("\x82\x01"), unsupported},
		"a buffer outside of the pickle": {archive("\x97"), unsupported},
		"named arguments": {archive(osSystem + ")" + dictWith("a",
			"N") + "\x92"), unsupported},
		"a call of a number":             {archive("K\x01)R"), malformed},
		"arguments that are not a tuple": {archive(osSystem + "]R"), malformed},
		"a persistent id of a module": {archive(tup(str("module"), osSystem, str("f"),
			str("code")) + "Q"), malformed},
		"PERSID":                              {archive("P0\n"), unsupported},
		"a persistent id that is not a tuple": {archive("K\x01Q"), malformed},
		"a storage of a class that is none": {archive(tup(str("storage"), osSystem, str("0"),
			str("cpu"), "K\x04") + "Q"), malformed},
		"a storage of a type that is none": {archive(storageOf("PopenStorage", "0", 4)),
			malformed},
		"more elements than the member":  {archive(floats(5)), malformed},
		"fewer elements than the member": {archive(floats(3)), malformed},
		"a negative number of elements": {archive(storageOf("FloatStorage", "0", -4)),
			malformed},
		"2^62 elements": {archive(strings.Replace(storageOf("FloatStorage", "0", 4), "I4\n", huge,
			1)), malformed},
		"a storage that is missing": {archive(storageOf("FloatStorage", "1", 4)),
			malformed},
		"a key that is a path": {archive(storageOf("FloatStorage", "../data/0",
			4)), malformed},
		"one key with two sizes": {archive(tup(storageOf("FloatStorage", "0", 4),
			halved)), malformed},
		"a first element that is outside": {archive(tensorOf(storageOf("FloatStorage", "0",
			4), 4, []int64{1}, []int64{1})), malformed},
		"a shape that is outside": {archive(tensorOf(storageOf("FloatStorage", "0",
			4), 0, []int64{5}, []int64{1})), malformed},
		"strides that are outside": {archive(tensorOf(storageOf("FloatStorage", "0",
			4), 0, []int64{2}, []int64{4})), malformed},
		"strides whose sum wraps": {archive(tensorOf(storageOf("FloatStorage", "0",
			4), 0, []int64{3, 3}, []int64{1 << 62, 1 << 62})), malformed},
		"a negative stride": {archive(tensorOf(storageOf("FloatStorage", "0",
			4), 3, []int64{4}, []int64{-1})), malformed},
		"a negative size": {archive(tensorOf(storageOf("FloatStorage", "0",
			4), 0, []int64{-1}, []int64{1})), malformed},
		"a negative first element": {archive(tensorOf(storageOf("FloatStorage", "0",
			4), -1, []int64{1}, []int64{1})), malformed},
		"a size that is a bool": {archive(call(rebuild, storageOf("FloatStorage",
			"0", 4), integer(0), tup("\x88"), ints(1), "\x89", "N")), malformed},
		"sizes and strides of different ranks": {archive(tensorOf(storageOf("FloatStorage", "0",
			4), 0, []int64{2, 2}, []int64{1})), malformed},
		"65 dimensions": {archive(tensorOf(storageOf("FloatStorage", "0",
			4), 0, make([]int64, 65), make([]int64, 65))), malformed},
		"a shape whose product wraps": {archive(call(rebuild, storageOf("FloatStorage",
			"0", 4), integer(0), tup(half, half), ints(0, 0), "\x89", "N")), malformed},
		"a wrapping product next to a zero": {archive(call(rebuild, storageOf("FloatStorage",
			"0", 4), integer(0), tup(huge, huge, integer(0)), ints(0, 0, 0), "\x89", "N")),
			malformed},
		"a tensor of a list": {archive(call(rebuild, "]", integer(0), ints(1),
			ints(1), "\x89", "N")), malformed},
		"a tensor of a foreign global": {archive(call(rebuild, osSystem, integer(0),
			ints(1), ints(1), "\x89", "N")), malformed},
		"a tensor of three arguments": {archive(call(rebuild, storageOf("FloatStorage",
			"0", 4), integer(0), ints(1))), malformed},
		"a quantiser's axis that is outside": {archive(
			quantizer("](G\x00\x00\x00\x00\x00\x00\x00\x00e", integer(2))), malformed},
		"a quantiser of too few scales": {archive(
			quantizer("](G\x00\x00\x00\x00\x00\x00\x00\x00e", integer(0))), malformed},
		"a quantised stride that is outside": {archive(strings.Replace(quantizer("]",
			integer(0)), "(I4\nI1\nt", "(I9\nI1\nt", 1)), malformed},
		"a layout that is none": {archive(sparse("torch.dense", "]")), malformed},
		"coordinates that do not fit": {archive(sparse("torch.sparse_coo", floats(4),
			floats(4), ints(4))), malformed},
		"items for a tensor":        {archive(floats(4) + str("a") + "Ns"), malformed},
		"items for a list":          {archive("]" + str("a") + "Ns"), malformed},
		"an item for a tuple":       {archive(")Na"), malformed},
		"a key without a value":     {archive("}(" + str("a") + "u"), malformed},
		"a list as a key":           {archive("}]Ns"), malformed},
		"a state for a number":      {archive("K\x01}b"), malformed},
		"a state for a list":        {archive("]}b"), malformed},
		"an empty stack":            {archive("0N"), malformed},
		"a tuple below a mark":      {archive("NN(\x86"), malformed},
		"no mark":                   {archive("Nt"), malformed},
		"nothing":                   {archive(""), malformed},
		"an empty slot of the memo": {archive("h\x05"), malformed},
		"300,000 marks":             {archive(strings.Repeat("(", 300_000)), malformed},
		"no STOP": {zipOf(file{"x/data.pkl", "\x80\x02N"},
			file{"x/version", "3"}), truncated},
		"a string of 2^32-1 bytes": {archive("X\xff\xff\xff\xffa"), truncated},
		"a string of 2^64-1 bytes": {archive("\x8d\xff\xff\xff\xff\xff\xff\xff\xffa"), truncated},
		"bytes of 2^63 bytes":      {archive("\x8e\x00\x00\x00\x00\x00\x00\x00\x80a"), truncated},
		"a frame of 2^63 bytes":    {archive("\x95\x00\x00\x00\x00\x00\x00\x00\x80N"), truncated},
		"an integer of -1 bytes":   {archive("\x8b\xff\xff\xff\xff"), malformed},
		"an opcode that is none":   {archive("\xff"), malformed},
		"protocol 6":               {archive("\x80\x06N"), unsupported},
		"100,000 nested lists": {archive(strings.Repeat("]",
			100_000) + strings.Repeat("a", 99_999)), limit},
		"200,000 nested tuples": {archive("N" + strings.Repeat("\x85", 200_000)),
			limit},
		"lists that double":  {archive(laughs), limit},
		"tuples that double": {archive(doubled), limit},
		"data.pkl twice": {archive("N", file{"x/data.pkl", "N."}),
			malformed},
		"DATA.PKL": {archive("N", file{"x/DATA.PKL", "N."}),
			malformed},
		"a storage twice": {archive(floats(4), file{"x/data/0",
			"0123456789abcdef"}), malformed},
		"no data.pkl in the first directory": {zipOf(file{"y/version", "3"}, file{"x/data.pkl",
			"N."}), malformed},
		"a member without a directory": {zipOf(file{"data.pkl", "N."}), malformed},
		"byte order middle": {archive("N", file{"x/byteorder", "middle"}),
			malformed},
		"version 999": {zipOf(file{"x/data.pkl", "N."},
			file{"x/version", "999"}), unsupported},
		"a version in words": {zipOf(file{"x/data.pkl", "N."},
			file{"x/version", "three"}), malformed},
		"no version":                 {zipOf(file{"x/data.pkl", "N."}), malformed},
		"bytes before the archive":   {append([]byte("MZ"), archive("N")...), malformed},
		"an archive without its end": {archive(floats(4))[:200], truncated},
		"legacy: another version": {[]byte(strings.Replace(string(legacy("N", "]",
			"")), "M\xe9\x03", "M\xea\x03", 1)), unsupported},
		"legacy: another count": {legacy(legacyStorage(4), "]"+str("0")+"a",
			count(5)+"0123456789abcdef"), malformed},
		"legacy: 2^62 elements": {legacy(strings.Replace(legacyStorage(4), "I4\n",
			huge, 1), "]"+str("0")+"a", count(1<<62)), malformed},
		"legacy: a storage that is cut": {legacy(legacyStorage(4), "]"+str("0")+"a",
			count(4)+"0123"), truncated},
		"legacy: no storage": {legacy(legacyStorage(4), "]"+str("0")+"a", ""),
			truncated},
		"legacy: a key that is not listed": {legacy(legacyStorage(4), "]",
			count(4)+"0123456789abcdef"), malformed},
		"legacy: a key that is not named": {legacy("N", "]"+str("0")+"a", count(0)),
			malformed},
		"legacy: a key twice": {legacy(legacyStorage(4),
			"]"+str("0")+"a"+str("0")+"a",
			count(4)+"0123456789abcdef"+count(4)+"0123456789abcdef"), malformed},
		"legacy: a view that is outside": {legacy(strings.Replace(legacyStorage(4), "NtQ",
			tup(str("v"), integer(2), integer(3))+"tQ", 1), "]", ""), malformed},
		"legacy: a pickle that is cut": {[]byte(legacyStart), truncated},
		"an HTML page":                 {[]byte("<!DOCTYPE html><html>"), malformed},
		"a pointer of Git LFS": {[]byte(
			"version https://git-lfs.github.com/spec/v1\noid sha256:0"), malformed},
		"an empty file": {nil, malformed},
		"an ndarray of other bytes than shape": {archive(ndarray("(I5\nt", "f4",
			"0123456789abcdef")), malformed},
		"an ndarray whose shape wraps": {archive(ndarray(tup(huge, huge), "f4", "")),
			malformed},
		"a number of NumPy of too few bytes": {archive(call("cnumpy.core.multiarray\nscalar\n",
			call("cnumpy\ndtype\n", str("f8"), "K\x00", "K\x01"), "C\x01a")), malformed},
		"bytes that are not Latin-1": {archive(call("c_codecs\nencode\n", str("中"),
			str("latin1"))), malformed},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := OpenBytes(readtest.WithCanary(c.b), nil)
			var fe *tensor.FormatError
			if !errors.Is(err, c.want) || !errors.As(err,
				&fe) || fe.Format != formatName || strings.Contains(err.Error(), readtest.Canary) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			api.Same(t, c.b, describe)
		})
	}
}

func TestDeviationsAreReadUnlessStrict(t *testing.T) {
	strict := func(b []byte) error {
		_, err := OpenBytes(b, &ReaderOptions{Strict: true})
		return err
	}
	cycle := "}q\x00" + str("self") + "h\x00s"
	ints := strings.Replace(storageOf("IntStorage", "0", 4), "I4", "I4", 1)
	for name, b := range map[string][]byte{
		"bytes after STOP": zipOf(file{"x/data.pkl", "N." + reinvoked + "."},
			file{"x/version", "3"}),
		"bytes after the archive":  append(archive(floats(4)), "tail"...),
		"a dict that holds itself": archive(tup(cycle, floats(4))),
		"a storage of two types":   archive(tup(storageOf("FloatStorage", "0", 4), ints)),
		"an empty tensor outside": archive(tensorOf(storageOf("FloatStorage", "0", 4), 5,
			[]int64{0}, []int64{1})),
		"bytes after the last store": legacy(legacyStorage(4), "]"+str("0")+"a",
			count(4)+"0123456789abcdef+"),
	} {
		t.Run(name, func(t *testing.T) {
			r, err := OpenBytes(b, nil)
			if err != nil || len(r.Warnings()) != 1 {
				t.Fatalf("%v, %v", err, r)
			}
			if err := walk(r, nil); err != nil {
				t.Errorf("Verify: %v", err)
			}
			if err := strict(b); !errors.Is(err, tensor.ErrMalformed) {
				t.Errorf("Strict: %v", err)
			}
		})
	}
}

// A tensor can be far larger than its storage: it is listed, and reading is limited.
func TestExpandedTensorIsLimited(t *testing.T) {
	b := archive(tensorOf(storageOf("FloatStorage", "0", 4), 0, []int64{1 << 40}, []int64{0}))
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := r.Tensor("tensor")
	if x.Data.Size() != 1<<42 {
		t.Fatalf("%d bytes", x.Data.Size())
	}
	if _, err := x.Data.ReadAll(); !errors.Is(err, tensor.ErrLimit) {
		t.Error(err)
	}
	if _, err := x.Data.ReadAt(make([]byte, 4), 1<<41); !errors.Is(err, tensor.ErrLimit) {
		t.Error(err)
	}
	if _, err := r.Verify(t.Context(), nil); !errors.Is(err, tensor.ErrLimit) {
		t.Error(err)
	}
	r, err = OpenBytes(b, &ReaderOptions{Limits: tensor.Limits{MaxDecoded: 1 << 50}})
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 6)
	if _, err := r.Tensor("tensor").Data.ReadAt(p, 1<<41+2); err != nil || string(p) != "230123" {
		t.Errorf("%q, %v", p, err)
	}
}

func TestSparseIndexOutsideIsMalformed(t *testing.T) {
	coords := tensorOf(storageOf("LongStorage", "1", 2), 0, []int64{1, 2}, []int64{2, 1})
	values := tensorOf(storageOf("FloatStorage", "0", 4), 0, []int64{2}, []int64{1})
	layout := call(name("torch.serialization", "_get_layout"), str("torch.sparse_coo"))
	for last, want := range map[int64]error{3: nil, 4: tensor.ErrMalformed} {
		b := archive(call(name("torch._utils", "_rebuild_sparse_tensor"), layout, tup(coords,
			values, ints(4))), file{"x/data/1", count(0) + count(last)})
		r, err := OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Verify(t.Context(), nil); !errors.Is(err, want) {
			t.Errorf("index %d: %v", last, err)
		}
	}
}

func TestBigEndianStoragesAreSwapped(t *testing.T) {
	r, err := OpenBytes(archive(tup(floats(4), tensorOf(storageOf("ComplexFloatStorage", "0", 2),
		1, []int64{1}, []int64{1}),
		tensorOf(storageOf("ShortStorage", "0", 8), 1, []int64{2},
			[]int64{3})), file{"x/byteorder", "big"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"0": "32107654ba98fedc", "1": "ba98fedc",
		"2": "3298"} {
		if p, err := r.Tensor(name).Data.ReadAll(); err != nil || string(p) != want {
			t.Errorf("%s: %q, %v", name, p, err)
		}
	}
}

// torch counts packed values by their bytes: a scalar holds two values as well.
func TestPackedValuesAreCountedByBytes(t *testing.T) {
	packed := func(size, stride []int64) []byte {
		return archive(call(name("torch._utils", "_rebuild_tensor_v3"),
			storageOf("UntypedStorage", "0", 16), integer(0), ints(size...), ints(stride...),
			"\x89", "N", name("torch", "float4_e2m1fn_x2")))
	}
	for _, c := range []struct{ size, stride, want []int64 }{
		{nil, nil, []int64{2}},
		{[]int64{4, 3}, []int64{3, 1}, []int64{4, 6}},
		{[]int64{0, 1 << 61}, []int64{1, 1}, []int64{0, 1 << 62}},
	} {
		r, err := OpenBytes(packed(c.size, c.stride), nil)
		if err != nil {
			t.Errorf("%v: %v", c.size, err)
			continue
		}
		x := r.Tensor("tensor")
		if x.DType != tensor.F4E2M1FN || !x.Shape.Equal(c.want) || x.Check() != nil {
			t.Errorf("%v is %v, %v", c.size, x.Shape, x.Check())
		}
	}
	if _, err := OpenBytes(packed([]int64{0, 1 << 62}, []int64{1, 1}), nil); !errors.Is(err,
		tensor.ErrMalformed) {
		t.Errorf("2^63 values: %v", err)
	}
}

func TestLegacyViewsBeginAtTheirOffset(t *testing.T) {
	view := strings.Replace(legacyStorage(4), "NtQ", tup(str("v"), integer(1), integer(2))+"tQ", 1)
	r, err := OpenBytes(legacy(tensorOf(view, 1, []int64{1}, []int64{1}), "]"+str("0")+"a",
		count(4)+"0123456789abcdef"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := r.Tensor("tensor").Data.ReadAll(); err != nil || string(p) != "89ab" {
		t.Errorf("%q, %v", p, err)
	}
}

// Python 2 writes dicts as lists of lists, integers as lines, strings as bytes.
func TestPicklesOfPython2AreRead(t *testing.T) {
	pairs := "](](U\x01aI5000000000\nee"
	r, err := OpenBytes(archive(call(name("collections", "OrderedDict"), pairs)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(r); !strings.Contains(got, "a 5000000000") {
		t.Error(got)
	}
}

// Equal keys are one, at the place of the first, with the last value; 1 and True are
// equal.
func TestEqualKeysAreOne(t *testing.T) {
	r, err := OpenBytes(archive("}(K\x01K\x05"+str("a")+"K\x06\x88K\x07u"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for k, v := range r.Attributes() {
		got = append(got, k+"="+v)
	}
	if !slices.Equal(got, []string{"1=7", "a=6"}) {
		t.Error(got)
	}
}

// A tuple is a key by its items, one with a class, too; NaN is equal to nothing.
func TestTuplesAreKeys(t *testing.T) {
	nan := "G\x7f\xf8\x00\x00\x00\x00\x00\x00"
	dtype := name("torch", "float32") + "q\x00"
	r, err := OpenBytes(archive("}("+tup(dtype, "K\x01")+"K\x05"+tup("h\x00", "\x88")+"K\x06"+
		tup(tup(nan, str("a")))+"K\x07"+nan+"K\x08"+nan+"K\x09u"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for k, v := range r.Attributes() {
		got = append(got, k+"="+v)
	}
	if want := []string{`("torch.float32", 1)=6`, `(({"$float":"nan"}, "a"),)=7`,
		`{"$float":"nan"}=8`, `{"$float":"nan"}=9`}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A shared value is copied and compared a bounded number of times.
func TestSharedValuesAreBounded(t *testing.T) {
	long := strings.Repeat("a", 1<<16)
	many := strings.Repeat("N", 1<<12)
	for name, pickle := range map[string]string{
		"bytes of one string": "(" + str(long) + "q\x000" + strings.Repeat(call(name("_codecs",
			"encode"), "h\x00", str("latin1")), 4000) + "t",
		"lists of one list": "(](" + many + "eq\x000" + strings.Repeat(call(name("builtins",
			"list"), "h\x00"), 4000) + "t",
		"names below one name": dictWith(long, "}("+strings.Repeat("K\x01K\x01",
			3)+func() (s string) {
			for i := range int64(4000) {
				s += integer(i) + "K\x01"
			}
			return s
		}()+"u"),
		"scales of one list": "(](" + strings.Repeat("G\x00\x00\x00\x00\x00\x00\x00\x00",
			4096) + "eq\x000" +
			strings.Repeat(call(name("torch._utils", "_rebuild_qtensor"),
				storageOf("QInt8Storage", "0", 16), integer(0),
				ints(4096), ints(0), tup(name("torch", "per_channel_affine"), "h\x00", "h\x00",
					integer(0)), "\x89", "N"), 8000) + "t",
		"integers in a tuple as a key": "}" + "\x8b\x00\x10\x00\x00" +
			strings.Repeat("\x7f", 1<<12) + "q\x000" + tup(strings.Repeat("h\x00", 4)) +
			"q\x010(" + strings.Repeat("h\x01N", 4000) + "u",
		"one key many times": "}(" + str(long) + "q\x00N" + strings.Repeat("h\x00N", 4000) + "u",
	} {
		if _, err := OpenBytes(archive(pickle), nil); !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDamagedFilesAreReadOrRefused(t *testing.T) {
	for _, name := range []string{"one.pt", "legacy4.pt", "protocol5.pt"} {
		b := golden(t, name)
		readtest.Damage(t, b, 0, min(len(b), 900), func(b []byte) error {
			return walk(OpenBytes(readtest.WithCanary(b), nil))
		})
	}
}

func TestEverySourceReadsTheSame(t *testing.T) {
	for _, name := range []string{"values.pt", "legacy.pt", "kinds.pt", "deflated.pt",
		"script.pt"} {
		api.Same(t, golden(t, name), describe)
	}
}

// Every exported accessor is safe for concurrent use. The race detector reports what is
// not.
func TestAccessorsAreSafeForConcurrentUse(t *testing.T) {
	names, err := filepath.Glob("../testdata/torch/*.pt")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range append(names, "../testdata/torch/dcp") {
		for _, noMap := range []bool{false, true} {
			r, err := Open(name, &ReaderOptions{NoMap: noMap})
			if err != nil {
				t.Fatal(err)
			}
			called := readtest.Accessors(t, r, "w", "part")
			for _, method := range []string{"*torch.Reader.Verify", "*torch.Reader.Spans",
				"*tensor.Tensor.Check",
				"tensor.Blob.ReadAll"} {
				if !called[method] {
					t.Errorf("%s: %s was not called, but %q", name, method,
						slices.Sorted(maps.Keys(called)))
				}
			}
			r.Close()
		}
	}
}
