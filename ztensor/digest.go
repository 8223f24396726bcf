package ztensor

import (
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// Digest says which checksum a writer puts next to each payload. In version 1 it covers
// the bytes as they are stored, after compression and without padding; in version 2 the
// bytes before compression.
type Digest = core.Digest

const (
	NoDigest = core.NoDigest
	CRC32C   = core.CRC32C // finds accidents; costs next to nothing
	SHA256   = core.SHA256 // also finds intent, as far as the manifest itself can be trusted
	XXH3     = core.XXH3   // of version 2, which has it for every part; finds accidents
)
