"""Run every command on files of ten times as many tensors, and compare processor times."""
import collections
import io
import json
import os
import pickle
import re
import shutil
import struct
import subprocess
import sys
import types
import zipfile

tool, work, decades, full = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] != ""

NAMES = {
    "plain": lambda i: f"t{i}",
    "long": lambda i: f"{i:07d}" + "n" * 200,
    "shared prefix": lambda i: "p" * 200 + f"{i:07d}",
    "deep": lambda i: ".".join(["part"] * 35 + [str(i)] if i % 2 else [str(i % 10), str(i)] + [f"d{k}" for k in range(34)]),
}

# The commands for every name: IN is a safetensors file, ZT, ZT2, PTD, NPZ, RTEN and PRIMITIV are made of it by the first
# commands, MODEL is it in shards, and LEFT is what a killed writer of as many shards has left. NAME is the last name.
COMMANDS = """convert IN ZT --to ztensor@1.0 --force
convert IN ZT2 --to ztensor@2 --force
convert IN PTD --to ptd --force
convert IN NPZ --to npz --force
convert IN RTEN --to rten --force --allow all
convert IN PRIMITIV --to primitiv --force --allow all
ls IN
ls IN --fold
info IN
detect IN
hash IN
hash IN --content
stats IN --sort -std
cat IN NAME
verify IN
du IN
du IN --depth 2
graph RTEN --max-nodes 1000000000
check MODEL
check MODEL --deep --values
info MODEL
ls TORCH
ls GGUF
verify TORCH
verify GGUF
convert TORCH OUT --to safetensors --force --allow all
convert GGUF OUT --to npz --force --allow all
extract TORCH -o DIR
diff IN IN
diff IN ZT
diff IN ZT2 --stat --top 3
convert IN OUT --to gguf --force --allow all
convert ZT OUT --to safetensors --force
edit IN OUT --rename *=x* --force
edit ZT OUT --rename *=x* --force
edit PTD OUT --rename *=x* --force
edit NPZ OUT --rename *=x* --force
edit RTEN OUT --rename *=x* --force
edit PRIMITIV OUT --rename *=x* --force
edit RTEN OUT --drop *1* --force
verify ZT
verify ZT2 --depth canonical
edit ZT2 OUT --rename *=x* --force
recover ZT2
clean LEFT
clean LEFT --yes
verify PTD
verify NPZ
verify RTEN
verify PRIMITIV
split IN -o DIR --max 100MB --force
split GGUF -o DIR --max 100MB --force
split ZT -o DIR --max 100MB --force
report IN -o PAGE --force
merge IN OTHER OUT --to ztensor@1.0 --force --allow all
extract IN -o DIR""".split("\n")
FILES = ("IN", "OTHER", "ZT", "ZT2", "PTD", "NPZ", "RTEN", "PRIMITIV", "GGUF", "TORCH", "MODEL", "LEFT", "OUT", "DIR")
NO_FILE = {"completion", "help", "man", "version", "view"}  # view serves what report has, and does not end


def write(path, n, name, prefix=""):
    header = {prefix + name(i): {"dtype": "F32", "shape": [2, 1], "data_offsets": [8 * i, 8 * i + 8]} for i in range(n)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + bytes(8 * n))


def write_gguf(path, names):
    b = [b"GGUF", struct.pack("<IQQ", 3, len(names), 0)]
    for i, name in enumerate(names):
        name = f"{name}.{i}"[-63:].encode()  # more is not written
        b += [struct.pack("<Q", len(name)), name, struct.pack("<IQQIQ", 2, 1, 2, 0, 32 * i)]
    b = b"".join(b)
    with open(path, "wb") as f:
        f.write(b + bytes(-len(b) % 32) + bytes(32 * len(names)))


torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
sys.modules.update({"torch": torch, "torch._utils": utils})
torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})
exec("def _rebuild_tensor_v2(*a): pass", utils.__dict__)


class Storage:
    def __init__(self, key):
        self.key = str(key)


class Tensor:
    def __init__(self, key):
        self.storage = Storage(key)

    def __reduce__(self):
        return utils._rebuild_tensor_v2, (self.storage, 0, (2, 1), (1, 1), False, collections.OrderedDict())


class Pickler(pickle.Pickler):
    def persistent_id(self, x):
        return ("storage", torch.FloatStorage, x.key, "cpu", 2) if isinstance(x, Storage) else None


