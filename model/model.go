package model

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// Options control how a directory is opened. nil is the zero value.
type Options struct {
	// Revision is a ref or a commit of a repository in Hugging Face's cache. "" is
	// refs/main, or the only snapshot.
	Revision string
	// Limits bound what the files may ask for; zero fields mean the defaults.
	Limits tensor.Limits
	// NoMap reads files instead of mapping them.
	NoMap bool
	// NoLinks does not follow links that point out of the directory and its cache.
	NoLinks bool
}

// A Model is an open directory. It is safe for concurrent use.
type Model struct {
	directory
	sets    []*Set
	files   map[string]*file
	configs map[string]*Config // by part
	quants  map[string]*quant.Config
	listing listing
	found   findings
	done    []Finding // found, sorted
	read    Read
}

// Read counts what was read.
type Read struct {
	Files  int64 `json:"files"`
	Bytes  int64 `json:"bytes"`  // of JSON and metadata, and of files that were read whole
	Hashed int64 `json:"hashed"` // files whose digests were computed
}

// Open opens a directory that holds weights, or a snapshot or a repository in Hugging
// Face's cache. dir may also be the name of the first shard of a .gguf: Open then opens
// that model alone. Open fails only if the directory cannot be read or a limit is hit.
// Damage to files is in Findings.
func Open(dir string, opts *Options) (*Model, error) {
	var only *naming.Shard
	s, numbered := parseShard(filepath.ToSlash(dir))
	if info, err := os.Stat(dir); err == nil && info.Mode().IsRegular() && numbered &&
		s.Ext == tensorfile.GGUF.Ext() {
		if s.I != 1 {
			return nil, fmt.Errorf("%w: shard %d of a model of %d, which %s opens, or its "+
				"directory", fs.ErrInvalid, s.I, s.N, naming.Quote(s.Name(1)))
		}
		s = s.Group()
		dir, only = filepath.Dir(dir), &s
	}
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return nil, err
	}
	// The targets of a snapshot's links have to be within the fs.FS to be seen.
	root, sub := real, "."
	if parent := filepath.Dir(real); filepath.Base(parent) == "snapshots" {
		root = filepath.Dir(filepath.Dir(parent))
	} else if info, err := os.Stat(filepath.Join(real, "snapshots")); err == nil && info.IsDir() {
		root = parent
	}
	if root != real {
		rel, err := filepath.Rel(root, real)
		if err != nil {
			return nil, err
		}
		sub = filepath.ToSlash(rel)
	}
	m, err := open(os.DirFS(root), sub, filepath.ToSlash(root), only, opts)
	var system *fs.PathError
	if errors.As(err, &system) && system.Path == sub {
		system.Path = dir
	}
	return m, err
}

// OpenFS opens a directory of any file system, as Open does. Links are recognised only in
// an fs.ReadLinkFS. A snapshot in a cache can be opened only if fsys has the whole cache.
func OpenFS(fsys fs.FS, dir string, opts *Options) (*Model, error) {
	return open(fsys, dir, "", nil, opts)
}

func open(fsys fs.FS, dir, local string, only *naming.Shard, opts *Options) (_ *Model, err error) {
	if opts == nil {
		opts = &Options{}
	}
	limits, err := format.CompleteLimits(opts.Limits)
	if err != nil {
		return nil, err
	}
	m := &Model{files: map[string]*file{}, configs: map[string]*Config{},
		quants: map[string]*quant.Config{}}
	repository, _ := fsys.(Repository)
	if opts.NoLinks {
		fsys = source.Confine(fsys, local, cacheDirs(fsys, dir)...)
	}
	m.directory = directory{fsys: fsys, dir: dir, local: local, repository: repository,
		limits: limits, noLinks: opts.NoLinks, only: only, entries: map[string]*entry{}}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	cache, dir, refs, err := locate(fsys, dir, opts.Revision)
	if err != nil {
		return nil, err
	}
	m.cache, m.dir = cache, dir
	all := m.cache != nil || m.repository != nil
	m.found.add(refs...)
	if dir == "" { // a repository without a snapshot
		m.finish()
		return m, nil
	}
	m.roots = m.linkTargets()
	if err := m.list(".", all); err != nil {
		return nil, err
	}
	parts := m.components()
	for _, part := range parts {
		if !all {
			if err := m.list(part, false); err != nil {
				return nil, err
			}
		}
	}
	if parts == nil {
		parts = []string{"."}
	}
	for _, part := range parts {
		m.find(part)
	}
	if err := m.readFiles(slices.Collect(maps.Values(m.files)), opts); err != nil {
		return nil, err
	}
	if err := m.readFiles(m.joinShards(), opts); err != nil {
		return nil, err
	}
	m.joinData()
	m.joinPrograms()
	for _, s := range m.sets {
		m.checkSet(s)
	}
	for _, part := range parts {
		m.configs[part] = m.readConfig(part)
		m.quants[part] = m.readQuantization(part)
	}
	for _, s := range m.sets {
		s.found = sync.OnceValue(func() *quant.Set { return quant.Find(s.file, m.quants[s.part]) })
	}
	hasPrimary := map[string]bool{}
	for _, s := range m.sets { // of a part, the primary one is the first
		if !hasPrimary[s.part] {
			hasPrimary[s.part], s.Primary = true, true
			m.checkConfig(s)
		}
	}
	m.finish()
	return m, nil
}

