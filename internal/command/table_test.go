package command

import (
	"fmt"
	"strings"
	"testing"
)

// Names that differ do so on every terminal: what all begin with goes first, then
// columns, and only then the middle of a name.
func TestNamesStayDistinct(t *testing.T) {
	layers := func(format string) (names []string) {
		for i := range 24 {
			for _, part := range []string{"q_proj", "k_proj", "v_proj", "o_proj"} {
				names = append(names, fmt.Sprintf(format, i, part))
			}
		}
		return names
	}
	for _, c := range []struct {
		name  string
		names []string
		shown map[int]string // in the first row, by columns
	}{
		{"a long start", layers("model.language_model.decoder.layers.%d.self_attn.%s.weight"),
			map[int]string{
				60:  "…0.…q_proj.weight   float32  [4, 4]   64 B       0  raw",
				80:  "…0.…q_proj.weight   float32  [4, 4]   64 B       0  raw",
				120: "…0.self_attn.q_proj.weight   float32  [4, 4]   64 B       0  raw       sha256:",
			}},
		{"a long end",
			layers("%d.%s.language_model_lora_adapter_of_the_first_stage.default.weight"),
			map[int]string{60: "0.q_proj.", 80: "0.q_proj.", 120: "0.q_proj."}},
		{"a middle that differs",
			layers("the.first.model.of.all.%d.%s.the.last.tensor.of.all.of.them"),
			map[int]string{60: "…0.q_proj.…them ", 80: "…0.q_proj.…them ",
				120: "…0.q_proj.the.last"}},
	} {
		for _, width := range []int{60, 80, 120} {
			var out strings.Builder
			a := newApp(t.Context(), nil, &out, &out, columnsOf(width))
			tab := newTable("NAME", "DTYPE", "SHAPE", ">BYTES", ">OFFSET", "ENCODING", "DIGEST")
			tab.spare = []int{6, 4, 5}
			for i, name := range c.names {
				tab.add(name, "float32", "[4, 4]", "64 B", fmt.Sprint(64*i), "raw",
					"sha256:0123456789abcdef…")
			}
			tab.print(a)
			a.flush()
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")[1:]
			seen := map[string]bool{}
			for _, line := range lines {
				name, _, _ := strings.Cut(line, " ")
				if seen[name] {
					t.Fatalf("%s, %d columns: two rows are %s", c.name, width, name)
				}
				seen[name] = true
				if n := columns([]byte(line)); n > width {
					t.Fatalf("%s, %d columns: %d: %s", c.name, width, n, line)
				}
			}
			if !strings.HasPrefix(lines[0], c.shown[width]) {
				t.Errorf("%s, %d columns: %s", c.name, width, lines[0])
			}
		}
	}
}
