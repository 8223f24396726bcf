"""make.py DIR SEED [BLOCKS]: files by the gguf package of PyPI with random content, and what its own reader
and dequantize find in them (FILE.json). With BLOCKS one of them has twice as many blocks of every quantised type."""
import builtins, hashlib, json, os, random, shutil, sys

os.environ["TQDM_DISABLE"] = "1"
import numpy as np
from gguf import GGUFReader, GGUFWriter, dequantize, quantize
from gguf import GGUFEndian
from gguf.scripts.gguf_convert_endian import convert_byteorder
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Q

NAMES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64"}


def write(directory, name, tensors, attributes, alignment=None):
    path = os.path.join(directory, name + ".gguf")
    w = GGUFWriter(path, "llama")
    if alignment:
        w.add_custom_alignment(alignment)
    for k, (kind, v) in attributes.items():
        getattr(w, "add_" + kind)(k, v)
    for k, (q, blocks, rows, data) in tensors.items():
        w.add_tensor(k, np.frombuffer(data, np.uint8).reshape(rows + [blocks * GGML_QUANT_SIZES[q][1]]), raw_dtype=q)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    note(path)


def note(path):
    r = GGUFReader(path)
    out = {}
    for t in r.tensors:
        b = t.data.tobytes()
        values = ""
        if t.tensor_type.name not in NAMES:
            try:
                x = dequantize(t.data, t.tensor_type)
                values = hashlib.sha256(np.where(np.isnan(x), np.float32(np.nan), x).astype("<f4").tobytes()).hexdigest()
            except NotImplementedError:
                pass
        out[t.name] = {"type": t.tensor_type.name, "dtype": NAMES.get(t.tensor_type.name, ""), "shape": [int(x) for x in reversed(t.shape)],
                       "offset": int(t.data_offset), "bytes": int(t.n_bytes), "sha256": hashlib.sha256(b).hexdigest(), "values": values}
    keys = [k for k in r.fields if not k.startswith("GGUF.")]
    text = {}
    for k in keys:
        v = r.fields[k].contents()
        text[k] = v if isinstance(v, str) else json.dumps(v, separators=(",", ":"), ensure_ascii=False)
    with open(path + ".json", "w") as f:
        json.dump({"keys": keys, "text": text, "tensors": out}, f, indent=1, sort_keys=True)
        f.write("\n")


