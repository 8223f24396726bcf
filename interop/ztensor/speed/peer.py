"""peer.py VERB ARGUMENT...: the work of speed.sh by the safetensors package, where it has it: many, list, write; or, by it or by the ztensor
package, what `tensorfile ls` prints: names."""
import os, sys, time

verb, *args = sys.argv[1:]
if verb == "names":
    if args[0].endswith(".zt"):
        import ztensor

        f = ztensor.open(args[0])
        for name in f.keys():
            print(name, f[name].dtype, f[name].shape)
    else:
        from safetensors import safe_open

        with safe_open(args[0], "np") as f:
            for name in f.keys():
                t = f.get_slice(name)
                print(name, t.get_dtype(), t.get_shape())
    sys.exit()

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file


def best(work):
    wall, cpu = [], []
    for _ in range(3):
        a, b = time.perf_counter_ns(), time.process_time_ns()
        work()
        wall.append(time.perf_counter_ns() - a)
        cpu.append(time.process_time_ns() - b)
    print(min(wall), min(cpu))


def listing():
    with safe_open(args[0], "np") as f:
        assert sum(len(k) for k in f.keys()) > 0  # names alone: a shape costs a call each


def write():
    if os.path.exists(args[1]):
        os.remove(args[1])
    save_file(tensors, args[1])
    fd = os.open(args[1], os.O_RDONLY)
    os.fsync(fd)  # as the others do
    os.close(fd)


if verb == "many":
    save_file({f"model.layers.{i}.self_attn.q_proj.weight": np.full((16, 8), i, np.float32) for i in range(int(args[1]))}, args[0])
elif verb == "list":
    best(listing)
else:
    data, n = np.fromfile(args[0], np.uint16), int(args[2]) // 2
    tensors = {f"tensor {i:05}": data[i * n:(i + 1) * n] for i in range(len(data) // n)}
    best(write)
