"""speed.py TEST: processor time of decoding quantised blocks, by gguf.dequantize and by ours, in nanoseconds an
element. TEST is the test program of gguf. Time is the process's, not the clock's: other work on the machine counts little."""
import os, resource, subprocess, sys, tempfile, time

import numpy as np
from gguf import GGUFWriter, GGMLQuantizationType as Q, GGML_QUANT_SIZES, dequantize

ROWS, COLUMNS, ROUNDS = 1024, 4096, 10


def ours(test, path, rounds):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([test, "-test.run", "^TestDecodeRounds$", "-test.count=1"], check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, TENSORFILE_GGUF_ROUNDS=f"{rounds} {path}"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


with tempfile.TemporaryDirectory() as work:
    for q in (Q.Q4_0, Q.Q4_K, Q.Q6_K, Q.Q8_0):
        elements, size = GGML_QUANT_SIZES[q]
        blocks = np.random.default_rng(1).integers(0, 60, (ROWS, COLUMNS // elements * size), dtype=np.uint8)  # scales are finite
        path = os.path.join(work, q.name)
        w = GGUFWriter(path, "speed")
        w.add_tensor("w", blocks, raw_dtype=q)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        start = time.process_time()
        for _ in range(ROUNDS):
            dequantize(blocks, q)
        theirs = (time.process_time() - start) / ROUNDS
        we = min(ours(sys.argv[1], path, 1 + 10 * ROUNDS) - ours(sys.argv[1], path, 1) for _ in range(3)) / (10 * ROUNDS)
        n = ROWS * COLUMNS
        print(f"{q.name}: gguf {theirs / n * 1e9:.2f} ns an element, ours {we / n * 1e9:.2f}, {we / theirs:.2f} of it", flush=True)
