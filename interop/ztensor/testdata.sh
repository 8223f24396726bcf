#!/usr/bin/env bash
# testdata.sh OUT: the files of testdata/ztensor/, by upstream's crates and wheels of every generation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export TOOLS=$PWD/interop/tools.sh
"$("$TOOLS" numpy)" interop/ztensor/testdata.py "$1"
