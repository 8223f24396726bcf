"""models.py OUT VERSION: more models by rten-convert VERSION than testdata/rten has, each with NAME.json of what the converter's bindings
read, and, where the model runs as it is, NAME.inputs with values for it in the words of interop/tools/rtenproof.

Every operator alone, with all attributes left out and with each one away from its default; quantised models, convolutions, recurrent layers,
odd shapes and names; the operators that old opsets spell with attributes; graphs put together at random.
"""
import contextlib, importlib.util, io, pathlib, random, sys
import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper

OUT, VERSION = pathlib.Path(sys.argv[1]), sys.argv[2]
spec = importlib.util.spec_from_file_location("testdata", pathlib.Path(__file__).with_name("testdata.py"))
sys.argv = ["testdata.py", str(OUT), VERSION, *()]
t = importlib.util.module_from_spec(spec)
spec.loader.exec_module(t)
made = skipped = 0


def save(name, model, inputs=None, **kw):
    global made, skipped
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            t.convert(name, model, **kw)
    except (SystemExit, Exception) as e:
        skipped += 1
        return
    made += 1
    if inputs is not None:
        (OUT / f"convert-{VERSION}-{name}.inputs").write_text(inputs)


REQUIRED = {"AveragePool": ["kernel_shape"], "MaxPool": ["kernel_shape"], "Cast": ["to"], "Concat": ["axis"], "ConcatFromSequence": ["axis"], "ConstantOfShape": ["value"], "DepthToSpace": ["blocksize"],
            "Einsum": ["equation"], "GRU": ["hidden_size"], "LSTM": ["hidden_size"], "RandomNormal": ["shape"], "RandomUniform": ["shape"]}


def one(op, n, m, attrs):
    ins, outs = [f"in{i}" for i in range(n)], [f"out{i}" for i in range(m)]
    return t.model("one", [h.make_node(op, ins, outs, "the operator", **attrs)], t.values(ins), t.values(outs))


def operators():
    for k, (op, n, m, attrs) in enumerate(t.OPS):
        least = {a: attrs[a] for a in REQUIRED.get(op, [])}
        save(f"op{k}-{op}-least", one(op, n, m, least))
        save(f"op{k}-{op}-all", one(op, n, m, attrs))
        for a in attrs:
            if a not in least:
                save(f"op{k}-{op}-{a}", one(op, n, m, {**least, a: attrs[a]}))


def w(name, *shape, dtype="float32"):
    return t.weight(name, dtype, shape)


def v(n, k=1):
    return ",".join(str((i % 7 - 3) / (2 * k)) for i in range(n))


