"""blocks.py DIR: writes the code of other libraries of docs/coming-from.md as programs to DIR, and the output of the examples next to it.

A block of another library is followed by the block of this module that does the same, whose function names both."""
import re
import sys

IMPORTS = {
    "binary.": '"encoding/binary"', "json.": '"encoding/json"', "fmt.": '"fmt"', "io.": '"io"', "math.": '"math"', "os.": '"os"',
    "ggufparser.": 'ggufparser "github.com/gpustack/gguf-parser-go"', "pytorch.": '"github.com/nlpodyssey/gopickle/pytorch"',
    "types.": '"github.com/nlpodyssey/gopickle/types"', "safetensors.": '"github.com/nlpodyssey/safetensors"',
}
MAIN = """
func main() {
	var err error
	switch os.Args[1] {
%s	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
"""

page = open("docs/coming-from.md").read()
tests = open("internal/repotest/coming_from_test.go").read()
blocks = re.findall(r"^```(go there|go|python)\n(.*?)^```$", page, re.M | re.S)
assert [kind == "go" for kind, _ in blocks] == [False, True] * (len(blocks) // 2), "not pairs of blocks"

functions, cases = "", ""
for (kind, other), (_, ours) in zip(blocks[::2], blocks[1::2]):
    name = re.match(r"func (\w+)", ours)[1]
    example = re.search(r"\nfunc Example_%s\(\) \{.*?\t// Output:(.*?)\n\}" % name, tests, re.S)[1]
    open(f"{sys.argv[1]}/{name}.out", "w").write("".join(line.strip() + "\n" for line in example.split("\t//") if line.strip()))
    if kind == "python":
        open(f"{sys.argv[1]}/{name}.py", "w").write(other)
        continue
    functions += "\n" + other
    if "stream io.Reader" in other:
        cases += f'\tcase "{name}":\n\t\tvar f *os.File\n\t\tif f, err = os.Open(os.Args[2]); err == nil {{\n\t\t\terr = {name}(f, 0)\n\t\t}}\n'
    else:
        cases += f'\tcase "{name}":\n\t\terr = {name}(os.Args[2])\n'
code = functions + MAIN % cases
imports = "".join(f"\t{path}\n" for word, path in IMPORTS.items() if re.search(r"\b" + re.escape(word), code))
open(f"{sys.argv[1]}/main.go", "w").write(f"package main\n\nimport (\n{imports})\n{code}")
