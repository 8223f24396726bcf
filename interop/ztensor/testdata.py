"""testdata.py OUT: the files of testdata/ztensor, made by upstream's own packages, and next to each NAME.zt a NAME.json of what the
reference reads from it.

Run by testdata.sh, with TOOLS naming interop/tools.sh. All content is SHAKE-128 of a label, so every run gives the same
bytes. The JSON has the fields of `tensorfile ls --json` (docs/json.md) and the sha256 of the decoded bytes; every number and hash in it
was reported by the reference crate of the file's generation (tools/ztensor/zNN dump), none was computed here.
"""
import hashlib, json, os, pathlib, shutil, struct, subprocess, sys, tempfile
import cbor2

OUT = pathlib.Path(sys.argv[1])
READ = sys.argv[2:] if sys.argv[1] == "--read" else None
TOOLS = os.environ["TOOLS"]
WORK = pathlib.Path(tempfile.mkdtemp())


def tool(*name):
    return subprocess.run([TOOLS, *name], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


SALT = os.environ.get("SALT", "")  # other content, for a proof on files that nobody has seen


def content(label, n):
    return hashlib.shake_128((SALT + label).encode()).digest(n)


def product(shape):
    n = 1
    for d in shape:
        n *= d
    return n


# dtype spellings: 0.1 and 1.0 use the long ones, 1.1 on the short ones
WIDTH = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4,
         "uint16": 2, "uint8": 1, "bool": 1}
SHORT = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8",
         "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "bool": "bool"}
LONG = {v: k for k, v in SHORT.items()}
LOGICAL = {"bool": "bool", "f8_e4m3fn": "float8_e4m3fn", "f8_e5m2": "float8_e5m2", "f8_e4m3fnuz": "float8_e4m3fnuz",
           "f8_e5m2fnuz": "float8_e5m2fnuz", "f8_e8m0": "float8_e8m0fnu", "f4_e2m1": "float4_e2m1fn", "complex64": "complex64",
           "complex128": "complex128"}


def values(label, dtype, n):
    b = content(label, n * WIDTH[dtype])
    return bytes(x & 1 for x in b) if dtype == "bool" else b


def u64s(*v):
    return struct.pack(f"<{len(v)}Q", *v)


class Spec:
    """The input of a zNN make: a JSON of items, and a file of payloads that the items point into as [offset, length]."""

    def __init__(self, **top):
        self.top, self.items, self.payload = top, [], bytearray()

    def data(self, b):
        self.payload += b
        return [len(self.payload) - len(b), len(b)]

    def add(self, **item):
        self.items.append({k: self.data(v) if isinstance(v, bytes) else v for k, v in item.items() if v is not None})
        return self

    def write(self):
        path = WORK / "spec.json"
        path.write_text(json.dumps({**self.top, "items": self.items}))
        path.with_suffix(".bin").write_bytes(self.payload)
        return path


def run(*command):
    p = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if p.returncode or "ERR" in p.stdout:
        sys.exit(f"{command}: {p.returncode}\n{p.stdout}{p.stderr}")
    return p.stdout


