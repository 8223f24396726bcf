"""elements.py TENSORFILE DIR MIB: the proofs of elements.sh."""
import json, math, os, subprocess, sys, time
import ml_dtypes, numpy as np
from safetensors.numpy import load_file, save_file

program, work, mib = sys.argv[1], sys.argv[2], int(sys.argv[3])
passed = failed = 0


def proves(what, ok, detail=""):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print("FAIL:", what, detail)


def run(*args, status=0):
    got = subprocess.run([program, *args], capture_output=True, text=True)
    if got.returncode != status:
        sys.exit(f"{args}: exit status {got.returncode}: {got.stderr}")
    return got.stdout


def value(v):
    return float(v["$float"]) if isinstance(v, dict) else v


def near(a, b, scale=0.0):
    a, b = float(value(a)), float(b)
    return a == b or math.isnan(a) and math.isnan(b) or abs(a - b) <= 1e-9 * max(abs(a), abs(b), scale)


def path(name):
    return os.path.join(work, name)


def write(name, x):
    """safetensors files by hand, since its numpy package lacks some dtypes."""
    names = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
             "float8_e5m2": "F8_E5M2", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8",
             "uint16": "U16", "uint32": "U32", "uint64": "U64", "bool": "BOOL"}
    head = json.dumps({"w": {"dtype": names[str(x.dtype)], "shape": list(x.shape), "data_offsets": [0, x.nbytes]}}).encode()
    head += b" " * (-len(head) % 8)
    with open(path(name), "wb") as f:
        f.write(len(head).to_bytes(8, "little") + head)
        f.write(x.tobytes())
    return path(name)


def figures(x):
    wide = x.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    out = {"count": x.size, "zeros": int((wide == 0).sum()), "nan": int(np.isnan(wide).sum()), "inf": int(np.isinf(wide).sum())}
    out["mean"], out["std"], out["min"], out["max"] = finite.mean(), finite.std(), finite.min(), finite.max()
    out["counts"] = np.histogram(finite, 10)[0]
    return out


def differences(a, b, tolerance):
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        away = np.abs(x - y)
        same = (away <= tolerance) | (x == y) | (np.isnan(x) & np.isnan(y))
        both = np.isfinite(x) & np.isfinite(y)
    found = {"different": int((~same).sum()), "not_finite": int((~same & ~both).sum()), "largest": float(away[~np.isnan(away)].max())}
    x, y = x[both], y[both]
    d = y - x
    found |= {"mean": d.mean(), "rms": np.sqrt((d * d).mean()), "relative_rms": np.sqrt((d * d).sum() / (x * x).sum()),
              "cosine": (x * y).sum() / np.sqrt((x * x).sum()) / np.sqrt((y * y).sum())}
    return found


def check_figures():
    rng = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    floats = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
    integers = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
    for dtype in floats + integers:
        n = int(rng.integers(300_000, 600_000))
        if dtype in floats:
            a = rng.normal(0, 0.05, n).astype(dtype)
            b = (a.astype(np.float64) + rng.normal(0, 0.01, n)).astype(dtype)
            a[:3], b[1:4] = [0, float("nan"), float("inf")] if dtype != ml_dtypes.float8_e4m3fn else [0, float("nan"), 1], [1, 2, float("nan")]
            tolerance = 0.01
        else:
            bits = 8 * np.dtype(dtype).itemsize
            a = rng.integers(0, 1 << min(bits - 1, 52), n).astype(dtype)
            b = (a + rng.integers(0, 2, n).astype(dtype)).astype(dtype)
            tolerance = 0.5
        want, got = figures(a), json.loads(run("stats", "--json", write("a.safetensors", a)))["tensors"][0]
        for key in ["count", "zeros", "nan", "inf", "min", "max", "std"]:
            ok = near(got[key], want[key])
            if key in ("min", "max") and dtype in floats and dtype != np.float64:
                ok = np.float32(got[key]) == np.float32(want[key])  # shown with the digits of float32
            proves(f"{key} of {np.dtype(dtype)}", ok, f"{got[key]}, numpy {want[key]}")
        proves(f"mean of {np.dtype(dtype)}", near(got["mean"], want["mean"], want["std"]), f"{got['mean']}, numpy {want['mean']}")
        off = np.abs(np.array(got["histogram"]["counts"]) - want["counts"]).sum()
        proves(f"histogram of {np.dtype(dtype)}", off == 0, f"{got['histogram']['counts']}, numpy {want['counts']}")
        compare(a, b, tolerance)
        if dtype in floats:  # NaN and infinities on both sides are no difference
            b[:4] = a[:4]
            compare(a, b, tolerance)


