"""fresh.py DIR SEED: random quantised weights of random sizes, and what mlx, gguf and onnxruntime decode them to, or numpy and ml_dtypes by the formula that
the documents of a scheme give. The files are named as make.py names them."""
import hashlib, json, math, sys

import gguf
import ml_dtypes
import mlx.core as mx
import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import save_file

out, seed = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(seed)
mx.random.seed(seed)
E4M3, BF16, E8M0 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, ml_dtypes.float8_e8m0fnu
E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6], np.float32)
expected = {}
CT = {"quant_method": "compressed-tensors"}


def write(name, weights, tensors=None, config=None, metadata=None, **more):
    if tensors is not None:
        save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, f"{out}/{name}.safetensors", metadata)
    if config is not None:
        json.dump(config, open(f"{out}/{name}.json", "w"))
    expected[name] = {w: {"scheme": scheme, "shape": list(v.shape), "float32": hashlib.sha256(np.ascontiguousarray(v, np.float32).tobytes()).hexdigest(),
                          "bfloat16": hashlib.sha256(np.ascontiguousarray(v.astype(BF16)).tobytes()).hexdigest()} | more for w, (scheme, v) in weights.items()}


def size(most, multiple=1):
    return int(rng.integers(1, most // multiple + 1)) * multiple


def floats(*shape, dtype=np.float32):
    return (rng.random(shape, np.float32) * 0.02 + 0.001).astype(dtype)


def codes(*shape):
    return rng.integers(0, 256, shape, np.uint8)


def fp8(*shape):
    b = codes(*shape)
    b[b & 127 == 127] = 0
    return b.view(E4M3)


def exponents(*shape):
    return rng.integers(105, 150, shape, np.uint8)


def powers(e):
    return np.ldexp(np.float32(1), e.astype(np.int32) - 127).astype(np.float32)


def wide(grid, rows, cols, bm, bn):
    return grid.astype(np.float32).repeat(bm, -2)[..., :rows, :].repeat(bn, -1)[..., :cols]


def nibbles(b, high=False):
    pair = (b >> 4, b & 15) if high else (b & 15, b >> 4)
    return np.stack(pair, -1).reshape(*b.shape[:-1], -1)


def stream(bits, n, b):  # codes of b bits from the bits of a row
    return (bits[..., :n * b].reshape(*bits.shape[:-1], n, b).astype(np.int64) << np.arange(b)).sum(-1)


def row_bits(words):
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1, bitorder="little")


def words(*shape):
    return rng.integers(0, 1 << 32, shape, np.uint32).view(np.int32)


# FP8 and integers: onnxruntime's DequantizeLinear, with a scale for the tensor, a row or a block of columns
def onnxruntime_decodes(q, scale, zero=None, **attributes):
    kind = {np.dtype(E4M3): onnx.TensorProto.FLOAT8E4M3FN, np.dtype(np.int8): onnx.TensorProto.INT8}[q.dtype]
    h = onnx.helper
    names = ["q", "s"] + (["z"] if zero is not None else [])
    inits = [h.make_tensor("q", kind, q.shape, q.tobytes(), raw=True), h.make_tensor("s", onnx.TensorProto.FLOAT, scale.shape, scale.tobytes(), raw=True)]
    if zero is not None:
        inits.append(h.make_tensor("z", kind, zero.shape, zero.tobytes(), raw=True))
    graph = h.make_graph([h.make_node("DequantizeLinear", names, ["y"], **attributes)], "g", [], [h.make_tensor_value_info("y", onnx.TensorProto.FLOAT, q.shape)], inits)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, {})[0]


