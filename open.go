package tensorfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/torch"
)

// Options are the options of opening that all formats share; nil is the zero value.
// Options of one format are in its own package.
type Options struct {
	// Format is the format of the file; if it is 0, the format is detected.
	Format Format
	// Strict refuses every deviation from the format's document, also deviations that do
	// not prevent reading.
	Strict bool
	// Limits bound what the file may ask for. Zero fields are defaults that read every
	// valid file.
	Limits tensor.Limits
	// NoMap reads the file instead of mapping it into memory. It has no meaning
	// for OpenBytes and NewReader.
	NoMap bool
	// Companion opens a file that this one refers to by name: a shard, external weights.
	// If it is nil, Open and OpenFS open files of the same directory; NewReader calls the
	// source if that is a tensor.Companion; otherwise there are no companions.
	Companion func(name string) (io.ReaderAt, int64, error)
	// NoLinks makes Open refuse companions that are links out of the directory, as files
	// of Hugging Face's cache are, and OpenFS refuse every companion that is a link.
	NoLinks bool
}

// Open opens the file of that name, and maps it if the system can. The file must be
// regular. name may also be the directory of a distributed checkpoint of PyTorch, with
// .metadata or shards of safetensors, or of an unpacked one, with data.pkl. Errors have
// the name: they are a *[FileError], or a *fs.PathError of the system.
func Open(name string, opts *Options) (*File, error) {
	if shards := torch.ShardNames(name); shards != nil {
		f, err := openShards(opts.orZero(), name, shards)
		return f, inFile(name, err)
	}
	f, err := format.Open(torch.Metadata(name), opts.reading(), opts.read)
	return f, inFile(name, err)
}

// OpenFS opens a file of fsys. A file of the operating system, such as a file of
// os.DirFS, is mapped if the system can. A file without ReadAt is read into memory, which
// opts.Limits.MaxDecoded bounds. Errors have the name, as the errors of [Open].
func OpenFS(fsys fs.FS, name string, opts *Options) (*File, error) {
	f, err := format.OpenFS(fsys, name, opts.reading(), opts.read)
	return f, inFile(name, err)
}

// OpenBytes opens a file that is in memory, and keeps b, which must not change
// while the File is in use.
func OpenBytes(b []byte, opts *Options) (*File, error) {
	return format.OpenBytes(b, opts.reading(), opts.read)
}

// NewReader opens the first size bytes of r. Closing the File does not close r. Detection
// and opening together read the first 64 KiB once, and the last 64 KiB if the format has
// its index there.
func NewReader(r io.ReaderAt, size int64, opts *Options) (*File, error) {
	return format.NewReader(r, size, opts.reading(), opts.read)
}

func (o *Options) orZero() Options {
	if o == nil {
		return Options{}
	}
	return *o
}

// reading returns the options that all formats share.
func (o *Options) reading() *tensor.ReadOptions {
	v := o.orZero()
	return &tensor.ReadOptions{Strict: v.Strict, Limits: v.Limits, NoMap: v.NoMap,
		Companion: v.Companion, NoLinks: v.NoLinks}
}

// read detects the format of a file, and reads it. A .rten of version 1 is read once:
// that it can be opened is its detection.
func (o *Options) read(in *format.Input) (*File, error) {
	e := newEdges(in.Source, in.Size())
	if in.ReaderAt == nil {
		e.ahead = true // another read costs little
	} else {
		_, e.ahead = in.ReaderAt.(interface{ ReadsAhead() })
		in.Source = source.OfOpen(e, in.Source, in.Size())
		defer e.opened()
	}
	f := o.orZero().Format
	switch {
	case f != 0:
	case torch.Unpacked(in.Path):
		f = Torch
	default:
		var err error
		if f, err = detectMagic(e); err != nil {
			return nil, err
		}
	}
	certain := f != 0
	if !certain {
		if !e.plausibleRTen() {
			return nil, e.unknown()
		}
		f = RTen
	}
	if f >= numFormats {
		return nil, fmt.Errorf("tensorfile: %w: %v is not read by this version",
			errors.ErrUnsupported, f)
	}
	r, err := formats[f].open(in)
	switch {
	case err == nil:
		return &File{r: r, in: in, format: f, size: in.Size(), limits: in.Options.Limits}, nil
	case certain, e.err != nil && errors.Is(err, e.err),
		rten.Detect(e, in.Size()): // opening is stricter than detection
		return nil, err
	}
	return nil, e.unknown()
}

// openShards opens the shards in a directory, in which torch.distributed.checkpoint keeps
// the chunks of each process as safetensors, as one file.
func openShards(o Options, dir string, names []string) (*File, error) {
	opts := &safetensors.ReaderOptions{Strict: o.Strict, Limits: o.Limits, NoMap: o.NoMap,
		NoLinks: true}
	var shards []torch.Shard
	for _, name := range names {
		r, err := safetensors.Open(filepath.Join(dir, name), opts)
		if err != nil {
			for _, s := range shards {
				s.Closer.Close()
			}
			return nil, inFile(filepath.Join(dir, name), err)
		}
		shards = append(shards, torch.Shard{Name: name, Tensors: r.Tensors(),
			Attributes: r.Attributes(), Spans: r.Spans(), Closer: r})
	}
	r, err := torch.FromShards(shards)
	if err != nil {
		return nil, err
	}
	return &File{r: r, format: Torch, limits: o.Limits}, nil
}

