"""expect.py FILE.pte|FILE.bpte [DATA.ptd...] > FILE.json: what ExecuTorch itself says of a program: its Python deserializer on the content, its C++
runtime on loading and running.

Needs PYTHONPATH=interop/tools, ETWHEEL and ETRUN (interop/tools.sh etwheel 1.5.1, etrun), under `interop/tools.sh etpython`. The JSON
has the fields of `tensorfile info`, `ls` and `hash --json` (docs/json.md), and under "run" what `etrun run` answered, twice in a row
for each method on inputs of its own choice: rerun.py takes it to prove that a rewritten program still computes the same.
"""
import hashlib, json, os, shutil, subprocess, sys, tempfile
import etserde as E

DTYPES = ("uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32 bfloat16 quint4x2 quint2x4 "
          "bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz uint16 uint32 uint64").split()
WIDTH = dict(zip(DTYPES, (1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 2, 4, 8)))
SCALARS = {s.name: DTYPES[s] for s in E.schema.ScalarType if s < len(DTYPES)}  # the schema's spelling
EXTERNAL = 1


def sha(b):
    return hashlib.sha256(bytes(b)).hexdigest()


def nbytes(t):
    n = WIDTH[DTYPES[t.scalar_type]]
    for d in t.sizes:
        n *= d
    return n


def tensor(t):
    d = {"dtype": DTYPES[t.scalar_type], "shape": list(t.sizes)}
    if list(t.dim_order) != sorted(t.dim_order):
        d["order"] = list(t.dim_order)
    return d


def kind(value):
    name = type(value.val).__name__
    d = {"kind": name}
    if name == "Tensor":
        d.update(tensor(value.val), dynamism=value.val.shape_dynamism.name)
    return d


def stored(plan, i, t, file):
    """The row of `ls` for a tensor that has data, a name, or data elsewhere; None for an activation."""
    extra, name = t.extra_tensor_info, None
    if extra is not None:
        name = extra.fully_qualified_name or None
    row = {"name": name or f"{plan.name}/{i}", "method": plan.name, "value": i, **tensor(t), "bytes": nbytes(t)}
    if extra is not None and extra.location == EXTERNAL:
        return {**row, "external": True, **({"mutable": True} if t.allocation_info else {})}
    if t.data_buffer_idx == 0:
        return {**row, "mutable": True} if name and t.allocation_info else None
    source = file.mutable_data if t.allocation_info else file.program.constant_buffer
    data = source[t.data_buffer_idx].storage[: nbytes(t)]
    return {**row, "buffer": t.data_buffer_idx, **({"mutable": True} if t.allocation_info else {}), "sha256": sha(data)}


def content(data):
    file = E.program.deserialize_pte_binary(data)
    header = E.program._get_extended_header(data)
    raw = E.program._flatbuffer_to_program(data[: header.program_size] if header else data)  # segments not yet put back
    base = header.segment_base_offset if header else 0
    p = file.program
    methods, tensors, blobs = [], [], []
    for plan in p.execution_plan:
        delegates = []
        for i, d in enumerate(plan.delegates):
            payload = p.backend_delegate_data[d.processed.index].data
            delegates.append({"id": d.id, "bytes": len(payload), "compile_specs": [[s.key, bytes(s.value).hex()] for s in d.compile_specs]})
            blobs.append({"name": f"delegate/{plan.name}/{i}", "bytes": len(payload), "sha256": sha(payload)})
        methods.append({
            "name": plan.name,
            "inputs": [kind(plan.values[i]) for i in plan.inputs],
            "outputs": [kind(plan.values[i]) for i in plan.outputs],
            "operators": [o.name + ("." + o.overload if o.overload else "") for o in plan.operators],
            "delegates": delegates,
            "instructions": sum(len(c.instructions) for c in plan.chains),
            "memory": {"buffers": list(plan.non_const_buffer_sizes)},
            "values": [type(v.val).__name__ for v in plan.values],
            "stack_traces": sum(bool(f.items) for c in plan.chains for f in c.stacktrace or []),
        })
        rows = (stored(plan, i, v.val, file) for i, v in enumerate(plan.values) if type(v.val).__name__ == "Tensor")
        tensors += [r for r in rows if r]
    named = []
    if file.named_data is not None:
        for key, entry in file.named_data.pte_data.items():
            b = bytes(file.named_data.buffers[entry.buffer_index])
            named.append({"key": key, "bytes": len(b)})
            blobs.append({"name": f"named/{key}", "bytes": len(b), "sha256": sha(b)})
    segments = [{"offset": base + s.offset, "size": s.size} for s in raw.segments]
    return {"version": str(p.version), "header": header.length if header else 0, "methods": methods, "tensors": tensors, "blobs": blobs,
            "segments": segments, "named_data": named}


