#!/usr/bin/env bash
# convert.sh: files that one format's reference tool wrote, converted by our command, and read by the target's reference tool.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
proves() { if "${@:2}"; then passed=$((passed + 1)) && echo "ok: $1"; else failed=$((failed + 1)) && echo "FAIL: $1"; fi; }

go build -o "$work/tensorfile" ./cmd/tensorfile
numpy=$(interop/tools.sh numpy) gguf=$(interop/tools.sh gguf) etrun=$(interop/tools.sh etrun) rten=$(interop/tools.sh rten-convert 0.22.0) primitivref=$(interop/tools.sh primitivref)
z10=$(interop/tools.sh ztensor 1.0.1) z20=$(interop/tools.sh ztensor 2.1.2)

# read TARGET FILE: by the reference of the target.
read_by() {
	case $1 in
	safetensors | npz | npy) "$numpy" interop/convert/read.py "$1" "$2" ;;
	gguf) "$gguf" interop/convert/read.py gguf "$2" ;;
	rten) "$rten" interop/convert/read.py rten "$2" ;;
	ptd) "$etrun" ptd "$2" ;;
	primitiv) "$primitivref" dump "$2" ;;
	ztensor@1.0) "$z10" interop/ztensor/wheel.py read "$2" ;;
	ztensor@2) "$z20" interop/ztensor/wheel.py read "$2" ;;
	esac
}

carried() { # SOURCE EXPECT TARGET MIN FLAG...
	local out=$work/out
	rm -f "$out" && "$work/tensorfile" convert "$1" "$out" --to "$3" --allow all "${@:5}" >"$work/log" 2>&1 || { tail -n 2 "$work/log"; return 1; }
	read_by "$3" "$out" >"$work/read" 2>"$work/log" || { tail -n 2 "$work/log"; return 1; }
	python3 interop/convert/matches.py "$2" "$work/read" "$4" "$3"
}

t=testdata
for to in safetensors npz gguf ptd ztensor@1.0 ztensor@2 primitiv rten; do
	many=$([[ $to == primitiv || $to == rten ]] && echo 1 || echo 5) # of rten some integers do not fit its int32, and are dropped
	proves "safetensors to $to" carried $t/safetensors/dtypes.safetensors $t/safetensors/dtypes.json $to "$many"
	proves "npz to $to" carried $t/npy/stored.npz $t/npy/stored.npz.json $to "$many"
	proves "zTensor 1.2 to $to" carried $t/ztensor/crate-1.2.3-dtypes.zt $t/ztensor/crate-1.2.3-dtypes.json $to "$many"
	for v in 0.1.0 1.0.0 1.1.1; do proves "zTensor $v to $to" carried $t/ztensor/crate-$v-dtypes.zt $t/ztensor/crate-$v-dtypes.json $to "$many"; done
	proves "zTensor 2 to $to" carried $t/ztensor/crate-2.1.1-dtypes.zt $t/ztensor/crate-2.1.1-dtypes.json $to "$many"
	proves "zTensor 1.2 with digests to $to" carried $t/ztensor/crate-1.2.3-digests.zt $t/ztensor/crate-1.2.3-digests.json $to 2
	proves "ptd to $to" carried $t/ptd/et-1.5.1-dtypes.ptd $t/ptd/et-1.5.1-dtypes.json $to 1
	proves "zTensor 1.0 with zstd to $to" carried $t/ztensor/crate-1.0.0-zstd.zt $t/ztensor/crate-1.0.0-zstd.json $to 0
	proves "the constants of a pte to $to" carried $t/pte/export-1.5.1-conv.pte $t/pte/export-1.5.1-conv.json $to 1
	proves "the weights and aliases of a ptn to $to" carried $t/ptn/export-1.5.1-tied.ptn $t/ptn/export-1.5.1-tied.ptn.json $to $([[ $to == primitiv ]] && echo 4 || echo 8)
	proves "the constants of a rten to $to" carried $t/rten/convert-0.22.0-basic.rten $t/rten/convert-0.22.0-basic.json $to 1
	[[ $to == ztensor@1.0 ]] || # whose reader knows no layout beyond dense and sparse
		proves "gguf to $to" carried $t/gguf/align4096.gguf $t/gguf/align4096.gguf.json $to 0
done

# primitiv's matrices are column-major: what its library says of them, and what the others say of ours.
"$primitivref" dump $t/primitiv/model-nested.primitiv >"$work/nested"
for to in safetensors npz gguf ptd ztensor@1.0 ztensor@2 rten; do
	proves "primitiv to $to" carried $t/primitiv/model-nested.primitiv "$work/nested" $to 5 --row-major
done

# Blocks, made numbers and numbers made blocks: what the gguf package makes of the same.
blocks() { # FLAG...: whether its dequantize of the blocks is what we wrote
	rm -f "$work/dense.gguf" "$work/q.gguf"
	"$work/tensorfile" convert $t/gguf/quantised.gguf "$work/dense.gguf" "$@" &&
		"$work/tensorfile" convert "$work/dense.gguf" "$work/q.gguf" --dtype float32=Q8_0 --filter 'x.*' --allow overflow &&
		"$gguf" -W ignore interop/convert/blocks.py $t/gguf/quantised.gguf "$work/dense.gguf" "$work/q.gguf"
}
proves "blocks of gguf as float32, and float32 as Q8_0" blocks --dequantize

# One array, into and out of .npy.
for from in le-f4 be-f8 column le-c8 scalar; do
	for to in safetensors npz npy ptd ztensor@2; do proves "$from.npy to $to" carried $t/npy/$from.npy $t/npy/$from.npy.json $to 0; done
done

# Random files of every format, converted to every other: what went in is what the target's reference reads.
mkdir "$work/random"
TENSORFILE_CONVERSIONS=$work/random go test -count=1 -run TestConversionsForReferences ./convert
arrived() { # NAME TARGET
	read_by "$2" "$work/random/$1" >"$work/read" 2>"$work/log" || { tail -n 2 "$work/log"; return 1; }
	python3 interop/convert/matches.py "$work/random/$1.json" "$work/read" 0 "$2"
}
for file in "$work"/random/*.json; do
	name=$(basename "$file" .json)
	proves "random $name" arrived "$name" "${name##* to }"
done

echo "interop convert: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
