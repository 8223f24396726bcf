package command

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// hostile is a name with all that must not reach a terminal: escape sequences of seven
// and eight bits, a line end, a carriage return, text that runs backwards.
const hostile = "a\x1b]0;title\x07\r\nFORGED\u202e\u009b31m\u2028z"

// hostileFiles writes files whose every name, key and value is hostile.
func hostileFiles(t *testing.T, dir string) []string {
	t.Helper()
	x := tensor.New(hostile, tensor.Shape{2, 2}, []float32{1, 2, 3, 4})
	y := tensor.New(hostile+"2", tensor.Shape{1}, []int32{7})
	unfit := *x
	unfit.Name, unfit.DType, unfit.Data = hostile+"3", tensor.Bool, tensor.BlobOf([]byte{0, 1, 2,
		77})
	var names []string
	add := func(name string, write func(f *os.File) error) {
		names = append(names, filepath.Join(dir, name))
		f, err := os.Create(names[len(names)-1])
		if err == nil {
			err = write(f)
			f.Close()
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for _, v := range []string{"1.0", "2"} {
		add("h"+v+".zt", func(f *os.File) error {
			w := ztensor.NewWriter(f, &ztensor.WriterOptions{Version: v, KeepOrder: true,
				Attributes: map[string]any{"key": hostile}})
			for _, t := range []*tensor.Tensor{x, y} {
				if err := w.Add(t); err != nil {
					return err
				}
			}
			return w.Close()
		})
	}
	add("h.safetensors", func(f *os.File) error {
		w := safetensors.NewWriter(f,
			&safetensors.WriterOptions{Attributes: map[string]string{hostile: hostile}})
		w.Add(x)
		w.Add(&unfit)
		return w.Close()
	})
	add("h.ptd", func(f *os.File) error {
		w := ptd.NewWriter(f, nil)
		w.Add(x)
		w.AddBlob(hostile+"blob", tensor.BlobOf([]byte(hostile)))
		return w.Close()
	})
	add("h.npz", func(f *os.File) error {
		w := npz.NewWriter(f, nil)
		w.Add(x)
		return w.Close()
	})
	add("h.rten", func(f *os.File) error {
		g := rten.NewGraphBuilder()
		g.Constant(x)
		g.Constant(y)
		return g.Write(t.Context(), f, nil)
	})
	add("dtype.safetensors", func(f *os.File) error {
		header, err := json.Marshal(map[string]any{"w": map[string]any{
			"dtype": hostile, "shape": []int{1}, "data_offsets": []int{0, 4}}})
		if err != nil {
			return err
		}
		b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
		_, err = f.Write(append(append(b, header...), 0, 0, 0, 0))
		return err
	})
	index, err := json.Marshal(map[string]any{
		"metadata":   map[string]any{"total_size": 1, hostile: hostile},
		"weight_map": map[string]string{"w": hostile + ".safetensors", hostile: "x.safetensors"},
	})
	if err != nil {
		t.Fatal(err)
	}
	add("h.safetensors.index.json", func(f *os.File) error {
		_, err := f.Write(index)
		return err
	})
	add("damaged.safetensors", func(f *os.File) error {
		_, err := fmt.Fprintf(f, "\x60\x00\x00\x00\x00\x00\x00\x00%-96s",
			`{"a\u001b]0;x\u0007\nFORGED":{"dtype":"\u001b[31m","shape":[1],"data_offsets":[0,9]}}`)
		return err
	})
	if runtime.GOOS != "windows" {
		add(hostile+".zt", func(f *os.File) error {
			_, err := f.WriteString("nothing")
			return err
		})
	}
	return append(names, filepath.Join(dir, hostile+" absent.zt"))
}

// checkPrinted reports what a terminal would do anything with but print it, and lines
// that a name has made.
func checkPrinted(t *testing.T, args []string, out []byte) {
	t.Helper()
	for i := 0; i < len(out); {
		r, n := utf8.DecodeRune(out[i:])
		if r == utf8.RuneError && n == 1 || r != '\n' && (r != '\t' || args[0] != "__complete") &&
			!unicode.IsPrint(r) {
			t.Errorf("%q: byte %d is %#x:\n%q", args, i, out[i], out)
			return
		}
		i += n
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "FORGED") {
			t.Errorf("%q: a name makes a line:\n%s", args, out)
			return
		}
	}
}

// Everything that a command prints, of files, of the system, of a server or of its
// arguments, is printable.
func TestOutputIsPrintable(t *testing.T) {
	dir := t.TempDir()
	files := hostileFiles(t, dir)
	out := func(name string) string { return filepath.Join(dir, "out", name) }
	check := func(args ...string) {
		for _, asJSON := range []bool{false, true} {
			if asJSON {
				args = append(args, "--json")
			}
			var stdout, stderr bytes.Buffer
			status := run(t.Context(), args, strings.NewReader(hostile), &stdout, &stderr,
				os.Getenv)
			checkPrinted(t, args, stdout.Bytes())
			checkPrinted(t, args, stderr.Bytes())
			other := args[0] == "report" || args[0] == "__complete" || args[0] == "help"
			if asJSON && !other && status == statusOK && stdout.Len() > 0 &&
				!json.Valid(stdout.Bytes()) {
				t.Errorf("%q: %s", args, stdout.Bytes())
			}
		}
	}
	for _, file := range files {
		if err := os.RemoveAll(out("")); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(out(""), 0o777); err != nil {
			t.Fatal(err)
		}
		for _, c := range []string{"detect", "info", "ls", "stats", "hash", "verify", "du",
			"graph"} {
			check(c, file)
		}
		check("ls", "--sort", "name", "--fold", file)
		check("verify", "--strict", file)
		os.Mkdir(out("model"), 0o777)
		os.Link(file, filepath.Join(out("model"), "model"+filepath.Ext(file))) // if it is there
		check("check", out("model"))
		check("diff", file, files[0])
		check("diff", files[3], file)
		check("cat", file, hostile)
		check("cat", file, hostile+"[9]")
		check("cat", file, hostile+"blob")
		check("cat", file, hostile, "--part", hostile)
		check("stats", file, hostile)
		for _, f := range tensorfile.Formats() {
			check("convert", file, out(f.String()), "--to", f.String())
			check("convert", file, out(f.String()+"2"), "--to", f.String(), "--allow", "all",
				"--force")
			check("convert", file, out(hostile), "--to", f.String(), "--dry-run", "--rename",
				hostile+"="+hostile+"new")
		}
		check("edit", file, out("edited"), "--rename", hostile+"="+hostile+"2")
		check("edit", file, out("edited"), "--set", hostile+"="+hostile, "--force")
		check("edit", file, out("edited"), "--drop", hostile+"none")
		check("extract", file, "-o", out("extract"), "--force")
		check("split", file, "-o", out("split"), "--max", "4", "--force")
		check("merge", file, files[0], out("merged.zt"), "--force")
		check("report", file, "-o", out("report.html"), "--force")
		check("report", file, "-o", "-", "--force")
		check("graph", file, "--as", "svg", "-o", out("graph.svg"), "--force")
		check("ls", file, "--external", files[len(files)-1])
	}
	check(hostile)
	check("ls", "--"+hostile)
	check("ls", "--format", hostile, files[0])
	check("ls", "--limit-name", hostile, files[0])
	check("ls", "-")
	check("completion", hostile)
	check("__complete", "cat", files[0], "")
	check("convert", files[0], out("x"), "--to", hostile, "--allow", hostile)
	check("convert", files[0], out("x.ptd"), "--allow", hostile)
	check("convert", files[0], out("x.ptd"), "--dtype", hostile+"="+hostile)
	check("help", hostile)
	check("ls", "-r", dir)
}

// The reason phrase of a server's status line is the server's, not Go's.
func TestReasonPhraseIsPrintable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skipf("no socket here: %v", err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 4096))
			c.Write([]byte("HTTP/1.1 500 \x1b]0;title\x07 \u009b31m \u202e\r\nX: \x1b[31m\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
			c.Close()
		}
	}()
	for _, asJSON := range []string{"--json=false", "--json"} {
		args := []string{"ls", "http://" + l.Addr().String() + "/model.zt", asJSON}
		var out bytes.Buffer
		if s := run(t.Context(), args, nil, &out, &out, os.Getenv); s != statusUnreadable {
			t.Errorf("exit status %d", s)
		}
		checkPrinted(t, args, out.Bytes())
	}
}
