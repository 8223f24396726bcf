package primitiv

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// A Parameter is a trainable array: its value, and what optimizers keep for it.
type Parameter struct {
	Path  []string // names from the root of the model down; empty in a parameter file
	Value *tensor.Tensor
	Stats []Statistic
}

// A Statistic is a tensor that an optimizer keeps for a value, such as Adam.m1.
type Statistic struct {
	Name   string
	Tensor *tensor.Tensor
	Batch  uint32 // above 1, the last dimension of the tensor is the batch
}

// Name is the path joined with dots; value for the parameter of a parameter file.
func (p *Parameter) Name() string { return parameterName(p.Path) }

func parameterName(path []string) string {
	if len(path) == 0 {
		return "value"
	}
	return strings.Join(path, ".")
}

// disjoint reports which of the paths, which are in order, cannot be in one model. The
// paths below one follow it directly.
func disjoint(sorted [][]string) error {
	for i := 1; i < len(sorted); i++ {
		if err := clash(sorted[i-1], sorted[i]); err != nil {
			return err
		}
	}
	return nil
}

// clash reports why two paths, the first not after the second, cannot be in one model.
func clash(a, b []string) error {
	switch {
	case slices.Equal(a, b):
		return fmt.Errorf("%s: two parameters %s: %w",
			format, quotePath(a), tensor.ErrDuplicate)
	case isBelow(b, a):
		return fmt.Errorf("%s: %s is below the parameter %s: %w", format,
			quotePath(b), quotePath(a), tensor.ErrDuplicate)
	}
	return nil
}
