package primitiv_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

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

func ExampleModel() {
	r, err := primitiv.Open("../testdata/primitiv/model-nested.primitiv", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	m := r.Model()
	if err := m.Rename([]string{"encoder"}, []string{"enc"}); err != nil {
		log.Fatal(err)
	}
	m.Drop("decoder")
	m.DropStats()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := m.WriteFile(filepath.Join(dir, "small.primitiv"), nil); err != nil {
		log.Fatal(err)
	}
	for _, p := range m {
		fmt.Println(p.Name())
	}
	// Output:
	// enc.b
	// enc.w
	// scale
}

func ExampleNewOptimizer() {
	o, err := primitiv.NewOptimizer("Adam")
	if err != nil {
		log.Fatal(err)
	}
	o.SetUint(primitiv.Epoch, 3)
	o.SetFloat("Adam.alpha", 0.5)
	alpha, _ := o.Float("Adam.alpha")
	fmt.Println(o.Name(), alpha)
	// Output: Adam 0.5
}
