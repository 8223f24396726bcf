#!/usr/bin/env bash
# speed.sh [MIB]: zTensor 2 side by side with the Rust crate and the safetensors package, in turns, on one machine: MIB of weights (1024) and a
# file of 100,000 tensors. Not part of .ci/run: it takes minutes, some 4 GB of disk, and a machine without other work.
#
# For each work: the best wall clock and the best processor time of each side, and our ratio to theirs. Other work on the machine
# lengthens the wall clock, so there processor time is the better judge of what runs on one core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mib=${1:-1024} turns=${TURNS:-3}
crate=$(interop/tools.sh zref z21speed) numpy=$(interop/tools.sh numpy) ztensor=$(interop/tools.sh ztensor 2.1.2)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/speed" ./interop/ztensor/speed
go build -o "$work/tensorfile" ./cmd/tensorfile
ours() { GOMAXPROCS=${CORES:-2} "$work/speed" "$@"; }
safetensors() { "$numpy" interop/ztensor/speed/peer.py "$@"; }

echo "$(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), $mib MiB"
ours payload "$work/payload" $((mib << 20))
ours many "$work/many.zt" 100000
safetensors many "$work/many.st" 100000

# versus NAME BOUND OURS THEIRS: commands in turns; the ratio of wall clocks should not be above BOUND.
versus() {
	local name=$1 bound=$2 ours=$3 theirs=$4 i
	for ((i = 0; i < turns; i++)); do
		$ours >>"$work/a"
		$theirs >>"$work/b"
	done
	python3 - "$name" "$bound" "$work/a" "$work/b" <<-'PY'
		import sys
		best = lambda f: [min(int(l.split()[k]) for l in open(f)) / 1e6 for k in (0, 1)]
		name, bound, a, b = sys.argv[1:]
		a, b = best(a), best(b)
		print(f"{name:44} ours {a[0]:8.1f} ms, cpu {a[1]:8.1f}   theirs {b[0]:8.1f} ms, cpu {b[1]:8.1f}   ratio {a[0] / b[0]:6.3f}, cpu {a[1] / b[1]:6.3f}   at most {bound}")
	PY
	rm "$work/a" "$work/b"
}
# whole COMMAND...: the wall clock and the processor time of a process from its start to its end, what it prints thrown away.
whole() {
	python3 - "$@" <<-'PY'
		import os, subprocess, sys, time
		start = time.monotonic_ns()
		subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
		t = os.times()
		print(time.monotonic_ns() - start, int((t.children_user + t.children_system) * 1e9))
	PY
}
one() { CORES=1 ours "$@"; }
two() { CORES=2 ours "$@"; }

versus "open+validate+list 100,000, ztensor crate" "0.10" "two list $work/many.zt" "$crate list $work/many.zt"
versus "open+validate+list 100,000, safetensors" "0.20" "two list $work/many.zt" "safetensors list $work/many.st"
versus "ls of 100,000, whole process, ztensor package" "0.2" "whole $work/tensorfile ls $work/many.zt" "whole $ztensor interop/ztensor/speed/peer.py names $work/many.zt"
versus "ls of 100,000, whole process, safetensors" "0.2" "whole $work/tensorfile ls $work/many.st" "whole $numpy interop/ztensor/speed/peer.py names $work/many.st"
ours write "$work/payload" "$work/w.zt" $((1 << 20)) >/dev/null
versus "verify, one core" "" "one verify $work/w.zt" "$crate verify $work/w.zt"
versus "verify, two cores" "0.7" "two verify $work/w.zt" "$crate verify $work/w.zt"
versus "canonical write, on the disk, ztensor crate" "0.6" "two write $work/payload $work/w.zt $((1 << 20))" "$crate write $work/payload $work/v.zt $((1 << 20))"
cmp "$work/w.zt" "$work/v.zt" && echo "the two canonical files are the same to the byte"
versus "canonical write, on the disk, safetensors" "0.5" "two write $work/payload $work/w.zt $((1 << 20))" "safetensors write $work/payload $work/v.st $((1 << 20))"
rm "$work/v.zt" "$work/v.st" "$work/w.zt"
head -c $((mib << 18)) "$work/payload" >"$work/quarter"
versus "zstd encode, a quarter, two cores" "0.5" "two encode $work/quarter $work/e.zt $((16 << 20))" "$crate encode $work/quarter $work/f.zt $((16 << 20))"
echo "compressed to: ours $(ours stored "$work/e.zt"), theirs $(ours stored "$work/f.zt") bytes"
versus "zstd decode, a quarter, two cores" "0.65" "two decode $work/f.zt" "$crate read $work/f.zt"
versus "zstd decode, each into new memory" "" "two read $work/f.zt" "$crate read $work/f.zt"
versus "zstd decode of what we compressed" "" "two decode $work/e.zt" "$crate read $work/e.zt"
echo "load $(cut -d' ' -f1 /proc/loadavg)"
