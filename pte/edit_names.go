package pte

import (
	"cmp"
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

// checkKey reports why named data or a tensor in another file cannot have that key.
func checkKey(key string) error {
	if strings.ContainsRune(key, 0) || !utf8.ValidString(key) {
		return fmt.Errorf("%w: %s has a NUL or is not UTF-8", errors.ErrUnsupported,
			naming.Quote(key))
	}
	return format.CheckWritten(key, 0)
}

// checkName reports why a tensor or a method cannot have that name.
func checkName(name string) error {
	if name == "" {
		return fmt.Errorf("%w: an empty name", errors.ErrUnsupported)
	}
	return checkKey(name)
}

// blobPrefix is what the names of named data begin with in Reader.Blobs.
const blobPrefix = "named/"

// places returns the tensors of that name.
func (e *Edit) places(name string) ([]place, error) {
	if e.names == nil {
		e.names = make(map[string][]place, len(e.r.tensors))
		for _, p := range e.r.tensors {
			n := e.r.value(p).name()
			e.names[n] = append(e.names[n], p)
		}
	}
	all := e.names[name]
	if len(all) == 0 {
		return nil, fmt.Errorf("pte: %w: %s", tensor.ErrNoTensor, naming.Quote(name))
	}
	return all, nil
}

// Rename gives the tensors of a name another fully qualified name. Most constants have
// none so far. The name of an external tensor is its key in the .ptd, which has to be
// renamed too. It fails with tensor.ErrNoTensor where there is no such tensor; that the
// name is taken is tensor.ErrDuplicate from Write.
func (e *Edit) Rename(old, new string) error {
	if err := checkName(new); err != nil {
		return fmt.Errorf("pte: the new name of %s: %w", naming.Quote(old), err)
	}
	all, err := e.places(old)
	if err != nil {
		return err
	}
	if err := e.open(); err != nil {
		return err
	}
	for _, p := range all {
		e.renamed[p] = new
	}
	return nil
}

// Remove fails with errors.ErrUnsupported: the instructions of a program need its
// tensors. See [Edit.Externalize], which moves their bytes into a .ptd.
func (e *Edit) Remove(name string) error {
	if _, err := e.places(name); err != nil {
		return err
	}
	return fmt.Errorf("pte: %s: %w: the instructions of a program need its tensors",
		naming.Quote(name), errors.ErrUnsupported)
}

// RenameBlob gives named data another key; both are named/KEY, as in [Reader.Blobs].
// Delegates look for blobs by their keys, so that one that lacks its own does not run any
// more.
func (e *Edit) RenameBlob(old, new string) error {
	key, ok := strings.CutPrefix(new, blobPrefix)
	if strings.HasPrefix(old, blobPrefix) && !ok {
		return fmt.Errorf("pte: %w: %s is not %sKEY", fs.ErrInvalid, naming.Quote(new), blobPrefix)
	}
	if err := checkKey(key); err != nil {
		return fmt.Errorf("pte: the new name of %s: %w", naming.Quote(old), err)
	}
	return e.changeBlob(old, &key)
}

// RemoveBlob leaves out named data. What nothing else refers to leaves the file.
func (e *Edit) RemoveBlob(name string) error { return e.changeBlob(name, nil) }

// changeBlob gives the named data of a name as in Reader.Blobs another key, or none.
func (e *Edit) changeBlob(name string, to *string) error {
	key, ok := strings.CutPrefix(name, blobPrefix)
	if !ok {
		return fmt.Errorf("pte: %w: %s is not %sKEY, and has no name of its own",
			errors.ErrUnsupported, naming.Quote(name), blobPrefix)
	}
	if _, found := e.r.Program().Named(key); !found {
		return fmt.Errorf("pte: %w: no named data %s", tensor.ErrNoTensor, naming.Quote(name))
	}
	if err := e.open(); err != nil {
		return err
	}
	e.blobs[key] = to
	return nil
}

// rename gives tensors and blobs their new names.
func (d *draft) rename() error {
	r, renamed, owner := d.e.r, d.e.renamed, make(owners)
	for _, p := range r.tensors {
		old := r.value(p).name()
		name, changed := renamed[p]
		if err := owner.claim(cmp.Or(name, old), old); err != nil {
			return err
		}
		if !changed {
			continue
		}
		if key, ok := d.e.keys[p]; ok && key != name {
			return fmt.Errorf("pte: %s has the key %s from Externalize, and %s from Rename",
				naming.Quote(old), naming.Quote(key), naming.Quote(name))
		}
		d.tensors[p.method][p.value].extraInfo().
			SetString(ptefb.SlotExtraTensorInfoFullyQualifiedName, name)
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
		for i := range d.segments { // those that nothing refers to stay in the table, empty
			if refs[uint64(i)] == 0 {
				d.segments[i] = dataSegment{}
			}
		}
	}
	return nil
}

// owners maps new names to the original ones.
type owners map[string]string

// claim notes that what was old is name now; another owner is an error.
func (o owners) claim(name, old string) error {
	if first, ok := o[name]; ok && first != old {
		return fmt.Errorf("pte: %w: %s and %s would both be %s", tensor.ErrDuplicate,
			naming.Quote(first), naming.Quote(old), naming.Quote(name))
	}
	o[name] = old
	return nil
}
