"""testdata.py OUT VERSION [FILE.rten...]: .rten files by the published converter rten-convert VERSION, and next to each, or each FILE, a
NAME.json of what its own bindings read.

Run under `interop/tools.sh rten-convert VERSION`. Models come from onnx.helper. The JSON has the fields of `tensorfile info`, `ls` and
`hash --json` (docs/json.md), and under "graph" every field of the FlatBuffer that is not at its default, by the converter's generated
object API (schema_generated.py), tensor data as its length and SHA-256.
"""
import contextlib, hashlib, io, json, os, pathlib, re, struct, sys, tempfile
import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper
import rten_convert.converter as converter
import rten_convert.schema_generated as sg

OUT, VERSION = pathlib.Path(sys.argv[1]), sys.argv[2]
OPSET = 17


def content(label, n):
    return hashlib.shake_128(label.encode()).digest(n)


def array(label, dtype, shape):
    """Finite values that depend on the label alone."""
    return np.frombuffer(content(label, int(np.prod(shape))), np.int8).reshape(shape).astype(dtype) / (8 if dtype == "float32" else 1)


def weight(name, dtype, shape):
    return numpy_helper.from_array(np.ascontiguousarray(array(name, dtype, shape).astype(dtype)), name)


def values(names, dtype=T.FLOAT, shape=None):
    return [h.make_tensor_value_info(n, dtype, shape) for n in names]


def model(name, nodes, inputs, outputs, weights=(), opset=OPSET):
    return h.make_model(h.make_graph(nodes, name, inputs, outputs, list(weights)), opset_imports=[h.make_opsetid("", opset)], producer_name="tensorfile")


def basic():
    weights = [weight("w", "float32", (4, 5)), weight("bias", "float32", (5,)), weight("sixteen", "float32", (16,)), weight("seventeen", "float32", (17,)),
               weight("ints", "int32", (3, 7)), weight("longs", "int64", (2, 20)), weight("scalar", "float32", ()), weight("nothing", "float32", (0, 4)),
               numpy_helper.from_array(np.array([[True, False], [False, True]]), "bools"), numpy_helper.from_array(np.array(-(2**40)), "too long"),
               weight("日本語/重み", "float32", (2,)), weight('quote"\\\n', "float32", (1,))]
    if VERSION not in ("0.4.0", "0.10.0"):
        weights += [weight("bytes", "uint8", (40,)), weight("signed", "int8", (6, 6)), weight("few", "int8", (2,)), weight("few unsigned", "uint8", (2,))]
    x = h.make_tensor_value_info("x", T.FLOAT, ["batch", 4])
    rest = [w.name for w in weights[2:]]
    nodes = [h.make_node("MatMul", ["x", "w"], ["m"], "mm"), h.make_node("Add", ["m", "bias"], ["y"], "add")]
    name = (lambda w: f"copy {w}") if VERSION == "0.4.0" else (lambda w: None)  # that one cannot have two nameless operators
    nodes += [h.make_node("Identity", [w], [f"copy of {w}"], name(w)) for w in rest]
    return model("basic", nodes, [x], values(["y"]) + values([f"copy of {w}" for w in rest]), weights)


def control():
    """If in If, a Loop whose body captures a value, constants in branches."""
    def branch(name, nodes, out, weights=()):
        return h.make_graph(nodes, name, [], values([out]), list(weights))
    inner_then = branch("inner_then", [h.make_node("Mul", ["x", "k"], ["it"], "mul")], "it", [weight("k", "float32", (3,))])
    inner_else = branch("inner_else", [h.make_node("Add", ["x", "big"], ["ie"])], "ie", [weight("big", "float32", (6, 3))])
    then_branch = branch("then", [h.make_node("If", ["c2"], ["t"], "inner if", then_branch=inner_then, else_branch=inner_else)], "t")
    else_branch = branch("else", [h.make_node("Sub", ["x", "k"], ["e"], "sub")], "e", [weight("k", "float32", (3,))])
    nodes = [h.make_node("If", ["c"], ["y"], "if", then_branch=then_branch, else_branch=else_branch)]
    ins = values(["x"], T.FLOAT, [3]) + values(["c", "c2"], T.BOOL, [])
    outs = values(["y"])
    if hasattr(sg, "LoopAttrsT"):
        body = h.make_graph([h.make_node("Add", ["acc", "x"], ["next"]), h.make_node("Identity", ["go"], ["still"])], "body",
                            values(["i"], T.INT64, []) + values(["go"], T.BOOL, []) + values(["acc"], T.FLOAT, [3]), values(["still"], T.BOOL, []) + values(["next"]))
        nodes.append(h.make_node("Loop", ["trips", "", "x"], ["sum"], "loop", body=body))
        return model("control", nodes, ins, outs + values(["sum"]), [numpy_helper.from_array(np.array(3), "trips")])
    return model("control", nodes, ins, outs)


