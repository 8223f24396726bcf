#!/usr/bin/env bash
# recipes.sh: runs each shell block of docs/recipes.md and docs/skill/SKILL.md as it is written, on small files, and checks what a reader would see.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
for need in git jq; do
	command -v $need >/dev/null || { echo "skip: no $need"; echo "interop recipes: 0 passed, 0 failed, 1 skipped"; exit 0; }
done
duckdb=$(interop/tools.sh duckdb)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/tree"
go build -o "$work/bin/tensorfile" ./cmd/tensorfile
export PATH="$work/bin:$(dirname "$duckdb"):$PATH" HOME="$work" GIT_CONFIG_NOSYSTEM=1
unset GIT_CONFIG_GLOBAL

# The files that the recipes name: a model, two versions of it, a directory with a model of two shards, a tree with a damaged file.
data=$root/testdata
cd "$work/tree"
git init -q .
git config user.name recipes && git config user.email recipes@example.com
python3 - <<'PY'
import json, random, struct
header, data = {}, b""
for i in range(20):
    values = struct.pack("<8f", *(random.gauss(0, 1) for _ in range(8)))
    dtype, values = ("F32", values) if i % 2 else ("BF16", b"".join(values[j + 2 : j + 4] for j in range(0, 32, 4)))
    header[f"layers.{i}.weight"] = {"dtype": dtype, "shape": [2, 4], "data_offsets": [len(data), len(data) + len(values)]}
    data += values
header = json.dumps(header, separators=(",", ":")).encode()
header += b" " * (-len(header) % 8)
open("model.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + data)
PY
cp model.safetensors base.safetensors
tensorfile edit -q model.safetensors tuned.safetensors --set note=tuned
python3 - <<'PY'
data = bytearray(open("tuned.safetensors", "rb").read())
data[-1] ^= 1
open("tuned.safetensors", "wb").write(data)
PY
tensorfile edit -q model.safetensors ddp.safetensors --rename 'layers.*=module.layers.*'
tensorfile edit -q model.safetensors hf.safetensors --rename 'layers.*.weight=model.layers.*.mlp.up_proj.weight'
tensorfile convert -q model.safetensors plain.gguf --rename 'layers.*.weight=blk.*.ffn_up.weight'
tensorfile edit -q plain.gguf llama.gguf --set general.architecture=llama
mkdir models weights
tensorfile split -q model.safetensors -o models/tiny --max 300B
cp model.safetensors weights/
cp "$data/ztensor/crate-1.2.3-digests.zt" weights/
cp "$data/torch/deflated.pt" checkpoint.pt
git add model.safetensors

awk -v dir="$work" '
	/^## / { title = substr($0, 4) }
	/^```sh$/ { n++; file = sprintf("%s/%02d.sh", dir, n); print title > (file ".title"); on = 1; next }
	/^```/ { on = 0 }
	on { print > file }' "$root/docs/recipes.md" "$root/docs/skill/SKILL.md"

passed=0 failed=0
fail() { failed=$((failed + 1)); echo "FAIL: $1"; }
for block in "$work"/[0-9]*.sh; do
	title=$(cat "$block.title")
	if bash -euo pipefail "$block" >"$block.out" 2>"$block.err"; then
		passed=$((passed + 1)) && echo "ok: $title"
	else
		fail "$title: $(cat "$block")" && cat "$block.out" "$block.err"
	fi
done

# The blocks should have shown this.
shows() { if grep -qF -- "$2" "$work"/[0-9]*.sh.out; then passed=$((passed + 1)) && echo "ok: $1"; else fail "$1: no $2"; fi; }
shows "a difference of one element is found" "layers.19.weight          1   8"
shows "content ids of two formats are equal" "$(tensorfile hash --content model.zt | awk '{print $1}')"
shows "SQL sums the bytes of a dtype" "bfloat16"

shows "names of one side are mapped" "the same: 20 tensors"
shows "the skill finds a changed tensor" "layers.19.weight"
grep -q '"results": \[\]' tensorfile.sarif && passed=$((passed + 1)) || fail "no report of code scanning"

# A damaged file is seen by the gate, by the hook and by the list.
printf 'X' | dd of=weights/model.safetensors bs=1 seek=3 conv=notrunc status=none
for command in "tensorfile verify -r --strict weights" "bash $work/02.sh"; do
	cp weights/model.safetensors model.safetensors && git add model.safetensors
	if bash -c "$command" >/dev/null 2>&1; then fail "no exit status for damage: $command"; else passed=$((passed + 1)); fi
done
if bash -euo pipefail "$work/03.sh" | grep -q '^weights/model.safetensors	malformed'; then
	passed=$((passed + 1)) && echo "ok: the damaged file is listed"
else
	fail "the damaged file is not listed"
fi

# git shows statistics in place of "Binary files differ".
printf '*.safetensors diff=tensorfile\n' >.gitattributes
cp base.safetensors kept.safetensors && git add . && git commit -qm one
cp tuned.safetensors kept.safetensors
if git diff -- kept.safetensors | grep -q '^[-+].*bfloat16\|^[-+].*float32'; then
	passed=$((passed + 1)) && echo "ok: git diff shows what changed"
else
	fail "git diff shows nothing"
fi

echo "interop recipes: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
