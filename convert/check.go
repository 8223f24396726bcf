package convert

import (
	"io"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A checker is writers of the target that are only asked what they would refuse.
type checker struct {
	option string // the field of Options that has those of the writer
	tensor func(*tensor.Tensor) error
	blob   func(name string, data tensor.Blob) error

	// Of zTensor: with the options as they are, and with KeepOrder, which allows
	// names that a canonical file cannot have.
	zt        *[2]*ztensor.Writer
	ztVersion string
	keepOrder bool // what was checked needs KeepOrder
}

func newChecker(p *Plan) checker {
	var c checker
	switch p.target {
	case tensorfile.PTD:
		c.option = "PTD"
		w := ptd.NewWriter(io.Discard, p.opts.PTD)
		c.tensor = func(t *tensor.Tensor) error {
			e, err := entryOf(t)
			if err != nil {
				return err
			}
			return w.CheckEntry(e)
		}
		c.blob = func(name string, data tensor.Blob) error {
			return w.CheckEntry(ptd.Entry{Name: name, Data: data})
		}
	case tensorfile.Safetensors:
		c.option = "Safetensors"
		c.tensor = safetensors.NewWriter(io.Discard, p.opts.Safetensors).Check
	case tensorfile.NPZ:
		c.option = "NPZ"
		c.tensor = npz.NewWriter(io.Discard, p.opts.NPZ).Check
	case tensorfile.GGUF:
		c.option = "GGUF"
		c.tensor = gguf.NewWriter(io.Discard, p.opts.GGUF).Check
	case tensorfile.NPY:
		c.tensor = npy.NewWriter(io.Discard, nil).Check
	case tensorfile.Primitiv:
		c.option = "Primitiv"
		c.tensor = primitiv.NewWriter(io.Discard, p.opts.Primitiv).Check
	case tensorfile.RTen:
		c.option = "RTen"
		c.tensor = func(t *tensor.Tensor) error {
			if err := p.opts.RTen.Check(); err != nil {
				return err
			}
			return rten.NewGraphBuilder().Check(t)
		}
	case tensorfile.ZTensor:
		c.option = "ZTensor"
		o := orZero(p.opts.ZTensor)
		o.Version, c.ztVersion = p.version, p.version
		c.zt = new([2]*ztensor.Writer)
		c.zt[0] = ztensor.NewWriter(io.Discard, o.WholeFile())
		o.KeepOrder, o.Canonical = true, false
		c.zt[1] = ztensor.NewWriter(io.Discard, &o)
	}
	return c
}

// check returns why the target refuses a tensor.
func (c *checker) check(t *tensor.Tensor) error {
	if c.zt == nil {
		return c.tensor(t)
	}
	err := c.zt[0].Check(t)
	if err != nil && c.ztVersion == "2" && c.zt[1].Check(t) == nil {
		c.keepOrder, err = true, nil // a name that is not in NFC is no loss
	}
	return err
}

// checkWith is check for a tensor that has attributes, for which the layouts of
// version 2 have rules.
func (c *checker) checkWith(t *tensor.Tensor, own map[string]any) error {
	if c.ztVersion == "2" && !t.Dense() && len(own) > 0 {
		for _, w := range c.zt {
			if err := w.TensorAttributes(t.Name, own); err != nil {
				return err
			}
		}
	}
	return c.check(t)
}

func (c *checker) checkBlob(name string, data tensor.Blob) error { return c.blob(name, data) }

// checkAttribute returns why zTensor 2 refuses an attribute, of the file or of a
// tensor: its keys have rules, and its values are fewer.
func (c *checker) checkAttribute(key string, value any, ofTensor bool) error {
	if c.ztVersion != "2" {
		return nil
	}
	var first error
	for _, keep := range [2]bool{c.keepOrder, true} {
		one := map[string]any{key: value}
		o := ztensor.WriterOptions{Version: c.ztVersion, KeepOrder: keep}
		if !ofTensor {
			o.Attributes, one = one, nil
		}
		err := ztensor.NewWriter(io.Discard, o.WholeFile()).TensorAttributes("", one)
		if err == nil {
			c.keepOrder = c.keepOrder || keep
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// entryOf returns the entry of a tensor in a .ptd, whose key may be empty there.
func entryOf(t *tensor.Tensor) (ptd.Entry, error) {
	l, err := ptd.LayoutOf(t)
	return ptd.Entry{Name: t.Name, Layout: l, Data: t.Data}, err
}
