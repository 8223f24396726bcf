"""matches.py EXPECT.json READ MIN: whether a reference read in a converted file (READ) what another reference had said of the source (EXPECT.json, as in
testdata, or what primitivref dumps). Tensors that the target holds as they are must come out equal: name, dtype, shape, bytes. Those that had to change (widened,
made dense, moved to another order) must at least be there. At least MIN must be equal;
of a "complete" EXPECT.json all must be there and equal.
"""
import hashlib, json, sys

SCALARS = dict(enumerate("uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32 bfloat16".split()))
TARGETS = {  # what the target keeps as it is; None: everything
    "safetensors": None, "npz": {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64", "complex128"},
    "rten": {"float32", "int32", "int8", "uint8"}, "ptd": None, "primitiv": {"float32"}}


def expected(path):
    text = open(path).read()
    if text.startswith(("model", "parameter")):  # primitivref dump
        yield from (r for r in rows(text) if r["sha256"])
        return
    want = json.loads(text)
    if "entries" in want:  # a case of ptd/reference.py
        for e in want["entries"]:
            if e["layout"] and e["layout"]["dim_order"] == sorted(e["layout"]["dim_order"]):
                b = bytes.fromhex(want["buffers"][e["buffer"]])
                yield {"name": e["name"], "dtype": SCALARS.get(e["layout"]["scalar_type"]), "shape": e["layout"]["sizes"], "sha256": hashlib.sha256(b).hexdigest()}
        return
    want = want["tensors"]
    if isinstance(want, dict):
        want = [dict(row, name=name) for name, row in want.items()]
    for row in want:
        if "sha256" in row and "order" not in row and not row.get("column"):
            yield row


def rows(text):
    if text.lstrip().startswith('{"keys"'):  # etrun ptd
        return [{"name": r["key"], "dtype": r["dtype"], "shape": r["shape"], "sha256": r["sha256"]} for r in json.loads(text)["keys"] if "dtype" in r]
    if text.lstrip().startswith('{"tensors"'):  # wheel.py
        return json.loads(text)["tensors"]
    if text.startswith(("model", "parameter")):  # primitivref dump: big-endian words of column-major values
        out, path = [], ""
        for line in text.splitlines():
            kind, *rest = line.split(" ")
            if kind == "parameter":
                path = ".".join(bytes.fromhex(k.rstrip(".")).decode() for k in rest)
            elif kind == "value":
                shape = [int(d) for d in rest[0].split("]")[0].strip("[").split(",") if d]
                if rest[1].startswith("#"):  # a large one: only its hash is printed
                    out.append({"name": path, "dtype": "float32", "shape": [], "sha256": None})
                    continue
                values = [bytes.fromhex(rest[1][i:i + 8])[::-1] for i in range(0, len(rest[1]), 8)]
                order = []
                def walk(dims, base, stride):
                    if not dims:
                        order.append(base)
                        return
                    for i in range(dims[0]):
                        walk(dims[1:], base + i * stride[0], stride[1:])
                strides, step = [], 1
                for d in shape:
                    strides.append(step)
                    step *= d
                walk(shape, 0, strides)
                out.append({"name": path, "dtype": "float32", "shape": shape, "sha256": hashlib.sha256(b"".join(values[i] for i in order)).hexdigest()})
        return out
    return [json.loads(line) for line in text.splitlines()]


def main():
    want, read, least, target = sys.argv[1], open(sys.argv[2]).read(), int(sys.argv[3]), sys.argv[4]
    got = {r["name"]: r for r in rows(read)}
    keeps, equal, bad = TARGETS.get(target), 0, 0
    complete = '"complete"' in open(want).read()
    strip = lambda s: s if target != "primitiv" else [d for i, d in enumerate(s) if any(x != 1 for x in s[i:])]
    for row in expected(want):
        r = next(iter(got.values()), None) if target == "npy" else got.get(row["name"])
        if complete and (r is None or r["dtype"] != row["dtype"]):
            bad += 1
            print("FAIL", row, "read", r, "of", list(got))
        if r is None or r.get("sha256") is None:
            continue
        if keeps is not None and row["dtype"] not in keeps or r["dtype"] != row["dtype"]:
            continue
        shape = list(row["shape"])
        if strip(shape) != strip(list(r["shape"])) and not (shape == [] and list(r["shape"]) == [1]) or r["sha256"] != row["sha256"]:
            bad += 1
            print("FAIL", row["name"], row, "read", r)
        else:
            equal += 1
    print(f"  {equal} tensors equal of {len(got)} read")
    sys.exit(bad > 0 or equal < least)


main()
