package torch

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/internal/zipfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// A checkpoint is the output of one torch.save, an archive or a legacy stream, or a
// program.
type checkpoint struct {
	limits   tensor.Limits
	memory   *memory
	src      *source.Source
	at, size int64  // range of src
	end      int64  // offset in src after the last byte that has a meaning
	file     string // name of src; "" for the opened file

	version   string
	root      any
	storages  storages
	constants []*payload // of TorchScript: their tensors are not listed
	globals   []Global
	notes     format.Warnings
	steps     int64 // opcodes of the pickle of root

	archives []*checkpoint                   // in a program
	byMember map[*zipfile.Member]*checkpoint // archives by their members
	inside   *zipfile.Member                 // the member of a program that the archive is
	zip      *zipfile.Archive                // nil for a legacy stream
	prefix   string                          // of the names of all members
	byName   map[string]*zipfile.Member
}

// maxPickle bounds a pickle, in addition to Limits.MaxMetadata.
const maxPickle = 512 << 20

// A compressed pickle decodes to at most maxInflated bytes, and maxRatio for each byte in
// the file; large models have a ratio of 12.
const (
	maxInflated = 64 << 10
	maxRatio    = 64
)

// openArchive reads the directory and the pickles.
func (c *checkpoint) openArchive() error {
	var magic [4]byte
	if _, err := c.src.ReadAt(magic[:min(4, c.size)], c.at); err != nil {
		return errs.Wrap(c.at, "", err)
	}
	if string(magic[:]) != zipMagic {
		return errs.At(c.at, "", tensor.ErrMalformed,
			"an archive does not begin with a member")
	}
	var err error
	c.zip, err = zipfile.Open(c.src, c.at, c.size, zipfile.Options{Format: formatName,
		Limits: c.limits, Deduce: true})
	if err != nil {
		return err
	}
	c.end = c.zip.End
	if end := c.at + c.size; c.zip.End < end {
		c.warn(c.zip.End, "archive", "%d bytes after its end", end-c.zip.End)
	}
	if err := c.index(); err != nil {
		return err
	}
	if c.isProgram() && c.member("data.pkl") == nil {
		return c.openProgram()
	}
	if err := c.checkVersion(); err != nil {
		return err
	}
	bigEnd, err := c.bigEndian()
	if err != nil {
		return err
	}
	if c.version = "zip"; c.member("constants.pkl") != nil {
		c.version = "torchscript"
		if _, err := c.run("constants.pkl", "constants/", bigEnd); err != nil {
			return err
		}
		c.constants = c.storages.order
	}
	c.root, err = c.run("data.pkl", "data/", bigEnd)
	return err
}

// index finds the directory that all members are in. It refuses two names that differ in
// the case of letters only, because torch takes them for the same.
func (c *checkpoint) index() error {
	m := c.zip.Members
	if len(m) == 0 {
		return errs.At(-1, "archive", tensor.ErrMalformed, "it has no members")
	}
	if root, _, ok := strings.Cut(m[0].File.Name, "/"); ok {
		c.prefix = root + "/"
	}
	lower := make([]string, len(m))
	c.byName = make(map[string]*zipfile.Member, len(m))
	for i := range m {
		c.byName[m[i].File.Name] = &m[i]
		lower[i] = strings.ToLower(m[i].File.Name)
	}
	if _, dup := naming.Build(len(lower), func(i int) string { return lower[i] }); dup >= 0 {
		return errs.At(-1, zipfile.Field(m[dup].File.Name), tensor.ErrMalformed,
			"a name that differs from another in the case of letters only")
	}
	switch {
	case c.isProgram():
	case c.prefix == "":
		return errs.At(-1, zipfile.Field(m[0].File.Name), tensor.ErrMalformed,
			"a member without a directory")
	case c.member("data.pkl") == nil:
		return errs.At(-1, "archive", tensor.ErrMalformed, "it has no data.pkl")
	}
	return nil
}

func (c *checkpoint) member(name string) *zipfile.Member { return c.byName[c.prefix+name] }

