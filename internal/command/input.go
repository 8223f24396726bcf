package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/torch"
)

// An input is a file that a command reads.
type input struct {
	*tensorfile.File
	name string       // as in the arguments
	path string       // of the file on disk; "" if there is none
	set  string       // for a directory: the index or first file of the model in it
	dir  *model.Model // the directory; nil for a file
	part string       // a sentence if it is one of several files of a model, else ""
	raw  io.ReaderAt  // the bytes of the file; nil until they are needed
}

// readAt reads bytes of the file itself.
func (in *input) readAt(p []byte, off int64) (int, error) {
	if in.raw == nil {
		f, err := os.Open(in.path)
		if err != nil {
			return 0, err
		}
		in.raw = f
	}
	return in.raw.ReadAt(p, off)
}

// isDirectory reports whether the input is not one file.
func (in *input) isDirectory() bool {
	info, err := os.Stat(in.name)
	return err == nil && info.IsDir() || in.path == "" && in.raw == nil
}

// payload returns how many bytes tensors and blobs have, for showing progress.
func (in *input) payload() int64 {
	n := int64(0)
	for t := range in.Tensors() {
		n += max(t.Size(), 0)
	}
	for _, b := range in.Blobs() {
		n += max(b.Size(), 0)
	}
	return n
}

func (in *input) Close() error {
	err := in.File.Close()
	if in.dir != nil {
		err = errors.Join(err, in.dir.Close())
	}
	if f, ok := in.raw.(io.Closer); ok {
		f.Close()
	}
	return err
}

// options returns the options that the flags set.
func (a *app) options() *tensorfile.Options {
	return &tensorfile.Options{Format: a.format, Strict: a.strict, Limits: a.limits,
		NoMap: a.noMap}
}

// openExternals opens the files of --external.
func (a *app) openExternals() error {
	opts := a.options()
	opts.Format = 0 // --format is for the inputs
	for _, name := range a.external {
		in, err := a.openWith(name, opts)
		if err != nil {
			return onFile(name, err)
		}
		a.cleanup = append(a.cleanup, func() { in.Close() })
		a.externals = append(a.externals, in)
	}
	return nil
}

// open opens a file by its name, by its address, or from standard input. With
// --dequantize its quantised weights are numbers.
func (a *app) open(name string) (*input, error) {
	in, err := a.openWith(name, a.options())
	if err != nil || a.dequantize == tensor.Unknown {
		return in, err
	}
	cfg, err := in.quantization()
	if err == nil {
		var weights *tensorfile.File
		if weights, err = inspect.Dequantized(in.File, cfg, a.dequantize); err == nil {
			in.File = weights
			return in, nil
		}
	}
	in.Close()
	return nil, err
}

func (a *app) openWith(name string, opts *tensorfile.Options) (*input, error) {
	path, err := localName(name)
	if err != nil {
		return nil, err
	}
	in := &input{name: name, path: path}
	switch {
	case name == "-":
		err = a.openStdin(in, opts)
	case isAddress(name):
		err = a.openRemote(in, opts)
	default:
		if strings.HasSuffix(in.path, ".bin.index.json") {
			dir, index := filepath.Split(in.path)
			err = a.openDirectory(in, filepath.Clean(dir), index)
			break
		}
		in.path = torch.Metadata(in.path)
		if info, e := os.Stat(in.path); e == nil && info.IsDir() &&
			torch.ShardNames(in.path) == nil {
			if err = a.openDirectory(in, in.path, ""); err != nil || in.File != nil {
				break
			}
		}
		in.File, err = tensorfile.Open(in.path, opts)
		if errors.Is(err, tensorfile.ErrUnknownFormat) && isRTenName(in.path) {
			told := *opts
			told.Format = tensorfile.RTen
			in.File, err = tensorfile.Open(in.path, &told)
		}
	}
	if err == nil && in.dir == nil {
		err = a.openShards(in)
	}
	var named *tensorfile.FileError
	if errors.As(err, &named) && named.Name == name {
		err = named.Err // the message begins with the name
	}
	if info, e := os.Stat(in.path); err != nil && e == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		err = advise("- in its place, with the pipe as standard input", err)
	}
	if err != nil {
		if in.dir != nil {
			in.dir.Close()
		}
		return nil, a.explain(in, err)
	}
	if err := a.reinterpret(in); err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// openShards opens all shards of a .gguf if the input is the first.
