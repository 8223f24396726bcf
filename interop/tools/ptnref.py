"""ExecuTorch's own writer, reader and checks of .ptn packages (exir/_serialize/_ptn.py, backends/native/serialization, exir/native) WITHOUT
torch: a tensor is a dtype, a shape and bytes, and the Rust part of safetensors reads them. Needs safetensors in addition to etserde.py.

    import ptnref                       # ETWHEEL=/directory/with/executorch, see etserde.py
    ptnref.schema                       # the dataclasses of a program
    ptnref.serialize(program), ptnref.deserialize(ptg)
    ptnref.write(path, ptg, {key: (dtype, shape, bytes)}, mutable_keys)
    ptnref.read(path)                   # (ptg, {key: (dtype, shape, bytes)})
    ptnref.check(ptg, keys)             # what to_native checks of a program that it has merged: a ValueError
    ptnref.expect(path)                 # all that the reference reads, for JSON
"""
import dataclasses, enum, hashlib, importlib, io, json, sys, types, zipfile

import etserde
import safetensors
import torch  # etserde's

# safetensors' word and the size of an element, by dtype.
DTYPES = dict(uint8=("U8", 1), int8=("I8", 1), int16=("I16", 2), int32=("I32", 4), int64=("I64", 8), float16=("F16", 2), float32=("F32", 4),
              float64=("F64", 8), bfloat16=("BF16", 2), bool=("BOOL", 1), uint16=("U16", 2), uint32=("U32", 4), uint64=("U64", 8), complex64=("C64", 8))
WORDS = {word: dtype for dtype, (word, _) in DTYPES.items()}


class Tensor:
    """As much of a torch.Tensor as the writer of packages uses."""

    device = types.SimpleNamespace(type="cpu", index=None)

    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = getattr(torch, dtype), tuple(shape), bytes(data)

    detach = cpu = contiguous = flatten = numpy = lambda self: self
    view = lambda self, dtype: self
    element_size = lambda self: DTYPES[self.dtype.n][1]
    numel = lambda self: len(self.data) // self.element_size()
    untyped_storage = lambda self: types.SimpleNamespace(data_ptr=lambda: id(self))


torch.Tensor = Tensor
numpy_like = types.ModuleType("safetensors.torch")
numpy_like.load = lambda data: {name: Tensor(WORDS[t["dtype"]], t["shape"], t["data"]) for name, t in safetensors.deserialize(data)}
sys.modules["safetensors.torch"] = numpy_like
importlib.import_module("torch.export.graph_signature").InputKind = enum.Enum("InputKind", "USER_INPUT PARAMETER BUFFER CONSTANT_TENSOR CUSTOM_OBJ TOKEN")
for name in ("executorch.backends", "executorch.backends.native", "executorch.exir.native"):
    etserde._pkg(name)
preprocess = types.ModuleType("executorch.backends.native.preprocess")  # which is part of the compiler
preprocess.NativeDelegateInfo = type("NativeDelegateInfo", (), {})
sys.modules[preprocess.__name__] = preprocess

native = importlib.import_module("executorch.exir.native.native")
schema = importlib.import_module("executorch.backends.native.serialization.schema")
graph = importlib.import_module("executorch.backends.native.serialization.graph_serialize")
ptn = importlib.import_module("executorch.exir._serialize._ptn")

serialize, deserialize = graph._compile_to_bytes, graph.deserialize_program


def write(path, ptg, tensors, mutable_keys=()):
    ptn.write_ptn(path, ptg, {k: Tensor(*t) for k, t in tensors.items()}, frozenset(mutable_keys))


def read(path):
    ptg, tensors = ptn.read_ptn(path)
    return ptg, {k: (t.dtype.n, list(t.shape), t.data) for k, t in tensors.items()}


def check(ptg, keys):
    native._validate_merged_program(deserialize(ptg), dict.fromkeys(keys))


def described(x):
    """A dataclass as JSON: members of unions have their name, enums are numbers, floats text, and what is absent is left out."""
    if dataclasses.is_dataclass(x):
        out = {f.name: described(getattr(x, f.name)) for f in dataclasses.fields(x) if getattr(x, f.name) is not None}
        name = type(x).__name__
        return {"type": name, **out} if name.endswith("Arg") or name in ("AffineGroup", "PackedQuant") else out
    if isinstance(x, enum.IntEnum):
        return int(x)
    if isinstance(x, float):
        return repr(x)
    return [described(e) for e in x] if isinstance(x, list) else x


def expect(path):
    with open(path, "rb") as f:
        ptg = f.read()
    tensors, aliases, keys = None, {}, None
    if ptg[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(ptg)) as z:
            if ptn.ALIASES_ENTRY in z.namelist():
                aliases = json.loads(z.read(ptn.ALIASES_ENTRY))
        ptg, tensors = read(path)
        tensors = {k: {"dtype": d, "shape": s, "sha256": hashlib.sha256(b).hexdigest()} for k, (d, s, b) in sorted(tensors.items())}
    program, wrong = deserialize(ptg), None
    try:
        check(ptg, graph.collect_data_keys(program) if tensors is None else tensors)
    except ValueError as e:
        wrong = str(e)
    return {"tensors": tensors, "aliases": aliases, "program": described(program), "wrong": wrong}


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(json.dumps(expect(path), separators=(",", ":")))
