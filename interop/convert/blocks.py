"""blocks.py SOURCE DENSE Q8_0: whether DENSE has the values that the gguf package decodes from the blocks of SOURCE, and Q8_0 the blocks
that it makes of tensors of DENSE."""
import sys

import numpy as np
from gguf import GGUFReader, GGMLQuantizationType as Q, dequantize, quantize

source, dense, blocks = ({t.name: t for t in GGUFReader(p).tensors} for p in sys.argv[1:])
assert list(source) == list(dense) and blocks
for name, t in source.items():
    want = dequantize(t.data, t.tensor_type)
    got = dense[name].data
    assert dense[name].tensor_type == Q.F32 and np.array_equal(np.asarray(got), want, equal_nan=True), name
    if name in blocks:
        assert blocks[name].tensor_type == Q.Q8_0, name
        assert np.array_equal(blocks[name].data, quantize(np.asarray(got), Q.Q8_0)), name
print(f"  {len(source)} tensors")
