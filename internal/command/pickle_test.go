package command

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A call that a pickle would make, and an object of an unknown class, has one code in
// each command.
func TestCallsOfPicklesHaveOneCodeInEachCommand(t *testing.T) {
	for code, c := range map[string]struct {
		pickle           string
		status           int // of check and verify
		severity, strict string
	}{
		"runs-code": {"cposix\nsystem\n(X\x04\x00\x00\x00truetR", statusFound,
			"error", "error"},
		"unknown-class": {"cargparse\nNamespace\n)\x81", statusOK, "warning", "error"},
	} {
		dir := t.TempDir()
		name := filepath.Join(dir, "pytorch_model.bin")
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		w := zip.NewWriter(f)
		for member, content := range map[string]string{
			"x/data.pkl": "\x80\x02" + c.pickle + ".", "x/version": "3\n"} {
			m, err := w.Create(member)
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(m, content)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		for _, input := range []string{name, dir} {
			checkCommand(t, statusOK, code+": ", "info", input)
			checkCommand(t, statusOK, code+": ", "info", "--json", input)
			checkCommand(t, c.status, c.severity+": torch: ", "verify", input)
			checkCommand(t, c.status, `"code": "`+code+`"`, "verify", "--json", input)
			checkCommand(t, statusFound, c.strict+": torch: ", "verify", "--strict", input)
		}
		for _, deep := range []string{"--deep=false", "--deep"} {
			checkCommand(t, c.status, c.severity, "check", deep, dir)
			checkCommand(t, c.status, `"code": "`+code+`"`, "check", deep, "--json", dir)
		}
		checkCommand(t, statusFound, code, "check", "--strict", dir)
		for _, rule := range sarifOf(t, c.status, "check", dir).Runs[0].Tool.Driver.Rules {
			isSecurity := rule.ID == "runs-code" || rule.ID == "pickle"
			if tags := rule.Properties.Tags; isSecurity != (len(tags) == 1) {
				t.Errorf("%s has the tags %q", rule.ID, tags)
			}
		}
		checkCommand(t, statusUnreadable, code+": ", "ls", "--strict", name)
	}
}
