"""odd.py OUT SEED COUNT: programs with content that no exporter would write together, from the serializer of the ExecuTorch wheel in $ETWHEEL,
each NAME.pte with NAME.json, what that wheel's own deserializer reads from it (as generations.py has it), and NAME.expect.json, what our command
must say (as expect.py has it). All are sound: everything that refers to something refers to something that is there. Every other one is called
load-…, and has nothing that the runtime lacks: it must load.

Needs interop/tools on PYTHONPATH (etserde.py), no torch. Wheels from 0.7.0 on.
"""
import json, os, random, sys

OUT, SEED, COUNT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.makedirs(OUT, exist_ok=True)
os.environ["ETSERDE"] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
argv, sys.argv = sys.argv, ["generations.py", os.path.join(OUT, "made-first")]
import generations as G  # its helpers; it also writes its own programs
import expect
sys.argv = argv
S, V, P = G.S, G.V, G.P
expect.E.schema, expect.E.program = S, P

rng = random.Random(SEED)
pick, chance = rng.choice, lambda p: rng.random() < p
WORDS = ["weight", "größe", "重み", "a/b", "a.b", "x" * 300, "", "emoji \U0001f9ea", "tab\tnew\nline", "'quoted\"", "..", "__et_x", "layers.0.attn", "\x7f", "%s", "null"]
SCALARS = [t for t in S.ScalarType if int(t) < 30]
WIDTH = expect.WIDTH


def width(t):
    return WIDTH[expect.DTYPES[t]]


def blob(n):
    return rng.randbytes(n)


class Method:
    def __init__(self, name, store, loads):
        self.name, self.store, self.values, self.loads = name, store, [], loads
        self.sizes = [0] + [1 << 20] * rng.randint(1, 3)

    def add(self, v):
        self.values.append(v)
        return len(self.values) - 1

    def of(self, *types):
        return [i for i, v in enumerate(self.values) if isinstance(v.val, types)]

    def tensor(self):
        rank = pick([0, 1, 1, 2, 2, 3, 4, 5, 16])
        sizes = [pick([1, 1, 1, 2]) if rank > 5 else pick([0, 1, 2, 3, 5]) if chance(0.3) else rng.randint(1, 4) for _ in range(rank)]
        order = list(range(rank))
        if chance(0.4):
            rng.shuffle(order)
        t, n = pick(SCALARS), 1
        for d in sizes:
            n *= d
        n *= width(t)
        role = pick(["planned", "caller", "constant", "constant", "state", "named state"] + ["external", "external state"] * (not self.loads))
        kw = dict(sizes=sizes, order=order, dtype=t, grad=chance(0.2), layout=pick([0, 0, 0, 1]))
        if role in ("planned", "caller") and chance(0.4):
            kw["dyn"] = S.TensorShapeDynamism.DYNAMIC_BOUND
        place = (rng.randint(1, len(self.sizes) - 1), rng.randrange(0, 1 << 19, 16))
        if role in ("planned", "state", "named state", "external state"):
            kw["at"] = place
        device = dict(device_type=pick(list(S.DeviceType)), device_index=pick([0, 1, 5])) if hasattr(S, "DeviceType") else {}
        if role == "constant":
            kw["data"] = self.store.constant(n)
            if chance(0.3):
                kw["extra"] = G.info(fully_qualified_name=pick(WORDS + [None]), **device)
        elif role in ("state", "named state"):
            kw["extra"] = G.info(fully_qualified_name=pick(WORDS[:6]) if role == "named state" else pick([None, "", "s"]))
            if role == "state" or chance(0.5):
                kw["data"] = self.store.initial(n)
        elif role in ("external", "external state"):
            kw["extra"] = G.info(fully_qualified_name=f"{pick(WORDS)}#{len(self.values)}{self.name}", location=G.LOC.EXTERNAL, **device)
            kw["data"] = pick([0, 0, 1, 7])
        elif chance(0.2):
            kw["extra"] = G.info(**device)
        return self.add(G.T(**kw))

    def value(self):
        tensors, ints = self.of(S.Tensor), self.of(S.Int)
        nulls = self.of(S.Null)
        some = lambda from_: [pick(from_) for _ in range(rng.randint(0, 5))] if from_ else []
        return self.add(V(pick([
            lambda: S.Null(), lambda: S.Int(pick([0, -1, 5, 2**63 - 1, -2**63, rng.getrandbits(40)])), lambda: S.Bool(chance(0.5)),
            lambda: S.Double(pick([0.0, 0.5, -2.5, float("inf"), float("-inf"), 1024.0])), lambda: S.String(pick(WORDS)),
            lambda: S.IntList(some(ints)), lambda: S.DoubleList([pick([0.5, -1.5, float("inf"), 0.0]) for _ in range(rng.randint(0, 4))]),
            lambda: S.BoolList([chance(0.5) for _ in range(rng.randint(0, 5))]), lambda: S.TensorList(some(tensors)),
            lambda: S.OptionalTensorList(some(tensors + nulls + [-1])),
        ])()))

    def plan(self):
        for _ in range(rng.randint(0, 25)):
            self.tensor() if chance(0.5) else self.value()
        flag = self.add(V(S.Bool(True)))
        n = len(self.values)
        some = lambda: [rng.randrange(n) for _ in range(rng.randint(0, 6))]
        ops = [S.Operator(pick(["aten::add", "aten::mul", "größe::ä", "executorch_prim::et_view"]), pick(["out", "", "Scalar_out"])) for _ in range(rng.randint(0, 4))]
        if self.loads:
            ops = [pick([S.Operator("aten::add", "out"), S.Operator("aten::mul", "Scalar_out"), S.Operator("executorch_prim::et_view", "default")]) for _ in ops]
        delegates = []
        for _ in range(0 if self.loads else rng.randint(0, 3)):
            specs = [G.spec(pick(WORDS), blob(pick([0, 1, 30]))) for _ in range(rng.randint(0, 3))]
            delegates.append(S.BackendDelegate(id=pick(["XnnpackBackend", "Größe", "B"]), compile_specs=specs,
                processed=S.BackendDelegateDataReference(location=S.DataLocation.INLINE, index=self.store.payload())))
        chains = []
        for _ in range(pick([1, 1, 1, 2, 3])):
            code = []
            for _ in range(rng.randint(0, 12)):
                kinds = [S.MoveCall(rng.randrange(n), rng.randrange(n)), S.JumpFalseCall(flag, 0)]
                if ops:
                    kinds += [S.KernelCall(rng.randrange(len(ops)), some())] * 3
                if delegates:
                    kinds.append(S.DelegateCall(rng.randrange(len(delegates)), some()))
                if self.of(S.Tensor):
                    kinds.append(S.FreeCall(pick(self.of(S.Tensor))))
                code.append(S.Instruction(pick(kinds)))
            for i, c in enumerate(code):
                if isinstance(c.instr_args, S.JumpFalseCall):
                    c.instr_args.destination_instruction = rng.randint(0, len(code))
            frame = lambda: S.Frame(pick(WORDS), rng.randint(-1, 10**6), pick(WORDS), pick(WORDS))
            trace = pick([None, [], [S.FrameList([frame() for _ in range(rng.randint(0, 3))]) for _ in range(rng.randint(0, len(code)))]])
            chains.append(S.Chain(inputs=some(), outputs=some(), instructions=code, stacktrace=trace))
        devices = None
        if hasattr(S, "NonConstBufferDevice") and chance(0.3) and not self.loads:
            devices = [S.NonConstBufferDevice(1, S.DeviceType.CUDA, pick([0, 1, 3]))]
        return G.make(S.ExecutionPlan, name=self.name, container_meta_type=S.ContainerMetadata(pick(WORDS), pick(WORDS)), values=self.values,
            inputs=some(), outputs=some(), chains=chains, operators=ops, delegates=delegates, non_const_buffer_sizes=self.sizes, non_const_buffer_device=devices)