def etrun(*args):
    p = subprocess.run([os.environ["ETRUN"], *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    text = p.stdout.decode("utf8", "surrogateescape")
    try:
        return json.loads(text)
    except ValueError:
        return {"error": f"exit status {p.returncode}"}


def runs(path, methods, ptds):
    data = [x for p in ptds for x in ("-d", p)]
    for m in methods:
        r = etrun("run", path, *data, "-m", m, "-n", "2")
        if "outputs_0" in r:
            r["outputs"], r["outputs_of_second_call"] = r.pop("outputs_0"), r.pop("outputs_1")
        yield {"method": m, **r}


def bundle(path):
    """A bundled program: the program inside, its place in the file, and the test cases, as the wheel's flatc prints them."""
    home = os.path.join(os.environ["ETWHEEL"], "executorch")
    with tempfile.TemporaryDirectory() as d:
        for f in "bundled_program_schema", "scalar_type":
            shutil.copy(os.path.join(home, "devtools/bundled_program/serialize", f + ".fbs"), d)
        shutil.copy(path, os.path.join(d, "b"))
        subprocess.run([os.path.join(home, "data/bin/flatc"), "--json", "--strict-json", "--defaults-json", "bundled_program_schema.fbs", "--", "b"], cwd=d, check=True)
        j = json.load(open(os.path.join(d, "b.json")))
    inner = bytes(j["program"])

    def value(v):
        x = v["val"]
        if v["val_type"] != "Tensor":
            return {"kind": v["val_type"], "value": next(iter(x.values()))}
        return {"kind": "Tensor", "dtype": SCALARS[x["scalar_type"]], "shape": x["sizes"], "sha256": sha(x["data"])}

    suites = [{"method": s["method_name"], "cases": [{"inputs": list(map(value, c["inputs"])), "outputs": list(map(value, c["expected_outputs"]))} for c in s["test_cases"]]}
              for s in j["method_test_suites"]]
    return inner, {"version": j["version"], "offset": open(path, "rb").read().index(inner), "size": len(inner), "suites": suites}


def expect(path, ptds=()):
    with tempfile.NamedTemporaryFile(suffix=".pte") as f:
        data, bundled = open(path, "rb").read(), None
        if data[4:8] == b"BP08":
            data, bundled = bundle(path)
            f.write(data)
            f.flush()
            path = f.name
        want = content(data)
        if bundled:
            want["bundle"] = bundled
            for s in want["segments"]:
                s["offset"] += bundled["offset"]
        return finish(want, path, ptds)


def finish(want, path, ptds):
    if ptds:
        want["data"] = [os.path.basename(p) for p in ptds]
    want["run"] = list(runs(path, [m["name"] for m in want["methods"]], ptds))
    return want


def pretty(want):
    """JSON with one element of each list a line."""
    line = lambda v: json.dumps(v, ensure_ascii=False)
    one = lambda v: "[\n  " + ",\n  ".join(map(line, v)) + "\n ]" if isinstance(v, list) and v else line(v)
    return "{\n" + ",\n".join(f" {line(k)}: {one(v)}" for k, v in want.items()) + "\n}\n"


if __name__ == "__main__":
    print(pretty(expect(sys.argv[1], sys.argv[2:])), end="")
