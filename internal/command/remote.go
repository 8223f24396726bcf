package command

import (
	"errors"
	"io/fs"
	"net/textproto"
	"path"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/remote"
)

func isAddress(name string) bool {
	return strings.HasPrefix(name, "https://") || strings.HasPrefix(name, "http://") || remote.IsHub(name)
}

// remoteHint is hint for what is behind an address.
func remoteHint(name string, err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "check the address"
	case errors.Is(err, fs.ErrPermission) && remote.IsHub(name):
		return "HF_TOKEN=…, of a user who may read the repository"
	case errors.Is(err, fs.ErrPermission):
		return `--header "Authorization: Bearer …"`
	case errors.Is(err, remote.ErrNoRanges):
		return "curl -L ADDRESS | tensorfile COMMAND -"
	case outside(err):
		return "check the address and the network, or try later"
	}
	return hint(err)
}

// openRemote opens a file by its address, or the primary set of a repository by its own. Of
// either only what is read is fetched.
func (a *app) openRemote(in *input, opts *tensorfile.Options) error {
	o, err := a.remoteOptions(in.name)
	if err != nil {
		return err
	}
	isFile := true
	if remote.IsHub(in.name) {
		name, err := remote.HubPath(in.name)
		if err != nil {
			return err
		}
		isFile = path.Ext(name) != "" // others are directories
	}
	if !isFile {
		m, err := a.openRepository(in.name)
		if err != nil {
			return err
		}
		a.cleanup = append(a.cleanup, func() { m.Close() })
		if _, err := primarySet(m); err != nil {
			return err
		}
		in.File, in.path = m.File(), ""
		return nil
	}
	r, err := remote.Open(a.ctx, in.name, o)
	if err != nil {
		return err
	}
	f, err := tensorfile.NewReader(r, r.Size(), opts)
	if err != nil {
		r.Close()
		return err
	}
	in.File, in.path, in.raw = f, "", r
	return nil
}

// openRepository opens a repository of the Hub, or a directory in one, as a model.
func (a *app) openRepository(address string) (*model.Model, error) {
	o, err := a.remoteOptions(address)
	if err != nil {
		return nil, err
	}
	r, err := remote.OpenRepository(a.ctx, address, o)
	if err != nil {
		return nil, err
	}
	a.cleanup = append(a.cleanup, func() { r.Close() })
	return model.OpenFS(r, ".", &model.Options{Limits: a.limits})
}

func (a *app) remoteOptions(address string) (*remote.Options, error) {
	header, err := a.headers()
	if err != nil {
		return nil, err
	}
	o := &remote.Options{Header: header, MaxBytes: a.maxInput, PublicOnly: a.publicOnly}
	if remote.IsHub(address) {
		o.HF, err = remote.HFFromEnv()
	}
	return o, err
}

// headers are those that --header gives, for the host of the address only.
func (a *app) headers() (map[string][]string, error) {
	if len(a.header) == 0 {
		return nil, nil
	}
	h := map[string][]string{}
	for _, line := range a.header {
		k, v, ok := strings.Cut(line, ":")
		if !ok {
			return nil, wrong(`--header "Authorization: Bearer …"`, "--header %s has no colon", quote(line))
		}
		k = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(k))
		h[k] = append(h[k], strings.TrimSpace(v))
	}
	return h, nil
}
