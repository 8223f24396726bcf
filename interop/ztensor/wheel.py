"""wheel.py write FILE: a file of random content by the installed ztensor wheel, any generation; prints what NumPy says of it, as JSON for compare.py.
wheel.py again FILE OUT: writes what it reads from FILE, of version 2, in canonical form.
wheel.py read FILE: prints what the wheel reads from FILE, in the same form.

Run under `interop/tools.sh ztensor VERSION`.
"""
import hashlib, json, sys
import numpy as np
import ml_dtypes
import ztensor

rng = np.random.default_rng()  # other content every time
V2 = hasattr(ztensor, "Source")
V12 = not V2 and hasattr(ztensor.Writer, "add")
DTYPES = [np.dtype(d) for d in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", ml_dtypes.bfloat16)]
STORAGE = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint64": "u64",
           "uint32": "u32", "uint16": "u16", "uint8": "u8"}
LOGICAL = {"f8_e4m3fn": "float8_e4m3fn", "f8_e5m2": "float8_e5m2", "f8_e4m3fnuz": "float8_e4m3fnuz", "f8_e5m2fnuz": "float8_e5m2fnuz", "f8_e8m0": "float8_e8m0fnu",
           "f4_e2m1": "float4_e2m1fn"}  # the others are spelled as we do
LONG = {v: k for k, v in STORAGE.items()}


def sha(b):
    return hashlib.sha256(b).hexdigest()


def random(dtype, shape):
    n = int(np.prod(shape)) * dtype.itemsize
    b = rng.integers(0, 2 if dtype == "?" else 256, n, np.uint8).tobytes()
    return np.frombuffer(b, dtype).reshape(shape)


def row(name, a, shape=None):
    return {"name": name, "dtype": a.dtype.name, "shape": list(a.shape if shape is None else shape), "sha256": sha(a.tobytes())}


def arrays():
    for d in DTYPES:
        yield d.name, random(d, tuple(rng.integers(1, 9, rng.integers(1, 5))))
    yield "scalar", random(np.dtype("f4"), ())
    yield "nothing", random(np.dtype("f4"), (3, 0))
    yield "große Matrix/重み", random(np.dtype("f4"), (300, 1000))
    yield "compressible", np.repeat(random(np.dtype("i4"), (100,)), 50).reshape(50, 100)
    for i in range(300):
        yield f"layers.{i}.weight", random(np.dtype("i2"), (i,))


def sparse(format_csr, format_coo):
    """Two sparse tensors: what to add, and the rows that they are."""
    dense = rng.random((20, 30)) * (rng.random((20, 30)) < 0.1)
    r, c = np.nonzero(dense)
    v = dense[r, c].astype(np.float32)
    indptr = np.searchsorted(r, np.arange(21)).astype(np.uint64)
    part = lambda role, a: {"role": role, "sha256": sha(a.tobytes())}
    i, coords = c.astype(np.uint64), np.concatenate([r, c]).astype(np.uint64)
    yield ("add_sparse_csr", "csr", v, i, indptr, (20, 30)), {"name": "csr", "shape": [20, 30], "scheme": format_csr,
                                                            "parts": [part("values", v), part("indices", i), part("indptr", indptr)]}
    yield ("add_sparse_coo", "coo", v, coords, (20, 30)), {"name": "coo", "shape": [20, 30], "scheme": format_coo, "parts": [part("values", v), part("coords", coords)]}


