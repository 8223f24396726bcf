#!/usr/bin/env bash
# ztensor.sh [--full]: proves zTensor in both directions against upstream's wheels of every generation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export TOOLS=$PWD/interop/tools.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }
skip() { skipped=$((skipped + 1)) && echo "skip: $1"; }

renewed() {
	"$("$TOOLS" numpy)" interop/ztensor/testdata.py "$work/testdata" && diff -rq --exclude README.md "$work/testdata" testdata/ztensor
}
if [ "${1:-}" = --full ] || [ -n "${TENSORFILE_FULL:-}" ]; then
	proves "testdata/ztensor is what the reference packages write and read" renewed
else
	skip "testdata/ztensor is not made anew (--full)"
fi

echo "interop ztensor: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
