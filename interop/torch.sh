#!/usr/bin/env bash
# torch.sh: proves torch, which only reads, on files with fresh random content by seven releases of torch: archives, legacy streams,
# TorchScript, and a distributed checkpoint of four processes. torch is large: without --full, or TENSORFILE_FULL, the proof is
# skipped unless it is installed. torch.sh --renew makes testdata/torch anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=${TENSORFILE_TOOLS:-$HOME/.cache/tensorfile-tools}
if [ "${1:-}" != --renew ] && [ "${1:-}" != --full ] && [ -z "${TENSORFILE_FULL:-}" ] && [ ! -x "$tools/torch/bin/python" ]; then
	echo "skip: torch is not installed, and takes 5 GB: interop/torch.sh --full installs it"
	echo "interop torch: 0 passed, 0 failed, 1 skipped"
	exit
fi
py=$(interop/tools.sh torch)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/python" # torch writes safetensors with the package of that name
ln -s "$("$(interop/tools.sh numpy)" -c 'import os, safetensors; print(os.path.dirname(safetensors.__file__))')" "$work/python/safetensors"
export PYTHONPATH=$work/python
if [ "${1:-}" = --renew ]; then
	"$py" "$PWD/interop/torch/make.py" testdata/torch 1
	exit
fi
passed=0 failed=0 skipped=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }

go test -c -o "$work" . ./torch ./quant
reads() { # TESTS
	"$work/tensorfile.test" -test.run "$1" && (cd torch && "$work/torch.test" -test.run "$1") &&
		(cd quant && "$work/quant.test" -test.run "$1")
}

# release NAME PYTHON: files of this release with random content, read by us. Distributed checkpoints in the form of safetensors
# begin with 2.8.
release() {
	local tests=TestFilesOfTheReference
	[ ! -f "$work/$1/quantized.pt" ] || tests="$tests|TestQuantizedTensorsOfTorch"
	proves "torch $1 writes files with random content" "$2" "$PWD/interop/torch/make.py" "$work/$1" "$RANDOM$RANDOM"
	[ ! -d "$work/$1/shards" ] || tests="$tests|TestShardsOfTorch"
	TENSORFILE_TORCH="$work/$1" proves "we read every tensor of them as torch $1 does" reads "$tests"
}

release 2.13.0 "$py"
for v in 1.6.0 1.13.1 2.1.2 2.4.1 2.8.0 2.15.0; do
	if [ "${1:-}" != --full ] && [ -z "${TENSORFILE_FULL:-}" ] && [ ! -x "$tools/torch-$v/bin/python" ]; then
		skipped=$((skipped + 1))
		echo "skip: torch $v is not installed: interop/tools.sh torch-release $v installs it"
	elif p=$(interop/tools.sh torch-release "$v"); then
		release "$v" "$p"
	else
		failed=$((failed + 1))
		echo "FAIL: torch $v cannot be installed"
	fi
done

echo "interop torch: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
