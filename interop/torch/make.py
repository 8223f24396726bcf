"""make.py DIR SEED: files by torch 1.6 to 2.15 with random content, and what torch itself loads
from them (FILE.json). Features that a release does not have are left out."""
import collections, hashlib, inspect, io, json, os, sys, warnings, zipfile

warnings.filterwarnings("ignore")
import numpy as np
import torch

release = tuple(int(n) for n in torch.__version__.split("+")[0].split("."))
if release >= (2, 1):
    import torch.distributed.checkpoint as dcp


def plain(t):
    """The bytes of a dense tensor in row-major order."""
    t = t.detach()
    if release >= (1, 10):
        t = t.resolve_conj().resolve_neg()
    t = t.contiguous().reshape(-1)
    if release >= (1, 10):
        return t.view(torch.uint8).numpy().tobytes()
    if t.dtype == torch.bfloat16:  # which numpy has not
        return (t.float().numpy().view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return t.numpy().tobytes()


def entry(t):
    d, scheme, parts = str(t.dtype)[6:], "", {}
    if getattr(t, "is_meta", False):
        return {"dtype": d, "shape": list(t.shape), "scheme": "meta"}
    if t.layout == torch.sparse_coo:
        scheme = "sparse_coo" if t.dense_dim() == 0 else "hybrid_coo"
        parts = {"coords": t._indices(), "values": t._values()}
    elif t.layout != torch.strided:
        scheme = str(t.layout)[6:]
        rows = scheme in ("sparse_csr", "sparse_bsr")
        a, b = (t.crow_indices(), t.col_indices()) if rows else (t.ccol_indices(), t.row_indices())
        parts = {"indptr": a, "indices": b, "values": t.values()}
        dense = t.values().dim() - b.dim() - 2 * ("_bs" in scheme)
        if a.dim() > 1:
            scheme = "batched_" + scheme
        elif dense > 0:
            scheme = scheme.replace("sparse", "hybrid")
    e = {"dtype": d, "shape": list(t.shape), "scheme": scheme}
    if scheme:
        e["parts"] = {k: hashlib.sha256(plain(v)).hexdigest() for k, v in parts.items()}
        return e
    e["sha256"] = hashlib.sha256(plain(t.int_repr() if t.is_quantized else t)).hexdigest()
    return e


def key(k):
    return k if isinstance(k, str) else repr(k)


def flatten(v, name="", out=None):
    """The tensors by the path of keys to them; an ndarray is a tensor."""
    out = {} if out is None else out
    join = lambda k: f"{name}.{k}" if name else k
    if isinstance(v, torch.nn.Module):
        v = v.state_dict()
    if isinstance(v, np.ndarray):
        v = torch.from_numpy(np.ascontiguousarray(v.astype(v.dtype.newbyteorder("="))))
    if hasattr(v, "__tensor_flatten__"):  # a subclass whose elements are in other tensors
        for k in v.__tensor_flatten__()[0]:
            flatten(getattr(v, k), join(k), out)
        if hasattr(v, "_spec"):  # of a DTensor, which has its mesh
            flatten({"_spec": {"mesh": v._spec.mesh.__reduce_ex__(2)[2]}}, name, out)
        return out
    if isinstance(v, torch.Tensor):
        out[name or "tensor"] = entry(v)
        for k, x in getattr(v, "__dict__", {}).items():
            flatten(x, join(k), out)
    elif isinstance(v, dict):
        for k, x in v.items():
            flatten(x, join(key(k)), out)
    elif isinstance(v, (list, tuple)) and not isinstance(v, torch.Size):
        for i, x in enumerate(v):
            flatten(x, join(str(i)), out)
    return out


def note(path, tensors, version="zip", globals=(), attributes=None):
    warned = []
    if version == "torchscript":  # constants of a program are not in its state_dict
        with zipfile.ZipFile(path) as z:
            for i in z.infolist():
                _, _, member = i.filename.partition("/")
                if member.startswith("constants/") and i.file_size > 0:
                    warned.append(f'unlisted-data storage "{member}"')
    with open(path + ".json", "w") as f:
        json.dump({"version": version, "foreign": list(globals), **({"warnings": warned} if warned else {}), **({"attributes": attributes} if attributes else {}), "tensors": tensors}, f, indent=1)
        f.write("\n")


def load(path):
    return torch.load(path, **({"weights_only": False} if release >= (1, 13) else {}))


def save(directory, name, v, legacy=False, globals=(), **options):
    path = os.path.join(directory, name + ".pt")
    torch.save(v, path, _use_new_zipfile_serialization=not legacy, **options)
    note(path, flatten(load(path)), "legacy" if legacy else "zip", globals)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 3)
        self.register_buffer("scale", torch.rand(2))
        self.sizes = [1, 2]

    def forward(self, x):
        return self.fc(x * self.scale) + torch.tensor([1.0, 2.0, 3.0])


