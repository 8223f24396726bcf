package ztensor

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestAttacksOnOpeningAreRefusedOrWarned(t *testing.T) {
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			opts := &ReaderOptions{Strict: a.strict}
			for _, f := range []func() (*Reader, error){
				func() (*Reader, error) { return OpenBytes(readtest.WithCanary(a.data), opts) },
				func() (*Reader,
					error) {
					return NewReader(bytes.NewReader(a.data), int64(len(a.data)), opts)
				},
			} {
				r, err := f()
				if a.want == nil {
					if err != nil {
						t.Fatal(err)
					}
					walk(t, r)
					warned := slices.ContainsFunc(r.Warnings(), func(err error) bool {
						return strings.Contains(tensor.FindingOf(err).Field, a.field)
					})
					if warned != a.warns || len(r.Warnings()) > 0 != a.warns {
						t.Errorf("warnings %v, want one of %q", r.Warnings(), a.field)
					}
					continue
				}
				var fe *tensor.FormatError
				if !errors.Is(err, a.want) || !errors.As(err, &fe) {
					t.Fatalf("%v, want %v", err, a.want)
				}
				if !strings.Contains(fe.Field, a.field) {
					t.Errorf("field %q, want %q", fe.Field, a.field)
				}
				if fe.Offset < 0 || fe.Offset > int64(len(a.data)) {
					t.Errorf("offset %d of a file of %d bytes", fe.Offset, len(a.data))
				}
				if fe.Format != "ztensor" || len(err.Error()) > 1000 {
					t.Errorf("%.300v", err)
				}
			}
		})
	}
}
