"""ExecuTorch's own serializer of .ptd, without torch. ETWHEEL names an unpacked wheel.

  reference.py write DIR     DIR/NAME.ptd for every DIR/NAME.json
  reference.py read DIR      every DIR/NAME.json against what the serializer reads from DIR/NAME.*.ptd, written by tensorfile
  reference.py run DIR       the same by the C++ runtime, ETRUN names its program
  reference.py cases DIR     DIR/NAME.json for every case that the interop proof looks at
  reference.py golden DIR    DIR/et-VERSION-NAME.json and .ptd, some of testdata/ptd: those that wheel VERSION makes

A case is {"alignment": of segments, "buffers": [hex], "entries": [{"name", "buffer", "alignment", "layout"}]}, and a layout
{"scalar_type", "sizes", "dim_order"} or null.
"""
import glob, hashlib, json, os, random, subprocess, sys, types

# 0.6 asks setuptools for its schema files; a current Python has none.
resources = types.ModuleType('pkg_resources')
resources.resource_string = lambda package, name: open(os.path.join(os.environ['ETWHEEL'], *package.split('.')[:-1], name), 'rb').read()
sys.modules['pkg_resources'] = resources

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import etserde as E
from executorch.exir._serialize import data_serializer as D

LEGACY = hasattr(D, 'TensorEntry')  # 0.6
Layout = D.TensorLayout
ScalarType = E.schema.ScalarType


def scalar_type(n):
    try:
        return ScalarType(n)
    except ValueError:
        return n  # the enum has no name for it; the number goes into the file all the same


def write(case):
    buffers = [bytes.fromhex(b) for b in case['buffers']]
    layout = lambda l: l and Layout(scalar_type=scalar_type(l['scalar_type']), sizes=l['sizes'], dim_order=l['dim_order'])
    if LEGACY:
        config = E.flat.FlatTensorConfig(tensor_alignment=case['alignment'], segment_alignment=case['alignment'])
        payload = D.DataPayload(buffers=buffers, fqn_to_tensor={e['name']: D.TensorEntry(buffer_index=e['buffer'], layout=layout(e['layout'])) for e in case['entries']})
    else:
        config = E.flat.FlatTensorConfig(segment_alignment=case['alignment'])
        payload = D.DataPayload(buffers=buffers, named_data={e['name']: D.DataEntry(buffer_index=e['buffer'], alignment=e['alignment'], tensor_layout=layout(e['layout'])) for e in case['entries']})
    return bytes(E.flat.FlatTensorSerializer(config).serialize(payload))


def read(data):
    payload = E.flat.FlatTensorSerializer().deserialize(data)
    out = []
    for name, e in payload.named_data.items():
        l = e.tensor_layout
        out.append({'name': name, 'data': bytes(payload.buffers[e.buffer_index]).hex(), 'buffer': e.buffer_index,
                    'layout': l and {'scalar_type': int(l.scalar_type), 'sizes': list(l.sizes), 'dim_order': list(l.dim_order)}})
    return out


# Numbers that the enums of the Python reader lack, or spell otherwise than the schema. C++ reads them: see ptd.sh.
UNREADABLE = {8, 9, 10, 16, 17, 18, 19, 20, 21}


DTYPES = ('uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32 bfloat16 quint4x2 quint2x4 bits1x8 '
          'bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz uint16 uint32 uint64').split()


def run(ptd, blobs):
    """Returns the data that the C++ runtime reads, in the words of read."""
    env = dict(os.environ, **({'ETRUN_NO_LAYOUT': '1'} if blobs else {}))  # it dies when asked for the layout of a blob
    p = subprocess.run([os.environ['ETRUN'], 'ptd', ptd], capture_output=True, env=env)
    if p.returncode:
        return f'exit status {p.returncode}: {p.stderr.decode()[-300:]}'
    out = []
    for k in json.loads(p.stdout, strict=False)['keys']:
        e = {'name': k['key'], 'sha256': k['sha256']}
        if not blobs:
            e.update(dtype=k['dtype'], shape=k['shape'], dim_order=k['dim_order'])
        out.append(e)
    return out


def expected_run(case, blobs):
    out = []
    for e in case['entries']:
        x = {'name': e['name'], 'sha256': hashlib.sha256(bytes.fromhex(case['buffers'][e['buffer']])).hexdigest()}
        if not blobs:
            l = e['layout']
            x.update(dtype=DTYPES[l['scalar_type']], shape=l['sizes'], dim_order=l['dim_order'])
        out.append(x)
    return out


