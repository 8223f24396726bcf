#!/usr/bin/env bash
# elements.sh [MIB]: statistics, differences and conversion of elements against numpy: the figures are compared, for every dtype
# that both have; the time of both is printed, for bfloat16 tensors of MIB mebibytes (128 without it).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/tensorfile" ./cmd/tensorfile
"$(interop/tools.sh numpy)" interop/elements/elements.py "$work/tensorfile" "$work" "${1:-128}"
