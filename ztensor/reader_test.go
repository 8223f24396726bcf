package ztensor

import (
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestFilesOfUpstreamReadAsUpstreamReadsThem(t *testing.T) {
	for _, g := range goldens(t, version1...) {
		t.Run(g.name, func(t *testing.T) {
			api.Each(t, g.data, func(t *testing.T, r *Reader) { compare(t, r, g.said) })
		})
	}
}

func TestFilesOfUpstreamVerify(t *testing.T) {
	for _, g := range goldens(t, version1...) {
		t.Run(g.name, func(t *testing.T) {
			api.Each(t, g.data, func(t *testing.T, r *Reader) {
				report, _ := r.Verify(t.Context(), nil)
				for _, f := range report.Findings {
					if f.Severity == tensor.SeverityWarning ||
						f.Class == tensor.ClassUnsupported &&
							strings.Contains(f.Field, "unknown type") {
						continue // a logical type of nobody's
					}
					t.Error(f)
				}
			})
		})
	}
}
