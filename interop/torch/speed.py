"""speed.py TENSORFILE DIR: processor time of listing a checkpoint of 100,000 tensors, by torch.load, mapped, and by the
command as a whole process. Imports of torch do not count, and other work on the machine counts little."""
import os, resource, subprocess, sys, time

import torch

program, path = sys.argv[1], os.path.join(sys.argv[2], "many.pt")
torch.save({f"layers.{i}.weight": torch.rand(2, 2) for i in range(100_000)}, path)


def ours():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, "ls", path], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def theirs(weights_only):
    start = time.process_time()
    torch.load(path, mmap=True, weights_only=weights_only)
    return time.process_time() - start


we = min(ours() for _ in range(3))
for what, weights_only in ("Python's pickle", False), ("weights_only", True):
    they = min(theirs(weights_only) for _ in range(2))
    print(f"torch {torch.__version__} with {what}: {they:.2f} s, ours {we:.2f}, {we / they:.2f} of it")
