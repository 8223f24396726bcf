package primitiv_test

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

// accessors are the methods of a Reader, each with all that is to be had from what it
// returns.
var accessors = map[string]func(t testing.TB, r *primitiv.Reader){
	"Kind":     func(t testing.TB, r *primitiv.Reader) { _ = r.Kind().String() },
	"Version":  func(t testing.TB, r *primitiv.Reader) { r.Version() },
	"Size":     func(t testing.TB, r *primitiv.Reader) { r.Size() },
	"Len":      func(t testing.TB, r *primitiv.Reader) { r.Len() },
	"Shape":    func(t testing.TB, r *primitiv.Reader) { _ = r.Shape().String() },
	"Warnings": func(t testing.TB, r *primitiv.Reader) { _ = fmt.Sprint(r.Warnings()) },
	"Blobs":    func(t testing.TB, r *primitiv.Reader) { useBlobs(r) },
	"Attributes": func(t testing.TB, r *primitiv.Reader) {
		for k, v := range r.Attributes() {
			_ = k + v
		}
	},
	"Spans": func(t testing.TB, r *primitiv.Reader) {
		for range r.Spans() {
		}
	},
	"Tensors": func(t testing.TB, r *primitiv.Reader) {
		useTensors(t, slices.Collect(r.Tensors())...)
	},
	"Tensor": func(t testing.TB, r *primitiv.Reader) {
		for x := range r.Tensors() {
			useTensors(t, r.Tensor(x.Name))
		}
	},
	"Parameters": func(t testing.TB, r *primitiv.Reader) {
		useParameters(t, slices.Collect(r.Parameters())...)
	},
	"Parameter": func(t testing.TB, r *primitiv.Reader) {
		for p := range r.Parameters() {
			useParameters(t, r.Parameter(p.Path...))
		}
	},
	"NumParameters": func(t testing.TB, r *primitiv.Reader) { r.NumParameters() },
	"Optimizer": func(t testing.TB, r *primitiv.Reader) {
		if o := r.Optimizer(); o != nil {
			if err := o.Set(primitiv.Epoch, "7"); err != nil { // of a copy
				t.Error(err)
			}
			_ = o.Name()
		}
	},
	"Verify": func(t testing.TB, r *primitiv.Reader) {
		if _, err := r.Verify(t.Context(),
			&tensor.VerifyOptions{Depth: tensor.VerifyCanonical}); err != nil &&
			len(r.Warnings()) == 0 {
			t.Error(err)
		}
	},
	"Close": nil, // ends the others
}

func useBlobs(r *primitiv.Reader) {
	for range r.Blobs() {
	}
}

func useTensors(t testing.TB, ts ...*tensor.Tensor) {
	for _, x := range ts {
		b, err := x.Data.ReadAll()
		if err != nil || int64(len(b)) != x.Size() || x.Check() != nil {
			t.Errorf("%s: %d bytes, %v", x.Name, len(b), err)
		}
		x.Data.Bytes()
		x.Data.Memory()
		x.Data.Stored()
		x.Data.Identity()
		primitiv.OriginOf(x)
	}
}

func useParameters(t testing.TB, ps ...*primitiv.Parameter) {
	for _, p := range ps {
		_ = p.Name()
		useTensors(t, p.Value)
		for _, s := range p.Stats {
			useTensors(t, s.Tensor)
		}
	}
}

// Every method, from several goroutines at once; run it under the race detector.
func TestAccessorsAreSafeForConcurrentUse(t *testing.T) {
	reader := reflect.TypeFor[*primitiv.Reader]()
	for i := range reader.NumMethod() {
		if name := reader.Method(i).Name; !slices.Contains(slices.Collect(maps.Keys(accessors)),
			name) {
			t.Errorf("%s is not tested", name)
		}
	}
	files, _ := goldens(t)
	for name, data := range files {
		if len(data) > 1<<12 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			api.Each(t, data, func(t *testing.T, r *primitiv.Reader) {
				var wg sync.WaitGroup
				for range 2 {
					for _, use := range accessors {
						if use != nil {
							wg.Go(func() { use(t, r) })
						}
					}
				}
				wg.Wait()
			})
		})
	}
}

// A Writer of every kind takes what a Reader gives, tensor by tensor, and writes the
// same bytes.
func TestEveryKindIsWrittenFromItsTensors(t *testing.T) {
	files, _ := goldens(t)
	kinds := map[primitiv.Kind]int{}
	for _, extra := range [][]byte{
		join(head(0), "\x92", 2, 3, 5),
		join(head(0x100), "\x91", 2, 3, "\xc4\x18", "abcdefghijklmnopqrstuvwx"),
	} {
		files[fmt.Sprintf("%x", extra)] = extra
	}
	for name, data := range files {
		r := open(t, data)
		kinds[r.Kind()]++
		var out bytes.Buffer
		w := primitiv.NewWriter(&out, &primitiv.WriterOptions{Kind: r.Kind()})
		var err error
		switch r.Kind() {
		case primitiv.KindShape:
			err = w.SetShape(r.Shape())
		case primitiv.KindOptimizer:
			err = w.SetOptimizer(r.Optimizer())
		default:
			err = w.AddAll(t.Context(), tensor.Each(r.Tensors()))
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil || !bytes.Equal(out.Bytes(), data) {
			t.Errorf("%s: %d bytes of %d, %v", name, out.Len(), len(data), err)
		}
	}
	if len(kinds) != 5 {
		t.Errorf("kinds: %v", kinds)
	}
}
