#!/usr/bin/env bash
# export.sh OUT [NAME...]: the programs that testdata/pte/ has from ExecuTorch's exporter, and what the reference says of each. By hand only: 5.2 GB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$1 tools=interop/tools.sh
"$("$tools" torch)" -W ignore interop/pte/export.py "$@"
ETWHEEL=$("$tools" etwheel 1.5.1) ETRUN=$("$tools" etrun) PYTHONPATH=interop/tools
export ETWHEEL ETRUN PYTHONPATH
shopt -s nullglob
for pte in "$out"/*.pte "$out"/*.bpte; do
	name=$(basename "${pte%.*}")
	"$("$tools" etpython)" interop/pte/expect.py "$pte" $(compgen -G "$out/$name.ptd") >"$out/$name.json"
done
