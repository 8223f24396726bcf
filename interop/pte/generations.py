"""generations.py OUT: programs for every corner of the format, written by the serializer of the ExecuTorch wheel in $ETWHEEL, and next to each, as
NAME.json, what that wheel's own deserializer reads from it. Which programs depends on what the generation can write. Needs etserde.py
($ETSERDE is its directory), no torch.

A program that the runtime can run has "run" in its JSON: etrun runs it with inputs made by rule.
"""
import dataclasses, enum, hashlib, json, os, struct, sys

sys.path.insert(0, os.environ['ETSERDE'])
import etserde as E
from etserde import program as P, schema as S

OUT = sys.argv[1]
os.makedirs(OUT, exist_ok=True)
NEW = hasattr(P, 'PTEFile')  # constants, mutable and named data in addition to the program
SEGMENTS = 'extract_constant_segment' not in P.serialize_pte_binary.__kwdefaults__  # constants always leave the flatbuffer
HAS = lambda t, f: f in {x.name for x in dataclasses.fields(t)}

def make(t, **kw):
    """An object of the schema with the fields that this generation has."""
    names = {f.name for f in dataclasses.fields(t)}
    if t is S.Tensor and 'constant_buffer_idx' in names: kw['constant_buffer_idx'] = kw.pop('data_buffer_idx')
    return t(**{k: v for k, v in kw.items() if k in names})

FLOAT, LONG, BYTE, HALF, BOOL, INT = (S.ScalarType(i) for i in (6, 4, 0, 5, 11, 3))
STATIC = S.TensorShapeDynamism.STATIC

def place(id, off): return S.AllocationDetails(memory_id=id, memory_offset_low=off & 0xffffffff, memory_offset_high=off >> 32) if HAS(S.AllocationDetails, 'memory_offset_low') else S.AllocationDetails(memory_id=id, memory_offset=off)

def T(sizes, at=None, data=0, dtype=FLOAT, order=None, dyn=STATIC, extra=None, layout=0, grad=False):
    return S.EValue(make(S.Tensor, scalar_type=dtype, storage_offset=0, sizes=list(sizes), dim_order=list(order or range(len(sizes))), requires_grad=grad, layout=layout,
        data_buffer_idx=data, allocation_info=place(*at) if at else None, shape_dynamism=dyn, extra_tensor_info=extra))
V = S.EValue
def I(n): return V(S.Int(n))
def call(op, *args): return S.Instruction(S.KernelCall(op_index=op, args=list(args)))
def op(s): return S.Operator(*(s.split('.') if '.' in s else (s, '')))
def plan(name, values, ins, outs, ops=(), code=(), sizes=(0, 0), delegates=(), trace=None, device=None, spec=('', '')):
    return make(S.ExecutionPlan, name=name, container_meta_type=S.ContainerMetadata(*spec), values=values, inputs=list(ins), outputs=list(outs),
        chains=[S.Chain(inputs=[], outputs=[], instructions=list(code), stacktrace=trace)], operators=[op(o) for o in ops], delegates=list(delegates),
        non_const_buffer_sizes=list(sizes), non_const_buffer_device=device)
def floats(*v): return struct.pack(f'<{len(v)}f', *v)
def ramp(n, k=0): return floats(*[((i * 13 + k * 7) % 17 - 8) / 8 for i in range(n)])
def program(plans, constants=(), inline=(), version=0):
    return make(S.Program, version=version, execution_plan=plans, constant_buffer=[S.Buffer(b'')] + [S.Buffer(c) for c in constants],
        backend_delegate_data=[S.BackendDelegateInlineData(d) for d in inline], segments=[], constant_segment=S.SubsegmentOffsets(0, []), mutable_data_segments=None, named_data=None)