func (a *app) openShards(in *input) error {
	path := cmp.Or(in.path, in.name)
	if a.recursive && (in.path != "" || storeScheme(in.name) != "") { // the rest is listed
		return nil
	}
	in.part = partOf(path, in.File)
	if in.Format() != tensorfile.GGUF || in.part == "" {
		return nil
	}
	names, count := convert.Shards(path, in.File)
	if len(names) < count || a.single || in.path == "" && !isAddress(in.name) {
		return nil
	}
	if isAddress(in.name) {
		return a.openRemoteShards(in, names)
	}
	for _, name := range names {
		if _, err := os.Stat(name); err != nil {
			in.part += noShard(name)
			return nil
		}
	}
	in.part = ""
	in.File.Close()
	return a.openDirectory(in, in.path, "")
}

// shardNames returns the names of all shards of a .gguf, given the name of the first; nil
// for other names.
func shardNames(name string) (names []string) {
	first, ok := naming.ParseShard(name)
	dir, isFirst := strings.CutSuffix(name, first.Name(1))
	if !ok || !isFirst || first.N < 2 || first.N > math.MaxUint16 ||
		tensorfile.ByName(name) != tensorfile.GGUF {
		return nil
	}
	for i := range first.N {
		names = append(names, dir+first.Name(i+1))
	}
	return names
}

// noShard returns a text that a shard of a model is missing.
func noShard(name string) string { return fmt.Sprintf("; there is no %q", baseName(name)) }

// partOf returns a sentence if a file is one of several files of a model, with the name
// that opens them all; else "".
func partOf(path string, f *tensorfile.File) string {
	if strings.EqualFold(filepath.Ext(path), ".distcp") {
		return "one file of a checkpoint of torch.distributed, which its directory opens"
	}
	_, count := convert.Shards(path, f)
	if count < 2 {
		return ""
	}
	text, stem := fmt.Sprintf("one of the %d files", count), "NAME"
	if s, ok := naming.ParseShard(filepath.ToSlash(path)); ok && s.N == count {
		text, stem = fmt.Sprintf("shard %d of %d", s.I, s.N), s.Stem
	}
	text += " of a model, all of which their directory opens"
	if f.Format() == tensorfile.GGUF {
		text += ", or the first, " + gguf.ShardName(stem, 0, count)
	}
	return text
}

// addReinterpret adds a value of --reinterpret.
func (a *app) addReinterpret(text string) (err error) {
	from, to, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%s is not FROM=TO", quote(text))
	}
	a.dtypes[from], err = tensor.ParseDType(to)
	return err
}

// reinterpret gives tensors the dtypes of --reinterpret.
func (a *app) reinterpret(in *input) (err error) {
	if len(a.dtypes) == 0 {
		return nil
	}
	all, changed := slices.Collect(in.Tensors()), false
	for i, t := range all {
		if d, ok := a.dtypes[t.DTypeName()]; ok {
			if all[i], err = tensor.Reinterpret(t, d); err != nil {
				return err
			}
			changed = true
		}
	}
	if changed {
		in.File = in.WithTensors(all)
	}
	return nil
}

// localName returns the path of a file:// address, and other names unchanged.
func localName(name string) (string, error) {
	if !strings.HasPrefix(name, "file://") {
		return name, nil
	}
	return localPath(name, runtime.GOOS)
}

// onDisk returns the path of a name. It fails if the name is the address of a server.
func onDisk(name string) (string, error) {
	if isAddress(name) {
		return "", onFile(name, wrong("a path on disk", "it is an address, not a path on disk"))
	}
	return localName(name)
}

