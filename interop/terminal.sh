#!/usr/bin/env bash
# terminal.sh: what the command does on a terminal, a pseudo one that python3 makes: progress, colours, Ctrl-C.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! python3 -c 'import pty, termios' 2>/dev/null; then
	echo "skip: no python3 with pseudo-terminals"
	echo "interop terminal: 0 passed, 0 failed, 1 skipped"
	exit
fi
go build -o "$work/tensorfile" ./cmd/tensorfile
python3 interop/terminal/check.py "$work/tensorfile" "$work"