class Store:
    def __init__(self):
        self.constants, self.initials, self.payloads = [b""], [b""], []

    def put(self, pool, n):
        fitting = [i for i, b in enumerate(pool) if i and len(b) == n]
        if fitting and chance(0.4):
            return pick(fitting)
        pool.append(blob(n))
        return len(pool) - 1

    def constant(self, n):
        return self.put(self.constants, n)

    def initial(self, n):
        return self.put(self.initials, n)

    def payload(self):
        self.payloads.append(pick(self.payloads) if self.payloads and chance(0.3) else blob(pick([0, 1, 17, 200, 4097])))
        return len(self.payloads) - 1


for k in range(COUNT):
    store = Store()
    names = ["forward", "größe", "a/b", "get_x", "m.n", "decode"]
    rng.shuffle(names)
    loads = k % 2 == 1
    plans = [Method(name, store, loads).plan() for name in names[: rng.randint(1, 5)]]
    data, shared = [], []
    for i in range(rng.randint(0, 4)):
        shared.append(pick(shared) if shared and chance(0.4) else blob(pick([0, 1, 33, 1000])))
        data.append((f"{pick(WORDS)}{i}", shared[-1], pick([1, 2, 3, 16, 256, 4096])))
    kw = dict(extract_delegate_segments=chance(0.6), segment_alignment=pick([1, 2, 12, 16, 128, 4096]))
    if chance(0.6):
        kw["constant_tensor_alignment"] = pick([1, 2, 16, 64, 1024])
    if chance(0.4):
        kw["delegate_alignment"] = pick([4, 16, 256])
    prog = G.program(plans, store.constants[1:], store.payloads, version=0 if loads else pick([0, 0, 3]))
    G.OUT = OUT
    name = f"{'load' if loads else 'odd'}-{SEED}-{k}"
    mutable = [S.Buffer(b) for b in store.initials] if len(store.initials) > 1 else None
    out = G.write(name, prog, mutable=mutable, data=data or None, **kw)
    try:
        want = expect.content(out)
    except Exception as e:
        print(name, "not read by the reference:", e)
        continue
    json.dump(want, open(f"{OUT}/{name}.expect.json", "w"), indent=1)
