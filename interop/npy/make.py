"""Arrays and archives by numpy, with what they hold.

make.py DIR SEED          every file below with random content, and FILE.json next to FILE
make.py --check A B       B holds what we wrote from the files of A: numpy reads equal arrays, and .npy files in the order
                          of the machine are equal to the byte
"""
import hashlib, json, os, random, sys

import numpy as np
from numpy.lib import format as F

NAMES = {"b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16", "u4": "uint32",
         "u8": "uint64", "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128"}


def array(rng, dtype, shape):
    d = np.dtype(dtype)
    n = int(np.prod(shape, dtype=np.int64))
    b = rng.randbytes(n * d.itemsize)
    if d.kind == "b":
        b = bytes(x & 1 for x in b)
    return np.frombuffer(b, d).reshape(shape).copy()


def facts(a):
    if a.dtype.str[1:] not in NAMES:
        return {"dtype": "unknown", "descr": str(F.dtype_to_descr(a.dtype)), "shape": list(a.shape)}
    order = "F" if a.flags.f_contiguous and not a.flags.c_contiguous else "C"
    b = a.tobytes(order=order)
    if a.dtype.byteorder == ">" or (a.dtype.byteorder == "=" and sys.byteorder == "big"):
        w = a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1)
        b = b"".join(b[i:i + w][::-1] for i in range(0, len(b), w))
    return {"dtype": NAMES[a.dtype.str[1:]], "shape": list(a.shape), "column": order == "F", "bytes": len(b), "sha256": hashlib.sha256(b).hexdigest()}


def note(path, arrays, version=""):
    with open(path + ".json", "w") as f:
        json.dump({"version": version, "tensors": {k: facts(a) for k, a in arrays.items()}}, f, indent=1, sort_keys=True)
        f.write("\n")


def make(directory, seed):
    os.makedirs(directory, exist_ok=True)
    rng = random.Random(seed)
    arrays = {}
    for word in NAMES:
        for sign in "<>" if word not in ("b1", "i1", "u1") else "|":
            arrays[f"{'be' if sign == '>' else 'le'}-{word}"] = array(rng, sign + word, [rng.randrange(1, 4) for _ in range(rng.randrange(1, 4))])
    arrays["scalar"] = array(rng, "<f4", [])
    arrays["empty"] = array(rng, "<i8", [0])
    arrays["empty2"] = array(rng, ">i8", [3, 0, 2])
    arrays["column"] = np.asfortranarray(array(rng, "<f4", [3, 4]))
    arrays["column-be"] = np.asfortranarray(array(rng, ">u2", [2, 3, 4]))
    arrays["rank9"] = array(rng, "<i2", [1, 2, 1, 2, 1, 2, 1, 2, 1])
    for name, a in arrays.items():
        path = os.path.join(directory, name + ".npy")
        np.save(path, a)
        note(path, {"data": a}, "1.0")
    for v in (2, 0), (3, 0):
        a = array(rng, "<f8", [2, 2])
        path = os.path.join(directory, f"version{v[0]}.npy")
        with open(path, "wb") as f:
            F.write_array(f, a, version=v)
        note(path, {"data": a}, f"{v[0]}.0")
    unicode = dict(arrays, **{"\u00e9\u4e2d": arrays["scalar"], "a/b": arrays["le-f4"], "z.npy": arrays["le-u1"], "": arrays["le-i1"]})
    for name, save, content in (("stored", np.savez, unicode), ("deflated", np.savez_compressed, unicode), ("none", np.savez, {})):
        path = os.path.join(directory, name + ".npz")
        save(path, **content)
        note(path, content)
    for sign, order in ("<", "le"), (">", "be"):
        for how, save in (("stored", np.savez), ("deflated", np.savez_compressed)):
            content = {"a": array(rng, sign + "u2", [4])}
            path = os.path.join(directory, f"one-{order}-{how}.npz")
            save(path, **content)
            note(path, content)
    words = {"plain": array(rng, "<f4", [3]), "text": np.array(["a", "bcd"]), "bytes": np.array([b"x"]), "objects": np.array([{"k": 1}, None]),
             "record": np.zeros(2, [("a", "<i4"), ("b", "<f8", (2,))]), "date": np.array(["2020-01-01"], "<M8[D]")}
    path = os.path.join(directory, "words.npz")
    np.savez(path, **words)
    note(path, words)


def same(x, y):
    return np.array_equal(x, y) if x.dtype.str[1:] not in NAMES else True


def check(a, b):
    bad = n = 0
    for f in sorted(os.listdir(a)):
        theirs, ours = os.path.join(a, f), os.path.join(b, f)
        if f.endswith(".npy"):
            n += 1
            x, y = np.load(theirs), np.load(ours)
            ok = facts(x) == facts(y)
            if x.dtype.byteorder != ">" and f.startswith(("le", "scalar", "empty.", "column.", "rank")):
                ok = ok and open(theirs, "rb").read() == open(ours, "rb").read()
        elif f.endswith(".npz"):
            n += 1
            x, y = np.load(theirs, allow_pickle=True), np.load(ours, allow_pickle=True)
            ok = x.files == y.files and all(facts(x[k]) == facts(y[k]) and same(x[k], y[k]) for k in x.files)
        else:
            continue
        if not ok:
            bad += 1
            print("FAIL", f)
    print(n - bad, "files rewritten by us hold the same for numpy")
    sys.exit(bad > 0 or n == 0)


if __name__ == "__main__":
    check(sys.argv[2], sys.argv[3]) if sys.argv[1] == "--check" else make(sys.argv[1], sys.argv[2])