def values():
    w = torch.rand(4, 6)
    shared = {"bias": torch.rand(3)}
    nchw = torch.rand(2, 3, 4, 5)
    return {
        "w": w, "transposed": w.t(), "part": w[1:3, ::2], "column": w[:, 2], "expanded": torch.rand(1).expand(3, 4),
        "channels_last": nchw.contiguous(memory_format=torch.channels_last), "permuted": nchw.permute(3, 0, 2, 1),
        "windows": torch.rand(10).unfold(0, 4, 2), "scalar": torch.tensor(2.5), "empty": torch.empty(0, 3), "ones": w[:1, :1],
        "shared": shared, "again": shared, "tied": [w, w], "parameter": torch.nn.Parameter(torch.rand(2)),
        "state": collections.OrderedDict([("a.b", torch.rand(2)), ("c", torch.randint(0, 9, (2,)))]),
        1: torch.rand(1), "nested": ({"x": [torch.rand(1), {"y": torch.tensor([True, False])}]},),
        "epoch": 3, "lr": 0.1, "name": "caf\u00e9", "none": None, "betas": (0.9, 0.999), "huge": 2**70, "inf": float("inf"),
        "set": {1}, "bytes": b"\x00\xff", "complex": 1 + 2j, "size": w.size(), "dtype": torch.bfloat16, "device": torch.device("cpu"),
        "no": [], "yes": True,
    }


DTYPES = """float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 complex32 complex64 complex128
float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu""".split()


def kinds():
    w, few = torch.rand(4, 6), torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    v = {
        "coo": torch.sparse_coo_tensor(torch.tensor([[0, 1], [2, 0]]), torch.rand(2), (2, 3)),
        "hybrid": torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.rand(2, 3), (2, 3)),
        "qint8": torch.quantize_per_tensor(w, 0.5, 3, torch.qint8),
        "axis": torch.quantize_per_channel(w, torch.rand(4), torch.tensor([0, 1, 2, 3]), 0, torch.quint8),
        "numpy": np.arange(6, dtype=np.float32).reshape(2, 3), "fortran": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
        "number": np.float64(1.5), "rng": torch.get_rng_state()[:16].clone(),
    }
    if release >= (2, 1):
        v.update(csr=few.to_sparse_csr(), csc=few.to_sparse_csc(),
                 bsr=torch.rand(4, 4).to_sparse_bsr((2, 2)), meta=torch.empty(3, 5, device="meta"),
                 conj=torch.rand(2, dtype=torch.complex64).conj())
    return v


def more_kinds():
    """Sparse tensors that are blocks, batches or hybrid, and tensors that torch conjugates or negates as it reads."""
    w, c = torch.rand(4, 4), torch.rand(2, 3, dtype=torch.complex64)
    return {
        "bsc": w.to_sparse_bsc((2, 4)), "batched_csr": torch.rand(2, 4, 4).to_sparse_csr(),
        "batched_bsr": torch.rand(2, 4, 4).to_sparse_bsr((2, 2)), "hybrid_csr": torch.rand(4, 4, 2).to_sparse_csr(dense_dim=1),
        "hybrid_bsr": torch.rand(4, 4, 2).to_sparse_bsr((2, 2), dense_dim=1),
        "conj_transposed": c.conj().t(), "imag": torch.rand(3, dtype=torch.complex64).conj().imag, "neg": torch._neg_view(torch.rand(3)),
        "neg_conj": torch._neg_view(torch.rand(2, dtype=torch.complex128).conj()), "neg_half": torch._neg_view(torch.rand(3).half()),
        "neg_int": torch._neg_view(torch.tensor([1, -2, 0, 2**62])), "neg_int8": torch._neg_view(torch.tensor([1, -128], dtype=torch.int8)),
    }


def quantized():
    """Quantised tensors of each dtype and scheme."""
    v = {}
    for d in torch.qint8, torch.quint8, torch.qint32:
        name, x = str(d)[6:], torch.rand(5, 3, 4) * (1e6 if d == torch.qint32 else 9)
        v[name] = torch.quantize_per_tensor(x, 0.0371234567, 123456789 if d == torch.qint32 else 7, d)
        for axis, n in enumerate(x.shape):
            v[f"{name}_axis{axis}"] = torch.quantize_per_channel(x, torch.rand(n, dtype=torch.float64) / 9 + 0.01, torch.arange(n), axis, d)
    v["floats"] = torch.quantize_per_channel(torch.rand(5, 4), torch.rand(5) / 9 + 0.01, torch.rand(5) * 20, 0, torch.quint8)
    v["scalar"] = torch.quantize_per_tensor(torch.tensor(1.25), 0.1, 3, torch.qint8)
    v["transposed"] = torch.quantize_per_tensor(torch.rand(2, 3), 0.01, 3, torch.qint8).t()
    return v


