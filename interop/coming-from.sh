#!/usr/bin/env bash
# coming-from.sh: runs the code of other libraries that docs/coming-from.md shows, and compares what it prints with the output of the
# examples of internal/repotest/coming_from_test.go, which run the code of this module that stands next to it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }

cp testdata/gguf/quantised.gguf "$work/model.gguf"
cp testdata/torch/dtypes.pt "$work/checkpoint.pt"
python3 interop/coming-from/blocks.py "$work"
cat >"$work/go.mod" <<'END'
module other

go 1.25

require (
	github.com/gpustack/gguf-parser-go v0.28.1
	github.com/nlpodyssey/gopickle v0.3.0
	github.com/nlpodyssey/safetensors v0.0.0-20250209183917-bfb01cc25f7c
)
END

# same EXAMPLE COMMAND...: the command prints the output of the example, in any order of lines, and of lists with or without commas.
same() {
	(cd "$work" && "${@:2}") | tr -d , | LC_ALL=C sort >"$work/theirs"
	tr -d , <"$work/$1.out" | LC_ALL=C sort | diff - "$work/theirs"
}

(cd "$work" && GOFLAGS=-mod=mod go build -o other .)
proves "gguf-parser-go" same describeGGUF ./other describeGGUF "$PWD/testdata/gguf/quantised.gguf"
proves "nlpodyssey/gopickle" same printWeight ./other printWeight "$PWD/testdata/torch/modules_state.pt"
proves "nlpodyssey/safetensors" same printScalar ./other printScalar "$PWD/testdata/safetensors/scalar-and-zero.safetensors"
proves "a parser of one's own" same listHeader ./other listHeader "$PWD/testdata/safetensors/scalar-and-zero.safetensors"
proves "Python's safetensors" same saveAndSlice "$(interop/tools.sh numpy)" -W ignore saveAndSlice.py
proves "Python's gguf" same dequantizeAll "$(interop/tools.sh gguf)" -W ignore dequantizeAll.py
if [ -x "${TENSORFILE_TOOLS:-$HOME/.cache/tensorfile-tools}/torch/bin/python" ]; then
	proves "torch.load" same listCheckpoint "$(interop/tools.sh torch)" -W ignore listCheckpoint.py
else
	echo "skip: torch.load: torch is not installed: interop/torch.sh --full installs it"
	skipped=1
fi
proves "NumPy" same sliceArchive "$(interop/tools.sh numpy)" -W ignore sliceArchive.py

echo "interop coming-from: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