// checkVersion checks the version of the archive.
func (c *checkpoint) checkVersion() error {
	version, err := c.text("version")
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.TrimSpace(version))
	if err != nil {
		return errs.At(-1, "version", tensor.ErrMalformed, "%s is not a number",
			naming.Quote(version))
	}
	if n < 1 || n > 10 {
		return errs.At(-1, "version", errors.ErrUnsupported, "version %d", n)
	}
	return nil
}

// bigEndian reports whether elements are big-endian.
func (c *checkpoint) bigEndian() (bool, error) {
	if c.member("byteorder") == nil {
		return false, nil
	}
	order, err := c.text("byteorder")
	if err == nil && order != "little" && order != "big" {
		err = errs.At(-1, "byteorder", tensor.ErrMalformed, "%s is neither little nor big",
			naming.Quote(order))
	}
	return order == "big", err
}

// text returns a member of at most 1 KiB.
func (c *checkpoint) text(name string) (string, error) {
	const maxText = 1 << 10
	m := c.member(name)
	if m == nil {
		return "", errs.At(-1, name, tensor.ErrMalformed, "the member is missing")
	}
	return c.read(name, m, maxText)
}

// read returns a member. It does not check the CRC, as torch does not: torch writes 0 on
// request.
func (c *checkpoint) read(name string, m *zipfile.Member, limit int64) (string, error) {
	x := m.Extent()
	if err := m.CheckHeader(); err != nil {
		return "", err
	}
	if m.Size() > limit {
		return "", errs.At(x.Offset(), name, tensor.ErrLimit, "%d bytes, the limit is %d",
			m.Size(), limit)
	}
	if m.Stored() {
		b, err := c.src.Metadata(x.Offset(), x.Size())
		if err != nil {
			err = errs.Wrap(x.Offset(), name, err)
		}
		return string(b), err
	}
	var inflate io.ReadCloser
	in, err := m.Decode(&inflate)
	var b strings.Builder
	if err == nil {
		b.Grow(int(m.Size()))
		_, err = io.Copy(&b, io.LimitReader(in, m.Size()+1))
	}
	if err == nil && int64(b.Len()) != m.Size() {
		err = malformed("it does not decode to its declared %d bytes", m.Size())
	}
	if err != nil {
		return "", errs.Wrap(x.Offset(), name, zipfile.Classify(err))
	}
	return b.String(), nil
}

// readMetadata returns a member. It fails if the member is too large for metadata.
func (c *checkpoint) readMetadata(name string, m *zipfile.Member) (string, error) {
	limit := min(c.limits.MaxMetadata, maxPickle)
	if !m.Stored() {
		x := m.Extent()
		limit = min(limit, maxInflated+x.Size()*maxRatio)
	}
	return c.read(name, m, limit)
}

