#!/usr/bin/env bash
# onnx.sh: proves package onnx against onnx 1.23.2 and onnxruntime 1.32.0, on models with fresh random content and on the 161 models that
# these packages, silero-vad and rapidocr have: names, dtypes, shapes and bytes of all tensors, also in attributes, subgraphs, functions and other files included,
# inputs and outputs with their types, also as onnxruntime sees them.
# onnx.sh --renew makes testdata/onnx anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
py=$(interop/tools.sh onnx)
if [ "${1:-}" = --renew ]; then
	exec "$py" interop/onnx/make.py testdata/onnx 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }

proves "onnx writes models with random content" "$py" interop/onnx/make.py "$work/made" "$RANDOM$RANDOM"
proves "onnx describes the models of its own tests and of onnxruntime" "$py" interop/onnx/make.py --wheels "$work/wheels"
proves "we read the same of the first" env TENSORFILE_ONNX="$work/made" go test -count=1 -run TestModelsOfTheReference ./onnx
proves "we read the same of the others" env TENSORFILE_ONNX="$work/wheels" go test -count=1 -run TestModelsOfTheReference ./onnx

echo "interop onnx: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