def plain(x):
    if dataclasses.is_dataclass(x): return {'_': type(x).__name__, **{f.name: plain(getattr(x, f.name)) for f in dataclasses.fields(x)}}
    if isinstance(x, enum.IntEnum): return int(x)
    if isinstance(x, (bytes, bytearray)): return {'sha256': hashlib.sha256(bytes(x)).hexdigest(), 'bytes': len(x)}
    if isinstance(x, (list, tuple)): return [plain(y) for y in x]
    if isinstance(x, dict): return {k: plain(v) for k, v in x.items()}
    if isinstance(x, float) and (x != x or x in (float('inf'), float('-inf'))): return str(x)
    if x is None or isinstance(x, (bool, int, float, str)): return x
    raise TypeError(type(x))

def named(entries):
    """Named data: (key, bytes, alignment); the same bytes object means a shared buffer."""
    import executorch.exir._serialize._named_data_store as N
    buffers, pte, align = [], {}, {}
    for k, b, a in entries:
        if not any(b is x for x in buffers): buffers.append(b)
        pte[k] = [b is x for x in buffers].index(True)
        align.setdefault(id(b), a)
    if hasattr(N, 'BufferEntry'): return N.NamedDataStoreOutput(buffers=[N.BufferEntry(b, align[id(b)]) for b in buffers], pte_data=pte, external_data={})
    from executorch.exir._serialize.data_serializer import DataEntry
    return N.NamedDataStoreOutput(buffers=buffers, pte_data={k: DataEntry(pte[k], a, None) for k, _, a in entries}, external_data={})

def write(name, prog, mutable=None, data=None, run=None, **kw):
    if not SEGMENTS: kw.setdefault('extract_constant_segment', True)
    if NEW: out = P.serialize_pte_binary(P.PTEFile(program=prog, mutable_data=mutable, named_data=named(data) if data else None), **kw)
    else:
        if mutable: kw['mutable_data'] = mutable
        if data: kw['named_data'] = named(data)
        try: out = P.serialize_pte_binary(prog, **kw)
        except Exception as e:  # old generations refuse some alignments and types
            return print(name, 'cannot be written by this generation:', str(e).splitlines()[0][:100])
    out = bytes(out)
    open(f'{OUT}/{name}.pte', 'wb').write(out)
    facts = {}
    try:
        back = P.deserialize_pte_binary(out)
        if NEW: facts = {'program': plain(back.program), 'mutable_data': plain(back.mutable_data), 'named_data': None if back.named_data is None else
            {'buffers': plain(back.named_data.buffers), 'pte_data': {k: {'buffer_index': e.buffer_index, 'alignment': e.alignment} for k, e in back.named_data.pte_data.items()}}}
        else: facts = {'program': plain(back)}
    except Exception as e:  # the reference cannot read what it wrote: recorded, and the C++ runtime decides
        facts = {'refused': f'{type(e).__name__}: {e}'}
    if run: facts['run'] = run
    json.dump(facts, open(f'{OUT}/{name}.json', 'w'), indent=1)
    print(name, len(out), facts.get('refused', ''))
    return out

EXTRA = getattr(S, 'ExtraTensorInfo', None)
LOC = getattr(S, 'TensorDataLocation', None)
def info(**kw): return make(EXTRA, **{'mutable_data_segments_idx': 0, 'fully_qualified_name': None, **({'location': LOC.SEGMENT} if LOC else {}), **kw})

