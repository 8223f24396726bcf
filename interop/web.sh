#!/usr/bin/env bash
# web.sh: drives the page in Chromium, in its three ways (the static site, tensorfile view, a report): a file of each format, shards,
# each section, what people do every day (differences, the address of a tensor, touch), a sparse file of 4 GiB, hostile names, the
# keyboard, both themes, 375 px to 4K, print, axe-core, and no request off the page; and what the view command opens and refuses.
# With TENSORFILE_PICTURES=DIR it writes the screenshots of README there; with TENSORFILE_MEASURE=1 5,000 tensors must appear within a second.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! tools=$(interop/tools.sh browser); then
	echo "skip: interop/web.sh: no Chromium, or no package of npm, can be installed here"
	echo "interop web: 0 passed, 0 failed, 1 skipped"
	exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
internal/page/web/build.sh "$work/site"
go build -trimpath -o "$work/tensorfile" ./cmd/tensorfile
go run ./interop/web "$work"
size=$(gzip -9 -c "$work/site/tensorfile.wasm" | wc -c)
echo "tensorfile.wasm: $size bytes compressed"
[ "$size" -lt 6000000 ] || { echo "FAIL: tensorfile.wasm has $size bytes, compressed, and should have less than 6,000,000"; exit 1; }
node interop/web/run.mjs "$tools/node_modules/playwright-core" "$tools/node_modules/axe-core/axe.min.js" "$(command -v chromium)" \
	"$work/tensorfile" "$work/site" "$work"
