package pte

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// blobPrefix is what the names of named data begin with in Reader.Blobs.
const blobPrefix = "named/"

// A blobChange is what becomes of the named data of a key.
type blobChange struct {
	removed bool
	key     string
}

// changeBlob changes the named data of a name as in Reader.Blobs.
func (e *Edit) changeBlob(name string, c blobChange) error {
	key, ok := strings.CutPrefix(name, blobPrefix)
	if !ok {
		return fmt.Errorf("pte: %w: %s is not %sKEY, and has no name of its own",
			errors.ErrUnsupported, quote.Name(name), blobPrefix)
	}
	if _, found := e.r.Program().Named(key); !found {
		return fmt.Errorf("pte: %w: no named data %s", tensor.ErrNoTensor, quote.Name(name))
	}
	if err := e.open(); err != nil {
		return err
	}
	e.blobs[key] = c
	return nil
}

// RenameBlob gives named data another key; both are named/KEY, as in [Reader.Blobs].
// Delegates look for blobs by their keys, so that one that lacks its own does not run any
// more.
func (e *Edit) RenameBlob(old, new string) error {
	key, ok := strings.CutPrefix(new, blobPrefix)
	if !ok || strings.ContainsRune(key, 0) {
		return fmt.Errorf("pte: %w: %s is not %sKEY", tensor.ErrMalformed, quote.Name(new),
			blobPrefix)
	}
	return e.changeBlob(old, blobChange{key: key})
}

// RemoveBlob leaves out named data. What nothing else refers to leaves the file.
func (e *Edit) RemoveBlob(name string) error {
	return e.changeBlob(name, blobChange{removed: true})
}

func (b *rebuild) renameBlobs() error {
	owner := make(owners)
	var left []*fb.Node
	for i, t := range fb.Each(b.r.root.NamedDataLength(), b.r.root.NamedData) {
		old := string(t.Key())
		c, changed := b.e.blobs[old]
		if c.removed {
			continue
		}
		key := old
		if changed {
			key = c.key
			b.named[i].SetString(ptefb.SlotNamedDataKey, key)
		}
		if err := owner.claim(key, old); err != nil {
			return err
		}
		left = append(left, b.named[i])
	}
	if len(left) < len(b.named) {
		b.tree.SetChildren(ptefb.SlotProgramNamedData, left)
		b.dropSegments()
	}
	return nil
}

// SetMetadata makes the constant getter of that name return value, an int, int64, bool,
// float64, string or nil for None. It replaces a getter of that name; any other method of
// the name is an error.
func (e *Edit) SetMetadata(name string, value any) error {
	if _, ok := value.(*tensor.Tensor); ok {
		return fmt.Errorf("pte: metadata %s: %w: a tensor", quote.Name(name), tensor.ErrDType)
	}
	b := NewBuilder()
	b.Metadata(name, value)
	if err := b.Err(); err != nil {
		return err
	}
	if m, ok := e.r.Program().Method(name); ok && !m.IsGetter() {
		return fmt.Errorf("pte: %w: %s is a method that computes, not metadata",
			tensor.ErrDuplicate, quote.Name(name))
	}
	if err := e.open(); err != nil {
		return err
	}
	if _, ok := e.getters[name]; !ok {
		e.order = append(e.order, name)
	}
	var err error
	e.getters[name], err = b.methods[0].node(new(draft))
	return err
}

// SetAttribute sets the constant getter of that name. The value is read as the type of
// the old one; where there is none, it is true or false, an integer, a float or text, as
// it looks.
func (e *Edit) SetAttribute(key, value string) error {
	kind := KindNull
	if m, ok := e.r.Program().Method(key); ok && m.IsGetter() && m.t.OutputsLength() == 1 {
		kind = m.Outputs()[0].Kind()
	}
	kinds := []Kind{kind}
	if kind == KindNull || kind == KindNone || !kind.known() {
		kinds = []Kind{KindBool, KindInt, KindDouble, KindString}
	}
	var x any
	ok := false
	for _, k := range kinds {
		if x, ok = parseAs(k, value); ok {
			break
		}
	}
	if !ok {
		return fmt.Errorf("pte: attribute %s: %w: %s is not of kind %v, as the old value is",
			quote.Name(key), tensor.ErrDType, quote.Name(value), kind)
	}
	return e.SetMetadata(key, x)
}

// parseAs reads a value of that kind, and reports whether text is one.
func parseAs(kind Kind, text string) (any, bool) {
	switch kind {
	case KindInt:
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	case KindDouble:
		f, err := strconv.ParseFloat(text, 64)
		return f, err == nil
	case KindBool:
		return text == "true", text == "true" || text == "false"
	}
	return text, kind == KindString
}

// RemoveAttribute drops the constant getter of that name.
func (e *Edit) RemoveAttribute(key string) error {
	if m, ok := e.r.Program().Method(key); !ok || !m.IsGetter() {
		return fmt.Errorf("pte: %w: no attribute %s", tensor.ErrNoTensor, quote.Name(key))
	}
	if err := e.open(); err != nil {
		return err
	}
	e.getters[key] = nil
	return nil
}

// setGetters replaces, appends and drops constant getters.
func (b *rebuild) setGetters() {
	if len(b.e.getters) == 0 {
		return
	}
	var plans []*fb.Node
	placed := make(map[string]bool)
	for _, n := range b.tree.Children(ptefb.SlotProgramExecutionPlan) {
		name := string(n.Bytes(ptefb.SlotExecutionPlanName))
		if getter, changed := b.e.getters[name]; changed {
			if getter == nil || placed[name] {
				continue
			}
			n, placed[name] = getter, true
		}
		plans = append(plans, n)
	}
	for _, name := range b.e.order {
		if n := b.e.getters[name]; n != nil && !placed[name] {
			plans = append(plans, n)
		}
	}
	b.tree.SetChildren(ptefb.SlotProgramExecutionPlan, plans)
}
