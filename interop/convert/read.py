"""read.py KIND FILE: what a reference reads from a file that we converted: one JSON row a tensor, bytes in row-major order.

KIND is safetensors, npz, npy (under interop/tools.sh numpy), gguf (under tools.sh gguf), rten (under rten-convert). The others have readers already: zTensor's wheels
(ztensor/wheel.py read), ExecuTorch's runtime (etrun ptd) and primitiv's library (primitivref dump), whose output matches.py understands.
"""
import hashlib, json, sys


def safetensors(path):
    from safetensors import deserialize
    words = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "F16": "float16", "BF16": "bfloat16", "I32": "int32", "U32": "uint32",
             "F32": "float32", "C64": "complex64", "F64": "float64", "I64": "int64", "U64": "uint64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
             "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E8M0": "float8_e8m0fnu", "F4": "float4_e2m1fn"}
    for name, t in deserialize(open(path, "rb").read()):
        yield name, words.get(t["dtype"], t["dtype"]), t["shape"], bytes(t["data"])


def npz(path):
    import numpy as np
    f = np.load(path)
    for name in f.files:
        a = f[name]
        yield name, a.dtype.name, a.shape, a.tobytes()


def npy(path):
    import numpy as np
    a = np.load(path)
    yield "data", a.dtype.name, a.shape, a.tobytes()


def gguf(path):
    from gguf import GGUFReader
    words = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64"}
    for t in GGUFReader(path).tensors:
        kind = t.tensor_type.name
        yield t.name, words.get(kind, kind), [int(d) for d in reversed(t.shape)], t.data.tobytes()


def rten(path):
    import numpy as np
    import rten_convert.schema_generated as sg
    data = open(path, "rb").read()
    flat, base = data, 0
    if data[:4] == b"RTEN":
        at, size, base = (int.from_bytes(data[8 + 8 * i:16 + 8 * i], "little") for i in range(3))
        flat = data[at:at + size]
    names = {v: k for k, v in vars(sg.ConstantDataType).items() if isinstance(v, int)}
    inline = {"FloatData": np.float32, "Int32Data": np.int32, "Int8Data": np.int8, "UInt8Data": np.uint8}
    kinds = {v: k for k, v in vars(sg.ConstantData).items() if isinstance(v, int)}
    for node in sg.ModelT.InitFromObj(sg.Model.GetRootAs(flat, 0)).graph.nodes:
        c = node.data
        if not isinstance(c, sg.ConstantNodeT):
            continue
        shape = [] if c.shape is None else [int(d) for d in c.shape]
        if c.dataOffset is not None:
            dtype = np.dtype(names[c.dtype].lower())
            n = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            b = data[base + c.dataOffset:base + c.dataOffset + n]
        else:
            dtype = np.dtype(inline[kinds[c.dataType]])
            b = b"" if c.data.data is None else np.asarray(c.data.data).astype(dtype).tobytes()
        yield (node.name or b"").decode(), dtype.name, shape, b


for name, dtype, shape, b in globals()[sys.argv[1]](sys.argv[2]):
    print(json.dumps({"name": name, "dtype": dtype, "shape": list(shape), "sha256": hashlib.sha256(b).hexdigest()}))
