#!/usr/bin/env bash
# ptn.sh: proves package ptn against the ExecuTorch 1.5.1 wheel, without torch: its own writer, reader, serializer and checks of programs.
#   - packages and programs with random content, half of which break a rule, are read field by field as its reader reads them, and judged alike;
#   - packages that we edited are read and checked by it.
# ptn.sh --renew makes testdata/ptn anew, and the programs of testdata/pte that have such a delegate: with ExecuTorch's exporter, which takes
# 5.2 GB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ETWHEEL=$(interop/tools.sh etwheel 1.5.1) py=$(interop/tools.sh etpython)
export ETWHEEL PYTHONPATH=$PWD/interop/tools
if [ "${1:-}" = --renew ]; then
	rm -f testdata/ptn/*.pt* testdata/pte/export-1.5.1-native*
	env -u PYTHONPATH "$(interop/tools.sh torch)" -W ignore interop/ptn/export.py testdata/ptn testdata/pte
	for f in testdata/ptn/export-*.ptn; do "$py" interop/tools/ptnref.py "$f" >"$f.json"; done
	ETRUN=$(interop/tools.sh etrun)
	export ETRUN
	for f in testdata/pte/export-1.5.1-native*.pte; do "$py" interop/pte/expect.py "$f" $(compgen -G "${f%.pte}.ptd") >"${f%.pte}.json"; done
	exec "$py" interop/ptn/make.py testdata/ptn/made- 26 4
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }

proves "ExecuTorch writes packages with random content" "$py" interop/ptn/make.py "$work/" "$RANDOM$RANDOM" 100
proves "we read every field of them, and judge them as it does" env TENSORFILE_PTN="$work/" go test -count=1 -run OfTheReference ./ptn
mkdir "$work/edited"
proves "we rename and replace their weights" env TENSORFILE_PTN="$work/" TENSORFILE_PTN_OUT="$work/edited" go test -count=1 -run ForTheReference ./ptn
proves "it reads and checks what we edited, and the programs are the same but for names" "$py" interop/ptn/judge.py "$work/edited" "$work"

echo "interop ptn: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
