#!/usr/bin/env bash
# gguf.sh: proves gguf on files with fresh random content by the gguf package of PyPI, which reads what we write of them:
# edited, split and merged, and made of a model of safetensors.
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
proves "we read every tensor and every metadata entry of them, decode every block to the same bits, write the same bytes, and make the same blocks" \
	env TENSORFILE_GGUF="$work" go test -count=1 -run "TestFilesOfTheReference|AsTheReference" ./gguf

go build -o "$work/tensorfile" ./cmd/tensorfile
tf=$work/tensorfile
edited() {
	printf 'line\n{{ x }}=\n' >"$work/t.jinja"
	"$tf" edit "$work/metadata.gguf" "$work/edited.gguf" --set u32=7 --set f32=0.25 --set-file tokenizer.chat_template="$work/t.jinja" \
		--set 'new:[]int32=[1,-2]' --set strings='["x"]' --unset i8 --rename w=weight &&
		"$py" interop/gguf/read.py edited "$work/metadata.gguf" "$work/edited.gguf"
}
in_place() {
	cp "$work/metadata.gguf" "$work/place.gguf"
	"$tf" edit "$work/place.gguf" --in-place --header-only --set u32=7 && "$py" interop/gguf/read.py place "$work/metadata.gguf" "$work/place.gguf"
}
shards() {
	"$tf" split "$work/many.gguf" -o "$work/shards" --max 4KB --name m >"$work/names" &&
		"$py" interop/gguf/read.py shards "$work/many.gguf" $(cat "$work/names") &&
		[ "$("$tf" hash --content "$work/many.gguf" | cut -d' ' -f1)" = "$("$tf" hash --content "$(head -n 1 "$work/names")" | cut -d' ' -f1)" ] &&
		"$tf" merge "$(head -n 1 "$work/names")" "$work/merged.gguf" && cmp "$work/many.gguf" "$work/merged.gguf"
}
proves "the gguf package reads a file that we edited: types, strings, arrays, data" edited
proves "and one whose header alone we wrote" in_place
proves "and our shards; merged they are the same bytes" shards

libraries=$(interop/tools.sh llamacpp)
loads() { # FILE WORD: llama.cpp loads it, and finds the word in what it prints of its metadata
	"$py" interop/gguf/engine.py load "$libraries" "$1" >"$work/loaded" 2>"$work/log" && grep -qF -- "$2" "$work/loaded"
}
model=$work/model.gguf
"$py" interop/gguf/engine.py make "$model"
edited_loads() {
	"$tf" edit "$model" "$work/e.gguf" --set general.name="a longer name" --set-file tokenizer.chat_template="$work/t.jinja" &&
		loads "$work/e.gguf" "general.name='a longer name'" && loads "$work/e.gguf" "chat_template='line"
}
header_loads() {
	cp "$model" "$work/h.gguf"
	"$tf" edit "$work/h.gguf" --in-place --header-only --set general.name=MADE && loads "$work/h.gguf" "general.name='MADE'" &&
		! "$tf" edit "$work/h.gguf" --in-place --header-only --unset general.name 2>"$work/log" && loads "$work/h.gguf" "general.name='MADE'"
}
converted_loads() { # FLAG...
	rm -f "$work/c.gguf" "$work/c.zt"
	"$tf" convert "$model" "$work/c.zt" "$@" && "$tf" convert "$work/c.zt" "$work/c.gguf" && loads "$work/c.gguf" "general.name='made'"
}
dequantised_loads() {
	"$tf" convert "$work/c.gguf" "$work/d.gguf" --dequantize=float16 && loads "$work/d.gguf" "general.name='made'"
}
split_loads() {
	"$tf" split "$model" -o "$work/modelshards" --max 20KB --name m >"$work/names" && [ "$(wc -l <"$work/names")" -gt 1 ] &&
		loads "$(head -n 1 "$work/names")" "general.name='made'" &&
		"$tf" merge "$(head -n 1 "$work/names")" "$work/w.gguf" && loads "$work/w.gguf" "general.name='made'"
}
renamed_refused() {
	"$tf" edit "$model" "$work/r.gguf" --rename output_norm.weight=other && ! loads "$work/r.gguf" made
}
proves "llama.cpp loads a model that we edited" edited_loads
proves "and one whose header alone we wrote; a change that would move the data is refused" header_loads
proves "a model that went through zTensor 2" converted_loads
proves "one that we quantised as Q8_0 on the way" converted_loads --dtype float32=Q8_0
proves "and made numbers again, as float16" dequantised_loads
proves "our shards, and what they are merged to" split_loads
proves "and refuses one without a tensor that it needs" renamed_refused

echo "interop gguf: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
