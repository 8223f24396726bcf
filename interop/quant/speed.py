"""speed.py TENSORFILE DIR [TURNS]: how long conversions of quantised weights take, file to file, next to Python packages that do the same, and their ratio.

By hand only (interop/quant.sh --speed), on a quiet machine. Each row runs both sides in turn, TURNS times (3), and prints the medians, the ratio of the medians and
the peak memory of tensorfile. A row whose package is not installed is skipped, which it says. Packages write without fsync, tensorfile with: DIR is best a disk in memory.
"""
import json, math, os, statistics, subprocess, sys, time

import numpy as np

tensorfile, work = sys.argv[1], sys.argv[2]
turns = int(sys.argv[3]) if len(sys.argv) > 3 else 3
rng = np.random.default_rng(1)
SIDE = 4096


def store(name, tensors):
    """tensors: name, dtype, shape and bytes of each, written as safetensors."""
    header, at = {}, 0
    for key, dtype, shape, b in tensors:
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(b)]}
        at += len(b)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(name, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for *_, b in tensors:
            f.write(b)


def fp8():
    os.makedirs(f"{work}/fp8", exist_ok=True)
    codes = rng.integers(0, 256, SIDE * SIDE, np.uint8)
    codes[codes & 127 == 127] = 0
    codes = codes.tobytes()
    tensors = []
    for i in range(64):
        scales = (rng.random(SIDE * SIDE // 128**2, np.float32) * 0.01 + 0.001).tobytes()
        tensors += [(f"{i}.weight", "F8_E4M3", [SIDE, SIDE], codes), (f"{i}.weight_scale_inv", "F32", [SIDE // 128] * 2, scales)]
    store(f"{work}/fp8/model.safetensors", tensors)
    with open(f"{work}/fp8/config.json", "w") as f:
        json.dump({"torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}, f)


def plain(name, dtype, count):
    v = rng.standard_normal(SIDE * SIDE, np.float32) * 0.05
    b = v.tobytes() if dtype == "F32" else (v.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    store(f"{work}/{name}", [(f"{i}.weight", dtype, [SIDE, SIDE], b) for i in range(count)])


def floats(x):
    """float32 numbers of what safetensors.numpy loads, bfloat16 included."""
    return x if x.dtype == np.float32 else x.astype(np.float32)


def torch_fp8():
    import torch
    from safetensors.torch import load_file, save_file

    t, made = load_file(f"{work}/fp8/model.safetensors"), {}
    for name in [k for k in t if k.endswith(".weight")]:
        q, s = t[name].float().view(SIDE // 128, 128, SIDE // 128, 128), t[name + "_scale_inv"]
        made[name] = q.mul_(s[:, None, :, None]).view(SIDE, SIDE).to(torch.bfloat16)
    save_file(made, f"{work}/out.safetensors")


def gguf_read(kind):
    import gguf
    from safetensors.numpy import save_file

    save_file({t.name: gguf.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(f"{work}/{kind}.gguf").tensors}, f"{work}/out.safetensors")


def gguf_write(source, kind):
    import gguf
    import ml_dtypes  # safetensors.numpy has bfloat16 with it
    from safetensors import safe_open

    w = gguf.GGUFWriter(f"{work}/out.gguf", "llama")
    with safe_open(f"{work}/{source}", "np") as f:
        for name in f.keys():
            type = gguf.GGMLQuantizationType[kind]
            w.add_tensor(name, gguf.quantize(floats(f.get_tensor(name)), type), raw_dtype=type)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def run(*args):
    """Seconds, seconds of processors, and peak memory of tensorfile in a process of its own."""
    start, peak = time.monotonic(), 0
    p = subprocess.Popen([tensorfile, "convert", *args, "--force", "-q"])
    while True:
        pid, status, usage = os.wait4(p.pid, os.WNOHANG)
        if pid:
            break
        try:  # what the process has since exec: ru_maxrss has this program's memory too
            with open(f"/proc/{p.pid}/status") as f:
                peak = max([peak] + [int(line.split()[1]) for line in f if line.startswith("VmHWM")])
        except (OSError, ValueError):
            pass
        time.sleep(0.005)
    if status:
        sys.exit(f"tensorfile {args}: {status}")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, peak


def reference(name, *args):
    """Seconds and seconds of processors of a function in a process of its own, imports excluded; None where a package is not there."""
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        try:
            globals()[name](*args)
            os._exit(0)
        except ImportError as e:
            print(f"skip: {name}: {e}", flush=True)
            os._exit(9)
        except BaseException as e:
            print(f"{name}: {e!r}", flush=True)
            os._exit(1)
    _, status, usage = os.wait4(pid, 0)
    status = os.waitstatus_to_exitcode(status)
    if status not in (0, 9):
        sys.exit(1)
    return None if status else (time.monotonic() - start, usage.ru_utime + usage.ru_stime)


def row(what, ours, name, *args):
    if reference(name, *args) is None:  # also what fills the page cache
        return
    both = [(*run(*ours), *reference(name, *args)) for _ in range(turns)]
    a, a_cpu, _, b, b_cpu = (statistics.median(p) for p in zip(*both))
    peak = max(p[2] for p in both)
    print(f"{what}: {a:.2f} s ({a_cpu:.2f} s of processors, peak {peak / 1024:.0f} MiB), {name} {b:.2f} s ({b_cpu:.2f} s), ratio {a / b:.2f}", flush=True)


for module in ("torch", "safetensors", "safetensors.torch", "safetensors.numpy", "gguf", "ml_dtypes"):  # imported once, before forks
    try:
        __import__(module)
    except ImportError:
        pass

fp8()
row("dequantise 1 GiB of FP8 to bfloat16", (f"{work}/fp8", f"{work}/out.safetensors", "--dequantize=bfloat16"), "torch_fp8")
plain("f32.safetensors", "F32", 4)
plain("bf16.safetensors", "BF16", 4)
for kind in ("Q8_0", "Q4_0"):
    for source in ("f32", "bf16"):
        dtype = {"f32": "float32", "bf16": "bfloat16"}[source]
        row(f"quantise {dtype} to {kind}, 64 M elements", (f"{work}/{source}.safetensors", f"{work}/{kind}.gguf", "--dtype", f"{dtype}={kind}", "--allow", "all"),
            "gguf_write", f"{source}.safetensors", kind)
    row(f"dequantise {kind} to float32, 64 M elements", (f"{work}/{kind}.gguf", f"{work}/out.safetensors", "--dequantize"), "gguf_read", kind)
