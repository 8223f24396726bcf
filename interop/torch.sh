#!/usr/bin/env bash
# torch.sh: proves bridge/torch, which only reads, on files with fresh random content by torch: archives, legacy streams,
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
	"$py" interop/torch/make.py testdata/torch 1
	exit
fi
passed=0 failed=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }

proves "torch writes files with random content" "$py" interop/torch/make.py "$work/files" "$RANDOM$RANDOM"
proves "we read every tensor of them as torch does" env TENSORFILE_TORCH="$work/files" \
	go test -count=1 -run "TestFilesOfTheReference|TestShardsOfTorch" . ./bridge/torch

echo "interop torch: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
