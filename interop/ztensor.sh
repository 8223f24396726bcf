#!/usr/bin/env bash
# ztensor.sh: proves zTensor against upstream's packages: packages of every generation write what we read, packages of 1.0 and 2 read what we write.
#
# 1. Files with random content by the Python wheels: our command lists and hashes what NumPy put in.
#    Files that no writer would make and that are right all the same (interop/ztensor/odd.py): we read what the wheel reads.
# 2. Files with random content by our Go writer (interop/ztensor/write), of 1.0 and 2: the wheel of that generation reads what we put in.
#
# With TENSORFILE_FULL also the Rust crates: they write what wheels cannot (digests, attributes, logical types, append, layouts, shards),
# check the digests of ours, and judge 50,000 wrong files of version 2, of which they must say what we say.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export TOOLS=$PWD/interop/tools.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }
skip() { skipped=$((skipped + 1)) && echo "skip: $1"; }

go build -o "$work/tensorfile" ./cmd/tensorfile
declare -A wheel crate=([1.0]=z10 [2]=z21)
for v in 0.1.4 1.0.1 1.1.1 1.2.3 2.1.2; do wheel[$v]=$("$TOOLS" ztensor $v); done

# verified FILE: nothing is wrong with it, though it may hold types of nobody's.
verified() {
	local status=0
	"$work/tensorfile" verify --json "$1" >"$work/verify" || status=$?
	[ $status -eq 0 ] || { [ $status -eq 1 ] && ! grep '"severity": "error"' "$work/verify" | grep -v '"class": "unsupported"'; }
}
from_wheel() { # VERSION
	"${wheel[$1]}" interop/ztensor/wheel.py write "$work/$1.zt" >"$work/$1.json" &&
		python3 interop/compare.py "$work/tensorfile" "$work/$1.json" "$work/$1.zt" && verified "$work/$1.zt"
}
into_wheel() { # VERSION FILE
	"${wheel[$1]}" interop/ztensor/wheel.py read "$2" >"$work/read.json" && python3 interop/compare.py --read "${2%.zt}.json" "$work/read.json"
}
canonical() { # FILE, of version 2
	"${wheel[2.1.2]}" interop/ztensor/wheel.py again "$1" "$work/again.zt" && cmp "$1" "$work/again.zt"
}
into_crate() { # PROGRAM FILE
	"$("$TOOLS" numpy)" interop/ztensor/testdata.py --read "$1" "$2" && python3 interop/compare.py --read "${2%.zt}.json" "${2%.zt}.read.json"
}

for v in "${!wheel[@]}"; do proves "wheel $v writes random content, and we read it" from_wheel "$v"; done

odd_files() { # WHEEL VERSION
	local f
	python3 interop/ztensor/odd.py "$2" "$work" 8
	for f in "$work/odd-$2"-*.zt; do
		"${wheel[$1]}" interop/ztensor/wheel.py read "$f" >"${f%.zt}.json" && python3 interop/compare.py "$work/tensorfile" "${f%.zt}.json" "$f" || return
	done
}
for v in 0.1.4 1.0.1 1.1.1 1.2.3; do proves "wheel $v and we read the same from odd files" odd_files $v ${v%.*}; done

from_crates() {
	SALT=$RANDOM$RANDOM interop/ztensor/testdata.sh "$work/theirs" || return
	local f
	for f in "$work"/theirs/*.zt; do python3 interop/compare.py "$work/tensorfile" "${f%.zt}.json" "$f" && verified "$f" || return; done
}
if [ -n "${TENSORFILE_FULL:-}" ]; then
	proves "the crates write every kind of file with random content, and we read it" from_crates
else
	skip "the crates write and read nothing: only with TENSORFILE_FULL"
fi

mkdir "$work/ours"
go run ./interop/ztensor/write "$work/ours"
for f in "$work"/ours/*.zt; do
	name=$(basename "$f" .zt) version=${name%%-*}
	case $version in 1.0) v=1.0.1 ;; 2) v=2.1.2 ;; esac
	proves "we write $name, and wheel $v reads it" into_wheel $v "$f"
	[ -z "${TENSORFILE_FULL:-}" ] || proves "we write $name, and the crate of version $version reads and verifies it" into_crate "${crate[$version]}" "$f"
done

proves "we write shards next to their root, and wheel 2.1.2 reads and verifies them" into_wheel 2.1.2 "$work/ours/shards/2-positional.zt"
if [ -n "${TENSORFILE_FULL:-}" ]; then
	proves "we write shards, and the crate reads and verifies all of them" into_crate z21 "$work/ours/shards/2-positional.zt"
fi
proves "we read and verify our shards" verified "$work/ours/shards/2-positional.zt"

crate2=
if [ -n "${TENSORFILE_FULL:-}" ]; then
	crate2=$("$TOOLS" zref z21)
	proves "the crate and we refuse, list, read and verify wrong files of version 2 alike" \
		env TENSORFILE_ZTCRATE="$crate2" TENSORFILE_SEED=$RANDOM go test ./ztensor -count=1 -run '^TestVerdictsAreTheSameAsCrate$' -v
fi
"${wheel[2.1.2]}" -c pass && python3 interop/ztensor/two.py "$work/tensorfile" "${wheel[2.1.2]}" $crate2 >"$work/two" || true
cat "$work/two"
passed=$((passed + $(grep -c '^ok: ' "$work/two" || true))) failed=$((failed + $(grep -c '^FAIL: ' "$work/two" || true)))

for name in empty canonical; do proves "we write 2-$name to the byte as the wheel does" canonical "$work/ours/2-$name.zt"; done

echo "interop ztensor: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