# Operator: number of inputs, outputs, and attributes away from their defaults.
SMALL = numpy_helper.from_array(np.float32([2.5]), "value")
OPS = [
    ("Abs", 1, 1, {}), ("Acos", 1, 1, {}), ("Add", 2, 1, {}), ("And", 2, 1, {}), ("ArgMax", 1, 1, dict(axis=1, keepdims=0)), ("ArgMin", 1, 1, dict(axis=-1)), ("Asin", 1, 1, {}), ("Atan", 1, 1, {}),
    ("AveragePool", 1, 1, dict(kernel_shape=[2, 3], pads=[0, 1, 0, 1], strides=[2, 1], count_include_pad=1)), ("AveragePool", 1, 1, dict(kernel_shape=[2, 2], auto_pad="SAME_UPPER", ceil_mode=1)),
    ("BatchNormalization", 5, 1, dict(epsilon=1e-3)), ("Cast", 1, 1, dict(to=T.INT32)), ("Cast", 1, 1, dict(to=T.UINT8)), ("CastLike", 2, 1, {}), ("Ceil", 1, 1, {}), ("Clip", 3, 1, {}),
    ("Concat", 3, 1, dict(axis=-1)), ("ConcatFromSequence", 1, 1, dict(axis=0, new_axis=1)), ("ConstantOfShape", 1, 1, dict(value=SMALL)),
    ("ConstantOfShape", 1, 1, dict(value=numpy_helper.from_array(np.int32([7]), "value"))), ("Conv", 3, 1, dict(dilations=[2, 1], group=2, pads=[1, 1, 1, 1], strides=[1, 2])),
    ("Conv", 2, 1, dict(auto_pad="SAME_UPPER")), ("ConvInteger", 4, 1, dict(pads=[0, 0, 0, 0])), ("ConvTranspose", 2, 1, dict(strides=[2, 2], output_padding=[1, 1], pads=[1, 1, 1, 1], group=1)),
    ("Cos", 1, 1, {}), ("CumSum", 2, 1, {}), ("DequantizeLinear", 3, 1, dict(axis=0)), ("DepthToSpace", 1, 1, dict(blocksize=2, mode="CRD")), ("Div", 2, 1, {}), ("Dropout", 1, 2, dict(seed=5)),
    ("DynamicQuantizeLinear", 1, 3, {}), ("Einsum", 2, 1, dict(equation="ij,jk->ik")), ("Elu", 1, 1, dict(alpha=0.5)), ("Equal", 2, 1, {}), ("Erf", 1, 1, {}), ("Exp", 1, 1, {}), ("Expand", 2, 1, {}),
    ("EyeLike", 1, 1, dict(dtype=T.FLOAT, k=1)), ("Flatten", 1, 1, dict(axis=2)), ("Floor", 1, 1, {}), ("Gather", 2, 1, dict(axis=1)), ("GatherElements", 2, 1, dict(axis=-1)), ("GatherND", 2, 1, dict(batch_dims=1)),
    ("Gelu", 1, 1, dict(approximate="tanh")), ("Gemm", 3, 1, dict(alpha=0.5, beta=2.0, transA=1, transB=1)), ("GlobalAveragePool", 1, 1, {}), ("GlobalMaxPool", 1, 1, {}), ("Greater", 2, 1, {}), ("GreaterOrEqual", 2, 1, {}),
    ("GridSample", 2, 1, dict(align_corners=1)), ("GRU", 6, 2, dict(direction="bidirectional", hidden_size=4, linear_before_reset=1)), ("HardSigmoid", 1, 1, dict(alpha=0.25, beta=0.75)), ("HardSwish", 1, 1, {}), ("Identity", 1, 1, {}),
    ("InstanceNormalization", 3, 1, dict(epsilon=1e-4)), ("IsInf", 1, 1, {}), ("IsNaN", 1, 1, {}), ("LayerNormalization", 3, 1, dict(axis=1, epsilon=1e-6)), ("LeakyRelu", 1, 1, dict(alpha=0.2)), ("Less", 2, 1, {}), ("LessOrEqual", 2, 1, {}),
    ("Log", 1, 1, {}), ("LogSoftmax", 1, 1, dict(axis=-1)), ("LSTM", 7, 3, dict(direction="reverse", hidden_size=4)), ("MatMul", 2, 1, {}), ("MatMulInteger", 4, 1, {}), ("Max", 3, 1, {}),
    ("MaxPool", 1, 1, dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], ceil_mode=1)), ("Mean", 3, 1, {}), ("Min", 2, 1, {}), ("Mod", 2, 1, dict(fmod=1)), ("Mul", 2, 1, {}), ("Neg", 1, 1, {}),
    ("NonMaxSuppression", 5, 1, dict(center_point_box=1)), ("NonZero", 1, 1, {}), ("Not", 1, 1, {}), ("OneHot", 3, 1, dict(axis=0)), ("Or", 2, 1, {}), ("Pad", 3, 1, dict(mode="reflect")), ("Pow", 2, 1, {}), ("PRelu", 2, 1, {}),
    ("QuantizeLinear", 3, 1, dict(axis=0)), ("RandomNormal", 0, 1, dict(shape=[2, 2], mean=1.0, scale=2.0, seed=3.0)), ("RandomNormalLike", 1, 1, dict(mean=-1.0)), ("RandomUniform", 0, 1, dict(shape=[3], low=-1.0, high=2.0)),
    ("RandomUniformLike", 1, 1, dict(seed=1.0)), ("Range", 3, 1, {}), ("Reciprocal", 1, 1, {}), ("ReduceL2", 1, 1, dict(axes=[0, -1], keepdims=0)), ("ReduceMax", 1, 1, dict(axes=[1])), ("ReduceMean", 1, 1, dict(keepdims=0)),
    ("ReduceMin", 1, 1, {}), ("ReduceProd", 1, 1, dict(axes=[0])), ("ReduceSum", 2, 1, dict(keepdims=0)), ("ReduceSumSquare", 1, 1, {}), ("Relu", 1, 1, {}), ("Reshape", 2, 1, dict(allowzero=1)),
    ("Resize", 4, 1, dict(mode="linear", coordinate_transformation_mode="align_corners", nearest_mode="floor")), ("Resize", 3, 1, dict(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="ceil")), ("Round", 1, 1, {}),
    ("ScatterElements", 3, 1, dict(axis=1, reduction="add")), ("ScatterND", 3, 1, dict(reduction="mul")), ("SequenceAt", 2, 1, {}), ("SequenceConstruct", 2, 1, {}), ("SequenceEmpty", 0, 1, dict(dtype=T.INT32)), ("SequenceErase", 2, 1, {}),
    ("SequenceInsert", 3, 1, {}), ("SequenceLength", 1, 1, {}), ("Shape", 1, 1, dict(start=1, end=-1)), ("Sigmoid", 1, 1, {}), ("Sign", 1, 1, {}), ("Sin", 1, 1, {}), ("Size", 1, 1, {}), ("Slice", 5, 1, {}), ("Softmax", 1, 1, dict(axis=-1)), ("Softmax", 1, 1, {}),
    ("Softplus", 1, 1, {}), ("Split", 2, 2, dict(axis=1)), ("SplitToSequence", 2, 1, dict(axis=1, keepdims=0)), ("Sqrt", 1, 1, {}), ("Squeeze", 2, 1, {}), ("STFT", 4, 1, dict(onesided=0)), ("Sub", 2, 1, {}), ("Sum", 3, 1, {}), ("Tan", 1, 1, {}), ("Tanh", 1, 1, {}),
    ("Tile", 2, 1, {}), ("TopK", 2, 2, dict(axis=0, largest=0, sorted=0)), ("Transpose", 1, 1, dict(perm=[2, 0, 1])), ("Transpose", 1, 1, {}), ("Trilu", 2, 1, dict(upper=0)), ("Unsqueeze", 2, 1, {}), ("Where", 3, 1, {}), ("Xor", 2, 1, {}),
]