def content(size, seed, scalar_type=None):
    if scalar_type == 11:
        return bytes(i % 2 for i in range(size)).hex()
    return hashlib.shake_128(seed.encode()).hexdigest(size)


WIDTH = [1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 2, 4, 8]


class Case:
    def __init__(self, alignment=128):
        self.case = {'alignment': alignment, 'buffers': [], 'entries': []}

    def buffer(self, size, scalar_type=None):
        b = self.case['buffers']
        b.append(content(size, f'buffer {len(b)}', scalar_type))
        return len(b) - 1

    def tensor(self, name, scalar_type, sizes, dim_order=None, buffer=None, alignment=1, extra=0):
        n = 1
        for s in sizes:
            n *= s
        if buffer is None:
            buffer = self.buffer(n * WIDTH[scalar_type] + extra, scalar_type)
        self.case['entries'].append({'name': name, 'buffer': buffer, 'alignment': alignment, 'layout': {
            'scalar_type': scalar_type, 'sizes': sizes, 'dim_order': list(range(len(sizes))) if dim_order is None else dim_order}})
        return buffer

    def blob(self, name, size=None, buffer=None, alignment=1):
        if buffer is None:
            buffer = self.buffer(size)
        self.case['entries'].append({'name': name, 'buffer': buffer, 'alignment': alignment, 'layout': None})
        return buffer


def cases():
    for n in range(30):
        c = Case()
        c.tensor('w', n, [2, 3])
        c.tensor('scalar', n, [])
        yield f'dtype-{n}', c
    c = Case()
    for rank in range(9):
        c.tensor(f'rank{rank}', 6, [2, 3, 1, 2, 1, 2, 3, 1][:rank])
    yield 'ranks', c
    c = Case()
    for i, sizes in enumerate([[0], [0, 3], [3, 0], [2, 0, 4], [0, 0]]):
        c.tensor(f'empty{i}', 6, sizes)
    c.tensor('full', 6, [1])
    c.tensor('last', 1, [0])
    yield 'zero-size', c
    c = Case()
    c.tensor('nhwc', 6, [2, 3, 4, 5], [0, 2, 3, 1])
    c.tensor('ndhwc', 5, [2, 3, 2, 2, 2], [0, 2, 3, 4, 1])
    c.tensor('transposed', 3, [3, 4], [1, 0])
    c.tensor('odd', 27, [2, 3, 4], [2, 0, 1])
    yield 'dim-orders', c
    c = Case()
    c.blob('blob', 100)
    c.blob('aligned', 17, alignment=64)
    c.tensor('tensor', 6, [3])
    c.blob('nothing', 0)
    c.blob('much', 5, alignment=1024)
    yield 'blobs', c
    c = Case()
    b = c.tensor('row', 6, [1, 2])
    c.tensor('column', 6, [2, 1], buffer=b)
    c.blob('bytes', buffer=b)
    c.tensor('bits', 28, [2], buffer=b)
    c.tensor('own', 6, [1, 2])
    yield 'shared', c
    c = Case()
    c.tensor('view', 6, [2], extra=24)
    yield 'view-of-more', c
    for a in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]:
        c = Case(a)
        c.tensor('a', 6, [3])
        c.tensor('b', 7, [5])
        c.blob('c', 1)
        c.tensor('d', 1, [7])
        yield f'alignment-{a}', c
    for a, b in [(128, 1024), (16, 64), (4096, 16), (1, 1), (48, 32), (3, 2)]:
        c = Case(a)
        c.tensor('first', 6, [3], alignment=b)
        c.tensor('second', 6, [5])
        c.blob('third', 9, alignment=b)
        yield f'alignment-{a}-{b}', c
    yield 'nothing', Case()
    c = Case()
    for name in ['a', 'A', 'z.b.c', 'größe', '重み', '\U0001f9e0', 'e\u0301', '\u00e9', ' ', '../../x', '\x1b[31m', 'x' * 1000, 'quote"', 'back\\slash', 'new\nline']:
        c.tensor(name, 0, [1])
    yield 'names', c
    c = Case()
    for i in range(1000):
        c.tensor(f'layers.{i * 7919 % 1000}.weight', 6, [1 + i % 3, 2])
    yield 'thousand', c


