"""compare.py TENSORFILE EXPECT.json FILE...: whether our command says of FILE what a reference said, pairs of arguments.
compare.py --read WRITTEN.json READ.json: whether a reference read (READ.json) what we say that we wrote.

EXPECT.json has the words of `tensorfile ls`, `info` and `hash --json` (docs/json.md): "version", "attributes", "tensors" and "blobs", every field
that stands there must come out equal, as must the facts of `info` that have a documented name; what it has besides is not looked at. Exit 1 and
one line for each difference.
"""
import json, subprocess, sys

# The fields of a tensor's or part's row that our command must have too.
SAME = ("dtype", "shape", "scheme", "order", "method", "value", "buffer", "mutable", "external", "stored", "encoding", "digest", "offset")

FACTS = ("inputs", "outputs", "operators", "metadata", "methods", "segments", "named_data", "content_digest", "shards")
BESIDES = ("values", "stack_traces", "compile_specs")  # what the reference also says of a method


def ask(tensorfile, verb, path):
    p = subprocess.run([tensorfile, verb, "--json", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode not in (0, 3) or not p.stdout:
        raise SystemExit(f"{verb} {path}: exit status {p.returncode}: {p.stderr.decode()[:300]}")
    return json.loads(p.stdout)


def differences(want, tensorfile, path):
    ls, hashes = ask(tensorfile, "ls", path), ask(tensorfile, "hash", path)
    for field in "version", "attributes":
        if field in want and want[field] != ls.get(field, {}):
            yield f"{field}: {ls.get(field)} for {want[field]}"
    if any(f in want for f in FACTS):
        info = ask(tensorfile, "info", path)
        ours = info.get(info["format"], {})
        for f in FACTS:
            if f in want:
                yield from lacks(f"{info['format']}.{f}", want[f], ours.get(f))
    for kind in "tensors", "blobs":
        ours, sums, theirs = ls.get(kind, []), hashes.get(kind, []), want.get(kind, [])
        if kind == "blobs" and kind not in want:
            continue
        names = [[r["name"] for r in rows] for rows in (ours, sums, theirs)]
        if not names[0] == names[1] == names[2]:
            yield f"{kind}: ls has {names[0]}, hash has {names[1]}, the reference {names[2]}"
            continue
        for row, sum, expected in zip(ours, sums, theirs):
            yield from rows(f"{kind}[{row['name']!r}]", expected, row, sum)


def lacks(where, want, ours):
    if isinstance(want, dict) and isinstance(ours, dict):
        for k in want:
            if k not in BESIDES:
                yield from lacks(f"{where}.{k}", want[k], ours.get(k))
        if where.endswith(("operators", "metadata")) and set(ours) - set(want):
            yield f"{where}: also {set(ours) - set(want)}"
    elif isinstance(want, list) and isinstance(ours, list) and len(want) == len(ours):
        for i, (w, o) in enumerate(zip(want, ours)):
            yield from lacks(f"{where}[{i}]", w, o)
    elif want != ours and not (not want and not ours):
        yield f"{where}: {ours} for {want}"


def rows(where, want, row, sum):
    for f in SAME:
        if f in want and want[f] != row.get(f) and not ("shard" in want and f == "offset"):
            yield f"{where}.{f}: {row.get(f)!r} for {want[f]!r}"
    if "bytes" in want and want["bytes"] != row.get("bytes", want["bytes"]):  # absent where it is known only after decoding
        yield f"{where}.bytes: {row['bytes']} for {want['bytes']}"
    if "sha256" in want and want["sha256"] != sum.get("sha256"):
        yield f"{where}.sha256: {sum.get('sha256', sum.get('error'))} for {want['sha256']}"
    parts = {p["role"]: p for p in row.get("parts", [])}
    sums = {p["role"]: p for p in sum.get("parts", [])}
    if set(parts) != {p["role"] for p in want.get("parts", [])}:
        yield f"{where}: parts {list(parts)}"
        return
    for p in want.get("parts", []):
        yield from rows(f"{where}.{p['role']}", p, parts[p["role"]], sums.get(p["role"], {}))


def read_back(written, read):
    got = {t["name"]: t for t in read["tensors"]}
    for t in written["tensors"]:
        if t["name"] not in got:
            yield f"{t['name']!r} was not read"
        else:
            yield from rows(repr(t["name"]), t, got[t["name"]], got.pop(t["name"]))
    for name in got:
        yield f"{name!r} was never written"


def main():
    if sys.argv[1] == "--read":
        bad = list(read_back(*(json.load(open(f)) for f in sys.argv[2:])))
        print(*bad[:20], sep="\n", end="\n" if bad else "")
        sys.exit(1 if bad else 0)
    tensorfile, pairs = sys.argv[1], sys.argv[2:]
    bad = 0
    for expect, path in zip(pairs[::2], pairs[1::2]):
        for d in differences(json.load(open(expect)), tensorfile, path):
            bad += 1
            print(f"{path}: {d}")
    sys.exit(1 if bad else 0)


main()
