"""Files by the reference, safetensors 0.8.0, with what they hold.

make.py DIR SEED        every file below with random content, and NAME.json next to NAME.safetensors
make.py --check A B     B holds files of the same names: equal to the byte, and they load
"""
import ctypes, hashlib, json, os, random, sys

from safetensors import TensorSpec, deserialize, serialize_file

WORDS = {  # dtype of the serializer: bits of one element of the shape that is passed, word of the file, word of tensorfile
    "bool": (8, "BOOL", "bool"), "uint8": (8, "U8", "uint8"), "int8": (8, "I8", "int8"), "int16": (16, "I16", "int16"),
    "uint16": (16, "U16", "uint16"), "float16": (16, "F16", "float16"), "bfloat16": (16, "BF16", "bfloat16"),
    "int32": (32, "I32", "int32"), "uint32": (32, "U32", "uint32"), "float32": (32, "F32", "float32"),
    "complex64": (64, "C64", "complex64"), "float64": (64, "F64", "float64"), "int64": (64, "I64", "int64"),
    "uint64": (64, "U64", "uint64"), "float8_e4m3fn": (8, "F8_E4M3", "float8_e4m3fn"), "float8_e5m2": (8, "F8_E5M2", "float8_e5m2"),
    "float8_e8m0fnu": (8, "F8_E8M0", "float8_e8m0fnu"), "float8_e4m3fnuz": (8, "F8_E4M3FNUZ", "float8_e4m3fnuz"),
    "float8_e5m2fnuz": (8, "F8_E5M2FNUZ", "float8_e5m2fnuz"), "float4_e2m1fn_x2": (8, "F4", "float4_e2m1fn"),
}


def data(rng, dtype, shape):
    n = 1
    for d in shape:
        n *= d
    b = rng.randbytes(n * WORDS[dtype][0] // 8)
    return bytes(x & 1 for x in b) if dtype == "bool" else b


def save(path, tensors, metadata=None):
    keep = {k: ctypes.create_string_buffer(b, len(b)) for k, (d, s, b) in tensors.items()}
    # serialize_file's argument lists the storage shape: two packed values of float4 are one element of it
    serialize_file({k: TensorSpec(dtype=d, shape=s, data_ptr=ctypes.addressof(keep[k]), data_len=len(b)) for k, (d, s, b) in tensors.items()}, path, metadata)


def write(directory, name, tensors, metadata=None):
    """tensors: {name: (dtype, shape, bytes)}"""
    path = os.path.join(directory, name + ".safetensors")
    save(path, tensors, metadata)
    read = dict(deserialize(open(path, "rb").read()))
    for k, (d, s, b) in tensors.items():
        assert bytes(read[k]["data"]) == b and read[k]["dtype"] == WORDS[d][1], (name, k)
    with open(os.path.join(directory, name + ".json"), "w") as f:
        json.dump({"attributes": metadata or {}, "tensors": {k: {"dtype": WORDS[d][2], "shape": read[k]["shape"], "bytes": len(b),
                   "sha256": hashlib.sha256(b).hexdigest()} for k, (d, s, b) in tensors.items()}}, f, indent=1, sort_keys=True, ensure_ascii=True)
        f.write("\n")


def make(directory, seed):
    os.makedirs(directory, exist_ok=True)
    rng = random.Random(seed)
    dims = lambda: [rng.randrange(1, 5) for _ in range(rng.randrange(0, 4))]
    t = lambda d, s: (d, s, data(rng, d, s))
    known = []
    for d in WORDS:
        try:
            save(os.path.join(directory, "try.safetensors"), {"x": (d, [2], data(rng, d, [2]))})
            known.append(d)
        except Exception as e:
            print("the reference does not write", d, e, file=sys.stderr)
    os.remove(os.path.join(directory, "try.safetensors"))
    write(directory, "dtypes", {"t." + d: t(d, dims() + [2]) for d in known}, {"format": "pt"})
    write(directory, "empty", {})
    write(directory, "metadata-only", {}, {"k": "v\u00e9\n\"\\\u2028\U0001f600"})
    write(directory, "scalar-and-zero", {"s": t("float32", []), "z": t("int64", [0]), "zz": t("float64", [3, 0, 2]), "b": t("bool", [])})
    write(directory, "names", {n: t("uint8", [i + 1]) for i, n in enumerate(
        ["", "a/b", "\u00e9\u00e8", "\U0001f600", "quote\"back\\slash", "tab\tnl\n\u0001\u001f\b\f\r", "nul\0", "\u007f\u0080", "../../x", "x" * 300, "CON"])})
    write(directory, "rank8", {"r": t("uint16", [1, 2, 1, 2, 1, 2, 1, 2])})
    write(directory, "many", {f"model.layers.{i}.weight": t("bfloat16" if i % 2 else "float32", [1 + i % 7]) for i in range(200)})


def check(a, b):
    bad = n = 0
    for f in sorted(os.listdir(a)):
        if f.endswith(".safetensors"):
            n += 1
            want, got = open(os.path.join(a, f), "rb").read(), open(os.path.join(b, f), "rb").read()
            deserialize(got)
            if want != got:
                bad += 1
                print("FAIL", f, "is not what the reference wrote")
    print(n - bad, "files rewritten by us are the reference's to the byte and load there")
    sys.exit(bad > 0 or n == 0)


if __name__ == "__main__":
    check(sys.argv[2], sys.argv[3]) if sys.argv[1] == "--check" else make(sys.argv[1], sys.argv[2])
