#!/usr/bin/env bash
# growth.sh [DECADES]: the processor time of every command on ten times as many tensors is below 15 times as much, whatever their
# names: 6,000 and 60,000 of them with plain names, 3,000 and 30,000 with names that share a long prefix. With TENSORFILE_FULL, or
# DECADES, which says how often the number grows (2 without it), 1,000, 10,000 and 100,000 of each, and of long and of deep names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# On a disk in memory, if there is a large one: what the system does for a file is not our time.
disk=$([ "$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)" -gt 4000000 ] 2>/dev/null && echo /dev/shm || echo "${TMPDIR:-/tmp}")
work=$(mktemp -d -p "$disk")
trap 'rm -rf "$work"' EXIT
go build -o "$work/tensorfile" ./cmd/tensorfile
python3 interop/growth/measure.py "$work/tensorfile" "$work" "${1:-2}" "${TENSORFILE_FULL:-${1:-}}"