def write(path):
    rows = []
    if V2:
        with ztensor.Writer(path, canonical=True) as w:
            for name, a in sorted(arrays(), key=lambda x: x[0].encode()):
                bits = a.dtype == "?"
                w.add(name, a.tobytes(), list(a.shape), "u8" if bits else STORAGE[a.dtype.name], logical="bool" if bits else None)
                rows.append(row(name, a))
        rows.sort(key=lambda r: (len(r["name"].encode()), r["name"].encode()))  # the order of the manifest's keys
        return rows
    if V12:
        w = ztensor.Writer(path)
        for k, (name, a) in enumerate(arrays()):
            w.add(name, a, compress=(None, 3, 19)[k % 3], checksum=("none", "crc32c", "sha256")[k // 3 % 3])
            rows.append(row(name, a))
        w.finish()
    else:
        with ztensor.Writer(path) as w:
            compress = "compress" in (w.add_tensor.__doc__ or "") or "compress" in w.add_tensor.__code__.co_varnames
            for k, (name, a) in enumerate(arrays()):
                w.add_tensor(name, a, **({"compress": True} if compress and k % 2 else {}))
                rows.append(row(name, a))
            if hasattr(w, "add_sparse_csr"):
                for (verb, *args), r in sparse("sparse_csr", "sparse_coo"):
                    getattr(w, verb)(*args)
                    rows.append(r)
    for r in rows:
        if r["shape"] == []:
            r["shape"] = [1]  # every wheel before 2 does that
    if V12 or hasattr(ztensor.Writer, "add_sparse_csr"):  # 0.1 keeps the order of writing, the others sort
        rows.sort(key=lambda r: r["name"].encode())
    return rows


def plain(name, scheme, shape, parts):
    """A row: parts are (role, dtype, bytes)."""
    row = {"name": name, "shape": list(shape), "scheme": scheme}
    parts = [{"role": role, "dtype": dtype, "sha256": sha(b)} for role, dtype, b in parts]
    if scheme == "dense":
        return {**row, "dtype": parts[0]["dtype"], "sha256": parts[0]["sha256"]}
    return {**row, "parts": parts}


def read(path):
    """Every tensor with the parts that it has, as this generation's wheel gives them."""
    if V2:
        ztensor.verify(path, deep=True)  # raises when a digest does not fit
        source = ztensor.open(path)
        for name in source.keys():
            t = source[name]
            yield plain(name, t.layout, t.shape, [(p, LOGICAL.get(t[p].logical, t[p].logical) or LONG[t[p].dtype], bytes(t[p].tobytes())) for p in t.parts])
        return
    r = ztensor.Reader(path)
    if V12:
        for name in r.keys():
            try:
                t = r.read(name, copy=True)
            except ValueError:  # it cannot make an array of a complex type, and of no other that we write
                m = r._inner._get_metadata(name)
                yield plain(name, m["format"], m["shape"], [(c, x["type"], bytes(r._inner._read_component_raw(name, c)[0])) for c, x in m["components"].items()])
                continue
            logical = LOGICAL.get(t.type, t.type)
            yield plain(name, t.format, t.shape, [(c, logical if logical and c in ("data", "values") else a.dtype.name, a.tobytes()) for c, a in t.components.items()])
        return
    for name in r.get_tensor_names():
        m = r.get_metadata(name)
        roles = {"sparse_csr": ("values", "indices", "indptr"), "sparse_coo": ("values", "coords")}.get(m.layout)
        if not roles:
            a = np.array(r.read_tensor(name), copy=True)  # a view dies with its owner
            yield plain(name, "dense", a.shape, [("data", a.dtype.name, a.tobytes())])
            continue
        parts = []
        for role in roles:
            a, owner = r._read_component(name, role, lambda: m.dtype if role == "values" else np.uint64)
            parts.append((role, a.dtype.name, a.tobytes()))
        yield plain(name, m.layout, m.shape, parts)


def again(path, out):
    source = ztensor.open(path)
    with ztensor.Writer(out, canonical=True) as w:
        for name in sorted(source.keys(), key=str.encode):
            t = source[name]
            w.add(name, bytes(t.tobytes()), list(t.shape), t.dtype, logical=t.logical)


verb, path, *out = sys.argv[1:]
if verb == "again":
    again(path, *out)
else:
    print(json.dumps({"tensors": list({"write": write, "read": read}[verb](path))}, ensure_ascii=False))
