package repotest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
)

// The function up to the mark is the Go code of README.md, word for word:
// TestReadmeShowsTheseFunctions holds them equal, and the example below runs it.

func list(name string) error {
	f, err := tensorfile.Open(name, nil) // finds the format from the content
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Println(f.Format(), f.Len())
	for t := range f.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape, t.Size())
	}
	return nil
}

// end of README.md's code

func Example_list() {
	if err := list("testdata/safetensors/rank8.safetensors"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// safetensors 1
	// r uint16 [1, 2, 1, 2, 1, 2, 1, 2] 32
}

func TestReadmeShowsTheseFunctions(t *testing.T) {
	testPageShows(t, "README.md", "internal/repotest/readme_test.go")
}

func TestEmbeddingGuideShowsTheseFunctions(t *testing.T) {
	testPageShows(t, "docs/embedding.md", "internal/repotest/embedding_test.go")
}

// The tables of formats in README.md and docs/formats.md are made of Caps:
// UPDATE=1 writes them.
func TestTablesOfFormatsAgreeWithCaps(t *testing.T) {
	yes := func(b bool) string { return map[bool]string{true: "yes", false: "–"}[b] }
	versions := func(list []string) string {
		switch {
		case len(list) == 0:
			return "–"
		case list[0] == "":
			return "yes"
		case len(list) > 6:
			return list[0] + " to " + list[len(list)-1]
		}
		return strings.Join(list, ", ")
	}
	var short, long strings.Builder
	short.WriteString("| format | reads | writes | programs | sparse | blobs | free attributes |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n")
	known := []tensorfile.Format{tensorfile.Safetensors, tensorfile.GGUF, tensorfile.Torch,
		tensorfile.ONNX, tensorfile.NPY, tensorfile.NPZ, tensorfile.PTE, tensorfile.PTD,
		tensorfile.PTN, tensorfile.RTen, tensorfile.ZTensor,
		tensorfile.Primitiv} // those first that more people know
	if got := slices.Sorted(slices.Values(known)); !slices.Equal(got, tensorfile.Formats()) {
		t.Fatalf("the table has %v", known)
	}
	for _, f := range known {
		c := f.Caps()
		fmt.Fprintf(&short, "| %s `%s` | %s | %s | %s | %s | %s | %s |\n", f.Title(), f.Ext(),
			versions(f.Reads()), versions(f.Writes()), yes(c.Program),
			yes(c.Sparse), yes(c.Blobs), yes(c.Attributes))
	}
	long.WriteString("| format | dtypes | orders | names | rank | dimensions | elements | zero dimensions | extra parts |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	limit := func(n int64) string {
		if n == 0 {
			return "–"
		}
		return fmt.Sprint(n)
	}
	for _, f := range tensorfile.Formats() {
		all := f.Writes()
		if f != tensorfile.ZTensor || len(all) == 0 {
			all = []string{""}
		}
		for _, v := range all {
			c := f.CapsOf(v)
			if c.DTypes == nil {
				continue
			}
			names := make([]string, len(c.DTypes))
			for i, d := range c.DTypes {
				names[i] = d.String()
			}
			slices.Sort(names)
			fmt.Fprintf(&long, "| %s | %s | %v | %v | %s | %s | %s | %s | %s |\n",
				strings.TrimSpace(f.String()+" "+v), strings.Join(names, ", "), c.Orders, c.Names,
				limit(int64(c.MaxRank)), limit(c.MaxDim), limit(c.MaxElements),
				yes(c.ZeroDims), yes(c.Extras))
		}
	}
	pages := map[string]string{"README.md": short.String(), "docs/formats.md": long.String()}
	for name, table := range pages {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		const begin, end = "<!-- table of formats -->\n", "<!-- end of table -->"
		before, rest, ok1 := strings.Cut(string(b), begin)
		old, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Errorf("%s has no table of formats", name)
			continue
		}
		if old == table {
			continue
		}
		if os.Getenv("UPDATE") == "" {
			t.Errorf("%s is not what Caps say: UPDATE=1 go test . renews it", name)
			continue
		}
		if err := os.WriteFile(name, []byte(before+begin+table+end+after), 0o666); err != nil {
			t.Error(err)
		}
	}
}