// run executes the pickle in a member, and finds the storages that it names.
func (c *checkpoint) run(name, dir string, bigEnd bool) (any, error) {
	m := c.member(name)
	x := m.Extent()
	in, err := c.readMetadata(name, m)
	if err != nil {
		return nil, err
	}
	base := x.Offset()
	if !m.Stored() {
		base = -1
	}
	c.storages = storages{warn: func(text string) { c.warn(-1, name, "%s", text) }}
	p := c.newPickle(name, in, base, x.Size())
	p.script = c.version == "torchscript"
	v, err := p.only()
	if err != nil {
		return nil, err
	}
	for _, s := range c.storages.order {
		if err := c.find(s, dir, bigEnd); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// find finds the member that has the bytes of a storage.
func (c *checkpoint) find(p *payload, dir string, bigEnd bool) error {
	field := "storage " + naming.Quote(p.key)
	m := c.member(dir + p.key)
	if m == nil {
		return errs.At(-1, field, tensor.ErrMalformed, "the archive has no %s",
			naming.Quote(c.prefix+dir+p.key))
	}
	x := m.Extent()
	if m.Size() != p.size {
		return errs.At(x.Offset(), field, tensor.ErrMalformed,
			"%d bytes, where the pickle has %d", m.Size(), p.size)
	}
	c.place(p, m, bigEnd)
	return nil
}

// place sets where the elements of a storage are.
func (c *checkpoint) place(p *payload, m *zipfile.Member, bigEnd bool) {
	x := m.Extent()
	p.bigEnd, p.at, p.stored, p.member = bigEnd, x.Offset(), x.Size(), m
	if m.Stored() {
		p.src, p.file = c.src, c.file
	} else {
		p.blob = m.Blob(0, "")
	}
}

func (c *checkpoint) warn(off int64, field, format string, args ...any) {
	c.notes.Add(errs.At(off, field, tensor.ErrMalformed, format, args...))
}

// A pickle is a machine that executes a pickle of a file.
type pickle struct {
	*machine
	c    *checkpoint
	name string
	base int64 // offset of the pickle in the file; -1 if it is compressed
}

// newPickle returns the machine for a pickle that takes stored bytes of the file.
func (c *checkpoint) newPickle(name, in string, base, stored int64) *pickle {
	p := &pickle{newMachine(in, stored, c.memory), c, name, base}
	p.persistent = c.storages.persistent
	return p
}

func (p *pickle) fileOffset(at int) int64 {
	if p.base < 0 {
		return -1
	}
	return p.base + int64(at)
}

// only returns the value of a pickle. Bytes after the pickle are a warning.
func (p *pickle) only() (any, error) {
	v, err := p.value()
	if n := len(p.in) - p.pos; err == nil && n > 0 {
		p.c.warn(p.fileOffset(p.pos), p.name, "%d bytes after the end of the pickle", n)
	}
	return v, err
}

// value executes the pickle, and adds the globals that it names to the checkpoint.
func (p *pickle) value() (any, error) {
	steps := p.steps
	v, err := p.run()
	if err != nil {
		return nil, &tensor.FormatError{Format: formatName, Offset: p.fileOffset(p.at),
			Field: p.name,
			Err:   fmt.Errorf("byte 0x%x of the pickle: %w", p.at, err)}
	}
	p.c.steps += steps - p.steps
	p.c.globals = slices.Grow(p.c.globals, len(p.globals))
	for _, g := range p.globals {
		p.c.globals = append(p.c.globals, Global{
			Module: g.module, Name: g.name, File: p.c.file, Pickle: p.name, Offset: int64(g.at),
			FileOffset: p.fileOffset(g.at), Known: g.kind != unknownName,
			Called: g.called || g.made, Code: g.code(),
		})
	}
	p.globals = nil
	return v, nil
}

// A Global is a name of a function or class of Python, at one place in a pickle.
type Global struct {
	Module, Name string
	File         string // of a distributed checkpoint; "" for the opened file
	Pickle       string // such as data.pkl
	Offset       int64  // of the opcode in the pickle
	FileOffset   int64  // of the opcode in the file; -1 if the pickle is compressed
	Known        bool   // torch or NumPy writes it into checkpoints
	Called       bool   // Python would call it, or make an instance of it

	// Code is the code of its finding in Verify: runs-code, unknown-class, or "" for
	// none.
	Code string
}

// String returns the module and name.
func (g Global) String() string { return (&global{module: g.Module, name: g.Name}).String() }

// err returns the error of a global that has a code.
func (g Global) err() error {
	verb := "named"
	if g.Called {
		verb = "called"
	}
	meaning := "which would run code in Python"
	if g.Code == tensor.CodeUnknownClass {
		meaning = "and is not known: what it makes is kept as data"
	}
	field := g.Pickle
	if g.File != "" {
		field = g.File + ": " + field
	}
	return &tensor.FormatError{Format: formatName, Offset: g.FileOffset, Field: field,
		Code: g.Code, Err: fmt.Errorf("%w: %v is %s at byte 0x%x of the pickle, %s",
			errors.ErrUnsupported, g, verb, g.Offset, meaning)}
}