def compare(a, b, tolerance):
    x, y = write("a.safetensors", a), write("b.safetensors", b)
    want = differences(a, b, tolerance)
    got = json.loads(run("diff", "--json", "--stat", "--tolerance", str(tolerance), x, y, status=1))["differences"][0]
    what = f"{a.dtype}, {want['not_finite']} of them not finite"
    for key in ["different", "not_finite", "largest", "rms", "relative_rms", "cosine"]:
        proves(f"{key} of two {what}", near(got.get(key, 0), want[key]), f"{got.get(key)}, numpy {want[key]}")
    proves(f"mean of two {what}", near(got["mean"], want["mean"], want["rms"]), f"{got['mean']}, numpy {want['mean']}")


def timed(f):
    """Returns the time on the clock, and the time of processors, in this process and its children."""
    def processors():
        return sum(os.times()[:4])
    start, used = time.perf_counter(), processors()
    f()
    return time.perf_counter() - start, processors() - used


def show_speed():
    """Both sides read the files, which are in the page cache."""
    n = mib << 19
    rng = np.random.default_rng(1)
    a = rng.standard_normal(n, dtype=np.float32)
    b = (a + np.float32(0.01)).astype(ml_dtypes.bfloat16)
    a = a.astype(ml_dtypes.bfloat16)
    x, y = write("a.safetensors", a), write("b.safetensors", b)

    def numpy_stats():
        v = load_file(x)["w"].astype(np.float32)
        ok = np.isfinite(v)
        v.min(), v.max(), v.mean(dtype=np.float64), v.std(dtype=np.float64), (v == 0).sum(), np.isnan(v).sum(), (~ok).sum(), np.histogram(v, 10)

    def numpy_diff():
        away = np.abs(load_file(x)["w"].astype(np.float32) - load_file(y)["w"].astype(np.float32))
        (away > 1e-3).sum(), away.max()

    def numpy_convert(to):
        def convert():
            v = load_file(x)["w"]
            save_file({"w": v.astype(np.float32).astype(to)}, path("numpy.safetensors"))
        return convert

    rows = [("stats", numpy_stats, ["stats", x], 0), ("diff --tolerance", numpy_diff, ["diff", "--tolerance", "1e-3", x, y], 1),
            ("diff --tolerance --stat", numpy_diff, ["diff", "--tolerance", "1e-3", "--stat", x, y], 1)]
    for name, to in [("float16", np.float16), ("float32", np.float32)]:
        rows.append((f"convert --dtype bfloat16={name}", numpy_convert(to),
                     ["convert", "--force", "--dtype", f"bfloat16={name}", x, path("ours.safetensors")], 0))
    for what, theirs, args, status in rows:
        seconds = [(timed(lambda: run(*args, status=status)), timed(theirs)) for _ in range(3)]
        (ours, used), (numpy, numpy_used) = (min(s[i] for s in seconds) for i in (0, 1))
        print(f"{what:32} {ours:6.2f} s, numpy {numpy:6.2f} s, ratio {ours / numpy:.2f}; processor time {used:.2f} and "
              f"{numpy_used:.2f} s, {used * 1e9 / n:.2f} ns an element")


check_figures()
if mib > 0:
    show_speed()
print(f"interop elements: {passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
