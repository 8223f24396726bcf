#!/usr/bin/env bash
# build.sh DIR: makes the static site in DIR: the page, and the library as WebAssembly, with the wasm_exec.js of the Go that compiled it
# (BSD licence). Any server of files serves it; nothing else is needed. The same sources and Go release give the same bytes.
set -euo pipefail
dir=${1:?internal/page/web/build.sh DIR}
cd "$(dirname "${BASH_SOURCE[0]}")"
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
GOOS=js GOARCH=wasm GOFLAGS= go build -trimpath -buildvcs=false -ldflags='-s -w -buildid=' -o "$dir/tensorfile.wasm" ./wasm
cp index.html page.css ./*.js "$(go env GOROOT)/lib/wasm/wasm_exec.js" "$dir"
chmod u+w "$dir"/*