// A FileError is an error of opening, with the name of the file.
type FileError struct {
	Name string
	Err  error
}

func (e *FileError) Error() string { return e.Name + ": " + e.Err.Error() }

func (e *FileError) Unwrap() error { return e.Err }

// inFile gives an error the name of its file; nil stays nil.
func inFile(name string, err error) error {
	if err == nil {
		return nil
	}
	var system *fs.PathError
	if errors.As(err, &system) && system.Path == name {
		return err // has it already
	}
	return &FileError{name, err}
}

// ErrUnknownFormat is the error for content that is not a tensor file of a format
// that this library knows. It is also tensor.ErrMalformed.
var ErrUnknownFormat error = unknownFormat{}

type unknownFormat struct{}

func (unknownFormat) Error() string { return "not a tensor file of a known format" }
func (unknownFormat) Unwrap() error { return tensor.ErrMalformed }

// Detect returns the format of a file by its content. It reads up to 64 KiB of the start,
// in one read; only a file that looks like a .rten of version 1, which has no magic
// number, is read whole and verified.
//
// It fails with [ErrUnknownFormat], or with the error of r. A file whose format is
// detected may still be damaged.
func Detect(r io.ReaderAt, size int64) (Format, error) {
	in := newEdges(r, size)
	f, err := detectMagic(in)
	if f != 0 || err != nil {
		return f, err
	}
	if in.plausibleRTen() && rten.Detect(in, size) {
		return RTen, nil
	}
	return 0, in.unknown()
}

// detectMagic returns the format of a file with a magic number, 0 if there is none.
func detectMagic(in *edges) (Format, error) {
	for f := ZTensor; f < numFormats; f++ {
		if f != RTen && formats[f].detect(in, in.size) {
			return f, nil
		}
	}
	if in.rtenMagic() {
		return RTen, nil
	}
	return 0, in.err
}

// unknown is the error for a file without a format, or the error of its reader.
func (e *edges) unknown() error {
	if e.err != nil {
		return e.err
	}
	return ErrUnknownFormat
}

// plausibleRTen reports whether the file may be a .rten of version 1.
func (e *edges) plausibleRTen() bool {
	e.readHead()
	return rten.Plausible(e.head, e.size)
}

// rtenMagic reports whether the file has the magic number of .rten version 2: nothing
// else is plausible in four bytes.
func (e *edges) rtenMagic() bool {
	e.readHead()
	return len(e.head) >= 4 && rten.Plausible(e.head[:4], 4)
}

// edgeSize is what is read of the start of a file at once, and of its end where a
// format looks there: enough for the metadata of most files.
const edgeSize = 64 << 10

// edges is an io.ReaderAt that reads the start of another, and its end, at most once
// each, however often detection and the format's reader look there.
type edges struct {
	r     io.ReaderAt
	size  int64
	ahead bool // r reads ahead by itself

	mu      sync.Mutex
	head    []byte
	tail    []byte
	opening bool  // the tail may be read
	started bool  // the head was read
	err     error // the first of r, other than io.EOF: not taken for an unknown format
}

func newEdges(r io.ReaderAt, size int64) *edges {
	return &edges{r: r, size: size, opening: true}
}

// opened ends the reading ahead: what is asked for from now on is payload.
func (e *edges) opened() {
	e.mu.Lock()
	e.opening = false
	e.mu.Unlock()
}

// ReadAt implements io.ReaderAt.
func (e *edges) ReadAt(p []byte, off int64) (int, error) {
	if off >= 0 && off <= e.size && int64(len(p)) > e.size-off {
		n, err := e.ReadAt(p[:e.size-off], off)
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	if e.cached(p, off) {
		return len(p), nil
	}
	n, err := e.r.ReadAt(p, off)
	e.note(err)
	return n, err
}

// cached fills p from the start or the end of the file.
func (e *edges) cached(p []byte, off int64) bool {
	n := int64(len(p))
	if e.ahead || off < 0 || n == 0 || off > e.size || n > e.size-off {
		return false
	}
	if n <= edgeSize-off {
		e.readHead()
		return off+n <= int64(len(e.head)) && copy(p, e.head[off:]) == len(p)
	}
	at := max(e.size-edgeSize, edgeSize)
	if off < at {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tail == nil && e.opening {
		e.tail = e.readUpTo(make([]byte, e.size-at), at)
	}
	return off-at+n <= int64(len(e.tail)) && copy(p, e.tail[off-at:]) == len(p)
}

// readHead reads the start of the file, the first time. Bytes that cannot be read are
// absent.
func (e *edges) readHead() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.started {
		e.started = true
		n := int64(edgeSize)
		if e.ahead {
			n = 4 << 10
		}
		e.head = e.readUpTo(make([]byte, min(n, max(e.size, 0))), 0)
	}
}

// readUpTo reads p at off and returns what r had of it. The caller has the lock.
func (e *edges) readUpTo(p []byte, off int64) []byte {
	n := 0
	for n < len(p) {
		k, err := e.r.ReadAt(p[n:], off+int64(n))
		if k < 0 || k > len(p)-n {
			return p[:n:n] // the format's reader asks r itself, and reports it
		}
		n += k
		if err != nil && n < len(p) && !errors.Is(err, io.EOF) && e.err == nil {
			e.err = err
		}
		if err != nil || k == 0 {
			break
		}
	}
	return p[:n:n]
}

func (e *edges) note(err error) {
	if err == nil || errors.Is(err, io.EOF) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
	}
}
