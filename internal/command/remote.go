package command

import (
	"errors"
	"io/fs"
	"net/textproto"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/remote"
)

func isAddress(name string) bool {
	return strings.HasPrefix(name, "https://") || strings.HasPrefix(name, "http://")
}

// remoteHint is hint for what is behind an address.
func remoteHint(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "check the address"
	case errors.Is(err, fs.ErrPermission):
		return `--header "Authorization: Bearer …"`
	case errors.Is(err, remote.ErrNoRanges):
		return "curl -L ADDRESS | tensorfile COMMAND -"
	case outside(err):
		return "check the address and the network, or try later"
	}
	return hint(err)
}

// openRemote opens a file by its address, of which only what is looked at is
// fetched.
func (a *app) openRemote(in *input, opts *tensorfile.Options) error {
	header, err := a.headers()
	if err != nil {
		return err
	}
	r, err := remote.Open(a.ctx, in.name, &remote.Options{Header: header, MaxBytes: a.maxInput, PublicOnly: a.publicOnly})
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
