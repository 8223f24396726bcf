#!/usr/bin/env bash
# speed.sh: processor time of decoding quantised blocks, ours and the gguf package's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
py=$(interop/tools.sh gguf)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go test -c -o "$work/test" ./gguf
cd gguf && "$py" -W ignore ../../interop/gguf/speed.py "$work/test"
