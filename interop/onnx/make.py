"""ONNX models by the onnx package, with what they hold.

make.py DIR SEED          every model below with random content, and NAME.json next to NAME.onnx
make.py --wheels DIR      copies of the models that the installed packages have, and NAME.json next to each
"""
import glob, hashlib, json, os, random, shutil, sys, sysconfig

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

DTYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool", 10: "float16", 11: "float64",
          12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz",
          19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
          27: "float6_e2m3fn", 28: "float6_e3m2fn"}
NUMERIC = [n for n in DTYPES if n != 8]
BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}


# The content of a model, in the words and the order of our reader.


def facts(name, t, base):
    out = {"name": name, "dtype": DTYPES[t.data_type], "shape": list(t.dims)}
    if t.data_type != 8:
        raw = nh.from_array(nh.to_array(t, base)).raw_data
        out["bytes"], out["sha256"] = len(raw), hashlib.sha256(raw).hexdigest()
    return out


def sparse_facts(name, s, base):
    parts = []
    for role, t in (("values", s.values), ("indices", s.indices)):
        if t.data_type == 0:
            parts.append({"name": role, "dtype": "int64", "bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()})
            continue
        f = facts(role, t, base)
        del f["shape"]
        parts.append(f)
    return {"name": name, "dtype": DTYPES[s.values.data_type], "shape": list(s.dims), "scheme": "sparse_coo", "parts": parts}


def in_attribute(a, name, base):
    if a.HasField("g"):
        yield from in_graph(a.g, name + "/", base)
    for i, t in enumerate(a.tensors):
        yield facts(f"{name}[{i}]", t, base)
    for i, g in enumerate(a.graphs):
        yield from in_graph(g, f"{name}[{i}]/", base)
    for i, s in enumerate(a.sparse_tensors):
        yield sparse_facts(f"{name}[{i}]", s, base)
    if a.HasField("t"):
        yield facts(name, a.t, base)
    if a.HasField("sparse_tensor"):
        yield sparse_facts(name, a.sparse_tensor, base)


def in_nodes(nodes, path, base):
    for j, n in enumerate(nodes):
        for a in n.attribute:
            name = path + (n.name or f"#{j}") + "." + a.name
            if n.op_type == "Constant" and n.domain in ("", "ai.onnx") and a.name in ("value", "sparse_value"):
                name = path + n.output[0]
            yield from in_attribute(a, name, base)


def in_graph(g, path, base):
    yield from in_nodes(g.node, path, base)
    for i, t in enumerate(g.initializer):
        yield facts(path + (t.name or f"#{i}"), t, base)
    for i, s in enumerate(g.sparse_initializer):
        yield sparse_facts(path + (s.values.name or f"sparse#{i}"), s, base)


def in_model(m, base):
    yield from in_graph(m.graph, "", base)
    for i, t in enumerate(m.training_info):
        yield from in_graph(t.initialization, f"training[{i}].initialization/", base)
        yield from in_graph(t.algorithm, f"training[{i}].algorithm/", base)
    for f in m.functions:
        path = f"{f.domain}:{f.name}" + (f":{f.overload}" if f.overload else "") + "/"
        yield from in_nodes(f.node, path, base)
        for a in f.attribute_proto:
            yield from in_attribute(a, path + "attribute." + a.name, base)


def type_of(t):
    kind = t.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        t = getattr(t, kind)
        dims = "?"
        if t.HasField("shape"):
            dims = "[" + ", ".join(str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in t.shape.dim) + "]"
        s = f"{DTYPES[t.elem_type]} {dims}"
        return f"sparse({s})" if kind == "sparse_tensor_type" else s
    if kind == "map_type":
        return f"map({DTYPES[t.map_type.key_type]}, {type_of(t.map_type.value_type)})"
    if kind in ("sequence_type", "optional_type"):
        return f"{kind.split('_')[0]}({type_of(getattr(t, kind).elem_type)})"
    return "?" if kind is None else kind.split("_")[0]


ORT = {"float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8, "bool": 9, "float16": 10, "double": 11, "uint32": 12,
       "uint64": 13, "bfloat16": 16}


def ort_values(values, declared):
    """Returns what onnxruntime says of inputs or outputs, as far as it is in words of ours. Sizes that it infers are not the sizes of the file."""
    shapes = {v.name: v.type.tensor_type.shape.dim for v in declared}
    all = []
    for v in values:
        word = v.type.removeprefix("tensor(").removesuffix(")")
        text = None
        if v.type.startswith("tensor(") and word in ORT:
            dims = ["?" if d is None else str(d) for d in v.shape]
            for i, d in enumerate(shapes.get(v.name, [])[: len(dims)]):
                if d.dim_value <= 0:
                    dims[i] = str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?"
            text = DTYPES[ORT[word]] + " [" + ", ".join(dims) + "]"
        all.append({"name": v.name, "type": text})
    return all


def describe(path):
    m = onnx.load(path, load_external_data=False)
    base = os.path.dirname(path)
    given = {t.name for t in m.graph.initializer} | {s.values.name for s in m.graph.sparse_initializer}
    value = lambda v: {"name": v.name, "type": type_of(v.type)}
    out = {"version": str(m.ir_version), "producer": m.producer_name, "attributes": {p.key: p.value for p in m.metadata_props},
           "opsets": {o.domain: o.version for o in m.opset_import}, "functions": len(m.functions),
           "inputs": [value(v) for v in m.graph.input if v.name not in given], "outputs": [value(v) for v in m.graph.output],
           "tensors": list(in_model(m, base))}
    try:
        import onnxruntime
        onnxruntime.set_default_logger_severity(4)
        s = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        out["onnxruntime"] = {"inputs": ort_values(s.get_inputs(), m.graph.input), "outputs": ort_values(s.get_outputs(), m.graph.output)}
    except Exception:
        pass  # it does not run operators of ours, or newer dtypes
    with open(os.path.splitext(path)[0] + ".json", "w") as f:
        json.dump(out, f, indent=1, sort_keys=True)
        f.write("\n")


# Models.


def element_bytes(rng, dtype, n):
    """Random elements as raw_data has them."""
    bits = BITS.get(dtype, 8)
    if bits == 8:
        d = np.dtype(h.tensor_dtype_to_np_dtype(dtype))
        b = rng.randbytes(n * d.itemsize)
        return bytes(x & 1 for x in b) if dtype == T.BOOL else b
    v = 0
    for i in range(n):
        v |= rng.randrange(1 << bits) << (i * bits)
    return v.to_bytes((n * bits + 7) // 8, "little")


def raw(rng, name, dtype, shape):
    return h.make_tensor(name, dtype, shape, element_bytes(rng, dtype, int(np.prod(shape, dtype=np.int64))), raw=True)


def typed(rng, name, dtype, shape):
    """The same in a typed field."""
    return h.make_tensor(name, dtype, shape, nh.to_array(raw(rng, "", dtype, shape)).flatten())


def varint(v):
    v &= (1 << 64) - 1
    out = b""
    while v >= 0x80:
        out, v = out + bytes([v & 0x7F | 0x80]), v >> 7
    return out + bytes([v])


def field(number, content):
    """A field of a number, or of bytes."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def shape_of(rng):
    return [rng.randrange(1, 5) for _ in range(rng.randrange(1, 4))]


def model(nodes=(), inputs=(), outputs=(), initializers=(), sparse=(), **more):
    g = h.make_graph(nodes, "main", inputs, outputs, initializers, sparse_initializer=sparse)
    more.setdefault("opset_imports", [h.make_opsetid("", 25)])
    return h.make_model(g, producer_name="make.py", **more)


def floats(name, *dims):
    return h.make_tensor_value_info(name, T.FLOAT, dims)


def relu(name="y"):
    return h.make_node("Relu", ["x"], [name])


def make(directory, seed):
    os.makedirs(directory, exist_ok=True)
    for name in ("external.bin", "w0", "w1", "w2", "w3"):
        if os.path.exists(os.path.join(directory, name)):
            os.remove(os.path.join(directory, name))  # onnx appends to what is there
    rng = random.Random(seed)
    x, y = floats("x", "batch", 4), floats("y", "batch", 4)

    def put(name, m, **options):
        path = os.path.join(directory, name + ".onnx")
        if isinstance(m, bytes):
            with open(path, "wb") as f:
                f.write(m)
        else:
            onnx.save(m, path, **options)
        describe(path)

    put("raw", model([relu()], [x], [y], [raw(rng, DTYPES[d], d, shape_of(rng)) for d in NUMERIC]))
    put("typed", model([relu()], [x], [y], [typed(rng, DTYPES[d], d, shape_of(rng)) for d in NUMERIC]))
    put("shapes", model([relu()], [x], [y], [
        raw(rng, "scalar", T.FLOAT, []), raw(rng, "empty", T.INT64, [0]), raw(rng, "empty2", T.INT4, [3, 0, 2]), typed(rng, "none", T.FLOAT, [0]),
        raw(rng, "odd", T.INT4, [3, 3]), raw(rng, "", T.UINT8, [2]), raw(rng, "\u00e9\u4e2d/\u2713", T.UINT8, [1]), raw(rng, "rank8", T.INT8, [1, 2] * 4),
        h.make_tensor("int64", T.INT64, [4], [-1, -2**63, 2**63 - 1, 0]), h.make_tensor("int8", T.INT8, [3], [-1, -128, 127]),
        h.make_tensor("uint64", T.UINT64, [2], [2**64 - 1, 1])]))

    # A weight that a node uses, so that onnxruntime reads it as well.
    w = raw(rng, "w", T.FLOAT, [4, 3])
    put("matmul", model([h.make_node("MatMul", ["x", "w"], ["y"], name="mm")], [x], [floats("y", "batch", 3)], [w], ir_version=10))
    ir3 = model([h.make_node("MatMul", ["x", "w"], ["y"])], [x, floats("w", 4, 3)], [floats("y", "batch", 3)], [w], ir_version=3,
                opset_imports=[h.make_opsetid("", 9)])
    put("ir3", ir3)

    put("constants", model([
        h.make_node("Constant", [], ["c"], value=raw(rng, "ignored", T.FLOAT, [2, 2])),
        h.make_node("Constant", [], ["d"], name="named", value=typed(rng, "", T.INT64, [3])),
        h.make_node("Constant", [], ["s"], value=h.make_tensor("", T.STRING, [2], [b"a", b"\xff\x00"])),
        h.make_node("Constant", [], ["i"], value_ints=[1, -2]), h.make_node("Constant", [], ["f"], value_float=0.5),
        h.make_node("Constant", [], ["t"], value_strings=["a", "b"]),
        h.make_node("Constant", [], ["e"], sparse_value=h.make_sparse_tensor(raw(rng, "", T.FLOAT, [2]), h.make_tensor("", T.INT64, [2], [1, 5]), [2, 3])),
        h.make_node("Odd", ["x"], ["o"], domain="test.odd", table=raw(rng, "", T.FLOAT, [2]), tables=[raw(rng, "", T.UINT8, [1]), raw(rng, "", T.INT4, [3])]),
        relu()], [x], [y], opset_imports=[h.make_opsetid("", 25), h.make_opsetid("test.odd", 1)]))

    def branch(name, n):
        k = h.make_node("Constant", [], ["k"], value=raw(rng, "", T.FLOAT, [4]))
        nested = h.make_graph([h.make_node("Add", ["b", "k"], ["r"])], "inner", [], [floats("r", "batch", 4)], [raw(rng, "b", T.FLOAT, [4])])
        other = h.make_graph([h.make_node("Identity", ["x"], ["r"])], "other", [], [floats("r", "batch", 4)])
        return h.make_graph([k, h.make_node("If", ["cond"], ["q"], name="in" if n else "", then_branch=nested, else_branch=other),
                             h.make_node("Mul", ["q", "w"], ["z"])], name, [], [floats("z", "batch", 4)], [raw(rng, "w", T.FLOAT, [4])])

    put("if", model([h.make_node("If", ["cond"], ["y"], name="choose", then_branch=branch("then", 0), else_branch=branch("else", 1))],
                    [x, h.make_tensor_value_info("cond", T.BOOL, [])], [y]))
    body = h.make_graph([h.make_node("Identity", ["c"], ["co"]), h.make_node("Add", ["v", "one"], ["vo"])], "body",
                        [h.make_tensor_value_info("i", T.INT64, []), h.make_tensor_value_info("c", T.BOOL, []), floats("v", "batch", 4)],
                        [h.make_tensor_value_info("co", T.BOOL, []), floats("vo", "batch", 4)], [raw(rng, "one", T.FLOAT, [4])])
    put("loop", model([h.make_node("Loop", ["n", "", "x"], ["y"], body=body)], [x, h.make_tensor_value_info("n", T.INT64, [])], [y]))

    ops = [h.make_opsetid("", 25), h.make_opsetid("test", 1)]
    default = h.make_attribute("table", raw(rng, "", T.FLOAT, [2]))
    f = h.make_function("test", "Scale", ["a"], ["b"], [
        h.make_node("Constant", [], ["k"], value=raw(rng, "", T.FLOAT, [4])), h.make_node("Mul", ["a", "k"], ["b"])], ops[:1], attributes=["alpha"])
    f.attribute_proto.append(default)
    over = h.make_function("test", "Scale", ["a"], ["b"], [h.make_node("Relu", ["a"], ["b"], name="r")], ops[:1], overload="wide")
    call = h.make_node("Scale", ["x"], ["y"], domain="test", alpha=1.0)
    put("function", model([call], [x], [y], functions=[f, over], opset_imports=ops))

    rows = h.make_sparse_tensor(raw(rng, "rows", T.FLOAT, [3]), h.make_tensor("", T.INT64, [3, 2], [0, 1, 1, 0, 1, 2]), [2, 3])
    linear = h.make_sparse_tensor(raw(rng, "linear", T.DOUBLE, [2]), h.make_tensor("", T.INT64, [2], [0, 23]), [2, 3, 4])
    none = h.make_sparse_tensor(raw(rng, "none", T.FLOAT, [0]), h.make_tensor("", T.INT64, [0], []), [5])
    bare = onnx.SparseTensorProto(values=raw(rng, "bare", T.FLOAT, [0]), dims=[5])
    put("sparse", model([relu()], [x], [y], sparse=[rows, linear, none, bare]))

    m = model([relu()], [x, h.make_value_info("s", h.make_sequence_type_proto(h.make_tensor_type_proto(T.INT64, None))),
                        h.make_value_info("m", h.make_map_type_proto(T.STRING, h.make_tensor_type_proto(T.FLOAT, []))),
                        h.make_value_info("p", h.make_optional_type_proto(h.make_tensor_type_proto(T.FLOAT, [None, "n", 3]))),
                        h.make_sparse_tensor_value_info("q", T.FLOAT, [2, "k"])], [y], [raw(rng, "w", T.FLOAT, [1])])
    h.set_model_props(m, {"license": "MIT", "": "no key", "long": "x" * 300})
    m.doc_string, m.domain, m.model_version = "a model", "org.example", 7
    m.graph.value_info.append(floats("inside", 1))
    t = m.training_info.add()
    t.initialization.node.append(h.make_node("Constant", [], ["w0"], value=raw(rng, "", T.FLOAT, [1])))
    t.initialization.output.append(floats("w0", 1))
    t.algorithm.node.append(h.make_node("Add", ["w", "step"], ["w1"]))
    t.algorithm.initializer.append(raw(rng, "step", T.FLOAT, [1]))
    t.algorithm.output.append(floats("w1", 1))
    put("words", m)

    # Elements in other files: one file, one a tensor, without a length, ranges that are shared.
    weights = [raw(rng, f"w{i}", d, [3, i + 1]) for i, d in enumerate((T.FLOAT, T.INT4, T.FLOAT16, T.INT64))]
    use = [h.make_node("MatMul", ["x", "used"], ["y"])]
    wide = floats("y", "batch", 3)
    put("external", model(use, [x], [wide], weights + [raw(rng, "used", T.FLOAT, [4, 3])], ir_version=10), save_as_external_data=True,
        location="external.bin", size_threshold=0)
    put("scattered", model([relu()], [x], [y], weights), save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=20)
    tied = model([relu()], [x], [y])
    last = str(os.path.getsize(os.path.join(directory, "external.bin")) - 8)
    for name, keys in (("a", {"location": "./external.bin", "offset": last}), ("b", {"location": "external.bin", "offset": last, "length": "8"})):
        t = tied.graph.initializer.add(name=name, data_type=T.FLOAT, dims=[2], data_location=T.EXTERNAL)
        for k, v in keys.items():
            t.external_data.add(key=k, value=v)
    put("tied", tied)

    # The format allows, and the package does not write: fields in pieces and one by one, unknown ones, groups, the graph twice,
    # numbers that are longer than needed, the last field first.
    base = model([relu()], [x], [y]).SerializeToString()
    numbers = nh.to_array(raw(rng, "", T.INT64, [6]))
    one_by_one = field(1, 2) + field(1, 3) + field(2, T.INT64) + field(8, b"pieces") + field(7, b"".join(varint(int(v)) for v in numbers[:2]))
    one_by_one += b"".join(field(7, int(v)) for v in numbers[2:5]) + field(7, varint(int(numbers[5])))
    single = field(1, varint(3)) + field(2, T.FLOAT)
    single += b"".join(varint(4 << 3 | 5) + rng.randbytes(3) + b"\x40" for _ in range(3)) + field(8, b"floats")
    small = field(8, b"small") + b"".join(field(5, v) for v in (1, 2**64 - 2, 3)) + field(2, T.INT8) + field(1, 3)
    unknown = varint(500 << 3 | 3) + field(1, b"in a group") + varint(9 << 3 | 3) + varint(9 << 3 | 4) + varint(500 << 3 | 4) + field(2000, b"?")
    long = b"\xba\x80\x00"  # field 7 in three bytes
    tensors = b"".join(field(5, t + unknown) for t in (one_by_one, single, small))
    put("pieces", base + unknown + long + varint(len(tensors)) + tensors)
    g = onnx.ModelProto.FromString(base).graph
    backwards = field(5, field(9, rng.randbytes(8)) + field(8, b"w") + field(2, T.FLOAT) + field(1, 2)) + field(1, g.node[0].SerializeToString())
    backwards = field(12, y.SerializeToString()) + field(11, x.SerializeToString()) + backwards + field(2, b"backwards")
    put("backwards", field(8, field(2, 25)) + field(7, backwards) + field(2, b"make.py") + field(1, 13))


def wheels(directory):
    os.makedirs(directory, exist_ok=True)
    packages = sysconfig.get_paths()["purelib"]
    n = 0
    for path in sorted(p for name in ("onnx*", "silero_vad", "rapidocr*") for p in glob.glob(f"{packages}/{name}/**/*.onnx", recursive=True)):
        name = os.path.relpath(path, packages).replace("/", "-")
        os.makedirs(os.path.join(directory, os.path.splitext(name)[0]))
        copy = os.path.join(directory, os.path.splitext(name)[0], "model.onnx")
        shutil.copy(path, copy)
        try:
            describe(copy)
            n += 1
        except Exception as e:
            print(name, "is not described:", e)
    print(n, "models of the packages")


if __name__ == "__main__":
    wheels(sys.argv[2]) if sys.argv[1] == "--wheels" else make(sys.argv[1], sys.argv[2])