def operators():
    """One node of every operator that this converter takes. The graph is well formed; nothing says that it could run."""
    nodes, inputs, outputs = [], [], []
    for k, (op, n, m, attrs) in enumerate(OPS):
        ins, outs = [f"{op}{k}.in{i}" for i in range(n)], [f"{op}{k}.out{i}" for i in range(m)]
        if op in ("Resize", "LSTM"):
            ins[1 if op == "Resize" else 4] = ""  # an optional input left out
        node = h.make_node(op, ins, outs, f"{op} {k}", **attrs)
        given = values([i for i in ins if i])
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                graph(h.make_graph([node], "probe", given, values(outs)))
        except Exception as e:
            print(f"  {VERSION} has no {op}: {e}")
            continue
        nodes.append(node)
        inputs += given
        outputs += values(outs)
    return model("operators", nodes, inputs, outputs)


graph = converter.graph_from_onnx_graph

METADATA = {"code_repository": "https://example.org/code", "commit": "0123abcd", "description": "naïve — ü", "license": "MIT", "model_repository": "https://example.org/model", "run_id": "run 7", "run_url": "https://example.org/run"}


def convert(name, onnx_model, metadata=None, v1=False):
    path = OUT / f"convert-{VERSION}-{name}.rten"
    with tempfile.TemporaryDirectory() as d:
        source = os.path.join(d, f"{name}.onnx")
        onnx.save(onnx_model, source)
        argv = ["rten-convert", source, str(path)] + (["--v1"] if v1 else [])
        if metadata:
            json.dump(metadata, open(os.path.join(d, "m.json"), "w"))
            argv += ["-m", os.path.join(d, "m.json")]
        sys.argv, saved = argv, sys.argv
        try:
            converter.main()
        finally:
            sys.argv = saved
    describe(path)


