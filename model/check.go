package model

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tensorfile/tensorfile/tensor"
)

// CheckOptions say how much Check reads. nil is the zero value: names, sizes, links,
// indexes and headers.
type CheckOptions struct {
	// Deep reads every weights file, and every file that has a digest in a cache, in a
	// stored listing or in Manifest, and compares.
	Deep bool
	// Values looks for NaN, infinities, and tensors of one value.
	Values bool
	// Manifest lists files: the output of sha256sum, or the JSON of a repository's tree
	// on Hugging Face's Hub. Its paths are relative to the directory. Without Deep,
	// names and sizes are compared, and of a Repository the digests that it knows.
	Manifest []byte
	// Progress, if not nil, is called now and then with the bytes read so far and in
	// all, by one goroutine at a time.
	Progress func(done, total int64)
	// Open is for the function Check.
	Open *Options
}

// A Report lists what Check found. Its JSON is the output of tensorfile check --json.
type Report struct {
	OK         bool   `json:"ok"`   // no errors
	Kind       string `json:"kind"` // directory, hf-snapshot or hub
	Repository string `json:"repository,omitempty"`
	Commit     string `json:"commit,omitempty"`
	Deep       bool   `json:"deep"`
	Values     bool   `json:"values"`
	Shards     int    `json:"shards"`
	Figures
	Sets     []*Set    `json:"sets"`
	Config   *Config   `json:"config,omitempty"`
	Read     Read      `json:"read"`
	Findings []Finding `json:"findings"` // by file, code and tensor
}

// Err returns nil when there are only warnings, else an error that wraps the errors of
// all findings that are errors.
func (r *Report) Err() error {
	var errs []error
	for _, f := range r.Findings {
		if f.Severity == tensor.SeverityError {
			errs = append(errs, &findingError{f})
		}
	}
	return errors.Join(errs...)
}

type findingError struct{ f Finding }

func (e *findingError) Error() string { return "model: " + e.f.String() }
func (e *findingError) Unwrap() error { return e.f.Err }

// Check opens a directory, checks it and closes it.
func Check(ctx context.Context, dir string, opts *CheckOptions) (*Report, error) {
	var o *Options
	if opts != nil {
		o = opts.Open
	}
	m, err := Open(dir, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.Check(ctx, opts)
}

// Check reports the findings of Open and what opts add. The error is Report.Err
// or the error of ctx; there is a Report unless ctx ended.
func (m *Model) Check(ctx context.Context, opts *CheckOptions) (*Report, error) {
	var o CheckOptions
	if opts != nil {
		o = *opts
	}
	found := findings{n: m.found.n, list: slices.Clone(m.found.list)}
	expected := maps.Clone(m.listing)
	if o.Manifest != nil {
		manifest := parseManifest(o.Manifest, "the manifest")
		found.add(m.checkManifest(manifest)...)
		if m.repository != nil && !o.Deep { // which compares with the files themselves
			found.add(m.compareDigests(manifest.files)...)
		}
		if expected == nil {
			expected = listing{}
		}
		for name, list := range manifest.files {
			expected[name] = slices.Concat(expected[name], list)
		}
	}
	for _, s := range m.primary() {
		found.add(m.checkWeights(s)...)
	}
	read := m.read
	if o.Deep || o.Values {
		if err := m.checkData(ctx, &o, expected, &found, &read); err != nil {
			return nil, err
		}
	}
	r := m.report(&o, &read)
	r.Findings = found.sorted()
	err := r.Err()
	r.OK = err == nil
	return r, err
}

func (m *Model) report(o *CheckOptions, read *Read) *Report {
	s := m.Summary()
	r := &Report{Kind: "directory", Deep: o.Deep, Values: o.Values, Shards: s.Shards,
		Figures: figuresOf(s.Summary, m.File()), Sets: slices.Clone(m.sets),
		Config: m.Config(), Read: *read}
	if m.cache != nil {
		r.Kind, r.Repository, r.Commit = "hf-snapshot", m.cache.repository, m.cache.commit
	}
	if m.repository != nil {
		r.Kind = "hub"
		r.Repository, r.Commit = m.repository.Repository()
	}
	r.StoredElements = s.StoredElements
	for i, set := range r.Sets {
		counted := *set
		counted.Parameters, _ = set.found().Parameters()
		r.Sets[i] = &counted
	}
	if r.Sets == nil {
		r.Sets = []*Set{}
	}
	return r
}

// checkManifest compares names and sizes with a manifest.
func (m *Model) checkManifest(l *manifest) (found []Finding) {
	for _, err := range l.problems {
		found = append(found, findingOf(ManifestMalformed, "", err))
	}
	for _, name := range slices.Sorted(maps.Keys(l.files)) {
		if e := m.look(name); e.missing() && !e.dangling() {
			f := finding(ManifestMissing, name, "", "in the manifest")
			if l.tree { // the whole repository, of which patterns fetch a part
				f.Severity = tensor.SeverityWarning
			}
			found = append(found, f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.entries)) {
		if m.entries[name].regular && l.files[name] == nil && (isWeights(name) || isIndex(name)) {
			found = append(found, finding(ManifestExtra, name, "", "not in the manifest"))
		}
	}
	known := map[string]bool{}
	for _, f := range m.found.list {
		known[f.File] = known[f.File] || f.Code == SizeMismatch
	}
	for _, f := range m.sizes(l.files) {
		if !known[f.File] {
			found = append(found, f)
		}
	}
	return found
}