def runnable():
    f = lambda name, shape: h.make_tensor_value_info(name, T.FLOAT, shape)
    N = h.make_node
    # A perceptron.
    save("mlp", t.model("mlp", [N("Gemm", ["x", "w1", "b1"], ["a"], transB=1), N("Relu", ["a"], ["b"]), N("MatMul", ["b", "w2"], ["c"]), N("Softmax", ["c"], ["y"], axis=-1)],
                        [f("x", ["batch", 8])], t.values(["y"]), [w("w1", 30, 8), w("b1", 30), w("w2", 30, 5)]), f"x:2x8={v(16)}")
    # Convolutions, pools, normalisation, a residual.
    save("cnn", t.model("cnn", [N("Conv", ["x", "k1", "kb"], ["a"], pads=[1, 1, 1, 1]), N("BatchNormalization", ["a", "s", "b", "mean", "var"], ["n"]), N("Relu", ["n"], ["r"]), N("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                                N("Conv", ["p", "k2"], ["q"], group=2, auto_pad="SAME_UPPER"), N("Add", ["q", "p"], ["z"]), N("GlobalAveragePool", ["z"], ["g"]), N("Flatten", ["g"], ["y"])],
                        [f("x", [1, 3, 8, 8])], t.values(["y"]), [w("k1", 4, 3, 3, 3), w("kb", 4), w("s", 4), w("b", 4), w("mean", 4), numpy_helper.from_array(np.float32([1, 2, 3, 4]), "var"), w("k2", 4, 2, 3, 3)]), f"x:1x3x8x8={v(192)}")
    # Recurrent layers.
    save("rnn", t.model("rnn", [N("LSTM", ["x", "W", "R", "B"], ["o", "", ""], hidden_size=4, direction="bidirectional"), N("Transpose", ["o"], ["s"], perm=[0, 2, 1, 3]),
                                N("Reshape", ["s", "shape"], ["u"]), N("GRU", ["u", "W2", "R2", "B2"], ["y", ""], hidden_size=4, linear_before_reset=1)],
                        [f("x", [3, 1, 5])], t.values(["y"]), [w("W", 2, 16, 5), w("R", 2, 16, 4), w("B", 2, 32), numpy_helper.from_array(np.int64([3, 1, 8]), "shape"), w("W2", 1, 12, 8), w("R2", 1, 12, 4), w("B2", 1, 24)]), f"x:3x1x5={v(15)}")
    # Attention by hand.
    save("attention", t.model("attention", [N("MatMul", ["x", "wq"], ["q"]), N("MatMul", ["x", "wk"], ["k"]), N("MatMul", ["x", "wv"], ["vv"]), N("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), N("MatMul", ["q", "kt"], ["s"]),
                                            N("Div", ["s", "scale"], ["d"]), N("Softmax", ["d"], ["p"], axis=-1), N("MatMul", ["p", "vv"], ["o"]), N("LayerNormalization", ["o", "g", "be"], ["y"], axis=-1)],
                              [f("x", [1, "seq", 6])], t.values(["y"]), [w("wq", 6, 6), w("wk", 6, 6), w("wv", 6, 6), numpy_helper.from_array(np.float32(2.5), "scale"), w("g", 6), w("be", 6)]), f"x:1x4x6={v(24)}")
    # Quantised.
    save("quantised", t.model("quantised", [N("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]), N("MatMulInteger", ["xq", "wq", "xz", "wz"], ["i"]), N("Cast", ["i"], ["fl"], to=T.FLOAT), N("Mul", ["xs", "ws"], ["sc"]), N("Mul", ["fl", "sc"], ["m"]),
                                            N("DequantizeLinear", ["eq", "es", "ez"], ["e"], axis=0), N("Add", ["m", "e"], ["y"])],
                              [f("x", [2, 6])], t.values(["y"]), [w("wq", 6, 5, dtype="int8"), numpy_helper.from_array(np.int8(0), "wz"), numpy_helper.from_array(np.float32(0.01), "ws"), w("eq", 2, 5, dtype="uint8"),
                                                                  numpy_helper.from_array(np.float32([0.1, 0.2]), "es"), numpy_helper.from_array(np.uint8([3, 128]), "ez")]), f"x:2x6={v(12)}")
    # Every type of constant, as it comes out; sizes around the border between inline and outside.
    ws = [w(f"{d}{n}", n, dtype=d) for d in ("float32", "int32", "int8", "uint8") for n in (0, 1, 15, 16, 17, 33)] + [w(f"scalar {d}", dtype=d) for d in ("float32", "int32", "int8", "uint8")]
    ws += [w("wide", 2, 3, 4, 5, 1, 1, 2), w("f64", 20, dtype="float64"), w("f16", 20, dtype="float16"), w("i16", 20, dtype="int16"), numpy_helper.from_array(np.array([2**62, -(2**63), 2**63 - 1, 5] * 5), "i64"), numpy_helper.from_array(np.array([True, False] * 10), "bool")]
    for name, v1 in (("constants", False), ("constants-v1", True)):
        keep = ws
        for attempt in range(len(ws)):
            outs = [N("Identity", [x.name], [f"copy {x.name}"], f"id {x.name}") for x in keep]
            before = made
            save(name, t.model("constants", outs, [], t.values([f"copy {x.name}" for x in keep]), keep), v1=v1) if not v1 or hasattr(t.converter, "TensorDataBuilder") else None
            if made > before:
                break
            keep = [x for x in keep if x.name not in ("f64", "f16", "i16")] if attempt == 0 else [x for x in keep if not x.name.startswith(("int8", "uint8", "scalar int8", "scalar uint8", "bool"))]
            if attempt > 1:
                break
    # Dimensions: named, fixed, neither, negative, none at all.
    odd = [h.make_tensor_value_info("sym", T.FLOAT, ["a", "b c", "日"]), h.make_tensor_value_info("open", T.FLOAT, [None, 3]), h.make_tensor_value_info("rankless", T.FLOAT, None), h.make_tensor_value_info("scalar", T.INT64, []), h.make_tensor_value_info("neg", T.FLOAT, [-1, 2])]
    save("dims", t.model("dims", [N("Identity", [x.name], [f"y{i}"]) for i, x in enumerate(odd)], odd, t.values([f"y{i}" for i in range(len(odd))])))
    # Old opsets: attributes that became inputs.
    x = [f("x", [2, 4])]
    for name, node, opset in (("clip6", N("Clip", ["x"], ["y"], "c", min=-1.0, max=1.0), 6), ("squeeze11", N("Unsqueeze", ["x"], ["y"], "u", axes=[0, 3]), 11), ("split11", N("Split", ["x"], ["y", "z"], "s", axis=1, split=[1, 3]), 11)):
        save(f"old-{name}", t.model("old", [node], x, t.values(list(node.output)), opset=opset), f"x:2x4={v(8)}")
    # Constant operators, outputs that are constants, a name twice among operators.
    save("const", t.model("const", [N("Constant", [], ["c"], value=numpy_helper.from_array(np.arange(20, dtype=np.float32).reshape(4, 5), "")), N("Add", ["c", "c"], ["y"], "same"), N("Neg", ["y"], ["z"], "same name")], [], t.values(["z", "c"])), "")
    for meta in ({"license": "MIT"}, {"description": "x" * 5000, "commit": ""}):
        save(f"meta{len(meta)}", t.model("meta", [N("Neg", ["x"], ["y"])], x, t.values(["y"])), f"x:2x4={v(8)}", metadata=meta)


def random_models(count):
    """Graphs of operators in any order and sense: odd names, dimensions and types, values that appear twice, branches in branches. The
    converter refuses about half of them."""
    rng = random.Random(9)
    modern = VERSION not in ("0.4.0", "0.10.0")
    number = iter(range(10**6))
    stems = ["a", "b/c", "x.y", "é", "重", "with space", 'quote"', "new\nline", "0", "#1", "nodes[0].then_branch/w", "very" * 60]
    fresh = lambda: f"{rng.choice(stems)}{next(number)}"
    types = [T.FLOAT, T.INT32, T.INT64, T.BOOL] + ([T.UINT8, T.INT8] if modern else [])
    shape = lambda: [rng.choice([0, 1, 2, 3, 5, 17]) for _ in range(rng.choice([0, 1, 1, 2, 2, 3]))]
    dims = lambda: None if rng.random() < .15 else [rng.choice([0, 1, 3, None, -1, "batch", "n m", "", "日", 2**31 - 1]) for _ in range(rng.choice([0, 1, 2, 3, 5]))]

    def graph(depth, outer):
        weights, inputs, nodes, here = [], [], [], []
        pick = lambda: rng.choice(here + outer)
        for _ in range(rng.randrange(6)):
            name, dtype = fresh(), rng.choice(["float32", "int32", "int64", "bool"] + (["uint8", "int8"] if modern else []))
            weights.append(numpy_helper.from_array(np.full(shape(), len(weights) % 2, dtype), name))
            here.append(name)
        for _ in range(rng.randrange(4) if depth == 0 else 0):
            inputs.append(h.make_tensor_value_info(fresh(), rng.choice(types), dims()))
            here.append(inputs[-1].name)
        for _ in range(rng.randrange(8)):
            if rng.random() < .2 or not here + outer:
                outs = [fresh()]
                node = h.make_node("Constant", [], outs, rng.choice([None, fresh()]), value=numpy_helper.from_array(np.ones(shape(), np.float32), ""))
            elif modern and depth < 2 and rng.random() < .15:
                then, other = graph(depth + 1, here + outer), graph(depth + 1, here + outer)
                if not then.output or not other.output:
                    continue
                del then.output[1:], other.output[1:]
                outs = [fresh()]
                node = h.make_node("If", [pick()], outs, fresh(), then_branch=then, else_branch=other)
            else:
                op, n, m, attrs = rng.choice(t.OPS)
                outs = [fresh() for _ in range(m)]
                if m > 1 and rng.random() < .3:
                    outs[-1] = ""
                node = h.make_node(op, [pick() if i == 0 or rng.random() < .95 else "" for i in range(n)], outs, rng.choice([fresh(), fresh(), None, "same"]), **attrs)
            nodes.append(node)
            here += filter(None, outs)
        outputs = list(dict.fromkeys(rng.choices(here, k=rng.randrange(1, 4)))) if here else []
        taken = {*outputs, *(i.name for i in inputs), *(w.name for w in weights)}
        infos = [h.make_tensor_value_info(x, rng.choice([*types, T.FLOAT16]), dims()) for x in here if x not in taken and rng.random() < .3]
        return h.make_graph(nodes, "random", inputs, [h.make_tensor_value_info(x, T.FLOAT, dims()) for x in outputs], weights, value_info=infos)

    for k in range(count):
        m = h.make_model(graph(0, []), opset_imports=[h.make_opsetid("", t.OPSET)])
        save(f"random{k}", m, v1=rng.random() < .3 and hasattr(t.converter, "TensorDataBuilder"), metadata=rng.choice([None, {"license": "x", "run_id": "é\n"}]))


operators()
runnable()
random_models(120)
print(f"{VERSION}: {made} models, {skipped} that this release cannot convert")
