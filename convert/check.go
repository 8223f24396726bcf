package convert

import (
	"io"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A checker is writers of the target that are only asked what they would refuse.
type checker struct {
	w tensorfile.Writer

	// For zTensor: w has the options as they are, and loose has KeepOrder, which allows
	// names that a canonical file cannot have.
	loose     *ztensor.Writer
	ztVersion string
	keepOrder bool // what was checked needs KeepOrder
}

func newChecker(p *Plan) (c checker, err error) {
	if p.target != tensorfile.ZTensor {
		c.w, err = p.writerWith(io.Discard, p.opts.Writer)
		return c, err
	}
	o := writerOptions[ztensor.WriterOptions](p)
	o.Version, c.ztVersion = p.version, p.version
	if c.w, err = p.writerWith(io.Discard, o.WholeFile()); err != nil {
		return c, err
	}
	o.KeepOrder, o.Canonical = true, false
	c.loose = ztensor.NewWriter(io.Discard, &o)
	return c, nil
}

// check returns why the target refuses a tensor.
func (c *checker) check(t *tensor.Tensor) error {
	if w, ok := c.w.(*ptd.Writer); ok {
		e, err := entryOf(t)
		if err == nil {
			err = w.CheckEntry(e)
		}
		return err
	}
	err := c.w.Check(t)
	if err != nil && c.ztVersion == "2" && c.loose.Check(t) == nil {
		c.keepOrder, err = true, nil // a name that is not in NFC is no loss
	}
	return err
}

// checkWith is check for a tensor that has attributes, for which the layouts of
// version 2 have rules.
func (c *checker) checkWith(t *tensor.Tensor, own map[string]any) error {
	if c.ztVersion == "2" && !t.Dense() && len(own) > 0 {
		for _, w := range []*ztensor.Writer{c.w.(*ztensor.Writer), c.loose} {
			if err := w.TensorAttributes(t.Name, own); err != nil {
				return err
			}
		}
	}
	return c.check(t)
}

// checkBlob returns why the target refuses named bytes that are not a tensor.
func (c *checker) checkBlob(name string, data tensor.Blob) error {
	return c.w.(*ptd.Writer).CheckEntry(ptd.Entry{Name: name, Data: data})
}

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
