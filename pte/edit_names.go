package pte

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// checkKey returns the reason why named data or an external tensor cannot have that key.
func checkKey(key string) error {
	if strings.ContainsRune(key, 0) || !utf8.ValidString(key) {
		return fmt.Errorf("%w: %s has a NUL or is not UTF-8", errors.ErrUnsupported,
			naming.Quote(key))
	}
	return format.CheckWritten(key, 0)
}

// checkName returns the reason why a tensor or a method cannot have that name.
func checkName(name string) error {
	if name == "" {
		return fmt.Errorf("%w: an empty name", errors.ErrUnsupported)
	}
	return checkKey(name)
}

// blobPrefix begins the names of named data in Reader.Blobs.
const blobPrefix = "named/"

// valuesNamed returns the tensors of that name.
func (e *Edit) valuesNamed(name string) ([]valueID, error) {
	if e.valuesByName == nil {
		e.valuesByName = make(map[string][]valueID, len(e.r.tensors))
		for _, p := range e.r.tensors {
			n := e.r.value(p).name()
			e.valuesByName[n] = append(e.valuesByName[n], p)
		}
	}
	all := e.valuesByName[name]
	if len(all) == 0 {
		return nil, errs.New(tensor.ErrNoTensor, "%s", naming.Quote(name))
	}
	return all, nil
}

// Remove always fails: with tensor.ErrNoTensor if there is no such tensor, else with
// errors.ErrUnsupported, because the instructions of a program need its tensors.
// [Edit.Externalize] moves their bytes into a .ptd.
func (e *Edit) Remove(name string) error {
	if _, err := e.valuesNamed(name); err != nil {
		return err
	}
	return errs.Tensor(name, errors.ErrUnsupported,
		"the instructions of a program need its tensors")
}

// RenameBlob gives named data another key; old and new are named/KEY, as in
// [Reader.Blobs]. A delegate looks for its blob by the key, and does not run without it.
// RenameBlob fails with tensor.ErrNoTensor if there is no such key, and with
// errors.ErrUnsupported for the payload of a delegate, which has no key.
func (e *Edit) RenameBlob(old, new string) error {
	key, ok := strings.CutPrefix(new, blobPrefix)
	if strings.HasPrefix(old, blobPrefix) && !ok {
		return errs.New(fs.ErrInvalid, "%s is not %sKEY", naming.Quote(new), blobPrefix)
	}
	if err := checkKey(key); err != nil {
		return errs.Wrap(-1, "the new name of "+naming.Quote(old), err)
	}
	return e.changeBlob(old, &key)
}

// RemoveBlob removes named data, and its bytes if nothing else refers to them. It fails
// as RenameBlob does.
func (e *Edit) RemoveBlob(name string) error { return e.changeBlob(name, nil) }

// changeBlob gives named data another key, or removes it if to is nil. name is as in
// Reader.Blobs.
func (e *Edit) changeBlob(name string, to *string) error {
	key, ok := strings.CutPrefix(name, blobPrefix)
	if !ok {
		return errs.New(errors.ErrUnsupported, "%s is not %sKEY, and has no name of its own",
			naming.Quote(name), blobPrefix)
	}
	if e.r.byKey().Lookup(key) < 0 {
		return errs.New(tensor.ErrNoTensor, "no named data %s", naming.Quote(name))
	}
	e.blobs[key] = to
	return nil
}

// rename gives tensors and named data their new names, and removes named data.
func (d *draft) rename() error {
	r, owner := d.e.r, make(owners)
	for _, p := range r.tensors {
		old := r.value(p).name()
		c, err := d.e.change(p)
		if err == nil {
			err = owner.claim(c.Name, old)
		}
		if err != nil {
			return err
		}
		if !c.Renamed {
			continue
		}
		if err := checkName(c.Name); err != nil {
			return errs.Wrap(-1, "the new name of "+naming.Quote(old), err)
		}
		if key, ok := d.e.keys[p]; ok && key != c.Name {
			return errs.New(fs.ErrInvalid,
				"%s has the key %s from Externalize, and %s from Rename",
				naming.Quote(old), naming.Quote(key), naming.Quote(c.Name))
		}
		d.tensors[p.method][p.value].extraInfo().
			SetString(ptefb.SlotExtraTensorInfoFullyQualifiedName, c.Name)
	}
	owner = make(owners)
	all := d.tree.Children(ptefb.SlotProgramNamedData)
	var left []*fb.Node
	for i, t := range fb.Each(len(all), r.root.NamedData) {
		old := string(t.Key())
		key, changed := d.e.blobs[old]
		switch {
		case !changed:
			key = &old
		case key == nil:
			continue
		default:
			all[i].SetString(ptefb.SlotNamedDataKey, *key)
		}
		if err := owner.claim(*key, old); err != nil {
			return err
		}
		left = append(left, all[i])
	}
	if len(left) < len(all) {
		d.tree.SetChildren(ptefb.SlotProgramNamedData, left)
		refs := d.references()
		for i := range d.segments { // a segment without references stays in the table, empty
			if refs[uint64(i)] == 0 {
				d.segments[i] = dataSegment{}
			}
		}
	}
	return nil
}

// owners maps new names to original names.
type owners map[string]string

// claim records that old is now called name. It fails with tensor.ErrDuplicate if another
// original has that name.
func (o owners) claim(name, old string) error {
	if first, ok := o[name]; ok && first != old {
		return errs.New(tensor.ErrDuplicate, "%s and %s would both be %s",
			naming.Quote(first), naming.Quote(old), naming.Quote(name))
	}
	o[name] = old
	return nil
}