n, k = size(200), size(300)
q, s = fp8(n, k), floats(n)
write("ort-fp8-channel", {"m.weight": ("fp8-channel", onnxruntime_decodes(q, s, axis=0))}, {"m.weight": q, "m.weight_scale": s.reshape(n, 1)})
s = floats(1)[0:1].reshape(())
write("ort-fp8-tensor", {"m.weight": ("fp8-tensor", onnxruntime_decodes(q, s))}, {"m.weight": q, "m.weight_scale": s})
g = size(40)
k = g * size(8)
q, s, z = codes(n, k).view(np.int8), floats(n, k // g), codes(n, k // g).view(np.int8)
c = {"quantization_config": CT | {"format": "int-quantized", "config_groups": {"g": {"targets": ["Linear"], "weights": {
    "num_bits": 8, "type": "int", "symmetric": False, "strategy": "group", "group_size": g}}}}}
write("ort-int8-group", {"m.weight": ("int8-group", onnxruntime_decodes(q, s, z, axis=1, block_size=g))}, {"m.weight": q, "m.weight_scale": s, "m.weight_zero_point": z}, c)

# MLX
for mode, bits, group in [("affine", b, g) for b in (2, 3, 4, 5, 6, 8) for g in (32, 64, 128)] + [("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)]:
    lead = (size(3),) if rng.random() < .3 else ()
    a = mx.random.normal((*lead, size(40), max(group, 32) * size(6))) * 0.05  # nvfp4 of mlx requires columns in 32
    parts = mx.quantize(a, group_size=group, bits=bits, mode=mode)
    full = np.array(mx.dequantize(*parts, group_size=group, bits=bits, mode=mode, dtype=mx.float32))
    name = f"mlx-{mode}-{bits}-{group}"
    mx.save_safetensors(f"{out}/{name}.safetensors", {f"m.{p}": v for p, v in zip(("weight", "scales", "biases"), parts)}, {"format": "mlx"})
    write(name, {"m.weight": ("mlx-affine" if mode == "affine" else mode, full)}, None, {"quantization": {"group_size": group, "bits": bits, "mode": mode}})

# blocks of the gguf package with a scale
t = gguf.GGUFWriter(f"{out}/gguf.gguf", "llama")
raw = codes(size(20), 36 * size(4))
raw.reshape(-1, 36)[:, :4] &= 0x77  # no NaN
raw.reshape(-1, 36)[:, :4] |= 8
scale = floats(1)
t.add_tensor("blk.0.ffn_up.weight", raw, raw_dtype=gguf.GGMLQuantizationType.NVFP4)
t.add_tensor("blk.0.ffn_up.scale", scale)
t.write_header_to_file(), t.write_kv_data_to_file(), t.write_tensors_to_file(), t.close()
write("gguf", {"blk.0.ffn_up.weight": ("nvfp4", gguf.dequantize(raw, gguf.GGMLQuantizationType.NVFP4) * scale[0])})

# numpy: FP8 in blocks, also experts and E8M0
for i, dtype in enumerate((np.float32, BF16, E8M0)):
    n, k, bm, bn, lead = size(300), size(300), size(150), size(150), (size(3),) if i == 0 else ()
    q = fp8(*lead, n, k)
    shape = (*lead, math.ceil(n / bm), math.ceil(k / bn))
    s = exponents(*shape).view(E8M0) if dtype == E8M0 else floats(*shape, dtype=dtype)
    base = "x" if lead else "m.weight"
    write(f"fp8-block-{i}", {base: ("fp8-block", q.astype(np.float32) * wide(s, n, k, bm, bn))}, {base: q, base + "_scale_inv": s},
          {"quantization_config": {"quant_method": "fp8", "weight_block_size": [bm, bn]}})

# NVFP4 and MX
n, k = size(300), size(320, 32)
q, s, s2 = codes(n, k // 2), fp8(n, k // 16), floats(1)
value = E2M1[nibbles(q)]
write("nvfp4-modelopt", {"m.weight": ("nvfp4", value * wide(s.astype(np.float32) * s2[0], n, k, 1, 16))}, {"m.weight": q, "m.weight_scale": s, "m.weight_scale_2": s2.reshape(())})
write("nvfp4-ct", {"m.weight": ("nvfp4", value * wide(s.astype(np.float32) / s2[0], n, k, 1, 16))}, {"m.weight_packed": q, "m.weight_scale": s, "m.weight_global_scale": s2})
rows, cols = -(-n // 128) * 128, -(-(k // 16) // 4) * 4
swizzled = fp8(rows, cols)
r, b = np.meshgrid(np.arange(n), np.arange(k // 16), indexing="ij")
plain = swizzled.reshape(-1)[(r // 128 * (cols // 4) + b // 4) * 512 + r % 32 * 16 + r % 128 // 32 * 4 + b % 4]
write("nvfp4-comfy", {"m.weight": ("nvfp4", E2M1[nibbles(q, True)] * wide(s2[0] * plain.astype(np.float32), n, k, 1, 16))},
      {"m.weight": q, "m.weight_scale": swizzled, "m.weight_scale_2": s2.reshape(()), "m.comfy_quant": np.frombuffer(b'{"format": "nvfp4"}', np.uint8)})
e = exponents(n, k // 32)
write("mxfp4-ct", {"m.weight": ("mxfp4", value * wide(powers(e), n, k, 1, 32))}, {"m.weight_packed": q, "m.weight_scale": e})
write("mxfp4-v4", {"m.weight": ("mxfp4", value * wide(powers(e), n, k, 1, 32))}, {"m.weight": q.view(np.int8), "m.scale": e.view(E8M0)})
f = fp8(n, k)
write("mxfp8-ct", {"m.weight": ("mxfp8", f.astype(np.float32) * wide(powers(e), n, k, 1, 32))}, {"m.weight": f, "m.weight_scale": e})
p = codes(n, 3 * k // 4)
u = stream(row_bits(p), k, 6)
m, x = (u & 7) / 8, u >> 3 & 3
v = np.where(x > 0, (1 + m) * 2.0 ** (x - 1), m) * np.where(u & 32, -1, 1)
write("mxfp6-ct", {"m.weight": ("mxfp6", v.astype(np.float32) * wide(powers(e), n, k, 1, 32))}, {"m.weight_packed": p, "m.weight_scale": e})
x, xs = codes(3, n, k // 32, 16), exponents(3, n, k // 32)
v = E2M1[nibbles(x)] * powers(xs)[..., None]
write("gpt-oss", {"x": ("mxfp4", v.reshape(3, n, k).transpose(0, 2, 1))}, {"x_blocks": x, "x_scales": xs})

# integers of compressed-tensors, in a stream or in words, with zero points and groups by index
for b in range(1, 9):
    for old in (False, True):
        g, n = size(24), size(40)
        k, per = g * size(6), 32 // b
        w = -(-k // per) if old else -(-k * b // 32)
        q, s = words(n, w), floats(n, k // g, dtype=(np.float32, BF16)[b % 2])
        h = -(-n // per) if old else -(-n * b // 32)
        z, index = words(h, k // g), rng.integers(0, k // g, k, np.int32)

        def unpack(words, count):
            if not old:
                return stream(row_bits(words), count, b)
            return stream(row_bits(words.reshape(*words.shape, 1)), per, b).reshape(words.shape[0], -1)[:, :count]

        if not old or w != -(-k * b // 32) or per * b == 32:
            zero = unpack(np.ascontiguousarray(z.T), n).T
            v = (unpack(q, k) - zero[:, index]).astype(np.float32) * s.astype(np.float32)[:, index]
            c = {"quantization_config": CT | {"format": "pack-quantized", "config_groups": {"g": {"targets": ["Linear"], "weights": {
                "num_bits": b, "type": "int", "symmetric": False, "strategy": "group", "group_size": g}}}}}
            write(f"int{b}-{'old' if old else 'new'}", {"m.weight": (f"int{b}-group", v)}, {"m.weight_packed": q, "m.weight_scale": s, "m.weight_zero_point": z,
                  "m.weight_shape": np.array([n, k]), "m.weight_g_idx": index}, c)

# GPTQ of both versions, AWQ
for b in (2, 3, 4, 8):
    for version, plus in (("gptq", 1), ("gptq_v2", 0)):
        n, k, g = size(128, 32), size(128, 32), 32
        q, z, s = words(k * b // 32, n), words(k // g, n * b // 32), floats(k // g, n, dtype=np.float16)
        index = rng.permutation(np.arange(k, dtype=np.int32) // g)
        u = stream(row_bits(np.ascontiguousarray(q.T)), k, b)
        zero = stream(row_bits(z), n, b) + plus
        v = s.astype(np.float32)[index].T * (u - zero[index].T).astype(np.float32)
        write(f"{version}-{b}", {"m.weight": ("gptq", v)}, {"m.qweight": q, "m.qzeros": z, "m.scales": s, "m.g_idx": index},
              {"quantization_config": {"quant_method": "gptq", "bits": b, "group_size": g, "checkpoint_format": version}})
n, g = size(80, 8), size(40)
k = g * size(5)
q, z, s = words(k, n // 8), words(k // g, n // 8), floats(k // g, n, dtype=np.float16)
order = np.array([0, 4, 1, 5, 2, 6, 3, 7])


def columns(w):
    return nibbles(np.ascontiguousarray(w).view(np.uint8)).reshape(w.shape[0], -1, 8)[:, :, order].reshape(w.shape[0], -1).astype(np.int64)


v = (columns(q) - columns(z).repeat(g, 0)).astype(np.float32) * s.astype(np.float32).repeat(g, 0)
write("awq", {"m.weight": ("awq", v.T)}, {"m.qweight": q, "m.qzeros": z, "m.scales": s},
      {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": g, "version": "gemm"}})

# bitsandbytes
nf4 = np.array([-1, -.6961928, -.52507305, -.3949175, -.28444138, -.18477343, -.091050036, 0, .0795803, .1609302, .24611230, .33791524, .44070983, .562617,
                .72295684, 1], np.float32)
for nested in (False, True):
    n, k, g = size(90), size(90), 64
    q, blocks = codes(-(-n * k // 2), 1), -(-n * k // g)
    state = {"quant_type": "nf4", "blocksize": g, "dtype": "bfloat16", "shape": [n, k]}
    t = {"W": q, "W.quant_map": nf4}
    if nested:
        state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": float(rng.random())}
        a, table, na = codes(blocks), np.sort(rng.random(256, np.float32)), floats(-(-blocks // 256))
        absmax = table[a] * na.repeat(256)[:blocks] + np.float32(state["nested_offset"])
        t |= {"W.absmax": a, "W.nested_absmax": na, "W.nested_quant_map": table}
    else:
        absmax = t["W.absmax"] = floats(blocks)
    t["W.quant_state.bitsandbytes__nf4"] = np.frombuffer(json.dumps(state).encode(), np.uint8)
    v = nf4[nibbles(q.T, True)[0, :n * k]] * absmax.repeat(g)[:n * k]
    write(f"nf4-{nested}", {"W": ("bnb-nf4", v.reshape(n, k))}, t)
q, scb = codes(n, k).view(np.int8), floats(n)
write("int8-bnb", {"m.weight": ("bnb-int8", (q.astype(np.float32) * scb[:, None]) * np.float32(7.874015718698502e-3))},
      {"m.weight": q, "m.SCB": scb, "m.weight_format": np.zeros((), np.uint8)})

json.dump(expected, open(f"{out}/expected.json", "w"))
print(len(expected), "files")
