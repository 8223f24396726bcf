"""read.py CASE ORIGINAL FILE...: whether the gguf package finds in files that we wrote what gguf.sh asked for."""
import sys

from gguf import GGUFReader, GGUFValueType as V

case, original, *names = sys.argv[1:]
old, files = GGUFReader(original), [GGUFReader(n) for n in names]


def fields(r):
    return {k: (tuple(f.types), f.contents()) for k, f in r.fields.items() if not k.startswith("GGUF.")}


def tensors(*readers):
    return {t.name: (t.tensor_type, tuple(t.shape), t.data.tobytes()) for r in readers for t in r.tensors}


want, data = fields(old), tensors(old)
if case == "edited":
    want["u32"] = ((V.UINT32,), 7)
    want["f32"] = ((V.FLOAT32,), 0.25)
    want["strings"] = ((V.ARRAY, V.STRING), ["x"])
    want["tokenizer.chat_template"] = ((V.STRING,), "line\n{{ x }}=\n")
    want["new"] = ((V.ARRAY, V.INT32), [1, -2])
    del want["i8"]
    data["weight"] = data.pop("w")
    assert fields(files[0]) == want, fields(files[0])
elif case == "place":
    want["u32"] = ((V.UINT32,), 7)
    assert fields(files[0]) == want, fields(files[0])
elif case == "shards":
    assert len(files) > 1
    for i, f in enumerate(files):
        have = fields(f)
        assert have.pop("split.no") == ((V.UINT16,), i) and have.pop("split.count") == ((V.UINT16,), len(files)), i
        assert have.pop("split.tensors.count") == ((V.INT32,), len(data)), i
        assert have == (want if i == 0 else {}), have
assert tensors(*files) == data