// readFiles opens files on all cores.
func (m *Model) readFiles(files []*file, opts *Options) error {
	files = slices.DeleteFunc(files, func(f *file) bool { return !f.regular })
	slices.SortFunc(files, func(a, b *file) int { return strings.Compare(a.name, b.name) })
	return parallel.ForEach(context.Background(), len(files),
		func(_ context.Context, i int) error {
			m.directory.read(files[i], opts)
			return nil
		})
}

// finish adds the findings about the directory as a whole, and sorts all findings.
func (m *Model) finish() {
	for _, name := range slices.Sorted(maps.Keys(m.entries)) {
		m.interrupted(name)
		e, tensors := m.entries[name], int64(0)
		f := m.files[name]
		if f != nil {
			tensors = f.mapped
			m.found.join(&f.findings)
			m.countFile(f)
		}
		switch {
		case e.dangling():
			x := finding(DanglingLink, name, "", "a link to %s, which is not there",
				naming.Quote(e.link))
			x.Tensors = tensors
			m.found.add(x)
		case e.unreadable() && f != nil:
			m.found.add(findingOf(Unreadable, name, e.err))
		}
		if e.outside && !e.dangling() {
			x := finding(OutsideLink, name, "", "a link to %s, out of the directory",
				naming.Quote(e.link))
			if e.link == "" {
				x = finding(OutsideLink, name, "", "its path has a link out of the directory")
			}
			if m.noLinks {
				x.Severity = tensor.SeverityError
			}
			m.found.add(x)
		}
	}
	if m.dir != "" {
		m.listing = m.implicit()
		m.found.add(m.sizes(m.listing)...)
	}
	if m.cache != nil {
		m.found.add(m.incomplete()...)
	}
	if len(m.sets) == 0 && !slices.ContainsFunc(m.found.list, func(f Finding) bool {
		return f.Code == MissingSnapshot || f.Code == MissingComponent
	}) {
		m.note(NoWeights, "", "", "no weights and no index")
	}
	m.done = m.found.sorted()
}

// interrupted adds a finding if the journal shows that a set of files was not replaced
// completely: a warning if the index exists, because its files are then of one set.
func (m *Model) interrupted(journal string) {
	index, ok := atomicfile.IndexOf(path.Base(journal))
	if !ok || !m.entries[journal].regular {
		return
	}
	if atomicfile.UnfinishedFS(m.fsys, path.Join(path.Dir(m.path(journal)), index)) == nil {
		return // nothing was renamed
	}
	f := finding(InterruptedWrite, journal, "",
		"replacing the files of %s was interrupted: 'tensorfile clean --yes' completes it",
		naming.Quote(index))
	if !m.look(path.Join(path.Dir(journal), index)).missing() {
		f.Severity = tensor.SeverityWarning
	}
	m.found.add(f)
}

// note adds a finding.
func (m *Model) note(code Code, file, name, format string, args ...any) {
	m.found.add(finding(code, file, name, format, args...))
}

// countFile counts the bytes that opening a file has read.
func (m *Model) countFile(f *file) {
	if !f.regular || f.data {
		return
	}
	m.read.Files++
	if f.open == nil {
		return
	}
	metadata := f.size
	for t := range f.open.Tensors() {
		metadata -= max(t.Size(), 0)
	}
	m.read.Bytes += max(metadata, 0)
}

// readJSON returns a small file of the directory. It returns nil if it cannot be read,
// which is a finding.
func (m *Model) readJSON(name string, code Code) []byte {
	e := m.entry(name)
	switch {
	case e.dangling() || e.outside && m.noLinks: // a finding of its own
		return nil
	case e.err != nil:
		m.found.add(findingOf(Unreadable, name, e.err))
		return nil
	case !e.regular:
		m.note(code, name, "", "not a regular file")
		return nil
	case e.size == 0:
		m.note(EmptyFile, name, "", "0 bytes")
		return nil
	}
	b, err := readBounded(m.fsys, m.path(name), m.limits.MaxMetadata)
	if err != nil {
		m.found.add(findingOf(limitOr(err, Unreadable), name, err))
		return nil
	}
	m.read.Files++
	m.read.Bytes += int64(len(b))
	if isPointer(b) {
		m.found.add(pointer(name))
		return nil
	}
	return b
}

