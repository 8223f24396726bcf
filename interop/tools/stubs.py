"""stubs.py LIB: makes empty libraries, in the directory LIB of an installed torch, for the libraries of CUDA that it is linked to: a
processor alone never calls them, and they take 3 GB."""
import collections, glob, os, re, subprocess, sys, tempfile

lib = sys.argv[1]


def output(*args):
    return subprocess.run(args, check=True, capture_output=True, text=True).stdout


def objects():
    """The libraries that are there, and what Python loads."""
    return sorted(glob.glob(lib + "/*.so*") + glob.glob(os.path.dirname(lib) + "/*.so"))


system = set(re.findall(r"^\s(\S+) ", output("/sbin/ldconfig", "-p"), re.M))
there = system | {os.path.basename(o) for o in objects()}
versions = collections.defaultdict(lambda: collections.defaultdict(set))  # of a library: symbols by version
defined, wanted, missing = set(), set(), {}
for o in objects():
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", o)):
        if name not in there:
            missing[name] = True
    nodes = {}
    for file, body in re.findall(r"Version: 1 +File: (\S+).*\n((?:.*Name: .*Version: .*\n)*)", output("readelf", "-VW", o)):
        nodes.update((n, file) for n in re.findall(r"Name: (\S+)", body))
    for line in output("nm", "-D", "--with-symbol-versions", o).splitlines():
        kind, symbol = line.split()[-2:]
        symbol, _, version = symbol.partition("@")
        if kind != "U":
            defined.add(symbol)
        elif not version:
            wanted.add(symbol)
        elif nodes.get(version) not in there:
            versions[nodes[version]][version].add(symbol)
libc = {l.split()[-1].partition("@")[0] for name in ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2")
        for l in output("nm", "-D", re.search(rf"{re.escape(name)} .*=> (\S+)", output("/sbin/ldconfig", "-p"))[1]).splitlines()}
plain = {s for s in wanted - defined - libc if not s.startswith(("Py", "_Py", "__gmon", "_ITM", "__cxa_finalize"))}
for name in sorted(missing):
    with tempfile.TemporaryDirectory() as work:
        source, script = os.path.join(work, "stub.s"), os.path.join(work, "script")
        nodes = dict(versions[name])
        with open(script, "w") as f:
            for node, symbols in nodes.items():
                f.write(f"{node} {{ global: {' '.join(s + ';' for s in sorted(symbols))} }};\n")
        symbols = set().union(*nodes.values()) | (plain if name == min(missing) else set())
        with open(source, "w") as f:
            f.write(".text\n" + "".join(f".globl {s}\n.type {s},@function\n{s}:\n" for s in sorted(symbols)) + " xor %eax,%eax\n ret\n")
            f.write('.section .note.GNU-stack,"",@progbits\n')
        options = [f"-Wl,--version-script={script}"] if nodes else []
        subprocess.run(["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{name}", *options, "-o", os.path.join(lib, name), source], check=True)
