#!/usr/bin/env bash
# fb.sh: holds the FlatBuffers verifier of internal/fb against the C++ one, on three million mutants of buffers of every schema.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

flatc=$(interop/tools.sh debian-flatc)
for schema in flat_tensor program bundled_program native_graph rten; do "$flatc" --cpp -o "$work" "schema/$schema.fbs"; done
g++ -O1 -std=c++14 -I "$work" interop/fb/oracle.cpp -o "$work/oracle"

if TENSORFILE_FBORACLE=$work/oracle go test ./internal/fb -count=1 -run '^TestVerdictsAreTheSameAsCpp$' -v | tee "$work/log"; then
	echo "interop fb: $(grep -c '^    --- PASS' "$work/log") passed, 0 failed, 0 skipped"
else
	echo "interop fb: $(grep -c '^    --- PASS' "$work/log") passed, $(grep -c '^    --- FAIL' "$work/log") failed, 0 skipped"
	exit 1
fi
