#!/usr/bin/env bash
# rten.sh: package rten against rten-convert and the rten crate. Models by the converter: all that we read of them equals what its own
# bindings read. Models by us, of every operator, and rewritten copies of the converter's, in both versions and several layouts: the crate
# loads and runs them all, with equal outputs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for version in 0.22.0 0.14.0 0.10.0 0.4.0; do
	"$(interop/tools.sh rten-convert "$version")" interop/rten/models.py "$work" "$version"
done
RTENPROOF=$(interop/tools.sh rtenproof)
export RTENPROOF RTEN_REFERENCE=$work
status=0
go test ./rten -count=1 -v -run 'Reference|Run|Rewriting|MetadataEdits' >"$work/log" 2>&1 || status=$?
grep -E '^ *[a-z_]+_test.go:[0-9]+: ' "$work/log" | sed 's/^ *[a-z_]*_test.go:[0-9]*: //'
count() { grep -cE "^ *--- $1: " "$work/log" || true; }
echo "interop rten: $(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped"
exit $status
