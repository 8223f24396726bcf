package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// HF says how addresses of Hugging Face's Hub are reached:
//
//	hf://[models/|datasets/|spaces/]ORG/NAME[@REVISION][/PATH]
//
// as huggingface_hub writes them. The zero value is the public Hub, without a token.
type HF struct {
	// Endpoint is the address of the Hub; "" is https://huggingface.co.
	Endpoint string
	// Token goes to the host of Endpoint, and to no other.
	Token string
}

// HFFromEnv returns what huggingface_hub takes from the environment: HF_ENDPOINT, and
// the token of HF_TOKEN, HUGGING_FACE_HUB_TOKEN or the file HF_TOKEN_PATH
// ($HF_HOME/token), which HF_HUB_DISABLE_IMPLICIT_TOKEN turns off. A file that is
// absent is no error.
func HFFromEnv() (HF, error) {
	hf := HF{Endpoint: os.Getenv("HF_ENDPOINT")}
	switch strings.ToUpper(os.Getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
	case "1", "ON", "YES", "TRUE":
		return hf, nil
	}
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if hf.Token = cleanToken(os.Getenv(name)); hf.Token != "" {
			return hf, nil
		}
	}
	file := os.Getenv("HF_TOKEN_PATH")
	if file == "" {
		home := os.Getenv("HF_HOME")
		if home == "" {
			cache := os.Getenv("XDG_CACHE_HOME")
			if cache == "" {
				user, err := os.UserHomeDir()
				if err != nil {
					return hf, nil
				}
				cache = filepath.Join(user, ".cache")
			}
			home = filepath.Join(cache, "huggingface")
		}
		file = filepath.Join(home, "token")
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return hf, nil
	}
	if err != nil {
		return hf, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxToken))
	hf.Token = cleanToken(string(b))
	return hf, err
}

// maxToken is more than a token has bytes.
const maxToken = 4 << 10

func cleanToken(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' {
			return -1
		}
		return r
	}, strings.TrimSpace(s))
}

// hubAddress is a parsed hf:// address.
type hubAddress struct {
	kind     string // models, datasets or spaces
	name     string // ORG/NAME
	revision string // "" is main
	path     string // "" is the root
}

// IsHub reports whether an address is one of Hugging Face's Hub.
func IsHub(address string) bool { return strings.HasPrefix(address, "hf://") }

// HubPath returns the path within the repository that an address of the Hub names, ""
// for the repository itself.
func HubPath(address string) (string, error) {
	a, err := parseHub(address)
	return a.path, err
}

// parseHub takes an address apart. A revision ends at the next slash, except refs/pr/N
// and refs/convert/NAME; an @ in a later element belongs to the path.
func parseHub(address string) (a hubAddress, err error) {
	bad := func(why string) (hubAddress, error) {
		return a, fmt.Errorf("remote: %s: %s: hf://ORG/NAME[@REVISION][/PATH]",
			naming.Quote(address), why)
	}
	rest, ok := strings.CutPrefix(address, "hf://")
	if !ok {
		return bad("not an address of the Hub")
	}
	a.kind = "models"
	for _, kind := range []string{"models", "datasets", "spaces"} {
		if after, ok := strings.CutPrefix(rest, kind+"/"); ok {
			a.kind, rest = kind, after
			break
		}
	}
	rest = strings.TrimSuffix(rest, "/")
	org, rest, ok := strings.Cut(rest, "/")
	if !ok {
		return bad("no organisation")
	}
	name, rest, _ := strings.Cut(rest, "/")
	name, revision, at := strings.Cut(name, "@")
	if at && revision == "refs" {
		parts := strings.SplitN(rest, "/", 3)
		if len(parts) < 2 || parts[0] != "pr" && parts[0] != "convert" || parts[1] == "" {
			return bad("a reference that is neither refs/pr/N nor refs/convert/NAME")
		}
		revision, rest = "refs/"+parts[0]+"/"+parts[1], strings.Join(parts[2:], "/")
	}
	if revision, err = url.PathUnescape(revision); err != nil || at && revision == "" {
		return bad("no revision after @")
	}
	if !isHubName(org) || !isHubName(name) {
		return bad("not the name of a repository")
	}
	if rest != "" && !fs.ValidPath(rest) {
		return bad("a path with empty elements, . or ..")
	}
	a.name, a.revision, a.path = org+"/"+name, revision, rest
	return a, nil
}

// isHubName reports whether s can be an organisation or the name of a repository.
func isHubName(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > 96 {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
			strings.ContainsRune("-_.", r))
	})
}

// A hub is one repository of the Hub, at one commit, and the connection to it.
type hub struct {
	hubAddress
	endpoint *url.URL
	commit   string
	client   *Client
	ctx      context.Context
}

// openHub resolves the revision of an address, so that all requests see one state.
func openHub(ctx context.Context, address string, opts *Options) (*hub, error) {
	a, err := parseHub(address)
	if err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	h := &hub{hubAddress: a, ctx: ctx}
	endpoint := cmp.Or(o.HF.Endpoint, "https://huggingface.co")
	if h.endpoint, err = url.Parse(strings.TrimRight(endpoint, "/")); err != nil {
		return nil, errors.New("remote: the address of the Hub cannot be understood")
	}
	if t := o.HF.Token; t != "" && o.Header.Get("Authorization") == "" {
		if o.Header = o.Header.Clone(); o.Header == nil {
			o.Header = http.Header{}
		}
		o.Header.Set("Authorization", "Bearer "+t)
	}
	if h.client, err = NewClient(&o); err != nil {
		return nil, err
	}
	if isCommit(a.revision) {
		h.commit = a.revision
		return h, nil
	}
	revision := a.revision
	if revision == "" {
		revision = "main"
	}
	b, _, err := h.get("revision", url.PathEscape(revision), "", maxRevision)
	if err != nil {
		h.client.Close()
		return nil, err
	}
	var info struct {
		SHA string `json:"sha"`
	}
	if err := json.Unmarshal(b, &info); err != nil || !isCommit(info.SHA) {
		h.client.Close()
		return nil, fmt.Errorf("remote: %s: %w: the Hub names no commit", naming.Quote(address),
			tensor.ErrMalformed)
	}
	h.commit = info.SHA
	return h, nil
}

// maxRevision bounds the Hub's description of a repository, which lists its files.
const maxRevision = 64 << 20

func isCommit(s string) bool {
	return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == ""
}

// get asks the Hub's API about the repository. rest and query are escaped already.
func (h *hub) get(what, rest, query string, limit int64) ([]byte, http.Header, error) {
	u := *h.endpoint
	raw := path.Join("/", u.EscapedPath(), "api", h.kind, h.name, what) + "/" + rest
	var err error
	if u.Path, err = url.PathUnescape(raw); err != nil {
		return nil, nil, errors.New("remote: the address cannot be understood")
	}
	u.RawPath, u.RawQuery = raw, query
	return h.client.Fetch(h.ctx, u.String(), limit)
}

// url returns the address of a file of the repository.
func (h *hub) url(name string) *url.URL {
	u := *h.endpoint
	kind := h.kind
	if kind == "models" {
		kind = ""
	}
	u.Path = path.Join("/", u.Path, kind, h.name, "resolve", h.commit, name)
	u.RawPath = ""
	return &u
}

// open opens a file of the repository. Its size is the size in the listing, -1 if there
// is none.
func (h *hub) open(name string, size int64) (*Reader, error) {
	r, err := h.client.readerOf(h.ctx, h.url(name))
	if err != nil {
		return nil, err
	}
	r.linked = size
	if err := r.first(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}
