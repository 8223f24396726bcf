#!/usr/bin/env bash
# quant.sh: proves package quant on fresh random weights that mlx, gguf and onnxruntime decode, and numpy and ml_dtypes by the published formulas.
# quant.sh --renew makes testdata/quant anew, with torch (3 GB, by hand).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ "${1:-}" = --renew ]; then
	exec "$(interop/tools.sh quantref)" -W ignore interop/quant/make.py testdata/quant
fi
py=$(interop/tools.sh quant)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }

for turn in 1 2 3; do
	mkdir "$work/$turn"
	seed=$RANDOM$RANDOM
	proves "references quantise and decode random weights, seed $seed" "$py" -W ignore interop/quant/fresh.py "$work/$turn" "$seed"
	proves "we decode each to the same bits, in the same shape" env TENSORFILE_QUANT="$work/$turn" go test -count=1 -run TestValuesAreThoseOfTheReferences ./quant
done

echo "interop quant: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
