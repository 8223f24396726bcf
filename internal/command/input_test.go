package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
)

func TestExpandGlobsKeepsNamesThatExist(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.zt", "b.zt", "[ab].zt", "c.ptd"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	got := expandGlobs([]string{"?.zt", "[ab].zt", "*.pte", "c.ptd", "[", "-"})
	want := []string{"a.zt", "b.zt", "[ab].zt", "*.pte", "c.ptd", "[", "-"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// One argument that stands for several files makes one object.
func TestPatternsMakeOneObject(t *testing.T) {
	dir := t.TempDir()
	b, err := os.ReadFile("../../testdata/safetensors/rank8.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.safetensors", "b.safetensors"} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var out strings.Builder
	args := append([]string{"detect", "--json"}, expandGlobs([]string{"*.safetensors"})...)
	status := run(t.Context(), args, strings.NewReader(""), &out, &out, os.Getenv)
	if status != statusOK || !strings.HasPrefix(out.String(), "{\n  \"files\": [") ||
		strings.Count(out.String(), "\n}") != 1 {
		t.Errorf("exit status %d, %s", status, out.String())
	}
}

// Addresses of local files and paths as they are on Windows and elsewhere.
func TestAddressesOfFilesBecomePathsOfTheSystem(t *testing.T) {
	for _, c := range []struct{ goos, address, want string }{
		{"windows", "file:///C:/models/x.zt", `C:\models\x.zt`},
		{"windows", `file:///C:\models\x.zt`, `C:\models\x.zt`},
		{"windows", "file:///c:/a%20b/x.zt", `c:\a b\x.zt`},
		{"windows", "file://localhost/D:/x.zt", `D:\x.zt`},
		{"windows", "file:///x.zt", `\x.zt`},
		{"windows", "file://server/share/x.zt", ""},
		{"windows", "file://C:/x.zt", ""},
		{"linux", "file:///C:/x.zt", "/C:/x.zt"},
		{"linux", "file:///a%2fb/x.zt", "/a/b/x.zt"},
		{"linux", "file:///", "/"},
		{"linux", "file://", ""},
		{"linux", "file://server/x.zt", ""},
		{"linux", "file:///%zz", ""},
	} {
		if got, err := localPath(c.address, c.goos); got != c.want ||
			(err == nil) != (c.want != "") {
			t.Errorf("%s on %s: %q, %v", c.address, c.goos, got, err)
		}
	}
	a := newApp(t.Context(), nil, nil, nil, func(string) string { return "" })
	for arg, want := range map[string]bool{`C:\models\x`: true, `..\x`: true, `C:/x`: true,
		"c:x.zt": true, "x.zt": true, "convrt": false} {
		if a.isInput(arg) != want {
			t.Errorf("%s is a file: %v", arg, !want)
		}
	}
	for name, want := range map[string]tensorfile.Format{`C:\a.gguf\x.zt`: tensorfile.ZTensor,
		`x.ZT`: tensorfile.ZTensor, `\\server\share\x.npy`: tensorfile.NPY} {
		if got := tensorfile.ByName(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
