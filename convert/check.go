package convert

import (
	"errors"
	"io"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A checker reports what a writer of the target would refuse. It reads no data.
type checker interface {
	// check is about a tensor with attributes of its own.
	check(t *tensor.Tensor, own map[string]any) error
	// checkBlob is about named bytes that are not a tensor.
	checkBlob(name string, data tensor.Blob) error
	// checkAttribute is about an attribute of the file, or of a tensor.
	checkAttribute(key string, value any, ofTensor bool) error
}

func newChecker(p *Plan) (checker, error) {
	if p.row.checker != nil {
		return p.row.checker(p)
	}
	w, err := p.writerWith(io.Discard, p.opts.Writer)
	return writerChecker{w}, err
}

// A writerChecker is the checker of a format without rules of its own for attributes.
type writerChecker struct{ w tensorfile.Writer }

func (c writerChecker) check(t *tensor.Tensor, _ map[string]any) error { return c.w.Check(t) }

func (c writerChecker) checkBlob(string, tensor.Blob) error { return errors.ErrUnsupported }

func (c writerChecker) checkAttribute(string, any, bool) error { return nil }

// A ptdChecker asks for entries, which a .ptd makes of tensors and of blobs.
type ptdChecker struct{ writerChecker }

func newPTDChecker(p *Plan) (checker, error) {
	w, err := p.writerWith(io.Discard, p.opts.Writer)
	return ptdChecker{writerChecker{w}}, err
}

func (c ptdChecker) check(t *tensor.Tensor, _ map[string]any) error {
	e, err := entryOf(t)
	if err == nil {
		err = c.w.(*ptd.Writer).CheckEntry(e)
	}
	return err
}

func (c ptdChecker) checkBlob(name string, data tensor.Blob) error {
	return c.w.(*ptd.Writer).CheckEntry(ptd.Entry{Name: name, Data: data})
}

// entryOf returns the entry of a tensor in a .ptd, whose key may be empty there.
func entryOf(t *tensor.Tensor) (ptd.Entry, error) {
	l, err := ptd.LayoutOf(t)
	return ptd.Entry{Name: t.Name, Layout: l, Data: t.Data}, err
}

// A ggufChecker knows the rules for keys and values.
type ggufChecker struct{ writerChecker }

func newGGUFChecker(p *Plan) (checker, error) {
	w, err := p.writerWith(io.Discard, p.opts.Writer)
	return ggufChecker{writerChecker{w}}, err
}

func (c ggufChecker) checkAttribute(key string, value any, _ bool) error {
	v := value.(gguf.Value)
	if elem, _, _ := v.Array(); elem == gguf.TypeArray {
		return errors.New("an array of arrays, with which llama.cpp refuses the file")
	}
	return gguf.KeyValue{Key: key, Value: v}.Check()
}

// A ztensorChecker asks a writer with the options as they are, and a loose one with
// KeepOrder, which allows names that a canonical file cannot have.
type ztensorChecker struct {
	w, loose  *ztensor.Writer
	version   string
	keepOrder bool // what was checked needs KeepOrder
}

func newZTensorChecker(p *Plan) (checker, error) {
	o := writerOptions[ztensor.WriterOptions](p)
	o.Version = p.version
	w, err := p.writerWith(io.Discard, o.WholeFile())
	if err != nil {
		return nil, err
	}
	o.KeepOrder, o.Canonical = true, false
	return &ztensorChecker{w: w.(*ztensor.Writer), loose: ztensor.NewWriter(io.Discard, &o),
		version: p.version}, nil
}

// check knows the rules that the layouts of version 2 have for attributes of tensors.
func (c *ztensorChecker) check(t *tensor.Tensor, own map[string]any) error {
	if c.version == ztensor.Version2 && !t.Dense() && len(own) > 0 {
		for _, w := range []*ztensor.Writer{c.w, c.loose} {
			if err := w.TensorAttributes(t.Name, own); err != nil {
				return err
			}
		}
	}
	err := c.w.Check(t)
	if err != nil && c.version == ztensor.Version2 && c.loose.Check(t) == nil {
		c.keepOrder, err = true, nil // a name that is not in NFC is no loss
	}
	return err
}

func (c *ztensorChecker) checkBlob(string, tensor.Blob) error { return errors.ErrUnsupported }

// checkAttribute returns why zTensor 2 refuses an attribute: its keys have rules, and its
// values are fewer.
func (c *ztensorChecker) checkAttribute(key string, value any, ofTensor bool) error {
	if c.version != ztensor.Version2 {
		return nil
	}
	var first error
	for _, keep := range [2]bool{c.keepOrder, true} {
		one := map[string]any{key: value}
		o := ztensor.WriterOptions{Version: c.version, KeepOrder: keep}
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