class Crate:
    """One generation: its program, and its spelling of dtypes."""

    def __init__(self, program, version, short):
        self.program, self.version, self.short, self.bin = program, version, short, tool("zref", program)

    def dtype(self, d):
        return SHORT[d] if self.short else d

    def dense(self, spec, name, dtype, shape, **more):
        data = more.pop("data", None)
        if data is None:
            data = values(f"{self.program}/{name}", dtype, product(shape))
        spec.add(name=name, dtype=self.dtype(dtype), shape=shape, data=data, **more)

    def csr(self, spec, name, dtype, shape, indptr, indices, **more):
        spec.add(kind="csr", name=name, dtype=self.dtype(dtype), shape=shape, values=values(f"{self.program}/{name}", dtype, len(indices)),
                 indices=indices, indptr=indptr, **more)

    def coo(self, spec, name, dtype, shape, coords, **more):
        nnz = len(coords[0])
        spec.add(kind="coo", name=name, dtype=self.dtype(dtype), shape=shape, values=values(f"{self.program}/{name}", dtype, nnz),
                 coords=[c for axis in coords for c in axis], **more)

    def make(self, name, spec, verb="make"):
        path = OUT / f"crate-{self.version}-{name}.zt"
        run(self.bin, verb, spec.write(), path)
        self.expect(path)
        return path

    def expect(self, path, *resolver, version=None):
        d = json.loads(run(self.bin, "dump", path, *resolver))
        if d["open"] != "ok":
            sys.exit(f"{path}: {d}")
        version = version or {"z01": "0.1", "z10": "1.0", "z11": "1.1", "z12": "1.2", "z21": "2"}[self.program]
        want = {"version": version, "attributes": attributes(d.get("attributes"))}
        tensors = d.pop("tensors")
        if self.program == "z21":
            if READ and (not d["verify_shards"].startswith("Ok") or any(p["verify"] != "Ok(Digest)" for t in tensors for p in t["parts"]) or any("err" in (t["csr"] or {}) for t in tensors)):
                sys.exit(f"{path}: not verified: {d['verify_shards']}")
            read = {t["name"]: {p["name"]: p for p in t["parts"]} for t in tensors}
            want["tensors"] = [object2(o, read[o["name"]]) for o in sorted(d["objects"], key=manifest_order)]
            for k in "content_digest", "canonical_violations", "shards":
                want[k] = d[k]
        else:
            want["tensors"] = [tensor1(t, d) for t in tensors]
        path.with_suffix(".read.json" if READ else ".json").write_text(pretty(want))


def pretty(want):
    """JSON with one tensor a line."""
    line = lambda v: json.dumps(v, ensure_ascii=False)
    tensors = ",\n".join("  " + line(t) for t in want["tensors"])
    head = ",\n".join(f" {line(k)}: {line(v)}" for k, v in want.items() if k != "tensors")
    return f'{{\n{head},\n "tensors": [\n{tensors}\n ]\n}}\n'


def attributes(hexa):
    """CBOR as JSON, by the rules of docs/json.md for what JSON lacks."""
    def plain(v):
        if isinstance(v, bytes):
            return {"$bytes": v.hex()}
        if isinstance(v, float) and (v != v or abs(v) == float("inf")):
            return {"$float": {"nan": "nan", "inf": "inf", "-inf": "-inf"}[str(v)]}
        if isinstance(v, list):
            return [plain(x) for x in v]
        if isinstance(v, dict):
            if all(isinstance(k, str) for k in v):
                return {k: plain(x) for k, x in v.items()}
            return {"$map": [[plain(k), plain(x)] for k, x in v.items()]}
        return v
    return plain(cbor2.loads(bytes.fromhex(hexa))) if hexa else {}


def fields(row, **more):
    return {**row, **{k: v for k, v in more.items() if v is not None}}


def stored(c):
    """Offset, stored size, encoding, digest and hash of a component, as every dump has them."""
    encoding, read = c["encoding"] or "raw", c["read"]
    return fields({}, bytes=read.get("bytes"), offset=c["offset"], stored=c["length"], encoding="zstd" if encoding.startswith("zstd") else encoding,
                  digest=c["digest"], sha256=read.get("sha256"), error=read.get("err"))


def tensor1(t, top):
    """A tensor of 0.x or 1.x: in 0.1 one blob, in 1.0 a dtype for all, since 1.1 a dtype a component."""
    row = {"name": t["name"], "shape": t["shape"], "scheme": t["format"], "attributes": attributes(t.get("attributes") or t.get("custom"))}
    if not row["attributes"]:
        del row["attributes"]
    if "components" not in t:
        part = stored(t)
        if t["endian"] == "big":
            part["endianness"] = "big"  # the crate swaps when it reads: the hash is over little-endian values
        parts = {"data": {"dtype": t["dtype"], **part}}
    else:
        parts = {}
        for c in t["components"]:
            d = c.get("dtype") or (t["dtype"] if c["role"] in ("data", "values") else "uint64" if c["role"] in ("indices", "indptr", "coords") else None)
            d = LOGICAL.get(c.get("type"), c.get("type")) or LONG.get(d, d)
            parts[c["role"]] = fields({}, dtype=d, **stored(c))
    return place(row, parts)


