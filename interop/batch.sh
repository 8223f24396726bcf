#!/usr/bin/env bash
# batch.sh: 1,000 files behind a server are verified by eight processes, a part each, of which three are killed and resumed. The
# eight ledgers say what one run says.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
passed=0 failed=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }

go build -o "$work/tensorfile" ./cmd/tensorfile
go build -o "$work/server" ./interop/batch
mkdir "$work/files"
"$work/server" "$work/files" "$work/gate" >"$work/addresses" &
server=$!

# until_true COMMAND...: wait until it holds, for two minutes at most, while the server runs.
until_true() {
	local i
	for ((i = 0; i < 1200; i++)); do
		if "$@"; then return; fi
		kill -0 $server && sleep 0.1 || break
	done
	echo "FAIL: not within two minutes: $*" && return 1
}
serves() { [ -s "$work/addresses" ] && [ -z "$(tail -n 1 "$work/addresses")" ]; }
until_true serves

# part I: verify a part of the list; its ledger is $work/I.
part() { "$work/tensorfile" verify --files-from "$work/addresses" --part "$1/8" --jobs 2 --resume "$work/$1" 2>"$work/$1.err"; }

# exits STATUS COMMAND...: that is its exit status.
exits() {
	local status=0
	"${@:2}" || status=$?
	[ $status -eq "$1" ] || { echo "exit status $status, not $1"; return 1; }
}

# The second half of the files is not served before the three are killed, and so none of them is done.
pids=()
for i in $(seq 8); do
	"$work/tensorfile" verify --files-from "$work/addresses" --part "$i/8" --jobs 2 --resume "$work/$i" 2>"$work/$i.err" &
	pids+=($!)
done
begun() { [ -s "$work/1" ] && [ -s "$work/2" ] && [ -s "$work/3" ]; }
until_true begun
kill -9 "${pids[@]:0:3}"
touch "$work/gate"
for i in 3 4 5 6 7; do wait "${pids[$i]}" || true; done
lines=$(cat "$work"/[1-8] | wc -l)
killed() { [ "$lines" -gt 0 ] && [ "$lines" -lt 1000 ] || { echo "$lines lines"; return 1; }; }
proves "three of eight were killed before they were done, after $lines of 1000 files" killed
torn() { printf '{"file": "http' >>"$work/1"; part 1 || true; grep -q "done before" "$work/1.err" && ! grep -q '"http$' "$work/1"; }
proves "a ledger whose last line is torn goes on where it was" torn
for i in 2 3; do part $i || true; done
all() { [ "$(cat "$work"/[1-8] | wc -l)" -eq 1000 ] && [ "$(cat "$work"/[1-8] | grep -o '"file": "[^"]*"' | sort -u | wc -l)" -eq 1000 ]; }
proves "the ledgers have each file once" all
whole() { exits 1 "$work/tensorfile" verify --files-from - --jsonl <"$work/addresses" 2>/dev/null >"$work/whole"; }
proves "one run of all files ends with the status of damage" whole
same() {
	local strip='s/, "seconds": [^,]*//; s/, "job": "[^"]*"//; s/, "etag": "[^,]*"//; s/, "size": [0-9]*//; s/, "read_bytes": [0-9]*//'
	diff <(sed "$strip" "$work"/[1-8] | sort) <(sed "$strip" "$work/whole" | sort) | head -n 6
}
proves "the ledgers say what one run of all files says" same
damaged() { [ "$(grep -c '"exit": 1' "$work/whole")" -eq 10 ]; }
proves "ten of the files are damaged" damaged
again() {
	local i
	i=$(basename "$(grep -l '"exit": 1' "$work"/[1-8] | head -n 1)")
	exits 1 part "$i" && grep -q "$(wc -l <"$work/$i") done before" "$work/$i.err"
}
proves "a part that is done is not done again, and has its exit status" again
indexed() { { JOB_COMPLETION_INDEX=0 "$work/tensorfile" detect --files-from "$work/addresses" --part auto/8 --jsonl 2>/dev/null || true; } | grep -o '"file": "[^"]*"' | sort | cmp - <(grep -o '"file": "[^"]*"' "$work/1" | sort); }
proves "the index of a Kubernetes job chooses the part" indexed
outside() { JOB_COMPLETION_INDEX=8 exits 2 "$work/tensorfile" detect --files-from "$work/addresses" --part auto/8 2>/dev/null; }
proves "an index outside of the parts is wrong usage" outside
convert() {
	"$work/tensorfile" convert --files-from "$work/addresses" --part 2/8 --to npz -o "$work/npz" --resume "$work/converted" 2>/dev/null || true
	[ "$(find "$work/npz" -name '*.npz' | wc -l)" -eq "$(grep -c '"exit": 0' "$work/converted")" ]
}
proves "files are converted into a directory" convert
proves "the manifests of docs/batch are valid for Kubernetes, Argo Workflows and AWS Batch" "$(interop/tools.sh manifests)" interop/batch/validate.py
echo "interop batch: $passed passed, $failed failed, 0 skipped"
exit $((failed > 0))
