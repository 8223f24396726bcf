package pte

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
)

// TestKernelFactsEqualTheReference compares operators and kernel keys with the output
// of ExecuTorch's gen_oplist: TENSORFILE_PTE_OPLIST is a command that prints them
// (interop/pte.sh).
func TestKernelFactsEqualTheReference(t *testing.T) {
	command := os.Getenv("TENSORFILE_PTE_OPLIST")
	if command == "" {
		t.Skip("TENSORFILE_PTE_OPLIST names no command: run by interop/pte.sh")
	}
	files := programs(t)
	if dir := os.Getenv("TENSORFILE_PTE_GENERATIONS"); dir != "" {
		generations, _ := filepath.Glob(dir + "/*/*.pte")
		files = append(files, generations...)
	}
	cmd := exec.Command("sh", append([]string{"-c", command + ` "$@"`, "sh"}, files...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<24)
	n := 0
	for lines.Scan() {
		var want struct {
			File    string
			Kernels map[string][]string
		}
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		n++
		t.Run(filepath.Base(filepath.Dir(want.File))+"/"+filepath.Base(want.File),
			func(t *testing.T) {
				got := map[string][]string{}
				for _, k := range openFile(t, want.File).Program().Kernels() {
					got[k.Operator] = append([]string{}, k.Keys...)
				}
				if !reflect.DeepEqual(got, want.Kernels) {
					t.Errorf("got %v\nwant %v", got, want.Kernels)
				}
			})
	}
	if n != len(files) {
		t.Errorf("%d answers for %d files", n, len(files))
	}
}

func TestKernelsHaveTheirKeys(t *testing.T) {
	r := openFile(t, "../testdata/pte/export-1.5.1-conv-channels-last.pte")
	for _, k := range r.Program().Kernels() {
		if k.Operator == "aten::convolution.out" &&
			!reflect.DeepEqual(k.Keys,
				[]string{"v1/6;0,2,3,1|6;0,2,3,1|6;0|6;0,2,3,1|6;0,2,3,1"}) {
			t.Errorf("%+v", k)
		}
	}
}