def manifest_order(o):
    """Version 2 sorts by the encoded key, so shorter names first; its crate lists by name."""
    return cbor2.dumps(o["name"])


def object2(o, read):
    row = fields({"name": o["name"], "shape": o["shape"], "scheme": o["layout"]}, attributes=attributes(o["attributes"]) or None)
    parts = {}
    for p in sorted(o["parts"], key=manifest_order):
        got = read[p["name"]]["read"]
        parts[p["name"]] = fields({}, dtype=LOGICAL.get(p["type"], p["type"]) or LONG[p["dtype"]], bytes=p["decoded"], offset=p["offset"], stored=p["length"],
                                  encoding=p["encoding"] or "raw", digest=p["digest"], shard=p["shard"], sha256=got.get("sha256"), error=got.get("err"))
    return place(row, parts)


def place(row, parts):
    """A dense tensor has its data's fields itself; whatever else it holds are parts."""
    if row["scheme"] == "dense":
        row = {**row, **parts.pop("data")}
    return {**row, "parts": [{"role": r, **p} for r, p in parts.items()]} if parts else row


def cbor(v):
    return cbor2.dumps(v, canonical=True).hex()


NAMES = ["layers.0.weight", "layers.2.weight", "layers.10.weight", "日本語/重み", "🧠", "é", "e\u0301", 'quote"back\\slash', "new\nline\ttab", "\u202eright to left",
         "../../etc/passwd", "a" * 1000]
NAMES1 = NAMES + ["", "nul\0inside"]  # legal before version 2

SHAPES = {"scalar": [], "zero rows": [0, 4], "zero in the middle": [2, 0, 3], "eight axes": [1, 2, 1, 2, 1, 2, 1, 2], "one": [1]}


def dtypes(c, **more):
    s = Spec()
    for d in WIDTH:
        c.dense(s, d, d, [3, 5], **more)
    for name, shape in SHAPES.items():
        c.dense(s, name, "float32", shape, **more)
    return s


def generation1(c, levels=(None,), sums=("crc32c",), sparse=True, objects=True):
    c.make("dtypes", dtypes(c))
    c.make("empty", Spec())
    s = Spec()
    for n in NAMES1:
        c.dense(s, n, "int16", [2])
    c.make("names", s)
    s = Spec()
    for level in levels:
        for check in (None, *sums):
            more = dict(enc="zstd", level=level, sum=check)
            tag = " ".join(filter(None, [level and f"level {level}", check])) or "plain"
            c.dense(s, f"sevens {tag}", "uint8", [1000], data=b"\7" * 1000, **more)
            c.dense(s, f"ramp {tag}", "uint32", [40, 25], data=struct.pack("<1000I", *range(1000)), **more)
            c.dense(s, f"noise {tag}", "float64", [30], **more)
            c.dense(s, f"nothing {tag}", "float32", [0], **more)
            c.dense(s, f"scalar {tag}", "bfloat16", [], **more)
    c.make("zstd", s)
    s = Spec()
    for check in sums:
        for d in "float32", "bool", "int64":
            c.dense(s, f"{d} {check}", d, [7], sum=check)
        c.dense(s, f"nothing {check}", "float32", [0], sum=check)
    c.make("digests", s)
    if sparse:
        s = Spec()
        for d in "float32", "float64", "int8", "bfloat16":
            c.csr(s, f"csr {d}", d, [4, 5], [0, 2, 2, 5, 6], [0, 3, 1, 2, 4, 0])
            c.coo(s, f"coo {d}", d, [3, 4], [[0, 2, 2, 1], [1, 0, 3, 3]])
        c.csr(s, "csr without values", "float32", [3, 3], [0, 0, 0, 0], [])
        c.csr(s, "csr without rows", "float32", [0, 3], [0], [])
        c.coo(s, "coo without values", "float32", [3, 3], [[], []])
        c.coo(s, "coo of one axis", "uint16", [100], [[99, 0, 50]])
        c.coo(s, "coo of three axes", "float16", [2, 3, 4], [[0, 1, 1], [2, 0, 1], [3, 3, 0]])
        c.csr(s, "csr zstd", "float32", [2, 1000], [0, 500, 1000], [*range(500), *range(500)], enc="zstd", sum=sums[0])
        c.coo(s, "coo zstd", "int32", [1000, 2], [list(range(1000)), [0, 1] * 500], enc="zstd", sum=sums[-1])
        c.make("sparse", s)


