package main

import (
	"net/textproto"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/remote"
)

// openRemote opens a file by its address, of which only what is looked at is
// fetched.
func (a *app) openRemote(in *input, opts *tensorfile.Options) error {
	header, err := a.headers()
	if err != nil {
		return err
	}
	r, err := remote.Open(a.ctx, in.name, &remote.Options{Header: header, MaxBytes: a.maxInput})
	if err != nil {
		return err
	}
	o := *opts
	o.Companion = r.Companion
	f, err := tensorfile.NewReader(r, r.Size(), &o)
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