# y = x + w
def add(n=6, data=1):
    return plan('forward', [T([2, n // 2], (1, 0)), T([2, n // 2], data=data), I(1), T([2, n // 2], (1, 64))], [0], [3], ['aten::add.out'], [call(0, 0, 1, 2, 3, 3)], (0, 128))
write('add', program([add()], [ramp(6)]), run=['forward'])
write('no-data', program([plan('forward', [T([2, 3], (1, 0)), T([2, 3], (1, 32)), I(2), T([2, 3], (1, 64))], [0, 1], [3], ['aten::add.out'], [call(0, 0, 1, 2, 3, 3)], (0, 96))]), run=['forward'])
write('linear', program([plan('forward', [T([4, 3], data=1), T([4], data=2), T([2, 3], (1, 0)), T([2, 4], (1, 32))], [2], [3], ['aten::linear.out'], [call(0, 2, 0, 1, 3, 3)], (0, 64))],
    [ramp(12), ramp(4, 1)]), run=['forward'])
# convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups), channels last, integers by index
def conv(order):
    vs = [T([2, 3, 3, 3], data=1, order=order), T([2], data=2), T([1, 3, 5, 5], (1, 0), order=order), I(1), I(0), V(S.Bool(False)), V(S.IntList([3, 3])), V(S.IntList([4, 4])), T([1, 2, 3, 3], (1, 320), order=order)]
    return plan('forward', vs, [2], [8], ['aten::convolution.out'], [call(0, 2, 0, 1, 6, 7, 6, 5, 7, 3, 8, 8)], (0, 512))
write('conv', program([conv([0, 1, 2, 3])], [ramp(54), ramp(2, 1)]), run=['forward'])
write('conv-channels-last', program([conv([0, 2, 3, 1])], [ramp(54), ramp(2, 1)]), run=['forward'])
# two methods that share a weight, and a third with its own; constant getters
def getter(name, *vals): return plan(name, [V(v) for v in vals], [], range(len(vals)), sizes=(0,))
p2 = add(); p2.name = 'backward'
p3 = add(data=2); p3.name = 'decode'
write('methods', program([p2, p3, add(), getter('get_vocab_size', S.Int(32000)), getter('get_eos_ids', S.Int(1), S.Int(2)), getter('use_kv_cache', S.Bool(True)),
    getter('get_scale', S.Double(0.125)), getter('get_name', S.String('tiny'))], [ramp(6), ramp(6, 3)]), run=['forward', 'backward', 'decode', 'get_vocab_size', 'get_scale'])
# if all(x > 0): y = x + x else: y = x * x
vs = [T([2, 2], (1, 0)), V(S.Double(0.0)), T([2, 2], (1, 16), dtype=BOOL), I(1), T([2, 2], (1, 32)), T([2, 2], (1, 48)), I(2), I(3), T([2, 2], (1, 64))]
code = [call(0, 0, 1, 2, 2), S.Instruction(S.JumpFalseCall(2, 5)), call(1, 0, 0, 3, 4, 4), S.Instruction(S.MoveCall(4, 5)), S.Instruction(S.JumpFalseCall(9, 6)), call(2, 0, 0, 5, 5), S.Instruction(S.FreeCall(8))]
write('control-flow', program([plan('forward', vs + [V(S.Bool(False))], [0], [5], ['aten::gt.Scalar_out', 'aten::add.out', 'aten::mul.out'], code, (0, 96))]), run=['forward'])
D = S.TensorShapeDynamism
write('dynamic', program([plan('forward', [T([8, 3], (1, 0), dyn=D.DYNAMIC_BOUND), T([8, 3], (1, 96), dyn=D.DYNAMIC_BOUND), I(1), T([8, 3], (1, 192), dyn=D.DYNAMIC_BOUND)], [0, 1], [3],
    ['aten::add.out'], [call(0, 0, 1, 2, 3, 3)], (0, 288))]), run=['forward'])
write('unplanned', program([plan('forward', [T([2, 2]), T([2, 2], data=1), I(1), T([2, 2])], [0], [3], ['aten::add.out'], [call(0, 0, 1, 2, 3, 3)], (0, 0))], [ramp(4)]), run=['forward'])
write('shared-and-empty', program([plan('forward', [T([0, 3], data=1), T([2, 3], data=2), T([6], data=2), T([3], data=3, dtype=LONG), T([24], data=2, dtype=BYTE), T([], data=4), T([5], data=5, dtype=BOOL)], [], [1, 2])],
    [b'', ramp(6), struct.pack('<3q', 1, -2, 3), floats(7), bytes([1, 0, 1, 1, 0])]), run=['forward'])
# every kind of value
allkinds = [T([2, 3], (1, 0)), I(-5), I(2 ** 62), V(S.Bool(True)), V(S.Bool(False)), V(S.Double(-0.0)), V(S.Double(float('inf'))), V(S.Double(float('-inf'))), V(S.String('h\u00e9llo')), V(S.String('')),
    V(S.Null()), V(S.IntList([1, 2])), V(S.IntList([])), V(S.DoubleList([1.5, -2.0])), V(S.BoolList([True, False, True])), V(S.TensorList([0, 0])), V(S.TensorList([])), V(S.OptionalTensorList([0, -1, 10])),
    T([1, 2, 3, 4, 5], (1, 24), order=[0, 2, 1, 4, 3], dtype=HALF, grad=True)]
trace = [S.FrameList([S.Frame('model.py', 12, 'forward', 'return x + y'), S.Frame('nn.py', 7, '__call__', '')]), S.FrameList([])]
write('kinds', program([plan('forward', allkinds, [0], [0], ['aten::add.out', 'aten::copy_'], [call(0, 0, 0, 1, 0, 0), call(1, 0, 0, 3, 0)], (0, 2 ** 48), trace=trace, spec=('T2#1#0($,D0())', '$'))], version=3))
# delegates with arbitrary payloads
def spec(k, v): return P.program_compile_spec(k, v) if hasattr(P, 'program_compile_spec') else S.CompileSpec(k, v)
def deleg(id, i, *specs): return S.BackendDelegate(id=id, processed=S.BackendDelegateDataReference(location=S.DataLocation.INLINE, index=i), compile_specs=[spec(k, v) for k, v in specs])
dcall = lambda i, *a: S.Instruction(S.DelegateCall(i, list(a)))
blobs = [bytes(range(200)), b'tiny', bytes(4096), b'x' * 127]
def delegated(blobs):
    m1 = plan('forward', [T([2, 2], (1, 0)), T([2, 2], (1, 16)), T([2, 2], data=1)], [0], [1], code=[dcall(0, 0, 1), dcall(1, 1, 0)], sizes=(0, 32), delegates=[deleg('ABackend', 0, ('k', b'v'), ('', b'')), deleg('BBackend', 1)])
    m2 = plan('other', [T([2, 2], (1, 0)), T([2, 2], (1, 16))], [0], [1], code=[dcall(0, 0, 1), dcall(1, 0, 1)], sizes=(0, 32), delegates=[deleg('ABackend', 2), deleg('ABackend', 3)])
    return program([m1, m2], [ramp(4)], blobs)
write('delegates-inline', delegated(blobs))
write('delegates-extracted', delegated(blobs), extract_delegate_segments=True)
write('delegates-shared', delegated([blobs[0], blobs[1], blobs[0], blobs[1]]), extract_delegate_segments=True)
write('delegates-inline-align-4', delegated(blobs), delegate_alignment=4)
write('delegates-inline-align-1024', delegated(blobs), delegate_alignment=1024)
for a in (1, 2, 4, 8, 12, 16, 64, 128, 1024, 4096): write(f'segment-align-{a}', delegated(blobs), extract_delegate_segments=True, segment_alignment=a)
for a in (1, 4, 16, 64, 1024, 4096): write(f'tensor-align-{a}', program([plan('forward', [T([3], data=1), T([5], data=2, dtype=BYTE), T([2], data=3)], [], [0, 2])], [ramp(3), b'abcde', ramp(2)]), constant_tensor_alignment=a, run=['forward'] if a > 3 else None)
if not SEGMENTS:  # deprecated: constants inside the flatbuffer
    write('inline-constants', program([add()], [ramp(6)]), extract_constant_segment=False)
    write('inline-constants-delegates', delegated(blobs), extract_constant_segment=False, extract_delegate_segments=True)
if EXTRA:
    # counter += 1, and a named state without initial value
    vs = [T([2], (1, 0), data=1, extra=info(fully_qualified_name='counter')), T([2], data=1), I(1), T([2], (1, 16)), T([2], (1, 32)), V(S.Bool(False)), T([3], (1, 48), extra=info(fully_qualified_name='cache'))]
    m = plan('forward', vs, [], [4], ['aten::add.out', 'aten::copy_', 'aten::clone.out'], [call(0, 0, 1, 2, 3, 3), call(1, 0, 3, 5, 0), call(2, 3, 7, 4, 4)], (0, 64))
    m.values.append(V(S.Null()))
    if SEGMENTS: write('mutable-state', program([m], [floats(1, 1)]), mutable=[S.Buffer(b''), S.Buffer(floats(10, 20))], run=['forward'])
    if SEGMENTS: write('mutable-many', program([plan('forward', [T([3], (1, 0), data=1, dtype=BYTE, extra=info()), T([1], (1, 16), data=2, extra=info()), T([2], (1, 32), data=3, dtype=LONG, extra=info())], [], [1], sizes=(0, 64))]),
        mutable=[S.Buffer(b''), S.Buffer(b'abc'), S.Buffer(floats(5)), S.Buffer(struct.pack('<2q', 3, 4))])
    if LOC:
        ext = lambda n, **kw: info(fully_qualified_name=n, location=LOC.EXTERNAL, **kw)
        m = plan('forward', [T([4, 3], extra=ext('linear.weight')), T([4], extra=ext('linear.bias'), data=1), T([2, 3], (1, 0)), T([2, 4], (1, 32)), T([2, 4], (1, 64), extra=ext('state')), I(1), T([2, 4], (1, 96))], [2], [6],
            ['aten::linear.out', 'aten::add.out'], [call(0, 2, 0, 1, 3, 3), call(1, 3, 4, 5, 6, 6)], (0, 128))
        write('external', program([m]), run=['forward'])
        if E.flat and NEW:
            from executorch.exir._serialize.data_serializer import DataPayload, DataEntry
            from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer
            from executorch.exir.tensor_layout import TensorLayout
            lay = lambda s: TensorLayout(FLOAT, s, list(range(len(s))))
            open(f'{OUT}/external.ptd', 'wb').write(bytes(FlatTensorSerializer().serialize(DataPayload(buffers=[ramp(12), ramp(4, 1), ramp(8, 2)],
                named_data={'linear.weight': DataEntry(0, 16, lay([4, 3])), 'linear.bias': DataEntry(1, 16, lay([4])), 'state': DataEntry(2, 16, lay([2, 4]))}))))
if HAS(S.Program, 'named_data'):
    a, b, c = b'shared' * 10, bytes(range(256)), b''
    write('named-data', program([add()], [ramp(6)]), data=[('first', a, 3), ('second', b, 256), ('again', a, 64), ('empty', c, 1)], run=['forward'])
    write('named-data-4096', program([add()], [ramp(6)]), data=[('page', b, 4096)], segment_alignment=12, run=['forward'])
    write('named-data-empty', program([plan('forward', [T([2], (1, 0))], [0], [0], sizes=(0, 16))]), data=[('nothing', c, 1)])
    write('named-data-and-delegates', delegated(blobs), data=[('k1', a, 1), ('k2', b, 16)], extract_delegate_segments=True)
if hasattr(S, 'NonConstBufferDevice'):
    dev = [S.NonConstBufferDevice(2, S.DeviceType.CUDA, 1)]
    write('devices', program([plan('forward', [T([2], (1, 0)), T([2], (2, 0), extra=info(device_type=S.DeviceType.CUDA, device_index=1))], [0], [1], sizes=(0, 16, 16), device=dev), plan('empty-list', [I(1)], [], [0], sizes=(0,), device=[])]))
# every dtype that the enum of this generation has
types = [t for t in S.ScalarType]
write('dtypes', program([plan('forward', [T([2], data=i + 1, dtype=t) for i, t in enumerate(types)], [], [0])], [bytes([i + 1]) * (2 * 16) for i in range(len(types))]))
