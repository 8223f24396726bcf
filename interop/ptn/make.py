"""make.py PREFIX SEED [COUNT]: packages and programs with random content by ExecuTorch's own writer, without torch, and what its reader and checks say
of each (FILE.json). Half of the programs break one of the rules that it checks. Floats have few digits: flatc, by which the reader reads, prints 12."""
import json, random, sys

import ptnref as P

S = P.schema
prefix, seed, count = sys.argv[1], int(sys.argv[2]), int((sys.argv[3:] or [60])[0])
rng = random.Random(seed)

SCALARS = dict(uint8=0, int8=1, int16=2, int32=3, int64=4, float16=5, float32=6, float64=7, bool=11, bfloat16=15, uint16=16, uint32=17, uint64=18)
NAMES = ["w", "layers.0.weight", "β", "../../etc/passwd", 'say "x"', "new\nline", "a" * 300, "\x7f\x01", "𝄞"]
OPS = ["torch.ops.aten.add.Tensor", "torch.ops.aten.linear.default", "torch.ops.aten.relu_.default", "torch.ops.higher_order.cond", "prim.x"]


def data(dtype, shape):
    n = 1
    for d in shape:
        n *= d
    raw = rng.randbytes(n * P.DTYPES[dtype][1])
    return dtype, shape, bytes(b & 1 for b in raw) if dtype == "bool" else raw


def meta(dtype, shape, dynamic=False, quant=None):
    dims = [S.Dim(d, rng.choice([d, d + 9, -1])) if dynamic and rng.random() < 0.5 else S.Dim(d, d) for d in shape]
    order = rng.choice([None, list(range(len(shape))), rng.sample(range(len(shape)), len(shape))]) if dynamic else None
    return S.TensorMeta(S.ScalarType(SCALARS[dtype]), dims, order, quant)


def shape(rank=4):
    return [rng.choice([0, 1, 2, 3, 5]) if rng.random() < 0.3 else rng.randint(1, 4) for _ in range(rng.randint(0, rank))]


class Body:
    """A graph in the making; defined are the names of values so far."""

    def __init__(self, bound=()):
        self.inputs, self.values, self.nodes = [], [], [S.Node(n, S.OpKind.PLACEHOLDER) for n in bound]
        self.defined, self.n = list(bound), 0
        for _ in range(rng.randint(1, 3)):
            self.inputs.append(self.fresh("in"))
            self.nodes.append(S.Node(self.inputs[-1], S.OpKind.PLACEHOLDER))

    def fresh(self, stem, tensor=True):
        self.n += 1
        name = f"{rng.choice(NAMES)[:20]}_{stem}{self.n}"
        self.defined.append(name)
        if tensor:
            self.values.append(S.TensorValue(name, meta(rng.choice(list(SCALARS)), shape(), dynamic=True)))
        return name

    def ref(self):
        return rng.choice(self.defined)

    def argument(self, depth):
        lit = lambda: rng.random() < 0.5
        some = range(rng.randint(0, 3))
        return rng.choice([
            lambda: S.TensorArg(self.ref()), lambda: S.NoneArg(), lambda: S.IntArg(rng.randint(-2**63, 2**63 - 1), None if lit() else self.ref()),
            lambda: S.FloatArg(rng.choice([0.0, 0.1, -1e300, 2.5]), None if lit() else self.ref()), lambda: S.BoolArg(lit(), None if lit() else self.ref()),
            lambda: S.StringArg(rng.choice(NAMES + [""])), lambda: S.ScalarTypeArg(S.ScalarType(rng.choice(list(SCALARS.values())))),
            lambda: S.IntListArg([rng.randint(-9, 9) for _ in some], None if lit() else [rng.choice(["", self.ref()]) for _ in some]),
            lambda: S.FloatListArg([rng.randrange(10**9) / 1000 for _ in some]), lambda: S.BoolListArg([lit() for _ in some]),
            lambda: S.TensorListArg([self.ref() for _ in some]),
            lambda: S.OptionalTensorListArg([self.ref() for _ in some], [lit() for _ in some]),
            lambda: S.GraphArg("body", Body().finish(depth + 1)) if depth < 2 else S.NoneArg(),
        ])()

    def finish(self, depth=0):
        for _ in range(rng.randint(0, 5)):
            args = [S.NamedArgument(S.Argument(self.argument(depth)), rng.choice([None, "", "self", "other"]), False) for _ in range(rng.randint(0, 4))]
            tensors = [a.arg.value.name for a in args if isinstance(a.arg.value, S.TensorArg)]
            self.n += 1
            name = f"node{self.n}"
            outputs = []
            for _ in range(rng.randint(1, 2)):
                kind = S.OutputValueKind(rng.randint(0, 4))
                if kind == S.OutputValueKind.TENSOR_LIST:
                    outputs.append(S.Output("", kind=kind, names=[self.fresh("part") for _ in range(rng.randint(0, 2))]))
                else:
                    outputs.append(S.Output(self.fresh("out", kind == S.OutputValueKind.TENSOR), rng.choice([None] + tensors) if kind == 0 else None, kind))
            self.nodes.append(S.Node(name, S.OpKind.CALL_FUNCTION, rng.choice(OPS), args or None, outputs, rng.choice([None, [S.KeyValue("stack_trace", "a\nb")]])))
        tensors = [v.name for v in self.values]
        self.outputs = rng.sample(tensors, rng.randint(0, len(tensors)))
        if rng.random() < 0.5:
            self.nodes.append(S.Node("output", S.OpKind.OUTPUT))
        return S.Graph(self.nodes, self.inputs or None, self.outputs or None, self.values or None)


