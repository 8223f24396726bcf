#!/usr/bin/env bash
# pte.sh: proves package pte in both directions against ExecuTorch, without torch:
#   - programs that the serializers of seven releases (0.2.1 to 1.5.1) write are read field by field as their own deserializers read them,
#     verify, and those that the published runtime loads come back from our writers unharmed;
#   - so are programs of content that no exporter would write together (odd.py), by the command as well; the runtime loads those that have all
#     that it takes, and Verify says the same of each;
#   - their operators and kernel keys are as its gen_oplist lists them;
#   - programs of ours, and programs of the exporter that we rewrote, patched, aligned, externalised, are loaded and run by ExecuTorch's
#     C++ runtime with the outputs that they should have.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
etrun=$(interop/tools.sh etrun)
python=$(interop/tools.sh etpython)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for version in 0.2.1 0.3.0 0.4.0 0.6.0 0.7.0 1.0.1 1.5.1; do
	ETSERDE=interop/tools ETWHEEL=$(interop/tools.sh etwheel "$version") "$python" interop/pte/generations.py "$work/$version" >"$work/log" 2>&1 ||
		{ tail -n 20 "$work/log"; echo "FAIL: the serializer of $version writes no programs"; exit 1; }
	echo "ok: ExecuTorch $version wrote $(ls "$work/$version"/*.pte | wc -l) programs"
done

for version in 1.0.1 1.5.1; do
	PYTHONPATH=interop/tools ETWHEEL=$(interop/tools.sh etwheel "$version") ETRUN=$etrun "$python" interop/pte/odd.py "$work/odd-$version" "${ODD_SEED:-1}" 60 >"$work/log" 2>&1 ||
		{ tail -n 20 "$work/log"; echo "FAIL: odd.py with ExecuTorch $version"; exit 1; }
	rm -rf "$work/odd-$version/made-first"
done
go build -o "$work/tensorfile" ./cmd/tensorfile
compared=0 differ=0
for json in "$work"/odd-1.5.1/*.expect.json; do
	if python3 interop/compare.py "$work/tensorfile" "$json" "${json%.expect.json}.pte"; then compared=$((compared + 1)); else differ=$((differ + 1)); fi
done
echo "ok: the command says of $compared odd programs what ExecuTorch 1.5.1 reads, of $differ something else"

# Every subtest is one proof.
oplist="env ETWHEEL='$(interop/tools.sh etwheel 1.5.1)' python3 '$PWD/interop/pte/oplist.py'"
expect="env PYTHONPATH='$PWD/interop/tools' ETWHEEL='$(interop/tools.sh etwheel 1.5.1)' ETRUN='$etrun' '$python' '$PWD/interop/pte/expect.py'"
TENSORFILE_ETRUN=$etrun TENSORFILE_PTE_EXPECT=$expect TENSORFILE_PTE_GENERATIONS=$work TENSORFILE_PTE_OPLIST=$oplist go test -count=1 -v \
	-run 'Facts|Run|Runtime' -timeout 20m ./pte >"$work/log" 2>&1 || true
grep -E '^(    )?--- FAIL|^ +[a-z_]+_test.go' "$work/log" | grep -v 'cannot read what it wrote' | head -n 40 || true
count() { grep -cE "^    --- $1" "$work/log" || true; }
passed=$(($(count PASS) + compared)) failed=$(($(count FAIL) + differ)) skipped=$(count SKIP)
grep -E '^(ok|FAIL)' "$work/log" || tail -n 20 "$work/log"
grep -qE '^ok' "$work/log" || failed=$((failed > 0 ? failed : 1))

echo "interop pte: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
