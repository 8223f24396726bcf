#!/usr/bin/env bash
# testdata.sh OUT: the files of testdata/rten/, by four releases of the converter and by the last Rust writer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$1 tools=interop/tools.sh
mkdir -p "$out"
for version in 0.22.0 0.14.0 0.10.0 0.4.0; do
	"$("$tools" rten-convert "$version")" interop/rten/testdata.py "$out" "$version"
done
"$("$tools" rtenwriter)" "$out"
"$("$tools" rten-convert 0.22.0)" interop/rten/testdata.py "$out" 0.22.0 "$out"/rust-*.rten
