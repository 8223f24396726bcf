#!/usr/bin/env bash
# testdata.sh: our command says of the committed files what the reference of each said when they were made. (The other formats' references wrote
# their own words; Go tests compare those.)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

go build -o "$work/tensorfile" ./cmd/tensorfile
for json in testdata/{ztensor,rten}/*.json testdata/pte/export-*.json; do
	file=$(compgen -G "${json%.json}.*" | grep -E '\.(zt|rten|b?pte)$')
	if python3 interop/compare.py "$work/tensorfile" "$json" "$file"; then
		passed=$((passed + 1)) && echo "ok: $file"
	else
		failed=$((failed + 1)) && echo "FAIL: $file"
	fi
done

echo "interop testdata: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
