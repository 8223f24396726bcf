package command

import (
	"bytes"
	"context"
	"github.com/tensorfile/tensorfile/inspect"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

// browser finds a Chromium, or skips.
func browser(t *testing.T) string {
	if name := os.Getenv("CHROMIUM"); name != "" {
		return name
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium here: CHROMIUM names one")
	return ""
}

// page makes a report and returns the document as it is after its script ran.
func page(t *testing.T, chromium, file, hash string) string {
	out := filepath.Join(t.TempDir(), "report.html")
	var stderr bytes.Buffer
	if s := run(t.Context(), []string{"report", file, "-o", out}, nil, &stderr, &stderr,
		os.Getenv); s != 0 {
		t.Fatal(s, stderr.String())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu",
		"--user-data-dir="+t.TempDir(),
		"--dump-dom", "file://"+out+hash)
	dom, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(dom, []byte(`data-ready="yes"`)) {
		t.Fatalf("the script did not come to its end:\n%.2000s", dom)
	}
	return string(dom)
}

func TestReportInABrowser(t *testing.T) {
	chromium := browser(t)
	cells := func(dom string) []string { // the first of each row of the table
		_, dom, _ = strings.Cut(dom, `<table id="table">`)
		dom, _, _ = strings.Cut(dom, "</table>")
		var all []string
		for _, m := range regexp.MustCompile(`<tr><td>([^<]*)</td>`).FindAllStringSubmatch(dom,
			-1) {
			all = append(all, m[1])
		}
		return all
	}
	t.Run("sorted and filtered by the address", func(t *testing.T) {
		dom := page(t, chromium, "../../testdata/safetensors/many.safetensors",
			"#sort=-name&filter=layers.1+float32")
		got := cells(dom)
		if len(got) < 5 || !slices.IsSortedFunc(got,
			func(a, b string) int { return inspect.CompareNames(b, a) }) {
			t.Errorf("%q", got)
		}
		for _, name := range got {
			if !strings.Contains(name, "layers.1") {
				t.Error(name)
			}
		}
		if n := strings.Count(dom, `<button class="open"`) +
			strings.Count(dom, `title="model.layers`); n < 10 {
			t.Errorf("%d places in the map", n)
		}
	})
	t.Run("a program has its graph", func(t *testing.T) {
		dom := page(t, chromium, "../../testdata/rten/convert-0.22.0-control.rten", "")
		if !strings.Contains(dom, "<svg") || len(cells(dom)) != 4 ||
			!strings.Contains(dom, "the file is sound") {
			t.Errorf("%.3000s", dom)
		}
	})
	t.Run("names that want to be markup stay text", func(t *testing.T) {
		evil := []string{
			`</script><script>document.title='owned'</script>`, `<img src=x onerror="document.title='owned'">`,
			`"><svg onload=document.title='owned'>`, "\u2028\u202e]]>-->",
		}
		var ts []*tensor.Tensor
		for _, name := range evil {
			ts = append(ts, tensor.New(name, tensor.Shape{1}, []uint8{1}))
		}
		file := filepath.Join(t.TempDir(), "evil.safetensors")
		opts := &safetensors.WriterOptions{Metadata: map[string]string{evil[0]: evil[1]}}
		if err := safetensors.WriteFile(t.Context(), file, tensor.Of(ts...), opts); err != nil {
			t.Fatal(err)
		}
		dom := page(t, chromium, file, "")
		if strings.Contains(dom, "<title>owned") || len(cells(dom)) != len(evil) {
			t.Errorf("%d rows:\n%.3000s", len(cells(dom)), dom)
		}
	})
}