def subclasses():
    """Tensors whose elements are in the tensors of their state, in each form."""
    from torch.testing._internal.two_tensor import TwoTensor
    two = lambda *shape: TwoTensor(torch.rand(*shape), torch.rand(*shape))
    parameter = torch.nn.Parameter(torch.rand(2))
    parameter.extra = torch.rand(3)
    return {"two": two(2, 3), "nested": TwoTensor(two(2), two(2)), "parameter": torch.nn.Parameter(two(2)),
            "list": [two(1), {"x": two(1)}], "with_state": parameter}


CLASSES = ["torch.nn.modules." + c for c in ("container.Sequential", "linear.Linear", "batchnorm.BatchNorm1d", "rnn.LSTM", "container.ModuleDict", "container.ParameterList")]


def modules():
    """Whole modules in dicts and lists: one module twice, buffers that are not persistent, tensors that are listed twice."""
    shared = torch.nn.Linear(2, 2, bias=False)
    norm = torch.nn.BatchNorm1d(2)
    norm.register_buffer("passing", torch.rand(3), persistent=False)
    norm.register_buffer("kept", torch.rand(2))
    norm.register_parameter("none", None)
    many = torch.nn.ModuleDict({"a": shared, "b": torch.nn.ParameterList([torch.nn.Parameter(torch.rand(2))])})
    return {"epoch": 3, "model": torch.nn.Sequential(shared, norm, torch.nn.Sequential(shared, torch.nn.LSTM(2, 2))),
            "list": [many, {"again": norm}], "w": torch.rand(2)}


class Program(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.tied = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3, bias=False)
        self.tied.weight = self.fc.weight
        self.transposed = torch.nn.Parameter(torch.rand(3, 4).t())
        self.register_buffer("half_scale", torch.rand(3).to(torch.bfloat16))
        self.register_buffer("passing", torch.rand(2), persistent=False)
        self.constant = torch.tensor([1.0, 2.0])

    def forward(self, x):
        return self.fc(x) + self.tied(x) + self.half_scale + self.passing.sum() + self.constant.sum() + self.transposed.sum()


def program():
    """A program of torch.export, whose weights are members of the archive."""
    p = torch.export.export(Program(), (torch.rand(2, 4),))
    for node in p.graph.nodes:
        node.meta.pop("stack_trace", None)  # has the path of this file
    torch.export.save(p, "program.pt2")
    note("program.pt2", flatten({**p.state_dict, **{k: v for k, v in p.constants.items() if isinstance(v, torch.Tensor)}}), "pt2")


def flatten_states(v):
    """The same with the state_dict of each module."""
    if isinstance(v, torch.nn.Module):
        return v.state_dict()
    if isinstance(v, dict):
        return {k: flatten_states(x) for k, x in v.items()}
    return [flatten_states(x) for x in v] if isinstance(v, list) else v


def rezip(src, dst):
    """Archives as zip programs make them: compressed, in another order, not aligned."""
    with zipfile.ZipFile(src) as a, zipfile.ZipFile(dst, "w") as b:
        for i in sorted(a.infolist(), key=lambda i: i.filename, reverse=True):
            b.writestr(zipfile.ZipInfo(i.filename), a.read(i), zipfile.ZIP_DEFLATED)
    note(dst, flatten(load(dst)))


def without_paths(path):
    """Removes the members that hold the paths of source files on this machine."""
    with zipfile.ZipFile(path) as a:
        members = [(i, a.read(i)) for i in a.infolist() if not i.filename.endswith(".debug_pkl")]
    with zipfile.ZipFile(path, "w") as b:
        for i, data in members:
            b.writestr(zipfile.ZipInfo(i.filename), data, i.compress_type)


def distributed(directory, ranks, safetensors=False):
    """A checkpoint of several processes: rows, columns and uneven parts of tensors."""
    import torch.multiprocessing as mp
    full = {"rows": torch.rand(7, 3), "columns": torch.rand(2, 6), "grid": torch.rand(5, 4), "whole": torch.rand(3)}
    mp.spawn(rank, (ranks, directory, full, safetensors), nprocs=ranks)
    os.path.exists(directory + ".store") and os.remove(directory + ".store")
    note(os.path.join(directory, "all") if safetensors else directory, flatten(full), "dcp")


