#!/usr/bin/env bash
# tools.sh NAME [VERSION]: install one reference tool, or reuse it, and print its path.
#
#   ztensor VERSION        a Python with this ztensor wheel: 0.1.4 1.0.1 1.1.1 1.2.3 2.1.2
#   zref NAME              tools/ztensor/NAME over the ztensor crate of its generation: z01 z10 z11 z12 z21
#   etwheel VERSION        a directory for ETWHEEL, the unpacked ExecuTorch wheel: 0.2.1 0.3.0 0.4.0 0.6.0 0.7.0 1.0.1 1.5.1
#   etpython               a Python for tools/etserde.py and tools/ptnref.py, the serializers of such a wheel without torch
#   etrun                  tools/etrun.cpp: ExecuTorch 1.5.1's C++ runtime loads and runs a .pte, lists a .ptd
#   rtenproof              tools/rtenproof: the rten 0.27.0 crate loads and runs a .rten
#   rtenwriter             tools/rtenwriter: the last Rust writer of .rten, rten 0.23.0
#   rten-convert VERSION   a Python with this ONNX to .rten converter: 0.4.0 0.10.0 0.14.0 0.22.0
#   primitiv               a Python with primitiv 0.3.0
#   primitivref            tools/primitivref.cpp over its C++ library: makes, loads and judges files
#   numpy                  a Python with numpy, ml_dtypes, safetensors and cbor2
#   onnx                   a Python with onnx 1.23.2, onnxruntime 1.32.0, numpy and ml_dtypes, and models of PyTorch and Paddle that other packages ship
#   gguf                   a Python with the gguf package
#   quant                  a Python with mlx (CPU), onnxruntime, gguf, numpy and ml_dtypes
#   quantref               a Python with torch and the packages that quantise weights: 3 GB, by hand only
#   llamacpp               the directory of llama.cpp 0.5.0's shared libraries, as node-llama-cpp ships them
#   hub                    a Python with huggingface_hub, safetensors and numpy
#   stores                 a Python with moto's server, boto3, azure-storage-blob, safetensors and numpy
#   fakegcs                fake-gcs-server 1.56.1
#   browser                a directory with playwright-core 1.54.0 and axe-core 4.10.3 of npm, next to Debian's chromium
#   azurite                azurite 3.37.0, its server of blobs
#   versitygw              versitygw 1.8.0: eight minutes
#   cached NAME            the path of a tool that is made already, else it fails; versitygw only
#   duckdb                 a Python with DuckDB, for docs/recipes.md
#   manifests              a Python with kubernetes-validate, hera and botocore, for docs/batch
#   sarif                  Microsoft's validator of SARIF, sarif-multitool 5.7.0 of npm: the schema, the specification, GitHub's rules
#   flatc                  flatc 25.12.19
#   debian-flatc           Debian's flatc 2.0.8 with its C++ headers, for the C++ verifier
#   qemu-s390x             runs big-endian programs
#   torch                  a Python with torch 2.13.0 and ExecuTorch's exporter: 5.2 GB, two minutes, by hand only
#   torch-release VERSION  a Python with this torch alone: 1.6.0 1.13.1 2.1.2 2.4.1 2.8.0 2.15.0; 1.5
#                          to 2 GB, half a minute; empty libraries take the place of CUDA's
#   usual                  what .ci/run needs without --full, one "NAME VERSION PATH" a line
#   all                    every tool but torch and torch-release, the same way
#
# Tools live in ${TENSORFILE_TOOLS:-$HOME/.cache/tensorfile-tools}, outside the tree; the first call makes a tool and later ones
# reuse it while its recipe and sources are unchanged. The path is all that goes to standard output:
#
#   py=$(interop/tools.sh ztensor 2.1.2)
#
# Any failure is loud and leaves nothing behind that a later call would take for a tool. Any number of calls may run at once.
set -euo pipefail
shopt -s inherit_errexit

