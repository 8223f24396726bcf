#!/usr/bin/env bash
# model.sh: tensorfile check on a model of five shards that huggingface_hub 2.4.0 and safetensors 0.8.0 made, as it was saved, in the
# cache after a download, and in a directory that was downloaded to; sound, then with one kind of damage at a time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
py=$(interop/tools.sh hub)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }

go build -o "$work/tensorfile" ./cmd/tensorfile
proves "huggingface_hub writes shards and an index, and downloads them into its cache and a directory" "$py" interop/model/make.py "$work/sound" "$RANDOM$RANDOM"
sound=$work/sound
repo=hub/models--acme--tiny

# found DIR "CODE FILE…" ARG…: the findings of check DIR ARG…, and with none the figures too.
found() {
	local status=0
	"$work/tensorfile" check --json "$1" "${@:3}" >"$work/report" || status=$?
	"$py" - "$work/report" "$sound/figures.json" "$status" "$2" <<'PY'
import json, sys
report, figures, status, want = json.load(open(sys.argv[1])), json.load(open(sys.argv[2])), int(sys.argv[3]), sys.argv[4].split("\n")
got = [f"{f['code']} {f['file']}" for f in report["findings"]]
ok = got == [w for w in want if w] and status == (1 if any(f["severity"] == "error" for f in report["findings"]) else 0)
if not got:
    ok = ok and all(report[k] == figures[k] for k in ("shards", "tensors", "parameters", "bytes"))
    ok = ok and report["dtypes"]["float32"]["bytes"] == figures["bytes"] and report["config"]["dtype"] == "float32"
    if report["kind"] in ("hf-snapshot", "hub"):
        ok = ok and report["commit"] == figures["commit"] and report["repository"] == "acme/tiny"
        ok = ok and (not report["deep"] or report["read"]["hashed"] == figures["files"])
if not ok:
    print(status, got, {k: v for k, v in report.items() if k not in ("findings", "sets")})
sys.exit(not ok)
PY
}

