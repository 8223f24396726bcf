#!/usr/bin/env bash
# sarif.sh: what check and verify write with --sarif is valid SARIF 2.1.0 by Microsoft's validator, which also holds it against the rules of
# GitHub's code scanning: for sound and damaged files and directories, and names that need escapes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
validator=$(interop/tools.sh sarif)
data=$PWD/testdata
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1 # without libicu
passed=0 failed=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }

# valid FILE: the validator has no error or warning about it, and said that it read it.
valid() {
	"$validator" validate "$1" --rule-kind 'Sarif;Ghas' --level 'Error;Warning' >"$work/said" 2>&1 || true
	if grep -q 'files scanned' "$work/said" && ! grep -E '(error|warning) [A-Z]+[0-9]+:|: error' "$work/said"; then return; fi
	cat "$work/said" && return 1
}
invalid() { ! valid "$1" >/dev/null; }

# report STATUS FILE ARG…: the command ends with that status and writes the report.
report() {
	local status=0
	tensorfile "${@:3}" --sarif "$2" >/dev/null 2>&1 || status=$?
	[ "$status" = "$1" ] && valid "$2"
}

go build -ldflags '-X main.version=0.1.0' -o "$work/bin/tensorfile" ./cmd/tensorfile
PATH=$work/bin:$PATH
mkdir "$work/tree" && cd "$work/tree"
mkdir -p models/empty
tensorfile convert "$data/safetensors/dtypes.safetensors" model.safetensors
tensorfile split -q model.safetensors -o models/sound --max 300B
tensorfile split -q model.safetensors -o 'models/a "b" {0} [x](y) %zz' --max 300B
rm models/a*/*-00002-of-*
cp -r models/sound models/json
printf '{"metadata": {},\n "weight_map": {"x": 3}}' >models/json/model.safetensors.index.json
printf '[' >models/json/config.json
cp "$data/torch/deflated.pt" checkpoint.pt
head -c -3 model.safetensors >cut.safetensors
find "$data/malformed" -type f -exec cp {} . \;

proves "a sound directory" report 0 sound.sarif check models/sound
proves "every directory of a tree" report 1 tree.sarif check -r models
proves "an empty directory" report 1 empty.sarif check models/empty
proves "a directory that is not there" report 3 absent.sarif check models/absent
proves "one cut file" report 1 cut.sarif verify cut.safetensors
proves "a file outside" report 0 outside.sarif verify "$data/safetensors/dtypes.safetensors"
proves "a checkpoint" report 0 checkpoint.sarif verify --strict checkpoint.pt
proves "every file of a tree, also unreadable ones" report 4 files.sarif verify -r . "$data/README.md"
proves "a list" report 1 list.sarif verify --files-from <(ls ./*.safetensors) --jobs 4
proves "the tree has findings of several rules" python3 -c '
import json
for name, least in ("tree", 3), ("files", 4):
    run = json.load(open(name + ".sarif"))["runs"][0]
    rules = {r["ruleId"] for r in run["results"]}
    assert len(rules) >= least, rules
    assert any("byteOffset" in r["locations"][0]["physicalLocation"]["region"] for r in run["results"])'
sed 's/"startLine"/"startLin"/' tree.sarif >wrong-schema.sarif
proves "the validator sees a property that the schema lacks" invalid wrong-schema.sarif
sed 's/"uri": "models/"uri": " models/' tree.sarif >wrong-uri.sarif
proves "the validator sees a wrong URI" invalid wrong-uri.sarif

echo "interop sarif: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
