#!/usr/bin/env bash
# quant.sh: proves package quant on fresh random weights that mlx, gguf and onnxruntime decode, and numpy and ml_dtypes by the published formulas.
# quant.sh --renew makes testdata/quant and testdata/pairs anew, with torch (3 GB, by hand).
# quant.sh --speed [TURNS] measures conversions next to torch and the gguf package (by hand, on a quiet machine); PYTHON has another Python for it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ "${1:-}" = --renew ]; then
	py=$(interop/tools.sh quantref)
	"$py" -W ignore interop/quant/make.py testdata/quant
	"$py" -W ignore interop/quant/pairs.py testdata/pairs
	exit
fi
if [ "${1:-}" = --speed ]; then
	# On a disk in memory, if there is a large one: what the system does for a file is not our time.
	disk=$([ "$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)" -gt 8000000 ] 2>/dev/null && echo /dev/shm || echo "${TMPDIR:-/tmp}")
	work=$(mktemp -d -p "$disk")
	trap 'rm -rf "$work"' EXIT
	go build -trimpath -o "$work/tensorfile" ./cmd/tensorfile
	"${PYTHON:-$(interop/tools.sh quantref)}" -W ignore interop/quant/speed.py "$work/tensorfile" "$work" "${2:-3}"
	exit
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
