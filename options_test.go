package tensorfile

import (
	"io"
	"reflect"
	"testing"

	"github.com/tensorfile/tensorfile/bridge/gguf"
	"github.com/tensorfile/tensorfile/bridge/npy"
	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// The options that all readers share are spelled out in each package, because an
// embedded field cannot be named in a literal; so something must hold them equal.
func TestReaderOptionsAgree(t *testing.T) {
	common := map[string]reflect.Type{
		"Strict":    reflect.TypeFor[bool](),
		"Limits":    reflect.TypeFor[tensor.Limits](),
		"NoMap":     reflect.TypeFor[bool](),
		"Companion": reflect.TypeFor[func(string) (io.ReaderAt, int64, error)](),
	}
	for _, o := range []any{Options{}, ptd.ReaderOptions{}, pte.ReaderOptions{}, rten.ReaderOptions{}, ztensor.ReaderOptions{},
		primitiv.ReaderOptions{}, safetensors.ReaderOptions{}, npy.ReaderOptions{}, gguf.ReaderOptions{}} {
		typ := reflect.TypeOf(o)
		for name, want := range common {
			if f, ok := typ.FieldByName(name); !ok || f.Type != want || f.Anonymous {
				t.Errorf("%v: field %s is %v, want %v", typ, name, f.Type, want)
			}
		}
	}
}
