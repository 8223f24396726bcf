#!/usr/bin/env bash
# ptd.sh [--full]: proves .ptd in both directions against ExecuTorch: what its Python serializer writes we read, and write again
# byte for byte; what we write, in two other ways too, its Python deserializer and its C++ runtime read.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }
skip() { skipped=$((skipped + 1)) && echo "skip: $1"; }

python=$(interop/tools.sh etpython)
ETWHEEL=$(interop/tools.sh etwheel 1.5.1)
ETRUN=$(interop/tools.sh etrun)
export ETWHEEL ETRUN
mkdir "$work/cases" "$work/cases/upgraded"

reference() { "$python" interop/ptd/reference.py "$@"; }
ours() { TENSORFILE_PTD_CASES=$work/cases go test -count=1 ./ptd -run "$1"; }
golden() {
	local version
	mkdir "$work/golden"
	for version in 1.5.1 1.0.1 0.7.0 0.6.0; do ETWHEEL=$(interop/tools.sh etwheel $version) reference golden "$work/golden" || return; done
	diff -rq --exclude README.md "$work/golden" testdata/ptd
}

reference cases "$work/cases"
proves "ExecuTorch's serializer writes every case" reference write "$work/cases"
proves "we read what it wrote: names, layouts, bytes, shared segments" ours '^TestReadsWhatExecuTorchWrote$'
proves "we write the same bytes, and our own ways" ours '^TestWritesWhatExecuTorchReads$'
proves "files of 0.6 are brought up to date" ours '^TestEditBringsAFileOf06UpToDate$'
proves "ExecuTorch's deserializer reads what we wrote" reference read "$work/cases"
proves "ExecuTorch's C++ runtime reads what we wrote" reference run "$work/cases"
proves "ExecuTorch's deserializer reads what was brought up to date" reference read "$work/cases/upgraded"
proves "ExecuTorch's C++ runtime reads what was brought up to date" reference run "$work/cases/upgraded"
if [ "${1:-}" = --full ] || [ -n "${TENSORFILE_FULL:-}" ]; then
	proves "testdata/ptd is what ExecuTorch 0.6 to 1.5 writes" golden
else
	skip "testdata/ptd is not made anew (--full)"
fi

echo "interop ptd: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