def packed(tensors):
    """A weight of 4 bits in groups with scales, or one of a codec."""
    if rng.random() < 0.3:
        return ("uint8", [17]), S.QuantSpec(S.PackedQuant("gguf:q4k")), [2, 32]
    rows, group, groups = rng.randint(1, 3), rng.choice([2, 4, 32]), rng.randint(1, 2)
    bits, low = rng.choice([(4, -8), (8, -128), (2, 0), (1, 0), (3, -4)])
    key = f"scales{len(tensors)}"
    tensors[key] = data("float16", [rows, groups])
    zero = None
    if rng.random() < 0.5:
        zero = f"zeros{len(tensors)}"
        tensors[zero] = data("int32", [rows * groups])
    n = rows * group * groups
    scheme = S.AffineGroup(key, S.ScalarType.HALF, low, low + 2**bits - 1, group if groups > 1 or rng.random() < 0.5 else 0, zero, S.ScalarType.INT)
    return ("uint8", [(n * bits + 7) // 8]), S.QuantSpec(scheme), [rows, group * groups]


def program():
    tensors, mutable = {}, set()
    for name in rng.sample(NAMES, rng.randint(0, len(NAMES))):
        tensors[name] = data(rng.choice(list(SCALARS)), shape())
        if rng.random() < 0.5:  # an alias, unless a method writes one of the two
            tensors["copy of " + name] = tensors[name]
    metas = {k: meta(d, s) for k, (d, s, _) in tensors.items()}
    for i in range(rng.randint(0, 2)):
        (d, s), quant, logical = packed(tensors)
        tensors[f"packed{i}"] = data(d, s)
        metas[f"packed{i}"] = meta(d, logical, quant=quant)
    methods, fqns = [], {f"cache{i}": meta("float32", shape(), dynamic=True) for i in range(2)}
    for name in rng.sample(["forward", "encode", "décode"], rng.randint(1, 3)):
        keys = rng.sample(list(metas), rng.randint(0, len(metas)))
        constants = []
        for i, key in enumerate(keys):
            kind = S.InputKind(rng.randint(1, 3))
            writes = kind == S.InputKind.BUFFER and rng.random() < 0.5
            if writes:
                mutable.add(key)
            constants.append(S.NamedTensorRef(f"p{i}", key, metas[key], kind, writes))
        buffers = [S.MutableBufferSpec(f"b{i}", fqn) for i, fqn in enumerate(rng.sample(list(fqns), rng.randint(0, 2)))]
        body = Body([c.name for c in constants] + [b.name for b in buffers])
        body.values += [S.TensorValue(b.name, fqns[b.fqn]) for b in buffers]
        graph = body.finish()
        specs = []
        state = [c.data_key for c in constants if c.mutated] + [b.fqn for b in buffers]
        for o in graph.outputs or []:
            kind = rng.choice([0, 0, 1 if state else 0, 2])
            specs.append(S.OutputSpec(o, S.OutputKind(kind), [None, rng.choice(state or [None]), rng.choice(body.inputs)][kind]))
        methods.append(S.Method(name, graph, constants or None, specs or None, buffers or None))
    return S.Program(methods, rng.choice(["1", None])), tensors, mutable


def breaks(p, tensors):
    """Break one rule, perhaps: the reference says whether it did."""
    m = rng.choice(p.methods)
    g = m.graph
    node = rng.choice(g.nodes)
    rng.choice([
        lambda: g.nodes.append(node), lambda: g.nodes.reverse(), lambda: g.nodes.append(S.Node("nobody", S.OpKind.PLACEHOLDER)),
        lambda: (g.tensor_values or [0]).pop(), lambda: setattr(g, "outputs", (g.outputs or []) + ["nothing"]),
        lambda: setattr(g, "inputs", (g.inputs or []) * 2), lambda: tensors and tensors.pop(rng.choice(list(tensors))),
        lambda: node.outputs and setattr(node.outputs[0], "alias_of", "nothing"), lambda: node.outputs and setattr(node, "outputs", node.outputs * 2),
        lambda: node.inputs and setattr(node, "inputs", node.inputs + [S.NamedArgument(S.Argument(S.TensorListArg(["nothing"])))]),
        lambda: node.inputs and setattr(node, "inputs", node.inputs + [S.NamedArgument(S.Argument(S.IntListArg([1, 2], ["", "", ""])))]),
        lambda: node.inputs and setattr(node, "inputs", node.inputs + [S.NamedArgument(S.Argument(S.OptionalTensorListArg(["x"], [])))]),
        lambda: m.mutable_buffers and m.mutable_buffers.append(S.MutableBufferSpec("more", m.mutable_buffers[0].fqn)),
    ])()


for i in range(count):
    p, tensors, mutable = program()
    if i % 2:
        breaks(p, tensors)
        mutable &= set(tensors)
    path = f"{prefix}{i:03}." + ("ptg" if i % 10 == 2 else "ptn")
    ptg = P.serialize(p)
    if path.endswith("ptg"):
        with open(path, "wb") as f:
            f.write(ptg)
    else:
        P.write(path, ptg, tensors, mutable)
    with open(path + ".json", "w") as f:
        json.dump(P.expect(path), f, separators=(",", ":"))