def describe(path):
    path.with_suffix(".json").write_text(pretty(expect(path.read_bytes())))
    print(path, path.stat().st_size)


def snake(name):
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def names_of(enum):
    return {v: k for k, v in vars(enum).items() if isinstance(v, int)}


OPERATORS, KINDS = names_of(sg.OperatorType), names_of(sg.NodeKind)
CONSTANTS = names_of(sg.ConstantData)
INLINE = {"FloatData": ("float32", "<f4"), "Int32Data": ("int32", "<i4"), "IntData": ("int32", "<i4"), "Int8Data": ("int8", "i1"), "UInt8Data": ("uint8", "u1")}
DTYPES = {snake(k): v for k, v in vars(getattr(sg, "ConstantDataType", object)).items() if isinstance(v, int)}
DTYPE_NAMES = {v: k for k, v in DTYPES.items()}
DTYPE_WORDS = {"float": "float32"}
WIDTH = {"float32": 4, "int32": 4, "int8": 1, "uint8": 1}


def text(b):
    return b.decode() if isinstance(b, bytes) else b


def ints(v):
    return [] if v is None else [int(x) for x in v]


def expect(data):
    tensor_data, flat, version = 0, data, 1
    if data[:4] == b"RTEN":
        version, offset, size, tensor_data = struct.unpack_from("<IQQQ", data, 4)
        flat = data[offset : offset + size]
    root = sg.ModelT.InitFromObj(sg.Model.GetRootAs(flat, 0))
    tensors, counts = [], {}

    def constant(c):
        """dtype, bytes, and the place in the file of those that are not in the FlatBuffer."""
        if getattr(c, "dataOffset", None) is not None:
            dtype = DTYPE_NAMES[c.dtype]
            at = tensor_data + c.dataOffset
            n = WIDTH[dtype]
            for d in ints(c.shape):
                n *= d
            return dtype, data[at : at + n], at
        dtype, raw = INLINE[CONSTANTS[c.dataType]]
        inline = c.data.data
        return dtype, b"" if inline is None else np.asarray(inline).astype(raw).tobytes(), None

    def field(v, path):
        if isinstance(v, sg.GraphT):
            return walk(v, path)
        if isinstance(v, bytes):
            return text(v)
        if isinstance(v, np.ndarray):
            return v.tolist()
        if isinstance(v, (list, tuple)):
            return [field(x, path) for x in v]
        if hasattr(v, "__dict__"):
            return {snake(k): field(x, f"{path}.{snake(k)}") for k, x in vars(v).items() if x is not None}
        return v

    def walk(g, path):
        nodes = []
        for i, node in enumerate(g.nodes or []):
            kind, name, d = KINDS[node.dataType], text(node.name), node.data
            row = {"name": name, "kind": kind}
            if kind == "OperatorNode":
                op = OPERATORS[d.type]
                counts[op] = counts.get(op, 0) + 1
                row.update(type=op, inputs=ints(d.inputs), outputs=ints(d.outputs))
                if d.attrs is not None:
                    row["attrs"] = type(d.attrs).__name__[:-1]
                    row.update(field(d.attrs, f"{path + '.' if path else ''}nodes[{i}]"))
            elif kind == "ConstantNode":
                dtype, b, at = constant(d)
                row.update(dtype=dtype, shape=ints(d.shape), bytes=len(b), sha256=hashlib.sha256(b).hexdigest(), **({} if at is None else {"offset": at}))
                prefix = path + "/" if path else ""
                tensors.append({"name": prefix + (f"#{i}" if name is None else name), **{k: v for k, v in row.items() if k not in ("name", "kind")}})
            else:
                if getattr(d, "dtype", None) is not None:
                    row["dtype"] = DTYPE_WORDS.get(w := snake(names_of(sg.DataType)[d.dtype]), w)
                if d.shape is not None:
                    row["shape"] = [text(x.name) if x.name else x.value for x in d.shape]
            nodes.append(row)
        return {"inputs": ints(g.inputs), "outputs": ints(g.outputs), "captures": ints(getattr(g, "captures", None)), "nodes": nodes}

    top = walk(root.graph, "")
    label = lambda i: f"#{i}" if top["nodes"][i]["name"] is None else top["nodes"][i]["name"]
    meta = {snake(k): text(v) for k, v in vars(root.metadata).items() if v is not None} if getattr(root, "metadata", None) is not None else {}
    return {"version": str(version), "schema_version": root.schemaVersion, "inputs": [label(i) for i in top["inputs"]], "outputs": [label(i) for i in top["outputs"]],
            "operators": dict(sorted(counts.items())), "metadata": meta, "tensors": tensors, "graph": top}


def pretty(want):
    """JSON with one tensor and one node a line."""
    line = lambda v: json.dumps(v, ensure_ascii=False)
    rows = lambda v: "[\n  " + ",\n  ".join(map(line, v)) + "\n ]" if v else "[]"
    graph = want.pop("graph")
    head = ",\n".join(f" {line(k)}: {rows(v) if k == 'tensors' else line(v)}" for k, v in want.items())
    top = ",\n".join(f" {line('graph ' + k) if k != 'nodes' else line(k)}: {rows(v) if k == 'nodes' else line(v)}" for k, v in graph.items())
    return "{\n" + head + ",\n" + top + "\n}\n"


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    convert("basic", basic(), METADATA)
    convert("operators", operators())
    if hasattr(sg, "IfAttrsT"):
        convert("control", control())
    if hasattr(converter, "TensorDataBuilder"):  # writes version 2, and 1 when asked
        convert("basic-v1", basic(), METADATA, v1=True)
        convert("control-v1", control(), v1=True)


if __name__ == "__main__":
    files = [pathlib.Path(f) for f in sys.argv[3:]]
    for f in files:
        describe(f)
    if not files:
        main()