def make01():
    c = Crate("z01", "0.1.0", False)
    generation1(c, sparse=False)
    s = Spec()
    for d in WIDTH:
        c.dense(s, f"big {d}", d, [3, 2], endian="big")
    c.dense(s, "custom fields", "float32", [2], custom=cbor({"author": "me", "nested": {"a": [1, 2.5, None, True]}, "bytes": b"\0\xff"}))
    c.dense(s, "csr as dense bytes", "float32", [2, 2], layout="sparsecsr")
    c.dense(s, "coo as dense bytes", "uint8", [3], layout="sparsecoo")
    c.make("fields", s)


def make10():
    c = Crate("z10", "1.0.0", False)
    generation1(c)
    s = Spec()
    c.dense(s, "w", "float32", [2], data=struct.pack("<2f", 9, 9))
    c.dense(s, "w", "float32", [2], data=struct.pack("<2f", 1, 2), sum="crc32c")  # leaves the first one's bytes behind
    c.make("replaced", s)


def make11():
    c = Crate("z11", "1.1.1", True)
    generation1(c, levels=(1, 19), sums=("crc32c", "sha256"))
    s = Spec(attributes=cbor({"license": "MIT", "description": "naïve — ü", "empty": ""}))
    c.dense(s, "w", "float32", [2], data=struct.pack("<2f", 1, 2), sum="sha256")
    c.make("attributes", s)


ANY = {"pi": 1.5, "tenth": 0.1, "nan": float("nan"), "inf": float("inf"), "neg inf": float("-inf"), "bytes": b"\0\1\xfe\xff", "list": [1, [2, [3]], {}],
       "big": 2**64 - 1, "small": -(2**63), "true": True, "null": None, "text": "naïve", "map": {"a": {"b": {"c": 1}}}}