# damaged NAME COMMAND: a copy of everything, in whose root COMMAND was run; $dir is it.
damaged() {
	dir=$work/$1
	cp -a "$sound" "$dir"
	(cd "$dir" && eval "$2")
}
blob() { (cd "$1" && readlink -f "$repo"/snapshots/*/"$2"); }
flip='import sys; p = sys.argv[1]; b = bytearray(open(p, "rb").read()); b[-1] ^= 1; open(p, "wb").write(b)'
two=model-00002-of-00005.safetensors

for deep in "" "--deep --values"; do
	for place in saved $repo $repo/snapshots/* local; do
		# shellcheck disable=SC2086
		for d in "$sound"/$place; do proves "sound: ${d#"$sound"/} $deep" found "$d" "" $deep; done
	done
done
proves "sound: the sums of sha256sum" found "$sound/saved" "" --manifest "$sound/SHA256SUMS"
proves "sound: the stored tree as a manifest" found "$sound/saved" "" --manifest "$(echo "$sound"/$repo/trees/*)"

damaged cut "truncate -s 10000 saved/$two local/$two \$(readlink -f $repo/snapshots/*/$two)"
proves "a cut shard" found "$dir/saved" "truncated $two"
proves "a cut blob" found "$dir/$repo" $'size-mismatch '"$two"$'\ntruncated '"$two"
proves "a cut blob, read whole" found "$dir/$repo" $'blob-name '"$two"$'\nsize-mismatch '"$two"$'\ntruncated '"$two" --deep
proves "a cut shard where huggingface_hub downloaded to" found "$dir/local" $'size-mismatch '"$two"$'\ntruncated '"$two"
damaged bytes "for f in saved/$two local/$two \$(readlink -f $repo/snapshots/*/$two); do '$py' -c '$flip' \$f; done"
proves "wrong bytes of the right size are not in a header" found "$dir/$repo" ""
proves "a blob of wrong bytes" found "$dir/$repo" "blob-name $two" --deep
proves "a download of wrong bytes" found "$dir/local" "digest-mismatch $two" --deep
proves "wrong bytes, by the sums" found "$dir/saved" "digest-mismatch $two" --manifest "$dir/SHA256SUMS"
damaged gone "rm saved/$two local/$two \$(readlink -f $repo/snapshots/*/$two)"
proves "a shard is gone" found "$dir/saved" "missing-shard $two"
proves "a blob is gone" found "$dir/$repo" "dangling-link $two"
damaged whole true
proves "a blob of a README is gone" bash -c "rm \"\$(readlink -f '$sound/$repo'/snapshots/*/README.md)\"; ! '$work/tensorfile' check '$sound/$repo' >/dev/null"
damaged index "rm saved/model.safetensors.index.json"
proves "shards without an index" found "$dir/saved" "no-index model-00001-of-00005.safetensors"

# The same over the network: a Hub that redirects to another host, with a token.
export HF_STANDIN_TOKEN=hf_$RANDOM HF_TOKEN
HF_TOKEN=$HF_STANDIN_TOKEN
commit=$(ls "$sound/$repo/snapshots")
servers=()
trap 'kill "${servers[@]}" 2>/dev/null; rm -rf "$work"' EXIT
serve() { # DIR: sets HF_ENDPOINT
	mkfifo "$work/address"
	"$py" interop/model/hub.py "$1" "$commit" >"$work/address" &
	servers+=($!)
	read -r HF_ENDPOINT <"$work/address"
	rm "$work/address"
	export HF_ENDPOINT
}
cp -L "$work/whole/$repo"/snapshots/*/README.md "$sound/saved/README.md"
serve "$sound/saved"
proves "hub: sound" found hf://acme/tiny ""
proves "hub: sound, at a commit" found "hf://acme/tiny@$commit" ""
proves "hub: sound, read whole" found hf://acme/tiny "" --deep --values
proves "hub: a manifest, without reading" found hf://acme/tiny "" --manifest <(grep -v README "$sound/SHA256SUMS")
proves "hub: another command" bash -c "'$work/tensorfile' hash --content hf://acme/tiny | cut -c1-64 | cmp - <('$work/tensorfile' hash --content '$sound/saved' | cut -c1-64)"
proves "hub: one file" bash -c "'$work/tensorfile' ls hf://acme/tiny/$two | cmp - <('$work/tensorfile' ls '$sound/saved/$two')"
proves "hub: an index and its shards" bash -c "'$work/tensorfile' verify hf://acme/tiny/model.safetensors.index.json >/dev/null"
proves "hub: a wrong token is refused, and not shown" bash -c "! HF_TOKEN=hf_wrong '$work/tensorfile' check hf://acme/tiny 2>'$work/refused' && ! grep -q hf_wrong '$work/refused'"
proves "hub: other digests in a manifest" found hf://acme/tiny "digest-mismatch $two" --manifest <(sed "/README/d; /$two/s/^......../00000000/" "$sound/SHA256SUMS")
# The verdict of huggingface_hub on its cache, which it compares with the Hub: the same of bytes that are wrong.
hf=$(dirname "$py")/hf
verified() { # DIR STATUS: of both
	local status=0
	HF_HUB_CACHE=$1/hub "$hf" cache verify acme/tiny >"$work/log" 2>&1 || status=$?
	[ "$status" -eq "$2" ] || { tail -n 20 "$work/log"; return 1; }
	"$work/tensorfile" check --deep "$1/$repo" >/dev/null || status=$?
	[ "$status" -eq "$2" ]
}
proves "huggingface_hub and we find a sound cache sound" verified "$work/whole" 0
proves "huggingface_hub and we find wrong bytes in a blob" verified "$work/bytes" 1
proves "huggingface_hub and we find a cut blob" verified "$work/cut" 1
serve "$work/cut/saved"
proves "hub: a cut shard" found hf://acme/tiny "truncated $two"
serve "$work/gone/saved"
proves "hub: a shard is gone" found hf://acme/tiny "missing-shard $two"

echo "interop model: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
