#!/usr/bin/env bash
# npy.sh: proves npy and npz in both directions against numpy, on files with fresh random content.
# npy.sh --renew makes testdata/npy anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
py=$(interop/tools.sh numpy)
if [ "${1:-}" = --renew ]; then
	exec "$py" interop/npy/make.py testdata/npy 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }

mkdir "$work/ours"
proves "numpy writes arrays and archives with random content" "$py" interop/npy/make.py "$work/theirs" "$RANDOM$RANDOM"
proves "we read every array of them" env TENSORFILE_NPY="$work/theirs" TENSORFILE_NPY_OUT="$work/ours" \
	go test -count=1 -run OfNumPy ./npy ./npz
proves "numpy reads what we write" "$py" interop/npy/make.py --check "$work/theirs" "$work/ours"

go build -o "$work/tensorfile" ./cmd/tensorfile
proves "dtypes under every name that numpy and ml_dtypes know have numpy's bytes and numbers, the void bytes of np.save by --reinterpret" \
	"$py" interop/npy/words.py "$work/words" "$work/tensorfile"

echo "interop npy: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