def sharded():
    """The option that makes each process write its own part, which has had two names."""
    has = inspect.signature(dcp.HuggingFaceStorageWriter).parameters
    return [option for option in ("save_sharded", "save_distributed") if option in has]


def rank(r, ranks, directory, full, safetensors):
    import torch.distributed as dist
    if release >= (2, 5):
        from torch.distributed.tensor import DeviceMesh, Replicate, Shard, distribute_tensor
    else:
        from torch.distributed._tensor import DeviceMesh, Replicate, Shard, distribute_tensor
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath(directory) + ".store", rank=r, world_size=ranks)
    mesh = torch.arange(ranks).reshape(2, ranks // 2)
    place = {"rows": [Shard(0), Replicate()], "columns": [Replicate(), Shard(1)], "grid": [Shard(0), Shard(1)], "whole": [Replicate(), Replicate()]}
    if release < (2, 2):  # has meshes of one dimension
        mesh = mesh.flatten()
        place = {k: [min(p, key=lambda x: x.is_replicate())] for k, p in place.items()}
    mesh = DeviceMesh("cpu", mesh)
    state = {k: distribute_tensor(v, mesh, place[k]) for k, v in full.items()}
    if r == 1 and release >= (2, 5) and not safetensors:
        torch.save(state, "dtensors.pt")
        note("dtensors.pt", flatten(state), attributes={f"{k}.{word}": list(map(text, x)) for k, v in state.items()
             for word, x, text in (("shape", v.shape, int), ("placements", v.placements, repr))})
    if safetensors:
        writer = dcp.HuggingFaceStorageWriter(
            directory, fqn_to_index_mapping={k: 1 + (k == "whole") for k in full},
            **{option: True for option in sharded()})
        dcp.save(state, storage_writer=writer)
    else:
        state.update(step=7, betas=[0.9, 0.999])
        write = dcp.save if release >= (2, 2) else dcp.save_state_dict
        write(state, storage_writer=dcp.FileSystemWriter(directory))
    dist.barrier()
    dist.destroy_process_group()


def make(directory, seed):
    os.makedirs(directory, exist_ok=True)
    os.chdir(directory)  # so that no file has its path
    directory = "."
    torch.manual_seed(seed)
    v = values()
    save(directory, "values", v)
    save(directory, "legacy", v, legacy=True)
    save(directory, "protocol5", {"ndarray": np.arange(6, dtype=">i4").reshape(3, 2).T,
                                **{k: v[k] for k in ("w", "transposed", "set", "bytes")}}, pickle_protocol=5)
    save(directory, "legacy4", {"w": v["w"], "part": v["part"]}, legacy=True, pickle_protocol=4)
    dtypes = {"bool": torch.tensor([True, False, True])}
    for d in DTYPES:
        try:
            if release >= (1, 10):
                x = torch.randint(0, 255, (48,), dtype=torch.uint8).view(getattr(torch, d))
            else:
                x = (torch.rand(12) * 100).to(getattr(torch, d))
                x.numpy() if d != "bfloat16" else None
            torch.save(x, io.BytesIO())
            dtypes[d] = x
        except (AttributeError, KeyError, RuntimeError, TypeError):
            pass  # this release does not have it
    save(directory, "dtypes", dtypes)
    save(directory, "kinds", kinds())
    save(directory, "one", torch.rand(3))
    rezip(os.path.join(directory, "values.pt"), os.path.join(directory, "deflated.pt"))
    net = Net()
    for name, m in ("script", torch.jit.script(net)), ("trace", torch.jit.trace(net, torch.rand(1, 2))):
        path = os.path.join(directory, name + ".pt")
        m.save(path)
        without_paths(path)
        note(path, flatten(dict(torch.jit.load(path).state_dict())), "torchscript")
    save(directory, "module", torch.nn.Linear(2, 3), globals=["torch.nn.modules.linear.Linear"])
    if release >= (2, 1):
        distributed("dcp", 4)
    if release >= (2, 8):
        distributed("shards", 4, safetensors=True)
    if release >= (2, 4):
        save(directory, "morekinds", more_kinds())
        save(directory, "subclasses", subclasses(), globals=["torch.testing._internal.two_tensor.TwoTensor"])
    if release >= (1, 10):
        m = modules()
        save(directory, "modules", m, globals=CLASSES)
        save(directory, "modules_state", flatten_states(m))
    if release >= (2, 1):
        program()
    if release >= (1, 13):
        v = quantized()
        save(directory, "quantized", v)
        save(directory, "quantized_values", {k: x.dequantize() for k, x in v.items()})


if __name__ == "__main__":
    make(sys.argv[1], int(sys.argv[2]))