src=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/tools
mkdir -p "${TENSORFILE_TOOLS:=$HOME/.cache/tensorfile-tools}"
TENSORFILE_TOOLS=$(cd "$TENSORFILE_TOOLS" && pwd)

die() { echo "tools.sh: $*" >&2; exit 1; }

# made WANT: $dir is made, and its Python, where it has one, is still on this machine.
made() { [ "$(cat "$dir/.made" 2>/dev/null)" = "$1" ] && { [ ! -L "$dir/bin/python" ] || "$dir/bin/python" -c '' 2>/dev/null; }; }

# tool DIR RECIPE ARG...: set dir to $TENSORFILE_TOOLS/DIR and call RECIPE ARG... to fill it, unless the same recipe, arguments and
# sources (in the array sources) did so before. One recipe runs at a time: the machines are small. Each has three turns, since networks fail.
sources=() lock=.lock
tool() {
	local want turn
	dir=$TENSORFILE_TOOLS/$1
	shift
	want=$({
		declare -f "$1"
		echo "${@//$src/}" # without the tree's place: clones share the tools
		[ ${#sources[@]} -eq 0 ] || find "${sources[@]}" -type f -print0 | LC_ALL=C sort -z | xargs -0 cat
	} | sha256sum)
	if made "$want"; then return; fi
	(
		flock 9
		if made "$want"; then exit; fi # another call was faster
		echo "tools.sh: making $dir" >&2
		trap '[ $? -eq 0 ] || { tail -n 30 "$dir.log" >&2; rm -rf "$dir"; echo "tools.sh: FAILED to make $dir, see $dir.log" >&2; }' EXIT
		for turn in 1 2 3; do
			rm -rf "$dir"
			mkdir -p "$dir"
			# A process of its own: inside a condition errexit is off.
			if bash -euo pipefail -O inherit_errexit -c "$(declare -f; declare -p dir src TENSORFILE_TOOLS); \"\$@\"" bash "$@" >"$dir.log" 2>&1 9>&-; then break; fi
			[ $turn -lt 3 ]
			sleep $((turn * 10))
		done
		rm "$dir.log"
		echo "$want" >"$dir/.made"
	) 9>"$TENSORFILE_TOOLS/$lock"
}

# venv PIP-ARGUMENT...: a virtual environment with these packages.
venv() {
	python3 -m venv --without-pip "$dir"
	python3 -m pip --python "$dir/bin/python" install -q "$@"
}

wheels() { venv --only-binary :all: "$@"; }

etwheel() { # VERSION
	python3 -m pip download -q --no-deps --only-binary :all: -d "$dir" "executorch==$1"
	python3 -m zipfile -e "$dir"/executorch-*.whl "$dir"
	rm "$dir"/executorch-*.whl
	[ ! -f "$dir/executorch/data/bin/flatc" ] || chmod +x "$dir/executorch/data/bin/flatc"
}

etrun() { # WHEEL
	local w=$1/executorch
	g++ -w -std=c++17 -O1 -DC10_USING_CUSTOM_GENERATED_MACROS \
		-I"$w/include" -I"$w/include/executorch/runtime/core/portable_type/c10" "$src/etrun.cpp" -o "$dir/etrun" \
		-L"$w/lib" -Wl,-rpath,"$w/lib" -lexecutorch -Wl,--no-as-needed -lexecutorch_kernels_optimized \
		-lexecutorch_kernels_quantized -lexecutorch_backend_xnnpack -lexecutorch_threadpool
	"$dir/etrun" ops
}

llamacpp() { # its Python package is built from source; this one has the libraries
	cd "$dir"
	npm pack --silent @node-llama-cpp/linux-x64@3.22.1
	tar xzf ./*.tgz
	rm ./*.tgz
}

browser() {
	debian chromium
	npm install --silent --no-fund --no-audit --prefix "$dir" playwright-core@1.54.0 axe-core@4.10.3
}

azurite() { npm install --silent --no-fund --no-audit --prefix "$dir" azurite@3.37.0; }

sarif() { npm install --silent --no-fund --no-audit --prefix "$dir" @microsoft/sarif-multitool-linux@5.7.0; }

goinstall() { GOFLAGS=-trimpath GOBIN=$dir go install "$1"; }

onnx() { # and real exports
	wheels onnx==1.23.2 onnxruntime==1.32.0 numpy==2.2.6 ml_dtypes==0.6.0
	wheels --no-deps silero-vad==6.2.3 rapidocr-onnxruntime==1.4.4
}

torch() {
	wheels torch==2.13.0
	wheels --no-deps executorch==1.5.1 torchao==0.18.0
	wheels flatbuffers==25.12.19 numpy packaging pandas pyyaml ruamel.yaml sympy tabulate expecttest hypothesis parameterized py-cpuinfo scikit-learn hydra-core omegaconf
	chmod +x "$dir"/lib/python*/site-packages/executorch/data/bin/*
	"$dir/bin/python" -c 'import executorch.exir'
}

torch_release() { # VERSION NUMPY PYTHON
	"$3" -m venv --without-pip "$dir"
	python3 -m pip --python "$dir/bin/python" install -q --only-binary :all: --no-deps --no-cache-dir "torch==$1" \
		"$2" packaging typing_extensions sympy networkx mpmath filelock jinja2 markupsafe fsspec future 'setuptools<70'
	python3 "$src/stubs.py" "$dir"/lib/python*/site-packages/torch/lib
	"$dir/bin/python" -c 'import torch; torch.rand(2)'
}

quantref() {
	venv --only-binary :all: --no-deps --no-cache-dir torch==2.15.0
	venv --only-binary :all: numpy==2.2.6 packaging typing_extensions sympy networkx mpmath filelock jinja2 markupsafe fsspec setuptools \
		huggingface_hub omegaconf rich scipy
	python3 "$src/stubs.py" "$dir"/lib/python*/site-packages/torch/lib
	venv --only-binary :all: --no-deps compressed-tensors==0.20.0 transformers==5.24.0 bitsandbytes==0.50.2 torchao==0.18.0 \
		nvidia-modelopt==0.47.0 comfy-kitchen==0.2.40 mlx==0.32.4 mlx-cpu==0.32.4 gguf==0.19.0 ml_dtypes==0.6.0 safetensors==0.8.0 \
		tokenizers regex pyyaml tqdm pydantic pydantic-core annotated-types typing-inspection loguru frozendict accelerate psutil \
		pulp ninja nvidia-ml-py
	"$dir/bin/python" -c 'import torch, compressed_tensors, bitsandbytes, torchao, comfy_kitchen, mlx.core, modelopt.torch.quantization'
}

# python VERSION...: the first of these versions of Python that is installed, also by pyenv.
python() {
	local v p
	for v; do
		for p in "python$v" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$v".*/bin/python; do
			if "$p" -c '' 2>/dev/null; then
				command -v "$p"
				return
			fi
		done
	done
	die "none of these versions of Python is installed: $*"
}

primitiv() {
	local python built
	python=$(command -v python3) # the one that has pip: PATH changes below
	built=_skbuild/linux-x86_64-$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')/cmake-install
	venv --only-binary :all: numpy==1.26.4 cython==0.29.37 scikit-build==0.17.6 setuptools==59.8.0 wheel==0.45.1
	PATH=$dir/bin:$PATH CXXFLAGS=-w CPLUS_INCLUDE_PATH=$built/include LIBRARY_PATH=$built/lib PRIMITIV_PYTHON_BUILD_NUMBER=83 \
		"$python" -m pip --python "$dir/bin/python" install -q --no-build-isolation --no-deps primitiv==0.3.0.83
	"$dir/bin/python" -c 'import primitiv'
}

primitivref() { # PRIMITIV
	g++ -std=c++11 -O1 -w "$src/primitivref.cpp" -o "$dir/primitivref" -I"$1/include" "$1/lib/libprimitiv.a"
}

# crate DIR PROFILE: the program of a Cargo package. All share one target directory, outside $dir, so that a changed source does not
# build the dependencies again. Debug information would be most of it.
crate() {
	local out=$2
	[ "$2" != dev ] || out=debug
	CARGO_TARGET_DIR=$TENSORFILE_TOOLS/cargo-target CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 \
		cargo build -q --locked --profile "$2" --manifest-path "$1/Cargo.toml"
	cp "$TENSORFILE_TOOLS/cargo-target/$out/$(basename "$1")" "$dir"
}

# debian PACKAGE...: installed by apt-get, for the whole machine.
debian() {
	local sudo=
	[ "$(id -u)" -eq 0 ] || sudo="sudo -n"
	dpkg -s "$@" >/dev/null 2>&1 || {
		$sudo dpkg --configure -a # after an interruption
		$sudo apt-get update
		DEBIAN_FRONTEND=noninteractive $sudo apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "$@"
	}
}

# installed PROGRAM DIR: what was made of Debian's packages counts only where they are: the tools may come from another machine.
installed() { command -v "$1" >/dev/null || rm -f "$TENSORFILE_TOOLS/$2/.made"; }

path() { # NAME VERSION
	case $1 in
	ztensor)
		tool "ztensor-$2" wheels numpy==1.26.4 ml_dtypes==0.5.3 "ztensor==$2"
		echo "$dir/bin/python"
		;;
	zref)
		sources=("$src/ztensor/zref.rs" "$src/ztensor/$2")
		tool "$2" crate "$src/ztensor/$2" release
		echo "$dir/$2"
		;;
	etwheel)
		tool "executorch-$2" etwheel "$2"
		echo "$dir"
		;;
	etpython)
		tool etpython wheels --no-deps flatbuffers==25.12.19 safetensors==0.8.0
		echo "$dir/bin/python"
		;;
	etrun)
		tool executorch-1.5.1 etwheel 1.5.1
		sources=("$src/etrun.cpp")
		tool etrun etrun "$dir"
		echo "$dir/etrun"
		;;
	torch)
		lock=.lock-torch # the others need not wait for it
		tool torch torch
		echo "$dir/bin/python"
		;;
	torch-release)
		lock=.lock-torch
		case $2 in
		1.6.0) python=$(python 3.8 3.7) numpy='numpy<2' ;;
		1.13.1 | 2.1.2) python=$(python 3.11 3.10 3.9) numpy='numpy<2' ;;
		*) python=$(python 3.12 3.11 3.10) numpy='numpy>=2' ;;
		esac
		sources=("$src/stubs.py")
		tool "torch-$2" torch_release "$2" "$numpy" "$python"
		echo "$dir/bin/python"
		;;
	rtenproof)
		sources=("$src/rtenproof")
		tool rtenproof crate "$src/rtenproof" dev # 24 s instead of 3 min, and overflow is a panic
		echo "$dir/rtenproof"
		;;
	rtenwriter)
		sources=("$src/rtenwriter")
		tool rtenwriter crate "$src/rtenwriter" dev
		echo "$dir/rtenwriter"
		;;
	rten-convert)
		tool "rten-convert-$2" wheels "rten-convert==$2" onnx==1.23.2
		echo "$dir/bin/python"
		;;
	primitiv)
		tool primitiv primitiv
		echo "$dir/bin/python"
		;;
	primitivref)
		tool primitiv primitiv
		sources=("$src/primitivref.cpp")
		tool primitivref primitivref "$dir"
		echo "$dir/primitivref"
		;;
	numpy)
		tool numpy wheels numpy==2.2.6 ml_dtypes==0.5.3 safetensors==0.8.0 cbor2==5.6.5
		echo "$dir/bin/python"
		;;
	onnx)
		tool onnx onnx
		echo "$dir/bin/python"
		;;
	gguf)
		tool gguf wheels numpy==2.2.6 gguf==0.19.0
		echo "$dir/bin/python"
		;;
	quant)
		tool quant wheels numpy==2.2.6 ml_dtypes==0.6.0 safetensors==0.8.0 gguf==0.19.0 mlx==0.32.4 mlx-cpu==0.32.4 onnx==1.23.2 onnxruntime==1.32.0
		echo "$dir/bin/python"
		;;
	quantref)
		sources=("$src/stubs.py")
		lock=.lock-torch
		tool quantref quantref
		echo "$dir/bin/python"
		;;
	llamacpp)
		tool llamacpp llamacpp
		echo "$dir/package/bins/linux-x64"
		;;
	hub)
		tool hub wheels huggingface_hub==2.4.0 safetensors==0.8.0 numpy==2.2.6
		echo "$dir/bin/python"
		;;
	stores)
		tool stores wheels 'moto[server]==5.2.1' boto3==1.43.11 azure-storage-blob==12.25.1 numpy==2.2.6 safetensors==0.8.0
		echo "$dir/bin/python"
		;;
	fakegcs)
		tool fakegcs goinstall github.com/fsouza/fake-gcs-server@v1.56.1
		echo "$dir/fake-gcs-server"
		;;
	azurite)
		tool azurite azurite
		echo "$dir/node_modules/.bin/azurite-blob"
		;;
	browser)
		installed chromium browser
		tool browser browser
		echo "$dir"
		;;
	versitygw)
		tool versitygw goinstall github.com/versity/versitygw/cmd/versitygw@v1.8.0
		echo "$dir/versitygw"
		;;
	cached)
		[ -e "$TENSORFILE_TOOLS/$2/.made" ] || exit 1
		path "$2" ""
		;;
	duckdb)
		tool duckdb wheels duckdb==1.3.2
		echo "$dir/bin/python"
		;;
	manifests)
		tool manifests wheels kubernetes-validate==1.37.0 hera==7.1.0 botocore==1.44.5 pyyaml==6.0.3
		echo "$dir/bin/python"
		;;
	sarif)
		tool sarif sarif
		echo "$dir/node_modules/@microsoft/sarif-multitool-linux/Sarif.Multitool"
		;;
	flatc) # a third party's build of Google's sources: held to the one that made our bindings
		tool flatc wheels --no-deps --require-hashes -r "$src/flatc.txt"
		echo "$dir/bin/flatc"
		;;
	debian-flatc)
		installed flatc debian-flatc
		tool debian-flatc debian flatbuffers-compiler libflatbuffers-dev
		command -v flatc
		;;
	qemu-s390x)
		installed qemu-s390x-static qemu
		tool qemu debian qemu-user-static
		command -v qemu-s390x-static
		;;
	*) die "no tool named $1" ;;
	esac
}

case ${1:-} in
'' | -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" ;;
usual | all)
	more=()
	[ "$1" = usual ] || more=(ztensor/0.1.4 rtenwriter versitygw zref/{z21,z12,z11,z10,z01,z21speed})
	for t in flatc qemu-s390x debian-flatc etwheel/{1.5.1,1.0.1,0.7.0,0.6.0,0.4.0,0.3.0,0.2.1} etpython etrun primitivref numpy onnx gguf quant llamacpp hub duckdb manifests sarif stores fakegcs azurite \
		ztensor/{2.1.2,1.2.3,1.1.1,1.0.1} rten-convert/{0.22.0,0.14.0,0.10.0,0.4.0} rtenproof ${more[@]+"${more[@]}"}; do
		p=$(path "${t%%/*}" "${t#*/}")
		echo "${t/\// } $p"
	done
	;;
*) path "$1" "${2:-}" ;;
esac; exit
