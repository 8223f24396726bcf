package model

import (
	"cmp"
	"io/fs"
	"maps"
	"slices"
)

// A Repository is a file system that knows which commit of which repository it is, and
// the digests of its files, as remote.Repository does. OpenFS takes it for a model of
// kind hub: Check compares a manifest with these digests; with Deep it compares the files
// with them, too.
type Repository interface {
	fs.FS
	// Repository returns ORG/NAME and the commit.
	Repository() (name, commit string)
	// Digest returns the SHA-256 of a file, or git's SHA-1 over "blob SIZE\x00" and the
	// content, in hexadecimal; "" where it is not known.
	Digest(name string) (sha256, git string)
}

// digests returns what the repository says of its files.
func (d *directory) digests() listing {
	all := listing{}
	for name, e := range d.entries {
		if sha256, git := d.repository.Digest(d.path(name)); e.regular {
			all.add(name, expect("the repository", -1, cmp.Or(sha256, git)))
		}
	}
	return all
}

// compareDigests compares a manifest with the digests of the repository, without reading.
func (d *directory) compareDigests(l listing) (found []Finding) {
	for _, name := range slices.Sorted(maps.Keys(l)) {
		sha256, git := d.repository.Digest(d.path(name))
		for _, x := range l[name] {
			got, want := sha256, x.sha256
			if want == "" {
				got, want = git, x.sha1
			}
			if got != "" && want != "" && got != want {
				found = append(found, finding(DigestMismatch, name, "",
					"%s in the repository where %s says %s", got, x.by, want))
				break
			}
		}
	}
	return found
}
