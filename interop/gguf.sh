#!/usr/bin/env bash
# gguf.sh: proves bridge/gguf, which only reads, on files with fresh random content by the gguf package of PyPI.
# gguf.sh --renew makes testdata/gguf anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
py=$(interop/tools.sh gguf)
if [ "${1:-}" = --renew ]; then
	exec "$py" interop/gguf/make.py testdata/gguf 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }

proves "the gguf package writes files with random content" "$py" -W ignore interop/gguf/make.py "$work" "$RANDOM$RANDOM" 2000
proves "we read every tensor and every metadata entry of them, and decode every block to the same bits" env TENSORFILE_GGUF="$work" \
	go test -count=1 -run TestFilesOfTheReference ./bridge/gguf

echo "interop gguf: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