def write_torch(path, names):
    """The file that torch.save writes of a dict of tensors, without torch."""
    b = io.BytesIO()
    Pickler(b, protocol=2).dump({name: Tensor(i) for i, name in enumerate(names)})
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("x/data.pkl", b.getvalue())
        z.writestr("x/version", "3\n")
        for i in range(len(names)):
            z.writestr(f"x/data/{i}", bytes(8))


def write_left(path, n):
    """A journal of n renames, and the temporary files that it names."""
    shutil.rmtree(path, ignore_errors=True)
    os.mkdir(path)
    lines = ["tensorfile journal 1", 'index "x.zt"']
    for name in [f"x-{i + 1:05d}.zt" for i in range(n)] + ["x.zt"]:
        temp = f".{name}.tensorfile-tmp-0000000000001"
        open(os.path.join(path, temp), "w").close()
        lines.append(f'rename "{temp}" "{name}" 0')
    with open(os.path.join(path, ".x.zt.tensorfile-journal"), "w") as f:
        f.write("\n".join(lines + ["end", ""]))


def spent(args):
    """Processor seconds of one run."""
    process = subprocess.Popen([tool, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    text = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(args)[:300]}: exit status {process.returncode}: {text.decode(errors='replace')[-500:]}")
    return usage.ru_utime + usage.ru_stime


help = subprocess.run([tool, "--help"], check=True, capture_output=True, text=True).stdout
missing = set(re.findall(r"^  (\w+) {2,}\S", help, re.M)) - NO_FILE - {c.split()[0] for c in COMMANDS}
if missing:
    sys.exit(f"commands that are not measured: {sorted(missing)}")

LIMIT = 15
# Seconds: what starting the program and noise may be, on a machine of any speed.
FLOOR = max(0.2, 15 * min(spent(["version"]) for _ in range(5)))


def make(work, kind, n):
    """The files that the commands have, of n tensors, by the words of COMMANDS."""
    name, files = NAMES[kind], {k: os.path.join(work, k.lower()) for k in FILES}
    files["NAME"], files["PAGE"] = name(n - 1), os.path.join(work, "page.html")
    write(files["IN"], n, name)
    write(files["OTHER"], n, name, "o")
    names = [name(i) for i in range(n)]
    write_gguf(files["GGUF"], names)
    write_torch(files["TORCH"], names)
    spent(["split", files["IN"], "-o", files["MODEL"], "--max", str(8 * n // 50), "--name", "model"])
    return files


def seconds(command, n, files):
    """Processor seconds of a command on n tensors."""
    words = command.split(" ")
    if words[0] == "clean" and not os.path.exists(os.path.join(files["LEFT"], ".x.zt.tensorfile-journal")):
        write_left(files["LEFT"], n)
    shutil.rmtree(files["DIR"], ignore_errors=True)
    return spent([files.get(w, w) for w in words])


passed = failed = 0
for kind in NAMES if full else ["plain", "shared prefix"]:
    small = before = None
    for n in [1000 * 10**decade for decade in range(decades + 1)] if full else [6000, 60000] if kind == "plain" else [3000, 30000]:
        top = os.path.join(work, str(n))
        os.mkdir(top)
        files, now = make(top, kind, n), {}
        for command in COMMANDS:
            if command.startswith("clean ") and kind != "plain":  # LEFT has the same names for all
                continue
            now[command] = seconds(command, n, files)
            if before is None:
                continue
            ratio = now[command] / max(before[command], FLOOR)
            # Other work on the machine slows the processor by its caches, for one of the two runs perhaps: ratios of runs that
            # follow each other decide, the smallest of six, since noise only ever adds.
            for _ in range(5):
                if ratio < LIMIT:
                    break
                first = seconds(command, n // 10, small)
                ratio = min(ratio, seconds(command, n, files) / max(first, FLOOR))
            if ratio < LIMIT:
                passed += 1
            else:
                failed += 1
                print(f"FAIL: {kind} names: {command}: {before[command]:.2f} s, and of {n} tensors {now[command]:.2f} s, {ratio:.1f} times at best")
        if small:
            shutil.rmtree(os.path.dirname(small["IN"]))
        small, before = files, now
    shutil.rmtree(top)
    slowest = max(now, key=now.get)
    print(f"{kind} names, {n} tensors: the slowest is {slowest}, {now[slowest]:.2f} s", flush=True)
print(f"interop growth: {passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
