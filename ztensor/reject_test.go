package ztensor

import (
	"encoding/binary"
	"io"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	v2 "github.com/tensorfile/tensorfile/ztensor/internal/v2"
)

func FuzzVersion2(f *testing.F) {
	for _, g := range goldens(f, "2") {
		if len(g.data) < 1<<20 {
			f.Add(g.data)
		}
	}
	f.Add(goodCSR().file())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > v2.MinSize { // most mutations would only break the hash
			at, n := binary.LittleEndian.Uint64(b[len(b)-40:]),
				binary.LittleEndian.Uint64(b[len(b)-32:])
			if at < uint64(len(b)) && n <= uint64(len(b))-at {
				binary.LittleEndian.PutUint64(b[len(b)-24:], xxh3.Hash(b[at:at+n]))
			}
		}
		r, err := OpenBytes(b, &ReaderOptions{Limits: tensor.Limits{MaxDecoded: 1 << 20}})
		if err != nil {
			return
		}
		r.Verify(t.Context(), nil)
		r.ContentDigest(XXH3)
		r.CanonicalViolations(t.Context())
		for x := range r.Tensors() {
			if r.Tensor(x.Name) != x {
				t.Errorf("%q is not found", x.Name)
			}
			for _, p := range core.PayloadsOf(x) {
				if s, err := p.Blob().Open(); err == nil {
					io.Copy(io.Discard, io.LimitReader(s, 1<<20))
					s.Close()
				}
			}
		}
	})
}