def make12():
    c = Crate("z12", "1.2.3", True)
    generation1(c, levels=(1, 22), sums=("crc32c", "sha256"))
    s = Spec(attributes=cbor({**ANY, "other keys": {1: "one", -1: "minus one", b"\1": "bytes"}}))
    part = lambda role, dtype, data, type=None: {"role": role, "dtype": dtype, "type": type, "data": s.data(data)}
    for t in "f8_e4m3fn", "f8_e5m2", "f8_e4m3fnuz", "f8_e5m2fnuz":
        s.add(kind="object", name=t, shape=[4, 64], format="dense", components=[part("data", "u8", bytes(range(256)), t)])
    s.add(kind="object", name="complex64", shape=[3], format="dense", components=[part("data", "f32", content("z12/complex64", 24), "complex64")], sum="crc32c")
    s.add(kind="object", name="complex128", shape=[], format="dense", components=[part("data", "f64", content("z12/complex128", 16), "complex128")])
    s.add(kind="object", name="unknown type", shape=[2], format="dense", components=[part("data", "u8", content("z12/unknown type", 2), "posit8")])
    s.add(kind="object", name="extra role", shape=[2], format="dense", components=[part("data", "f32", content("z12/extra", 8)), part("note", "u8", b"hello")])
    s.add(kind="object", name="sparse f8", shape=[2, 3], format="sparse_csr", components=[
        part("values", "u8", b"\x38\xb8", "f8_e4m3fn"), part("indices", "u64", u64s(2, 0)), part("indptr", "u64", u64s(0, 1, 2))])
    s.add(kind="object", name="quantized", shape=[8, 8], format="quantized_group", attributes=cbor({"bits": 4, "group_size": 8, "packing": "8_per_i32"}),
          components=[part("packed_weight", "i32", content("z12/packed", 32)), part("scales", "f16", content("z12/scales", 16)), part("zeros", "i32", content("z12/zeros", 4))])
    s.add(kind="object", name="extension", shape=[4096, 4096], format="my/own.format", attributes=cbor({"x": ANY}), components=[part("blob", "u8", content("z12/blob", 100))],
          enc="zstd", sum="sha256")
    c.make("objects", s)

    def three(name):
        s = Spec(attributes=cbor({"a": 1}))
        for n in "abc":
            c.dense(s, n, "float32", [5], sum="crc32c")
        path = OUT / f"crate-1.2.3-{name}.zt"
        run(c.bin, "make", s.write(), path)
        return path

    path = three("appended")
    s = Spec()
    c.dense(s, "d", "int32", [3])
    c.csr(s, "e", "float32", [1, 2], [0, 1], [1], enc="zstd")
    run(c.bin, "append", s.write(), path)
    c.expect(path)
    path = three("removed")
    run(c.bin, "remove", path, WORK / "removed.zt", "b")
    shutil.move(WORK / "removed.zt", path)
    c.expect(path)
    path = three("replaced")
    (WORK / "new").write_bytes(content("z12/new b", 20))
    run(c.bin, "replace", path, "b", WORK / "new")
    c.expect(path)


STORAGE = [d for d in WIDTH if d != "bool"]


def part2(name, dtype, data, **more):
    return {"name": name, "dtype": dtype, "data": data, **more}


def add2(spec, name, shape, *parts, **more):
    spec.add(name=name, shape=shape, parts=[{k: spec.data(v) if isinstance(v, bytes) else v for k, v in p.items()} for p in parts], **more)