// localPath returns the path of a file:// address on an operating system.
func localPath(address, goos string) (string, error) {
	isWindows := goos == "windows"
	if isWindows {
		address = strings.ReplaceAll(address, `\`, "/")
	}
	u, err := url.Parse(address)
	if err != nil || u.Path == "" || u.Host != "" && u.Host != "localhost" {
		return "", onFile(address, wrong("file:///PATH", "it is not the address of a local file"))
	}
	if !isWindows {
		return u.Path, nil
	}
	p := u.Path
	if len(p) > 2 && p[0] == '/' && p[2] == ':' {
		p = p[1:] // file:///C:/model.zt
	}
	return strings.ReplaceAll(p, "/", `\`), nil
}

// inMemory is the largest size of standard input that is held in memory. Larger input
// goes to a temporary file.
const inMemory = 64 << 20

// openStdin reads standard input to its end: almost no format can be read without
// seeking.
func (a *app) openStdin(in *input, opts *tensorfile.Options) error {
	if a.stdin.Swap(true) {
		return advise("a file for one of them", errStdinTwice)
	}
	from, end := interruptible(a.ctx, a.in)
	defer end()
	r := io.LimitReader(from, a.maxInput+1)
	var head bytes.Buffer
	n, err := io.CopyN(&head, r, inMemory)
	if err == io.EOF {
		if n > a.maxInput {
			return errInput(a.maxInput)
		}
		in.path, in.raw = "", bytes.NewReader(head.Bytes())
		in.File, err = tensorfile.OpenBytes(head.Bytes(), opts)
		return err
	}
	if err != nil {
		return err
	}
	f, err := os.CreateTemp("", "tensorfile-stdin-")
	if err != nil {
		return err
	}
	a.cleanup = append(a.cleanup, func() { f.Close(); os.Remove(f.Name()) })
	if _, err = f.Write(head.Bytes()); err != nil {
		return err
	}
	m, err := io.Copy(f, r)
	if err != nil {
		return err
	}
	if n+m > a.maxInput {
		return errInput(a.maxInput)
	}
	in.path = f.Name()
	in.File, err = tensorfile.Open(in.path, opts)
	return err
}

var errStdinTwice = errors.New("standard input can be read only once")

func errInput(limit int64) error {
	return fmt.Errorf("%w: standard input has more than %d bytes", tensor.ErrLimit, limit)
}

// interruptible returns a reader of r that fails when ctx is done, even if r blocks.
// After end, r is not read again; a read that has begun may still finish.
func interruptible(ctx context.Context, r io.Reader) (from io.Reader, end func()) {
	pr, pw := io.Pipe()
	stop := context.AfterFunc(ctx, func() { pw.CloseWithError(ctx.Err()) }) // unblocks both ends
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{pw}, struct{ io.Reader }{r},
			make([]byte, 256<<10))
		pw.CloseWithError(err)
	}()
	return pr, func() { stop(); pr.Close() }
}

// expandGlobs replaces each pattern that matches files by their names, unless a file has
// the pattern as its name.
func expandGlobs(args []string) []string {
	var all []string
	for _, arg := range args {
		names, err := filepath.Glob(arg)
		if _, there := os.Lstat(arg); err != nil || len(names) == 0 || there == nil {
			names = []string{arg}
		}
		all = append(all, names...)
	}
	return all
}

// inputs returns the files to read: the arguments, and with -r, in place of a directory,
// the tensor files in it.
func (a *app) inputs(args []string) []string {
	if runtime.GOOS == "windows" { // its shells do not expand patterns
		args = expandGlobs(args)
	}
	if !a.recursive {
		return args
	}
	var names []string
	for _, arg := range args {
		if isStorePrefix(arg) {
			below, err := a.storeInputs(arg)
			if err != nil {
				a.fail(arg, err)
			}
			names = append(names, below...)
			continue
		}
		info, err := os.Stat(arg)
		if arg == "-" || err != nil || !info.IsDir() {
			names = append(names, arg)
			continue
		}
		err = filepath.WalkDir(arg, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return onFile(name, err)
			}
			if a.ctx.Err() != nil {
				return a.ctx.Err()
			}
			if d.Type().IsRegular() && a.isTensorFile(name) {
				names = append(names, name)
			}
			return nil
		})
		if err != nil {
			a.fail(arg, err)
		}
	}
	return names
}

// isTensorFile reports whether -r lists a file: one with a known format or the extension
// of one. It also lists files that cannot be read, so that they are reported.
func (a *app) isTensorFile(name string) bool {
	if a.format != 0 {
		return true
	}
	f, err := os.Open(name)
	if err != nil {
		return true
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return true
	}
	_, err = tensorfile.Detect(f, info.Size())
	return !errors.Is(err, tensorfile.ErrUnknownFormat) || tensorfile.ByName(name) != 0 ||
		torch.Unpacked(name)
}

// isRTenName reports whether a name has the extension .rten. Version 1 has no magic
// number, so a damaged file is not detected by its content.
func isRTenName(name string) bool { return strings.EqualFold(filepath.Ext(name), ".rten") }

// An errorDocument is the JSON of a file that could not be read, with the fields of a
// finding.
type errorDocument struct {
	File   string    `json:"file"`
	Error  string    `json:"error"`
	Class  string    `json:"class,omitempty"` // "" if the file was not opened
	Offset knownSize `json:"offset,omitzero"`
	Field  string    `json:"field,omitempty"`
	outcome
}

// print prints nothing: the error was printed before.
func (*errorDocument) print(*app) {}

func errorOf(name string, err error) *errorDocument {
	f := tensor.FindingOf(err)
	return &errorDocument{File: name, Error: describe(f.Err), Class: string(f.Class),
		Offset: knownSize(f.Offset), Field: f.Field}
}
