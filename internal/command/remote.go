package command

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/textproto"
	"net/url"
	"path"
	"strings"
	"sync"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/remote"
)

func isAddress(name string) bool {
	return isWeb(name) || isListable(name)
}

// isWeb reports whether a name is an address of a file on a server.
func isWeb(name string) bool {
	scheme, _, ok := strings.Cut(name, "://")
	return ok && (strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http"))
}

// withoutSecrets returns an address without the parts that may be secret: the user, and
// the query, which may have a signature. It returns other names unchanged.
func withoutSecrets(name string) string {
	if u, err := url.Parse(name); err == nil && isWeb(name) {
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		return u.String()
	}
	return name
}

// isListable reports whether a name is an address that may be one of a directory: of the
// Hub, or of an object store.
func isListable(name string) bool { return remote.IsHub(name) || storeScheme(name) != "" }

// storeScheme returns the scheme of an address of an object store, "" for other names.
func storeScheme(name string) string {
	scheme, _, ok := strings.Cut(name, "://")
	if ok && (scheme == "s3" || scheme == "gs" || scheme == "az") {
		return scheme
	}
	return ""
}

// isStorePrefix reports whether an address of an object store is a prefix, not an object:
// it ends with a slash, or has no key.
func isStorePrefix(name string) bool {
	_, rest, _ := strings.Cut(name, "://")
	return storeScheme(name) != "" &&
		(strings.HasSuffix(rest, "/") || !strings.Contains(rest, "/"))
}

// remoteHint is hint for errors of an address.
func remoteHint(name string, err error) string {
	switch {
	case errors.Is(err, fs.ErrExist), errors.As(err, new(advised)):
		return hint(err)
	case errors.Is(err, fs.ErrNotExist):
		return "check the address"
	case errors.Is(err, fs.ErrPermission) && remote.IsHub(name):
		return "HF_TOKEN=…, of a user who may read the repository"
	case errors.Is(err, fs.ErrPermission) && storeScheme(name) != "":
		return "credentials that may read it, as the tools of the store take them"
	case errors.Is(err, fs.ErrPermission):
		return `--header "Authorization: Bearer …"`
	case errors.Is(err, remote.ErrNotEncrypted):
		return "the https address, or curl -L ADDRESS | tensorfile COMMAND -"
	case errors.Is(err, remote.ErrNoRanges):
		return "curl -L ADDRESS | tensorfile COMMAND -"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "SSL_CERT_FILE=FILE, a file with the certificate of the authority that signed"
	case isSystemError(err):
		return "check the address and the network, or try later"
	}
	return hint(err)
}

// openRemote opens a file, or the primary set of a repository, by its address. Only the
// bytes that are read are fetched.
func (a *app) openRemote(in *input, opts *tensorfile.Options) error {
	isFile := !isStorePrefix(in.name)
	if remote.IsHub(in.name) {
		name, err := remote.HubPath(in.name)
		if err != nil {
			return err
		}
		isFile = path.Ext(name) != "" // others are directories
	}
	if !isFile {
		m, err := a.openRemoteModel(in.name)
		if err != nil {
			return err
		}
		_, err = in.take(m)
		return err
	}
	r, size, err := a.openAddress(in.name)
	if err != nil {
		return err
	}
	f, err := tensorfile.NewReader(r, size, opts)
	in.raw = r
	if err != nil {
		err = a.explain(in, err)
		if c, ok := r.(io.Closer); ok {
			c.Close()
		}
		in.raw = nil
		return err
	}
	in.File, in.path = f, ""
	return nil
}

// openRemoteShards opens the shards of a .gguf at addresses, names, in place of the
// first.
func (a *app) openRemoteShards(in *input, names []string) error {
	shards := &shardStore{a: a, names: names}
	m, err := shards.model()
	if errors.Is(err, fs.ErrNotExist) {
		in.part += noShard(names[len(shards.files)])
		return nil
	} else if err != nil {
		return err
	}
	if c, ok := in.raw.(io.Closer); ok {
		c.Close()
	}
	in.raw, in.part = nil, ""
	_, err = in.take(m)
	return err
}

// checkedShards opens the shards of a .gguf at an address whose name is the name of the
// first, as many as there are, to be checked. It is false for other names.
func (a *app) checkedShards(name string) (m *model.Model, ok bool, err error) {
	names := shardNames(name)
	if len(names) == 0 || !isAddress(name) {
		return nil, false, nil
	}
	m, err = (&shardStore{a: a, names: names, isPartial: true}).model()
	return m, true, err
}

// A shardStore lists the shards of a model at addresses that cannot be listed.
type shardStore struct {
	a         *app
	names     []string
	isPartial bool // shards after the first may be missing
	files     map[string]*io.SectionReader
}

// model opens the shards as a model.
func (s *shardStore) model() (*model.Model, error) {
	s.files = map[string]*io.SectionReader{}
	dir := s.names[0][:strings.LastIndexByte(s.names[0], '/')]
	files, err := remote.OpenFS(s.a.ctx, s, dir)
	if err != nil {
		return nil, err
	}
	return model.OpenFS(files, ".", &model.Options{Limits: s.a.limits})
}

// List opens the shards, until the app is closed, and yields them.
func (s *shardStore) List(context.Context, string) iter.Seq2[remote.Entry, error] {
	return func(yield func(remote.Entry, error) bool) {
		for i, name := range s.names {
			r, size, err := s.a.openAddress(name)
			if s.isPartial && i > 0 && errors.Is(err, fs.ErrNotExist) {
				continue
			} else if err != nil {
				yield(remote.Entry{}, err)
				return
			}
			if c, ok := r.(io.Closer); ok {
				s.a.cleanup = append(s.a.cleanup, func() { c.Close() })
			}
			s.files[name] = io.NewSectionReader(r, 0, size) // which no file closes
			if !yield(remote.Entry{Address: name, Size: size}, nil) {
				return
			}
		}
	}
}

// Open returns a shard that is listed.
func (s *shardStore) Open(_ context.Context, name string) (io.ReaderAt, int64, error) {
	r, ok := s.files[name]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return r, r.Size(), nil
}

// openAddress opens the file at an address. Its result may be an io.Closer.
func (a *app) openAddress(address string) (r io.ReaderAt, size int64, err error) {
	if storeScheme(address) != "" {
		store, err := a.store(address)
		if err != nil {
			return nil, 0, err
		}
		r, size, err = store.Open(a.ctx, address)
		if err != nil {
			return nil, 0, err
		}
	} else {
		o, err := a.remoteOptions(address)
		if err != nil {
			return nil, 0, err
		}
		file, err := remote.Open(a.ctx, address, o)
		if err != nil {
			return nil, 0, err
		}
		r, size = file, file.Size()
	}
	if counted, ok := r.(interface{ Stats() remote.Stats }); ok {
		a.counted = append(a.counted, counted)
	}
	return r, size, nil
}

// openRemoteModel opens a repository of the Hub, a directory in one, or a prefix of an
// object store as a model.
func (a *app) openRemoteModel(address string) (*model.Model, error) {
	o := &model.Options{Limits: a.limits}
	if storeScheme(address) != "" {
		store, err := a.store(address)
		if err != nil {
			return nil, err
		}
		objects, err := remote.OpenFS(a.ctx, store, address)
		if err != nil {
			return nil, err
		}
		return model.OpenFS(objects, ".", o)
	}
	options, err := a.remoteOptions(address)
	if err != nil {
		return nil, err
	}
	r, err := remote.OpenRepository(a.ctx, address, options)
	if err != nil {
		return nil, err
	}
	a.cleanup = append(a.cleanup, func() { r.Close() })
	return model.OpenFS(r, ".", o)
}

// stores are the object stores of a run.
type stores struct {
	mu       sync.Mutex
	byScheme map[string]remote.Opener
}

// store returns the Opener for the object store of an address.
func (a *app) store(address string) (remote.Opener, error) {
	scheme := storeScheme(address)
	a.stores.mu.Lock()
	defer a.stores.mu.Unlock()
	if o := a.stores.byScheme[scheme]; o != nil {
		return o, nil
	}
	open := a.openers[scheme]
	if open == nil {
		return nil, advise(
			"the program of the release archives, which is built with package cloud",
			fmt.Errorf("%w: %s:// in this build", errors.ErrUnsupported, scheme))
	}
	options, err := a.remoteOptions(address)
	if err != nil {
		return nil, err
	}
	o, err := open(options)
	if err != nil {
		return nil, err
	}
	if a.stores.byScheme == nil {
		a.stores.byScheme = map[string]remote.Opener{}
	}
	a.stores.byScheme[scheme] = o
	return o, nil
}

// mayCreate fails if an object exists and --force is not set.
func (a *app) mayCreate(name string, o *outputs) error {
	if isStorePrefix(name) {
		return wrong("an object", "%s is not an object", quote(name))
	}
	if o.force {
		return nil
	}
	store, err := a.store(name)
	if err != nil {
		return onFile(name, err)
	}
	r, _, err := store.Open(a.ctx, name)
	switch {
	case err == nil:
		if c, ok := r.(io.Closer); ok {
			c.Close()
		}
		return onFile(name, &atomicfile.Error{Name: name, Err: fs.ErrExist})
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return onFile(name, err)
}

// create begins a file, or an object of a store, which appears whole or not at all.
func (a *app) create(name string, o *outputs) (remote.ObjectWriter, error) {
	if storeScheme(name) == "" {
		return atomicfile.Create(name)
	}
	store, err := a.store(name)
	if err != nil {
		return nil, err
	}
	c, ok := store.(remote.Creator)
	if !ok {
		return nil, fmt.Errorf("%w: writing to %s://", errors.ErrUnsupported, storeScheme(name))
	}
	return c.Create(a.ctx, name, o.force)
}

// storeInputs returns the objects below a prefix whose names have the extension of a
// tensor file.
func (a *app) storeInputs(prefix string) (names []string, err error) {
	store, err := a.store(prefix)
	if err != nil {
		return nil, err
	}
	for e, err := range store.List(a.ctx, strings.TrimSuffix(prefix, "/")+"/") {
		if err != nil {
			return names, err
		}
		if a.format != 0 || tensorfile.ByName(e.Address) != 0 {
			names = append(names, e.Address)
		}
	}
	return names, nil
}

func (a *app) remoteOptions(address string) (o *remote.Options, err error) {
	o = &remote.Options{Header: map[string][]string(a.header), MaxBytes: a.maxInput,
		PublicOnly: a.publicOnly, InFlight: a.inFlight}
	if remote.IsHub(address) {
		o.HF, err = remote.HFFromEnv()
	}
	return o, err
}

// A headerFlag collects header lines. They are sent only to the host of an address.
type headerFlag map[string][]string

func (h *headerFlag) String() string { return "" }
func (h *headerFlag) Type() string   { return "string" }

func (h *headerFlag) Set(line string) error {
	k, v, ok := strings.Cut(line, ":")
	if !ok {
		return errors.New(`there is no colon, as in "Authorization: Bearer …"`)
	}
	if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return errors.New("there is a control character")
	}
	if *h == nil {
		*h = headerFlag{}
	}
	textproto.MIMEHeader(*h).Add(strings.TrimSpace(k), strings.TrimSpace(v))
	return nil
}
