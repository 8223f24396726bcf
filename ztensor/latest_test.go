package ztensor

import (
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestFilesOfVersion2ReadAsUpstreamReadsThem(t *testing.T) {
	for _, g := range goldens(t, "2") {
		t.Run(g.name, func(t *testing.T) {
			if len(g.Shards) > 0 { // these are found from a place
				r, err := Open("../testdata/ztensor/"+g.name+".zt", nil)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				compare(t, r, g.said)
				i := 0
				for s := range r.Shards() {
					if w := g.Shards[i]; s.Name != w.Name || s.Size != w.Size ||
						s.Digest != w.Digest {
						t.Errorf("shard %+v, want %+v", s, w)
					}
					i++
				}
				return
			}
			api.Each(t, g.data, func(t *testing.T, r *Reader) { compare(t, r, g.said) })
		})
	}
}

func TestStrictReadersTakeFilesOfVersion2(t *testing.T) {
	for _, g := range goldens(t, "2") {
		r, err := Open("../testdata/ztensor/"+g.name+".zt", &ReaderOptions{Strict: true})
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		for ten := range r.Tensors() {
			if _, err := tensor.View[uint8](ten); err != nil && ten.DType == tensor.U8 &&
				ten.Dense() {
				if st, _ := ten.Data.Stored(); st.Encoding == "raw" && st.Size > 0 {
					t.Errorf("%s: %v", g.name, err)
				}
			}
		}
		r.Close()
	}
}

func TestFilesOfVersion2VerifyAndHaveUpstreamsIdentity(t *testing.T) {
	for _, g := range goldens(t, "2") {
		t.Run(g.name, func(t *testing.T) {
			r, err := Open("../testdata/ztensor/"+g.name+".zt", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if report, err := r.Verify(t.Context(),
				&tensor.VerifyOptions{Strict: true}); err != nil {
				for _, f := range report.Findings {
					t.Error(f)
				}
			}
			if got, err := r.ContentDigest(SHA256); err != nil || got != g.ContentDigest {
				t.Errorf("content %s, %v, want %s", got, err, g.ContentDigest)
			}
			found, err := r.CanonicalViolations(t.Context())
			if err != nil || len(found) == 0 != (len(g.CanonicalViolations) == 0) {
				t.Errorf("%v, upstream says %q, %v", found, g.CanonicalViolations, err)
			}
			_, err = r.Verify(t.Context(), &tensor.VerifyOptions{Depth: tensor.VerifyCanonical})
			if err == nil != (len(g.CanonicalViolations) == 0) {
				t.Errorf("verify: %v", err)
			}
		})
	}
}
