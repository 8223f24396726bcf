#!/usr/bin/env bash
# speed.sh: processor time of listing a large checkpoint, ours and torch's, which must be installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
py=$(interop/tools.sh torch)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/tensorfile" ./cmd/tensorfile
"$py" interop/torch/speed.py "$work/tensorfile" "$work"