def make2():
    c = Crate("z21", "2.1.1", True)
    loose = dict(canonical=False, align=4096)  # canonical files are 64 KiB a tensor: few of those
    c.make("empty", Spec(**loose))

    s = Spec(attributes=cbor({"pi": 1.5, "n": -42}))
    add2(s, "aa", [2], part2("data", "u8", b"\2\3"), attributes=cbor({"k": 1}))
    add2(s, "b", [3], part2("data", "u8", b"\1\0\1", type="bool"))
    add2(s, "c", [1], part2("data", "u16", b"\2\3"))  # the bytes of aa: one blob
    add2(s, "d", [0], part2("data", "f32", b""))
    c.make("canonical", s)

    s = Spec(**loose, attributes=cbor(ANY))
    for d in STORAGE:
        add2(s, d, [3, 5], part2("data", SHORT[d], values(f"z21/{d}", d, 15)))
    for name, shape in SHAPES.items():
        add2(s, name, shape, part2("data", "f32", content(f"z21/{name}", 4 * product(shape))), attributes=cbor(ANY))
    c.make("dtypes", s)

    s = Spec(**loose)
    add2(s, "bool", [5], part2("data", "u8", b"\0\1\1\0\1", type="bool"))
    for t in "f8_e4m3fn", "f8_e5m2", "f8_e4m3fnuz", "f8_e5m2fnuz", "f8_e8m0":
        add2(s, t, [256], part2("data", "u8", bytes(range(256)), type=t))  # one blob for all
    add2(s, "f4_e2m1 odd", [3], part2("data", "u8", b"\x21\x03", type="f4_e2m1"))
    add2(s, "f4_e2m1 even", [2, 2], part2("data", "u8", b"\x21\x43", type="f4_e2m1"))
    add2(s, "complex64", [2], part2("data", "f32", content("z21/c64", 16), type="complex64"))
    add2(s, "complex128", [], part2("data", "f64", content("z21/c128", 16), type="complex128"))
    add2(s, "unknown type", [3], part2("data", "u8", b"\1\2\3", type="acme.posit8/1"))
    c.make("logical", s)

    s = Spec(**loose)
    for n in NAMES:
        add2(s, n, [2], part2("data", "i16", b"\1\0\2\0"))
    c.make("names", s)

    s = Spec(**loose)
    add2(s, "csr", [4, 5], part2("values", "f32", content("z21/csr", 24)), part2("indices", "u32", struct.pack("<6I", 0, 3, 1, 2, 4, 0)),
         part2("indptr", "u32", struct.pack("<5I", 0, 2, 2, 5, 6)), layout="zt.sparse_csr/1")
    add2(s, "csr u64 complex", [1, 2], part2("values", "f32", content("z21/csr64", 8), type="complex64"), part2("indices", "u64", u64s(1)),
         part2("indptr", "u64", u64s(0, 1)), layout="zt.sparse_csr/1")
    add2(s, "csr without rows", [0, 3], part2("values", "f32", b""), part2("indices", "u64", b""), part2("indptr", "u64", u64s(0)), layout="zt.sparse_csr/1")
    add2(s, "coo", [3, 4], part2("values", "f64", content("z21/coo", 16)), part2("coords", "u64", u64s(0, 2, 3, 1)), layout="zt.sparse_coo/1")
    add2(s, "mx", [2, 32], part2("data", "u8", content("z21/mx", 32), type="f4_e2m1"), part2("scales", "u8", b"\x7f\x80", type="f8_e8m0"),
         layout="zt.mx/1", attributes=cbor({"block_size": 32, "axis": 1, "scale_form": "e8m0_exponent"}))
    add2(s, "quant_group", [4, 8], part2("data", "i32", content("z21/qg", 16)), part2("scales", "f16", content("z21/qg scales", 16)), part2("zeros", "u8", bytes(range(8))),
         layout="zt.quant_group/1", attributes=cbor({"bits": 4, "group_size": 4, "axis": 1, "packing": {"word": "u32", "order": "lsb_first", "per_word": 8},
                                                     "scale_form": "f16_factors", "zero_point": {"form": "tensor", "packing": "plain"}}))
    add2(s, "gguf", [2, 32], part2("data", "u8", content("z21/gguf", 36)), layout="gguf.q4_0/1", attributes=cbor({"elems_per_block": 32, "block_bytes": 18}))
    add2(s, "unknown layout", [7, 7], part2("a", "u8", b"a"), part2("b", "f32", b"abcd"), layout="acme.thing/3")
    c.make("layouts", s)

    s = Spec(**loose)
    seekable = dict(encoding="zt.zstd-seekable/1")
    add2(s, "three frames", [2_500_000], part2("data", "u8", bytes(x % 251 for x in range(2_500_000)), **seekable))
    add2(s, "ramp", [40, 25], part2("data", "u32", struct.pack("<1000I", *range(1000)), **seekable))
    add2(s, "nothing", [0], part2("data", "f32", b"", **seekable))
    add2(s, "plain beside", [4], part2("data", "u8", b"\1\2\3\4"))
    add2(s, "csr", [1, 1000], part2("values", "f32", bytes(4000), **seekable), part2("indices", "u32", struct.pack("<1000I", *range(1000)), **seekable),
         part2("indptr", "u32", struct.pack("<2I", 0, 1000)), layout="zt.sparse_csr/1")
    c.make("seekable", s)

    s = Spec(**loose)
    add2(s, "a", [4], part2("data", "u8", b"\1\2\3\4"))
    add2(s, "b", [4], part2("data", "u8", b"\5\6\7\x08"))
    path = OUT / "crate-2.1.1-appended.zt"
    run(c.bin, "make", s.write(), path)
    s = Spec(**loose)
    add2(s, "c", [2], part2("data", "f64", content("z21/append c", 16)))
    add2(s, "a again", [4], part2("data", "i8", b"\1\2\3\4"))
    run(c.bin, "append", s.write(), path)
    c.expect(path)

    # positional shards: ROOT-NAME.zt next to the root
    root = OUT / "crate-2.1.1-sharded.zt"
    shards, items = [], []
    for name, algo in ("00001", "sha256"), ("vision", "xxh3"):
        s = Spec(**loose)
        add2(s, f"{name}.w", [2, 2], part2("data", "f32", content(f"z21/{name}", 16)))
        add2(s, f"{name}.z", [1000], part2("data", "i16", bytes(2000), **seekable))
        path = OUT / f"crate-2.1.1-sharded-{name}.zt"
        run(c.bin, "make", s.write(), path)
        c.expect(path)
        shards.append({"name": name, "path": str(path), "algo": algo})
        items += [{"name": f"{name}.{x}", "link": str(path), "shard": name} for x in "wz"]
    s = Spec(**loose, shards=shards)
    add2(s, "here", [2], part2("data", "u8", b"\1\2"))
    s.items += items
    run(c.bin, "make", s.write(), root)
    c.expect(root, "scan", OUT)


