#!/usr/bin/env bash
# safetensors.sh: proves safetensors in both directions against safetensors 0.8.0, on files with fresh random content.
# safetensors.sh --renew makes testdata/safetensors anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
py=$(interop/tools.sh numpy)
if [ "${1:-}" = --renew ]; then
	exec "$py" interop/safetensors/make.py testdata/safetensors 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }

mkdir "$work/ours"
proves "the reference writes files with random content" "$py" interop/safetensors/make.py "$work/theirs" "$RANDOM$RANDOM"
proves "we read every tensor of them" env TENSORFILE_SAFETENSORS="$work/theirs" TENSORFILE_SAFETENSORS_OUT="$work/ours" \
	go test -count=1 -run TestFilesOfTheReference ./safetensors
proves "the reference reads what we write, which is its own to the byte" "$py" interop/safetensors/make.py --check "$work/theirs" "$work/ours"
proves "the small floats are as in ml_dtypes" bash -c "'$py' interop/smallfloats.py | while read -r name decode encode; do
	[ \$name = F8E8M0FNU ] && encode=$'\"\"' # we do not round to it
	grep -q \$decode tensor/float_test.go && grep -q \$encode tensor/float_test.go || exit 1; done"

echo "interop safetensors: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
