package primitiv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

func ExampleOpen() {
	r, err := primitiv.Open("../testdata/primitiv/model-nested.primitiv", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	fmt.Println(r.Kind(), r.NumParameters(), r.Len())
	t := r.Tensor("encoder.w")
	fmt.Println(t.Shape, t.Order) // column-major
	rm, err := tensor.Reordered(t, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rm.Order.RowMajor(), r.Tensor("encoder.w:Adam.m1").Shape)
	// Output:
	// model 5 12
	// [4, 3] [1 0]
	// true [4, 3]
}

func ExampleEdit() {
	r, err := primitiv.Open("../testdata/primitiv/model-nested.primitiv", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	e := primitiv.NewEdit(r)
	for p := range r.Parameters() {
		switch name, ok := strings.CutPrefix(p.Name(), "encoder."); {
		case ok: // with its statistics
			err = e.Rename(p.Name(), "enc."+name)
		case p.Path[0] == "decoder":
			err = e.Remove(p.Name())
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := e.Write(context.Background(), &out, nil); err != nil {
		log.Fatal(err)
	}
	edited, err := primitiv.OpenBytes(out.Bytes(), nil)
	if err != nil {
		log.Fatal(err)
	}
	for t := range edited.Tensors() {
		fmt.Println(t.Name)
	}
	// Output:
	// enc.b
	// enc.b:Adam.m2
	// enc.b:Adam.m1
	// enc.w
	// enc.w:Adam.m2
	// enc.w:Adam.m1
	// scale
}

func ExampleOptimizer_Set() {
	var o primitiv.Optimizer
	if err := errors.Join(o.Set(primitiv.Epoch, "3"), o.Set("Adam.alpha", "0.5")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(o.Name(), o.Uints, o.Floats)
	// Output: Adam [{Optimizer.epoch 3}] [{Adam.alpha 0.5}]
}

// Tensors in any order in memory become a model.
func ExampleWriteFile() {
	dir, err := os.MkdirTemp("", "primitiv")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "model.primitiv")
	w := tensor.New("encoder.w", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6})
	opts := &primitiv.WriterOptions{Reorder: true} // the format is column-major
	if err := primitiv.WriteFile(context.Background(), name, tensor.Of(w), opts); err != nil {
		log.Fatal(err)
	}
	r, err := primitiv.Open(name, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	xs, err := tensor.Convert[float32](r.Tensor("encoder.w")) // row-major, whatever the file has
	fmt.Println(r.Kind(), xs, err)
	// Output: model [1 2 3 4 5 6] <nil>
}
