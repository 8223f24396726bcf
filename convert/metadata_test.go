package convert

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/tensor"
)

// TestMetadataThatLlamaCppRefusesIsANamedLoss: it is left out of a .gguf, as a loss
// with a name, and what llama.cpp reads is kept without one.
func TestMetadataThatLlamaCppRefusesIsANamedLoss(t *testing.T) {
	for name, want := range map[string]struct {
		loss string // of attributes; "" for none
		key  string // that is kept
	}{
		"nested":   {"an array of arrays", ""},
		"emptykey": {"a key of 0 bytes", ""},
		"align1":   {"1 is not a multiple of 8", ""},
		"badtok":   {"", "tokenizer.ggml.tokens"},
		"no_arch":  {"", ""},
	} {
		f, err := tensorfile.Open(filepath.Join("..", "testdata", "gguf", "warned", name+".gguf"),
			nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		plan, err := NewPlan(t.Context(), f, tensorfile.GGUF, &Options{Allow: LossAll})
		if err != nil {
			t.Fatal(err)
		}
		losses := plan.Losses()
		if want.loss == "" && len(losses) > 0 || want.loss != "" && (len(losses) != 1 ||
			losses[0].Kind != LossAttributes || !strings.Contains(losses[0].String(), want.loss)) {
			t.Errorf("%s: %v", name, losses)
			continue
		}
		var out bytes.Buffer
		if err := plan.Write(t.Context(), &out); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r, err := gguf.OpenBytes(out.Bytes(), nil)
		if err != nil {
			t.Fatal(name, err)
		}
		report, _ := r.Verify(t.Context(), nil)
		for _, finding := range report.Findings {
			if want.loss != "" && strings.Contains(finding.Err.Error(), want.loss) {
				t.Errorf("%s: %v", name, finding)
			}
		}
		if want.key != "" {
			got, _ := r.Value(want.key)
			before, _ := f.Sys().(*gguf.Reader).Value(want.key)
			if got.String() != before.String() {
				t.Errorf("%s: %s is %s", name, want.key, got)
			}
		}
	}
}

// TestStringsThatAreNotUTF8AreANamedLoss: CBOR has no such text, so that the loss is
// named.
func TestStringsThatAreNotUTF8AreANamedLoss(t *testing.T) {
	f, err := tensorfile.Open(filepath.Join("..", "testdata", "gguf", "warned", "badtok.gguf"),
		nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, target := range []tensorfile.Format{tensorfile.ZTensor, tensorfile.Safetensors} {
		plan, err := NewPlan(t.Context(), f, target, &Options{Allow: LossAll})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, l := range plan.Losses() {
			found = found || l.Kind == LossAttributes &&
				strings.Contains(l.Field, "tokenizer.ggml.tokens")
		}
		if !found {
			t.Errorf("%v: %v", target, plan.Losses())
		}
		var out bytes.Buffer
		if err := plan.Write(t.Context(), &out); err != nil {
			t.Fatal(target, err)
		}
		g, err := tensorfile.OpenBytes(out.Bytes(), nil)
		if err != nil {
			t.Fatal(target, err)
		}
		for k, v := range g.Attributes() {
			if k == "tokenizer.ggml.tokens" && v != `["<s>",{"$bytes":"80"},{"$bytes":"ff"},"a"]` {
				t.Errorf("%v: %s", target, v)
			}
		}
		if x := g.Tensor("v"); x == nil || x.DType != tensor.F32 {
			t.Errorf("%v: %v", target, x)
		}
	}
}