// Close releases all files. It may be called more than once.
func (m *Model) Close() error {
	var errs []error
	for _, f := range m.files {
		if f.open != nil {
			errs = append(errs, f.open.Close())
		}
	}
	return errors.Join(errs...)
}

// Sets yields the sets of the directory, the primary one first.
func (m *Model) Sets() iter.Seq[*Set] { return slices.Values(m.sets) }

// Dir returns the directory that was opened; for a repository in a cache, its snapshot.
// After Open it is a name of the operating system, after OpenFS a name in the fs.FS.
func (m *Model) Dir() string {
	if m.local == "" {
		return m.dir
	}
	return filepath.Join(filepath.FromSlash(m.local), filepath.FromSlash(m.dir))
}

// ErrNoModel is the error of a directory without weights, or with several sets of weights
// of which none is clearly the model.
var ErrNoModel = errors.New("no single model in the directory")

// A DamageError is the error of a model that is damaged.
type DamageError struct{ Findings []Finding } // errors, one at least

func (e *DamageError) Error() string {
	f := &e.Findings[0]
	s := fmt.Sprintf("%s%s: %v", f.place(), f.Code, f.Err)
	if n := len(e.Findings) - 1; n > 0 {
		s += fmt.Sprintf(" (and %d more)", n)
	}
	return s
}

// Unwrap returns the errors of the findings.
func (e *DamageError) Unwrap() (all []error) {
	for _, f := range e.Findings {
		all = append(all, f.Err)
	}
	return all
}

// Whole returns the primary set; nil if there are several, one for each component. It
// fails with [ErrNoModel] if no set is clearly the model, and with a *DamageError if the
// set is damaged: the tensors that can be read are then not the whole model.
func (m *Model) Whole() (*Set, error) {
	primary := m.primary()
	if len(primary) == 0 || m.ambiguous() {
		return nil, ErrNoModel
	}
	var files []string // of the primary sets, with the files that these refer to
	for _, s := range primary {
		files = append(append(files, s.Index), s.Files...)
		for _, sh := range s.shards {
			for _, f := range sh.findings.list {
				files = append(files, f.File)
			}
		}
	}
	var damage []Finding
	for _, f := range m.Findings() {
		if f.Severity == tensor.SeverityError && !slices.Contains(undamaged, f.Code) &&
			(slices.Contains(files, f.File) || f.Code == InterruptedWrite) {
			damage = append(damage, f)
		}
	}
	if len(damage) > 0 {
		return nil, &DamageError{damage}
	}
	if len(primary) > 1 {
		return nil, nil
	}
	return primary[0], nil
}

// ambiguous reports whether nothing but the order of names says which set is the primary
// one.
func (m *Model) ambiguous() bool {
	if len(m.sets) < 2 {
		return false
	}
	a, b := m.sets[0], m.sets[1]
	return a.part == b.part && a.rank() == b.rank()
}

func (m *Model) primary() []*Set {
	return slices.DeleteFunc(slices.Clone(m.sets), func(s *Set) bool { return !s.Primary })
}

// Tensors yields the tensors of the primary set, which are valid until Close.
func (m *Model) Tensors() iter.Seq[*tensor.Tensor] { return m.File().Tensors() }

// Findings returns the findings that names, sizes, links, indexes and headers show,
// sorted by file, code and tensor.
func (m *Model) Findings() []Finding { return slices.Clone(m.done) }

// Config returns the values of config.json; nil if there is none.
func (m *Model) Config() *Config { return m.configs["."] }

// Quantization returns the configuration of quantised weights from the model's files; nil
// if they say nothing, or if the model is a pipeline of several.
func (m *Model) Quantization() *quant.Config {
	if primary := m.primary(); len(primary) == 1 {
		return m.quants[primary[0].part]
	}
	return nil
}

// FS returns the files of the directory.
func (m *Model) FS() (fs.FS, error) { return fs.Sub(m.fsys, m.dir) }

// Others returns the names of files that hold no weights and are no index, such as
// config.json and tokenizers, in order.
func (m *Model) Others() (names []string) {
	for name, e := range m.entries {
		if e.regular && !(e.outside && m.noLinks) && !isWeights(name) && !isIndex(name) &&
			!strings.HasPrefix(path.Base(name), ".") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// isElement reports whether a name is one element of a path.
func isElement(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.ContainsAny(name, "/\\:\x00")
}