def quantised(directory, rng, blocks):
    """Numbers, and the blocks that gguf.quantize makes of them, for every type that it quantises."""
    gen = np.random.default_rng(rng.randrange(2**32))
    tensors = {}
    for q in (Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.TQ1_0, Q.TQ2_0, Q.MXFP4):
        n = GGML_QUANT_SIZES[q][0]
        x = gen.standard_normal((blocks, n)).astype(np.float32)
        x *= np.float32(2.0) ** gen.integers(-20, 20, (blocks, 1)).astype(np.float32)
        x[0] = 0
        x[1] = np.float32(1.5)
        x[2] = gen.integers(-15, 16, n) / 2  # ties
        x[3] *= np.float32(1e30) / abs(x[3]).max()
        x[4, ::2] = -x[4, 1::2]  # the largest value, with both signs
        x[5] = np.float32(2.0) ** 10 * (1 - np.arange(n, dtype=np.float64) / 2**24)  # just below a power of two
        x[6] = np.float32(2.0) ** -9 * (1 - np.arange(n, dtype=np.float64) / 2**24)
        x[7] = gen.integers(0, 3, n) - 1
        if q != Q.MXFP4:
            x[8] = (gen.integers(-(2**20), 2**20, n)).astype(np.float32) * np.float32(2.0**-149)  # subnormal
            x[9] = -0.0
            x[10] *= np.float32(1e-39) / abs(x[10]).max()
            x[11, n // 3] = np.inf
        else:
            x[8] = np.float32(2.0) ** gen.integers(-124, 120) * (2 - 2.0**-23)
        with np.errstate(all="ignore"):
            tensors["x." + q.name] = (Q.F32, n, [blocks], x.tobytes())
            tensors["q." + q.name] = (q, 1, [blocks], quantize(x, q).tobytes())
    write(directory, "quantised", tensors, {})


def big_endian(directory, rng, blocks):
    """Little-endian files, and the same in big-endian order: what gguf-convert-endian makes, and what GGUFWriter writes."""
    kinds = (Q.F32, Q.F16, Q.BF16, Q.Q4_0, Q.Q8_0, Q.Q4_K, Q.Q6_K, Q.MXFP4, Q.NVFP4)
    write(directory, "order", {q.name: (q, blocks, [2], rng.randbytes(2 * blocks * GGML_QUANT_SIZES[q][1])) for q in kinds}, {
        "u16": ("uint16", 258), "i64": ("int64", -2**40), "f32": ("float32", 0.375), "f64": ("float64", 0.1), "yes": ("bool", True),
        "ints": ("array", [1, -2, 3]), "floats": ("array", [0.75]), "strings": ("array", ["a", "\u4e2d"]), "bools": ("array", [True])})
    path = os.path.join(directory, "order-big.gguf")
    shutil.copy(os.path.join(directory, "order.gguf"), path)
    builtins.input = lambda _: "YES"
    convert_byteorder(GGUFReader(path, "r+"), type("", (), {"order": "big", "dry_run": False}))
    gen = np.random.default_rng(rng.randrange(2**32))
    arrays = {f"{d}": gen.integers(-2**7, 2**7, (2, 3)).astype(d) for d in ("int8", "int16", "int32", "int64", "float16", "float32", "float64")}
    for name, order in ("numbers", GGUFEndian.LITTLE), ("numbers-big", GGUFEndian.BIG):
        w = GGUFWriter(os.path.join(directory, name + ".gguf"), "llama", endianess=order)
        for k, a in arrays.items():
            w.add_tensor(k, a.copy())
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
    note(os.path.join(directory, "numbers.gguf"))
    for name in "order", "numbers":  # the reader of the package does not swap BF16 and blocks
        shutil.copy(os.path.join(directory, name + ".gguf.json"), os.path.join(directory, name + "-big.gguf.json"))


def make(directory, seed, blocks=0):
    os.makedirs(directory, exist_ok=True)
    rng = random.Random(seed)
    t = lambda q, blocks, rows: (q, blocks, rows, rng.randbytes(int(np.prod(rows, dtype=np.int64)) * blocks * GGML_QUANT_SIZES[q][1]))
    kinds = [q for q in GGML_QUANT_SIZES if q.name != "Q8_1"]
    write(directory, "types", {f"blk.{i}.{q.name.lower()}": t(q, 1 + i % 3, [1 + i % 2]) for i, q in enumerate(kinds)}, {"general.name": ("string", "types")})
    if blocks:
        write(directory, "blocks", {q.name: t(q, blocks, [2]) for q in kinds if q.name not in NAMES}, {})
    quantised(directory, random.Random(f"{seed} quantised"), max(blocks, 16))
    write(directory, "metadata", {"w": t(Q.F32, 3, [2, 2])}, {
        "u8": ("uint8", 255), "i8": ("int8", -128), "u16": ("uint16", 65535), "i16": ("int16", -32768), "u32": ("uint32", 2**32 - 1),
        "i32": ("int32", -2**31), "u64": ("uint64", 2**64 - 1), "i64": ("int64", -2**63), "f32": ("float32", 0.5), "f64": ("float64", -2.25),
        "yes": ("bool", True), "no": ("bool", False), "text": ("string", "\u00e9\n\"\U0001f600"), "empty": ("string", ""),
        "ints": ("array", [1, -2, 3]), "floats": ("array", [0.5, 1.5]), "strings": ("array", ["a", "b\"c", "\u4e2d"]), "bools": ("array", [True, False])})
    write(directory, "align4096", {"a": t(Q.F16, 5, []), "b": t(Q.Q4_0, 2, [3]), "c": t(Q.I8, 1, [1])}, {}, 4096)
    write(directory, "many", {f"blk.{i}.attn_q.weight": t(Q.BF16 if i % 2 else Q.Q8_0, 1 + i % 3, [2]) for i in range(100)},
          {"tokenizer.ggml.tokens": ("array", ["t%d" % i for i in range(500)])})
    big_endian(directory, random.Random(f"{seed} order"), max(blocks, 3))


if __name__ == "__main__":
    make(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
