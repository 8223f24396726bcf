"""Run every command on files of ten times as many tensors, and compare processor times."""
import json
import os
import shutil
import subprocess
import sys

tool, work, decades = sys.argv[1], sys.argv[2], int(sys.argv[3])

NAMES = {
    "plain": lambda i: f"t{i}",
    "long": lambda i: f"{i:07d}" + "n" * 200,
    "shared prefix": lambda i: "p" * 200 + f"{i:07d}",
    "deep": lambda i: ".".join(["part"] * 35 + [str(i)]),
    "deep, different": lambda i: ".".join([f"{i % 10}", f"{i}"] + [f"d{k}" for k in range(34)]),
}

# What a command may do to every name: IN is a safetensors file, ZT, PTD, NPZ, RTEN and PRIMITIV are made of it.
COMMANDS = """ls IN
ls IN --fold
info IN
detect IN
hash IN
stats IN
verify IN
du IN
diff IN IN
diff IN ZT
convert IN OUT --to ztensor@1.2 --force
convert IN OUT --to ztensor@2 --force
convert IN OUT --to ptd --force
convert IN OUT --to npz --force
convert IN OUT --to rten --force
convert IN OUT --to primitiv --force --allow all
convert ZT OUT --to safetensors --force
edit IN OUT --rename *=x* --force
edit ZT OUT --rename *=x* --force
edit PTD OUT --rename *=x* --force
edit NPZ OUT --rename *=x* --force
edit RTEN OUT --rename *=x* --force
edit PRIMITIV OUT --rename *=x* --force
edit RTEN OUT --drop *1* --force
verify ZT
verify PTD
verify NPZ
verify RTEN
verify PRIMITIV
split IN -o DIR --max 100MB --force
split ZT -o DIR --max 100MB --force
report IN -o PAGE --force
merge IN OTHER OUT --to ztensor@1.2 --force --allow all
extract IN -o DIR""".split("\n")


def write(path, n, name, prefix=""):
    header = {prefix + name(i): {"dtype": "F32", "shape": [2, 1], "data_offsets": [8 * i, 8 * i + 8]} for i in range(n)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + bytes(8 * n))


def spent(args):
    """Processor seconds of one run."""
    process = subprocess.Popen([tool, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    text = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(args)[:300]}: exit status {process.returncode}: {text.decode(errors='replace')[-500:]}")
    return usage.ru_utime + usage.ru_stime


FLOOR = 0.2  # seconds: what starting the program and noise may be
passed = failed = 0
for kind, name in NAMES.items():
    before = {}
    for decade in range(decades + 1):
        n = 1000 * 10**decade
        files = {k: os.path.join(work, k.lower()) for k in ("IN", "OTHER", "ZT", "PTD", "NPZ", "RTEN", "PRIMITIV", "OUT", "DIR")}
        files["PAGE"] = os.path.join(work, "page.html")
        write(files["IN"], n, name)
        write(files["OTHER"], n, name, "o")
        for k, to in (("ZT", "ztensor@1.2"), ("PTD", "ptd"), ("NPZ", "npz"), ("RTEN", "rten"), ("PRIMITIV", "primitiv")):
            spent(["convert", files["IN"], files[k], "--to", to, "--allow", "all", "--force"])
        for command in COMMANDS:
            words = command.split(" ")
            shutil.rmtree(files["DIR"], ignore_errors=True)
            words = [files.get(w, w) for w in words]
            seconds = spent(words)
            if command in before:
                for _ in range(2):  # what else runs on the machine only adds to it
                    if seconds >= 15 * max(before[command], FLOOR):
                        shutil.rmtree(files["DIR"], ignore_errors=True)
                        seconds = min(seconds, spent(words))
                ratio = seconds / max(before[command], FLOOR)
                if ratio < 15:
                    passed += 1
                else:
                    failed += 1
                    print(f"FAIL: {kind} names: {command}: {before[command]:.2f} s, and of {n} tensors {seconds:.2f} s")
            before[command] = seconds
    slowest = max(before, key=before.get)
    print(f"{kind} names, {n} tensors: the slowest is {slowest}, {before[slowest]:.2f} s", flush=True)
print(f"interop growth: {passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