def wheel(version, name, script):
    path = OUT / f"wheel-{version}-{name}.zt"
    run(tool("ztensor", version), "-c", "import sys, numpy as np, ztensor, ml_dtypes\npath = sys.argv[1]\n" + script, path)
    return path


NUMPY = """
kinds = [np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint32, np.uint16, np.uint8, np.bool_, ml_dtypes.bfloat16]
arrays = {np.dtype(k).name: (np.arange(6) % 7).reshape(2, 3).astype(k) for k in kinds}
arrays["zero-dimensional"] = np.array(3.5, np.float32)
arrays["transposed"] = np.arange(6, dtype=np.int32).reshape(2, 3).T
arrays["nothing"] = np.zeros((0, 4), np.float32)
"""
SPARSE = """
w.add_sparse_csr("csr", np.float32([1, 2, 3]), np.uint64([0, 2, 1]), np.uint64([0, 2, 3]), (2, 3))
w.add_sparse_coo("coo", np.float64([1, 2]), np.uint64([0, 1, 2, 0]), (2, 3))
"""


def wheels():
    add = "with ztensor.Writer(path) as w:\n    for k, a in arrays.items():\n        w.add_tensor(k, a%s)\n"
    for version, program in ("0.1.4", "z01"), ("1.0.1", "z10"), ("1.1.1", "z11"):
        script = NUMPY + add % ""
        if version != "0.1.4":
            script += "    w.add_tensor('compressed', arrays['int64'], compress=True)\n" + SPARSE.strip().replace("\n", "\n    ").join(["    ", "\n"])
        Crate(program, version, program == "z11").expect(wheel(version, "numpy", script))
    script = NUMPY + "w = ztensor.Writer(path)\nfor k, a in arrays.items():\n    w.add(k, a)\n    w.add(k + ' zstd', a, compress=3)\nw.finish()\n"
    Crate("z12", "1.2.3", True).expect(wheel("1.2.3", "numpy", script))
    script = """
with ztensor.Writer(path, canonical=True) as w:
    w.add("scalar", np.float32(1).tobytes(), [], "f32")
    w.add("shared", np.float32(1).tobytes(), [2, 2], "u8", logical="f8_e5m2")
"""
    Crate("z21", "2.1.2", True).expect(wheel("2.1.2", "canonical", script))


if READ:
    crate = Crate(READ[0], "", True)
    for f in READ[1:]:
        path = pathlib.Path(f)
        crate.expect(path, *(("cas", path.parent) if (path.parent / "blobs").is_dir() else ()))
    sys.exit()
OUT.mkdir(parents=True, exist_ok=True)
for make in make01, make10, make11, make12, make2, wheels:
    make()
shutil.rmtree(WORK)
