#!/usr/bin/env bash
# testdata.sh OUT: the files of testdata/primitiv/ by the C++ library primitiv, and what it has after loading them (dumps.txt).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
ref=$(interop/tools.sh primitivref)
mkdir -p "$1"
cd "$1"
"$ref" make .
LC_ALL=C ls -- *.primitiv | xargs "$ref" dump >dumps.txt