def random_cases():
    """Everything mixed: names, sharing with and without layouts, sharing of nothing, orders, alignments that are no powers of two."""
    rng = random.Random(4)
    alphabet = ['a', 'B', '.', '_', '0', 'é', '重', '\U0001f9e0', ' ', '/', '\t', '"', '\\', '\x7f', '\u2028', '<', '&']
    for k in range(60):
        c = Case(rng.choice([1, 2, 4, 8, 16, 32, 64, 128, 256, 4096, 3, 5, 48, 100]))
        names = set()
        for i in range(rng.choice([1, 2, 3, 5, 9, 30, 200])):
            name = ''.join(rng.choices(alphabet, k=rng.choice([1, 1, 2, 3, 4, 5, 6, 7, 8, 40])))
            if name in names:
                continue
            names.add(name)
            alignment = rng.choice([1, 1, 1, 2, 4, 16, 64, 128, 256, 1000, 4096, 7])
            kind = rng.random()
            if kind < .2:
                c.blob(name, rng.choice([0, 1, 2, 3, 17, 100, 1000]), alignment=alignment)
            elif kind < .35 and c.case['buffers']:
                b = rng.randrange(len(c.case['buffers']))
                if rng.random() < .3:
                    c.blob(name, buffer=b, alignment=alignment)
                else:
                    t = rng.choice([0, 1, 6])
                    c.tensor(name, t, [len(c.case['buffers'][b]) // 2 // WIDTH[t]], buffer=b, alignment=alignment)
            else:
                rank = rng.choice([0, 1, 1, 2, 2, 3, 4, 5, 8, 16])
                sizes = [rng.choice([0, 1, 1, 2, 3, 7, 16] if rank < 4 else [1, 1, 2, 3] if rank < 16 else [1]) for _ in range(rank)]
                order = list(range(rank))
                if rng.random() < .5:
                    rng.shuffle(order)
                c.tensor(name, rng.randrange(30), sizes, order, alignment=alignment, extra=rng.choice([0, 0, 0, 5]))
        yield f'random-{k}', c


def golden(directory):
    """The smaller cases by the newest wheel, and one by each older one, whose layout of the file differs."""
    version = os.environ['ETWHEEL'].rsplit('-', 1)[1]
    all_ = dict(cases())
    if version == '1.5.1':
        picked = {n: all_[n] for n in ['ranks', 'zero-size', 'dim-orders', 'blobs', 'shared', 'view-of-more', 'names', 'nothing', 'alignment-1', 'alignment-128-1024', 'alignment-4096-16']}
        picked['dtypes'] = c = Case()
        for n in range(30):
            c.tensor(f'type{n}', n, [2, 3])
            c.tensor(f'scalar{n}', n, [])
    else:
        picked = {'basic': Case(16)}
        c = picked['basic']
        b = c.tensor('linear.weight', 6, [2, 3])
        c.tensor('linear.bias', 6, [3])
        c.tensor('tied', 6, [3, 2], [1, 0], buffer=b)
        c.tensor('steps', 4, [])
        c.tensor('mask', 11, [5])
        c.tensor('none', 6, [0, 4])
        if not LEGACY:
            c.blob('blob', 33)
    for name, c in picked.items():
        base = f'{directory}/et-{version}-{name}'
        with open(base + '.ptd', 'wb') as f:
            f.write(write(c.case))
        with open(base + '.json', 'w') as f:
            json.dump(c.case, f, indent=1)
            f.write('\n')


def main():
    verb, directory = sys.argv[1:]
    if verb == 'golden':
        return golden(directory)
    if verb == 'cases':
        for name, c in [*cases(), *random_cases()]:
            with open(f'{directory}/{name}.json', 'w') as f:
                json.dump(c.case, f)
        return
    done = failed = 0
    for file in sorted(glob.glob(f'{directory}/*.json')):
        case = json.load(open(file))
        if verb == 'write':
            with open(file[:-5] + '.ptd', 'wb') as f:
                f.write(write(case))
            done += 1
            continue
        if verb == 'read' and UNREADABLE & {e['layout']['scalar_type'] for e in case['entries'] if e['layout']}:
            continue
        blobs = any(e['layout'] is None for e in case['entries'])
        for ptd in sorted(glob.glob(file[:-5] + '.*.ptd')):
            if verb == 'run':
                got, want = run(ptd, blobs), expected_run(case, blobs)
            else:
                got = [{k: e[k] for k in ('name', 'data', 'layout')} for e in read(open(ptd, 'rb').read())]
                want = [{'name': e['name'], 'data': case['buffers'][e['buffer']], 'layout': e['layout']} for e in case['entries']]
            if '.sorted.' in ptd:
                want.sort(key=lambda e: e['name'].encode())
            done += 1
            if got != want:
                failed += 1
                print(f'{ptd}: the reference reads something else: {str(got)[:300]}')
    print(f'{verb}: {done} files, {failed} wrong')
    sys.exit(failed > 0)


main()
