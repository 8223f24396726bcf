"""words.py DIR TENSORFILE: numpy and ml_dtypes write arrays whose dtype has each name that numpy.load takes; tensorfile reads the same bytes,
and of what np.save stores as void bytes the same numbers."""
import hashlib, io, json, os, random, struct, subprocess, sys

import ml_dtypes
import numpy as np

out, tf = sys.argv[1:]
os.makedirs(out)
NAMES = {"b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16", "u4": "uint32",
         "u8": "uint64", "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128"}
OURS = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
words = list("?bBhHiIlLqQpPefdFDgG") + [s + c for s in "<>=|" for c in "dehiqfD"] + list(NAMES.values()) + list(NAMES) + OURS + [
    "float8_e3m4", "float8_e4m3", "int4", "uint4", "bool_", "byte", "ubyte", "short", "ushort", "intc", "uintc", "int", "uint", "long", "ulong",
    "longlong", "ulonglong", "intp", "uintp", "half", "single", "double", "float", "longdouble", "csingle", "cdouble", "clongdouble", "complex"]


def run(*args):
    return json.loads(subprocess.run([tf, *args], check=True, capture_output=True).stdout)


def header(descr):
    text = ("{'descr': %r, 'fortran_order': False, 'shape': (5,), }" % descr).ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


want = {}
for i, word in enumerate(words):
    d = np.dtype(word)
    b = bytes(x & 1 for x in random.randbytes(5)) if d.kind == "b" else random.randbytes(5 * d.itemsize)
    path = f"{out}/{i}.npy"
    with open(path, "wb") as f:
        f.write(header(word) + b)
    a = np.load(path)
    assert a.dtype == d and a.tobytes() == b, word
    if d.name in OURS:
        name = d.name
    else:
        name = NAMES.get(d.str[1:], word) if d.kind != "V" else word
    little = a.astype(d.newbyteorder("<")).tobytes() if d.kind in "iufcb" and d.name not in OURS else b
    want[path] = word, name, hashlib.sha256(little).hexdigest()
bad = 0
for d, h in zip(run("ls", "--json", *want)["files"], run("hash", "--json", *want)["files"]):
    word, name, sha = want[d["file"]]
    if (d["tensors"][0]["dtype"], h["tensors"][0]["sha256"]) != (name, sha):
        bad += 1
        print("FAIL", word, d["tensors"][0]["dtype"], "want", name)

for name in OURS:  # what np.save makes of them
    d = np.dtype(getattr(ml_dtypes, name))
    a = np.array([0.5, 1, 2, 4], d)
    path = f"{out}/{name}.npy"
    np.save(path, a)
    got = run("cat", "--json", path, "data", "--reinterpret", f"{d.str}={name}")["values"]
    if got != [float(x) for x in a]:
        bad += 1
        print("FAIL", name, got)
path = f"{out}/two.npy"
with open(path, "wb") as f:
    np.save(f, np.arange(3))
    np.save(f, np.zeros((2, 2), np.float32))
d = run("ls", "--json", path)
if len(d["tensors"]) != 1 or "float32[2, 2]" not in d["warnings"][0]:
    bad += 1
    print("FAIL two arrays", d)
print(len(want) + len(OURS) + 1 - bad, "files are what numpy has")
sys.exit(bad > 0)
