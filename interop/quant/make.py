"""make.py DIR: quantises random weights with the reference packages and writes what they store, and what they decode it to, to DIR.

By hand only (interop/tools.sh quantref): NAME.safetensors, NAME.gguf or NAME.bin, NAME.json (the model's config.json, where it has one), and expected.json:
for each file and weight its scheme, shape, the SHA-256 of the elements as float32, and, where the reference decodes to another dtype, of these.
"""
import __future__, ast, hashlib, json, math, os, subprocess, sys, tarfile, tempfile, types, warnings

warnings.filterwarnings("ignore")
import numpy as np
import torch
from safetensors.torch import save_file

out = sys.argv[1]
torch.manual_seed(1)
np.random.seed(1)
expected = {}
BF16, F16, F32, E4M3 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn
SHORT = {F32: "float32", BF16: "bfloat16", F16: "float16"}


def sha(t):
    t = t.contiguous().cpu()
    return hashlib.sha256(t.view(torch.uint8).numpy().tobytes() if t.numel() else b"").hexdigest()


def write(name, tensors, weights, config=None, metadata=None, **more):
    """weights: {NAME: (scheme, the decoded tensors of one or more dtypes)}. unsigned_zero: the reference has 0 for -0, and both count as 0."""
    if more.get("unsigned_zero"):
        weights = {w: (scheme, *(v + 0.0 for v in values)) for w, (scheme, *values) in weights.items()}
    if tensors is not None:
        save_file({k: v.contiguous() for k, v in tensors.items()}, f"{out}/{name}.safetensors", metadata)
    if config is not None:
        with open(f"{out}/{name}.json", "w") as f:
            json.dump(config, f, indent=1)
            f.write("\n")
    expected[name] = {w: {"scheme": scheme, "shape": list(values[0].shape)} | {SHORT[v.dtype]: sha(v) for v in values} | more
                      for w, (scheme, *values) in weights.items()}


def f8(x, s):
    return (x / s).clamp(-448, 448).to(E4M3)


def rand(*shape, scale=0.05):
    return torch.randn(*shape) * scale


# ---- FP8 in blocks: FP8BlockDequantizer of compressed-tensors
from compressed_tensors.entrypoints.convert.converters.fp8block_dequantizer import FP8BlockDequantizer


def blocks(n, k, bm, bn, dtype):
    w = rand(n, k)
    grid = torch.rand(math.ceil(n / bm), math.ceil(k / bn)) * 0.01 + 0.001
    if dtype == torch.float8_e8m0fnu:
        grid = torch.exp2(torch.randint(-9, -5, grid.shape).float())
    s = grid.to(dtype)
    full = s.float().repeat_interleave(bm, 0)[:n].repeat_interleave(bn, 1)[:, :k]
    return f8(w, full), s


def fp8_block(name, n, k, bm, bn, dtype, suffix="weight_scale_inv", config=None):
    q, s = blocks(n, k, bm, bn, dtype)
    values = [FP8BlockDequantizer(weight_block_size=(bm, bn), dtype=d).process({"m.weight": q, "m.weight_scale_inv": s.float()})["m.weight"]
              for d in (F32, BF16)]
    c = {"torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8", "weight_block_size": [bm, bn]} | (config or {})}
    write(name, {"m.weight": q, f"m.{suffix}": s, "m.bias": rand(n), "m.input_scale": torch.tensor([2.0])}, {"m.weight": ("fp8-block", *values)}, c)


fp8_block("fp8-block-ragged", 150, 66, 64, 32, F32)
fp8_block("fp8-block-bf16", 129, 130, 128, 128, BF16)
fp8_block("fp8-block-e8m0", 70, 40, 32, 16, torch.float8_e8m0fnu, "scale", {"scale_fmt": "ue8m0"})

# experts of rank 3, one by one
parts = [blocks(40, 24, 16, 16, F32) for _ in range(3)]
values = [torch.stack([FP8BlockDequantizer(weight_block_size=(16, 16), dtype=d).process({"m.weight": q, "m.weight_scale_inv": s})["m.weight"]
                       for q, s in parts]) for d in (F32, BF16)]
write("fp8-experts", {"experts.up": torch.stack([q for q, _ in parts]), "experts.up_scale_inv": torch.stack([s for _, s in parts])},
      {"experts.up": ("fp8-block", *values)}, {"quantization_config": {"quant_method": "fp8", "weight_block_size": [16, 16]}})

# ---- compressed-tensors: each of its compressors
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme


def compressed(name, scheme, format, args, n, k, scale, codes=None, zero=None, scale_dtypes=(F32, BF16), extra=None):
    c = BaseCompressor.get_value_from_registry(format)
    a = QuantizationArgs(**args)
    state = {"weight": rand(n, k), "weight_scale": scale} | (extra or {})
    if zero is not None:
        state["weight_zero_point"] = zero
    s = QuantizationScheme(targets=["Linear"], weights=a, format=format)
    packed = c.compress(state, s)
    values = {}
    for d in scale_dtypes:
        if d == BF16 and scale.dtype != BF16 and format not in ("nvfp4-pack-quantized", "mxfp4-pack-quantized"):
            continue
        p = dict(packed)
        if p["weight_scale"].dtype in (BF16, F16, F32):
            p["weight_scale"] = p["weight_scale"].to(d)  # exact: decoding in float32
        w = c.decompress(p, s)["weight"]
        values[w.dtype] = w  # FP4 is bfloat16 whatever the scale is
    write(name, {"m." + k: v for k, v in packed.items()}, {"m.weight": (scheme, *values.values())},
          {"torch_dtype": "bfloat16", "quantization_config": {"quant_method": "compressed-tensors", "format": format,
           "config_groups": {"group_0": {"targets": ["Linear"], "weights": json.loads(a.model_dump_json())}}, "ignore": ["lm_head"]}})


fp8 = dict(num_bits=8, type="float", symmetric=True)
compressed("ct-fp8-tensor", "fp8-tensor", "float-quantized", fp8 | dict(strategy="tensor"), 20, 30, torch.tensor([0.0007]))
compressed("ct-fp8-channel", "fp8-channel", "float-quantized", fp8 | dict(strategy="channel"), 20, 30, (torch.rand(20, 1) * 0.001 + 0.0003).to(BF16))
compressed("ct-fp8-block", "fp8-block", "float-quantized", fp8 | dict(strategy="block", block_structure=[16, 16]), 40, 24, torch.rand(3, 2) * 0.001 + 0.0003)
int8 = dict(num_bits=8, type="int", symmetric=True)
compressed("ct-int8-channel", "int8-channel", "int-quantized", int8 | dict(strategy="channel"), 24, 40, torch.rand(24, 1) * 0.001 + 0.0005)
compressed("ct-int8-group", "int8-group", "int-quantized", int8 | dict(strategy="group", group_size=8), 24, 40, (torch.rand(24, 5) * 0.001 + 0.0005).to(BF16))
compressed("ct-int8-asymmetric", "int8-channel", "int-quantized", int8 | dict(strategy="channel", symmetric=False), 24, 40,
           torch.rand(24, 1) * 0.001 + 0.0005, zero=torch.randint(-20, 20, (24, 1), dtype=torch.int8))
for b in range(1, 9):
    compressed(f"ct-int{b}-group", f"int{b}-group", "pack-quantized", dict(num_bits=b, type="int", strategy="group", group_size=16, symmetric=True),
               10, 48, (torch.rand(10, 3) * 0.01 + 0.005).to(BF16))
    compressed(f"ct-int{b}-asymmetric", f"int{b}-group", "pack-quantized", dict(num_bits=b, type="int", strategy="group", group_size=16, symmetric=False),
               11, 48, torch.rand(11, 3) * 0.02 + 0.005, zero=torch.randint(-(1 << b - 1), 1 << b - 1, (11, 3), dtype=torch.int8))
compressed("ct-int4-channel", "int4-channel", "pack-quantized", dict(num_bits=4, type="int", strategy="channel", symmetric=True), 7, 37, torch.rand(7, 1) * 0.01 + 0.005)
compressed("ct-nvfp4", "nvfp4", "nvfp4-pack-quantized", dict(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True), 9, 64,
           (torch.rand(9, 4) * 300 + 1).to(E4M3).float(), extra={"weight_global_scale": torch.tensor([7431.3])}, scale_dtypes=(F32,))
compressed("ct-mxfp4", "mxfp4", "mxfp4-pack-quantized", dict(num_bits=4, type="float", strategy="group", group_size=32, symmetric=True, scale_dtype="torch.uint8"),
           9, 64, torch.exp2(torch.randint(-6, -2, (9, 2)).float()), scale_dtypes=(F32,))
compressed("ct-mxfp6", "mxfp6", "mxfp6-pack-quantized", dict(num_bits=6, type="float", strategy="group", group_size=32, symmetric=True, scale_dtype="torch.uint8"),
           9, 64, torch.exp2(torch.randint(-8, -4, (9, 2)).float()), scale_dtypes=(F32,))
compressed("ct-mxfp8", "mxfp8", "mxfp8-quantized", dict(num_bits=8, type="float", strategy="group", group_size=32, symmetric=True, scale_dtype="torch.uint8"),
           9, 64, torch.exp2(torch.randint(-14, -8, (9, 2)).float()), scale_dtypes=(F32,))

# ---- ModelOpt
from modelopt.torch.quantization.qtensor import NVFP4QTensor

q, s, s2 = NVFP4QTensor.quantize(rand(9, 64), 16)
values = [q.dequantize(dtype=d, scale=s, double_scale=s2, block_sizes={-1: 16}) for d in (F32, BF16)]
write("modelopt-nvfp4", {"m.weight": q._quantized_data, "m.weight_scale": s, "m.weight_scale_2": s2, "m.input_scale": torch.tensor(0.5)},
      {"m.weight": ("nvfp4", *values)}, {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}},
      unsigned_zero=True)

# ---- ComfyUI
import comfy_kitchen.tensor as ck

def bytes_of(o):
    return torch.tensor(list(json.dumps(o).encode()), dtype=torch.uint8)


def comfy(name, scheme, layout, format, w, params=None, header=False, **kwargs):
    q = ck.QuantizedTensor.from_float(w, layout, **kwargs)
    o = {"format": format} | (params or {})
    layer = "diffusion.m"
    t = {f"{layer}.weight{k}": v for k, v in q._layout_cls_obj.state_dict_tensors(q._qdata, q._params).items()} if hasattr(q, "_layout_cls_obj") else \
        {f"{layer}.weight{k}": v for k, v in getattr(ck, layout).state_dict_tensors(q._qdata, q._params).items()}
    full = getattr(ck, layout).dequantize(q._qdata, q._params)
    meta = None
    if header:
        meta = {"_quantization_metadata": json.dumps({"format_version": "1.0", "layers": {"m": o}})}
    else:
        t[f"{layer}.comfy_quant"] = bytes_of(o)
    write(name, t, {f"{layer}.weight": (scheme, full)}, None, meta)


comfy("comfy-nvfp4", "nvfp4", "TensorCoreNVFP4Layout", "nvfp4", rand(144, 80))
comfy("comfy-nvfp4-header", "nvfp4", "TensorCoreNVFP4Layout", "nvfp4", rand(128, 64), header=True)
comfy("comfy-mxfp8", "mxfp8", "TensorCoreMXFP8Layout", "mxfp8", rand(160, 96))
comfy("comfy-fp8", "fp8-tensor", "TensorCoreFP8Layout", "float8_e4m3fn", rand(12, 20))
comfy("comfy-int8", "int8-tensor", "TensorWiseINT8Layout", "int8_tensorwise", rand(12, 20))
q, s = f8(rand(12, 20), torch.tensor(0.0003)), torch.tensor(0.0003)
write("comfy-scaled-fp8", {"scaled_fp8": torch.zeros(2, dtype=E4M3), "m.weight": q, "m.scale_weight": s, "m.scale_input": torch.tensor(1.0)},
      {"m.weight": ("fp8-tensor", q.float() * s)})

# ---- gpt-oss and DeepSeek-V4: transformers
from transformers.integrations.mxfp4 import convert_moe_packed_tensors
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

b, s = torch.randint(0, 256, (3, 20, 2, 16), dtype=torch.uint8), torch.randint(110, 130, (3, 20, 2), dtype=torch.uint8)
values = [convert_moe_packed_tensors(b, s, dtype=d) for d in (F32, BF16)]
write("gpt-oss", {"mlp.experts.down_proj_blocks": b, "mlp.experts.down_proj_scales": s, "mlp.experts.down_proj_bias": rand(3, 20)},
      {"mlp.experts.down_proj": ("mxfp4", *values)}, {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}})
q, s = torch.randint(-128, 128, (10, 32), dtype=torch.int8), torch.exp2(torch.randint(-9, 3, (10, 2)).float()).to(torch.float8_e8m0fnu)
f, g = blocks(256, 128, 128, 128, torch.float8_e8m0fnu)
d = Fp8Dequantize(None)
write("deepseek-v4", {"ffn.experts.0.w1.weight": q, "ffn.experts.0.w1.scale": s, "attn.wq.weight": f, "attn.wq.scale": g, "tid2eid": torch.zeros(4, 6, dtype=torch.int32)},
      {"ffn.experts.0.w1.weight": ("mxfp4", d._dequantize_one(q, s, F32), d._dequantize_one(q, s, BF16)),
       "attn.wq.weight": ("fp8-block", d._dequantize_one(f, g, F32), d._dequantize_one(f, g, BF16))},
      {"expert_dtype": "fp4", "quantization_config": {"quant_method": "fp8", "scale_fmt": "ue8m0", "weight_block_size": [128, 128]}})

# ---- AWQ and GPTQ: functions of the source distributions, which need a GPU to be imported
def source(package, file, *options):
    d = tempfile.mkdtemp()
    subprocess.run(["python3", "-m", "pip", "download", "-q", "--no-deps", *options, package, "-d", d], check=True)
    archive = [f for f in os.listdir(d) if f.endswith(".tar.gz")][0]
    with tarfile.open(f"{d}/{archive}") as t:
        return t.extractfile([m for m in t.getmembers() if m.name.endswith(file)][0]).read().decode()


def pack(u, b):  # numpy: a bit stream down the first axis, lowest bit first
    bits = (u[:, None, :] >> np.arange(b)[None, :, None] & 1).reshape(-1, u.shape[1])
    bits = np.pad(bits, ((0, -bits.shape[0] % 32), (0, 0)))
    return torch.from_numpy((bits.reshape(-1, 32, u.shape[1]).astype(np.uint64) << np.arange(32, dtype=np.uint64)[None, :, None]).sum(1).astype(np.uint32).view(np.int32))


awq = {}
exec(source("autoawq==0.2.9", "awq/utils/packing_utils.py", "--no-binary", ":all:"), awq)
k, n, g = 64, 24, 32
qw, qz = (torch.randint(-2**31, 2**31, shape, dtype=torch.int64).to(torch.int32) for shape in ((k, n // 8), (k // g, n // 8)))
s = (torch.rand(k // g, n) * 0.01 + 0.002).to(F16)
values = [awq["dequantize_gemm"](qw, qz, s.to(d), 4, g).T for d in (F32, F16)]
write("awq", {"m.qweight": qw, "m.qzeros": qz, "m.scales": s}, {"m.weight": ("awq", *values)},
      {"torch_dtype": "float16", "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": g, "version": "gemm", "zero_point": True}})

tree = ast.parse(source("gptqmodel==7.7.0", "gptqmodel/nn_modules/qlinear/__init__.py"))
wanted = {"dequantize_weight", "_dequantize_from_codes", "_torch_right_shift", "_torch_left_shift"}
body = [x for c in ast.walk(tree) if isinstance(c, (ast.Module, ast.ClassDef)) for x in c.body if isinstance(x, ast.FunctionDef) and x.name in wanted]
gptq = {"t": torch, "torch": torch}
exec(compile(ast.fix_missing_locations(ast.Module(body, [])), "gptqmodel", "exec", flags=__future__.annotations.compiler_flag), gptq)


def gptq_case(name, b, k, n, g, act, version):
    u = np.random.randint(0, 1 << b, (k, n))
    z = np.random.randint(1, 1 << b, (math.ceil(k / g), n))  # 0 wraps in version 1
    s = (torch.rand(math.ceil(k / g), n) * 0.01 + 0.002).to(F16)
    idx = torch.arange(k, dtype=torch.int32) // g
    if act:
        idx = idx[torch.randperm(k)]
    stored = z - 1 if version == "gptq" else z
    m = types.SimpleNamespace(planar=False, bits=b, pack_factor=32 // b, maxq=(1 << b) - 1, in_features=k, g_idx=idx, dequant_dtype=torch.int32,
                              qzeros=pack(z.T, b).T.contiguous(), qweight=pack(u, b), _init_wf_unsqueeze_buffers=lambda: None)
    if b == 3:
        wf = torch.tensor([[0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 0], [0, 1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31],
                           [0, 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 0]], dtype=torch.int32).reshape(1, 3, 12)
        m.wf_unsqueeze_zero, m.wf_unsqueeze_neg_one = wf.view(1, 1, 3, 12), wf.view(1, 3, 12, 1)
    else:
        wf = torch.arange(0, 32, b, dtype=torch.int32).unsqueeze(0)
        m.wf_unsqueeze_zero, m.wf_unsqueeze_neg_one = wf.unsqueeze(0), wf.unsqueeze(-1)
    m._dequantize_from_codes = types.MethodType(gptq["_dequantize_from_codes"], m)
    values = []
    for d in (F32, F16):
        m.scales = s.to(d)
        values.append(gptq["dequantize_weight"](m).T)
    config = {"quant_method": "gptq", "bits": b, "group_size": g, "desc_act": act, "sym": False, "checkpoint_format": version}
    write(name, {"m.qweight": m.qweight, "m.qzeros": pack(stored.T, b).T.contiguous(), "m.scales": s, "m.g_idx": idx},
          {"m.weight": ("gptq", *values)}, {"torch_dtype": "float16", "quantization_config": config})


gptq_case("gptq-2", 2, 64, 32, 32, False, "gptq")
gptq_case("gptq-3", 3, 96, 32, 32, False, "gptq")
gptq_case("gptq-4", 4, 64, 24, 32, False, "gptq")
gptq_case("gptq-4-act", 4, 96, 40, 32, True, "gptq")
gptq_case("gptq-4-v2", 4, 64, 24, 32, False, "gptq_v2")
gptq_case("gptq-8", 8, 64, 24, 64, True, "gptq")

# ---- MLX
import mlx.core as mx


def mlx(name, mode, bits, group, w, dtype=mx.float32):
    a = mx.array(w.numpy()).astype(dtype)
    parts = mx.quantize(a, group_size=group, bits=bits, mode=mode)
    wide = [p.astype(mx.float32) if mode == "affine" and i else p for i, p in enumerate(parts)]
    full = torch.from_numpy(np.array(mx.dequantize(*wide, group_size=group, bits=bits, mode=mode, dtype=mx.float32)))
    file = f"{out}/{name}.safetensors"
    mx.save_safetensors(file, {f"m.{k}": p for k, p in zip(("weight", "scales", "biases"), parts)} | {"m.bias": mx.zeros(3)}, {"format": "mlx"})
    q = {"group_size": group, "bits": bits, "mode": mode}
    write(name, None, {"m.weight": ("mlx-affine" if mode == "affine" else mode, full)}, {"quantization": q, "quantization_config": q})
    with open(f"{out}/{name}.json", "w") as f:
        json.dump({"quantization": q, "quantization_config": q}, f, indent=1)
        f.write("\n")


for bits in (2, 3, 4, 5, 6, 8):
    mlx(f"mlx-affine-{bits}", "affine", bits, 32, rand(6, 64), mx.float16 if bits == 4 else mx.float32)
mlx("mlx-experts", "affine", 4, 32, rand(3, 5, 64), mx.float16)
mlx("mlx-mxfp4", "mxfp4", 4, 32, rand(6, 64))
mlx("mlx-mxfp8", "mxfp8", 8, 32, rand(6, 64))
mlx("mlx-nvfp4", "nvfp4", 4, 16, rand(6, 64))

# ---- bitsandbytes
import bitsandbytes.functional as bf


def bnb(name, kind, shape, size, nested):
    q, state = bf.quantize_4bit(rand(*shape), quant_type=kind, blocksize=size, compress_statistics=nested)
    values = bf.dequantize_4bit(q, state)
    write(name, {"m.weight": q} | {f"m.weight.{k}": v for k, v in state.as_dict(packed=True).items()}, {"m.weight": (f"bnb-{kind}", values)},
          {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind}}, dtype="float32", unsigned_zero=kind == "fp4")


bnb("bnb-nf4", "nf4", (7, 45), 64, False)
bnb("bnb-nf4-nested", "nf4", (150, 128), 64, True)
bnb("bnb-fp4", "fp4", (12, 40), 64, False)
q, scb, _ = bf.int8_vectorwise_quant(rand(10, 30).to(F16))
values = bf.int8_vectorwise_dequant(q, scb.float())
write("bnb-int8", {"m.weight": q, "m.SCB": scb.float(), "m.weight_format": torch.tensor(0, dtype=torch.uint8)}, {"m.weight": ("bnb-int8", values.float())},
      {"torch_dtype": "float16", "quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}})

# ---- torchao
from torchao.prototype.mx_formats.mx_tensor import MXTensor
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor
from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
from torchao.quantization import (Float8Tensor, Float8WeightOnlyConfig, Int8Tensor, Int8WeightOnlyConfig, IntxWeightOnlyConfig, PerBlock, PerGroup, PerRow,
                                  PerTensor, quantize_)


def torchao(name, scheme, q):
    tensors, metadata = flatten_tensor_state_dict({"m.weight": q, "m.bias": torch.zeros(3, dtype=BF16)})
    write(name, tensors, {"m.weight": (scheme, q.dequantize(F32) if scheme != "intx" else q.dequantize())}, None, metadata, dtype="bfloat16")
    return expected[name]["m.weight"]


def linear(config, n=20, k=64):
    m = torch.nn.Sequential(torch.nn.Linear(k, n, bias=False).to(BF16))
    quantize_(m, config)
    return m[0].weight


torchao("ao-int8-channel", "int8-channel", linear(Int8WeightOnlyConfig(version=2)))
torchao("ao-int8-group", "int8-group", linear(Int8WeightOnlyConfig(version=2, granularity=PerGroup(32))))
torchao("ao-fp8-channel", "fp8-channel", linear(Float8WeightOnlyConfig()))
torchao("ao-fp8-tensor", "fp8-tensor", linear(Float8WeightOnlyConfig(granularity=PerTensor()) if "granularity" in Float8WeightOnlyConfig.__dataclass_fields__ else Float8WeightOnlyConfig()))
torchao("ao-intx-group", "intx", linear(IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))))["scheme"] = "int8-group"
w = rand(160, 96).to(BF16)
torchao("ao-nvfp4", "nvfp4", NVFP4Tensor.to_nvfp4(w[:9], block_size=16, per_tensor_scale=torch.tensor(0.0123)))
torchao("ao-nvfp4-swizzled", "nvfp4", NVFP4Tensor.to_nvfp4(w, block_size=16, per_tensor_scale=torch.tensor(0.0123), is_swizzled_scales=True))
torchao("ao-mxfp8", "mxfp8", MXTensor.to_mx(w[:9], E4M3, 32))
torchao("ao-mxfp4", "mxfp4", MXTensor.to_mx(w[:9], torch.float4_e2m1fn_x2, 32))


def pickled(name, scheme, q):
    """A checkpoint of torch.save, which has the tensors of the class and what describes them."""
    torch.save({"m.weight": q, "m.bias": torch.zeros(3, dtype=BF16)}, f"{out}/{name}.bin")
    values = (q.dequantize(),) if type(q).__name__.startswith("Intx") else (q.dequantize(F32), q.dequantize())
    write(name, None, {"m.weight": (scheme, *values)}, None, dtype=SHORT[q.dtype])


pickled("ao-pickled-int8-channel", "int8-channel", linear(Int8WeightOnlyConfig(version=2)))
pickled("ao-pickled-int8-group", "int8-group", linear(Int8WeightOnlyConfig(version=2, granularity=PerGroup(32))))
pickled("ao-pickled-int8-tensor", "int8-tensor", linear(Int8WeightOnlyConfig(version=2, granularity=PerTensor())))
pickled("ao-pickled-int8-experts", "int8-channel", Int8Tensor.from_hp(rand(3, 5, 32).to(F16), granularity=PerRow()))
pickled("ao-pickled-intx-group", "int8-group", linear(IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))))
pickled("ao-pickled-fp8-channel", "fp8-channel", linear(Float8WeightOnlyConfig()))
pickled("ao-pickled-fp8-experts", "fp8-channel", Float8Tensor.from_hp(rand(3, 5, 32).to(BF16), granularity=PerRow()))
pickled("ao-pickled-fp8-block", "fp8-block", Float8Tensor.from_hp(rand(128, 256).to(BF16), granularity=PerBlock([128, 128])))
pickled("ao-pickled-nvfp4", "nvfp4", NVFP4Tensor.to_nvfp4(w[:9], block_size=16))
pickled("ao-pickled-nvfp4-swizzled", "nvfp4", NVFP4Tensor.to_nvfp4(w, block_size=16, per_tensor_scale=torch.tensor(0.0123), is_swizzled_scales=True))
pickled("ao-pickled-mxfp8", "mxfp8", MXTensor.to_mx(w[:9], torch.float8_e5m2, 32))
pickled("ao-pickled-mxfp4", "mxfp4", MXTensor.to_mx(w[:9], torch.float4_e2m1fn_x2, 32))

# ---- GGUF: blocks of the gguf package, and a scale; llama.cpp multiplies a product with it, and so this product is numpy's
import gguf

rng = np.random.default_rng(1)
g = gguf.GGUFWriter(f"{out}/gguf-scale.gguf", "llama")
raw = rng.integers(0, 256, (6, 3 * 36), dtype=np.uint8)
raw[:, :] = raw
for r in raw.reshape(-1, 36):
    r[:4] = rng.integers(8, 0x70, 4)
scale = np.array([0.37], dtype=np.float32)
g.add_tensor("blk.0.ffn_up.weight", raw, raw_dtype=gguf.GGMLQuantizationType.NVFP4)
g.add_tensor("blk.0.ffn_up.scale", scale)
experts = rng.standard_normal((3, 4, 8)).astype(np.float16)
g.add_tensor("blk.0.ffn_up_exps.weight", experts)
each = rng.random(3).astype(np.float32)
g.add_tensor("blk.0.ffn_up_exps.scale", each)
g.write_header_to_file()
g.write_kv_data_to_file()
g.write_tensors_to_file()
g.close()
full = gguf.dequantize(raw, gguf.GGMLQuantizationType.NVFP4) * scale[0]
write("gguf-scale", None, {"blk.0.ffn_up.weight": ("nvfp4", torch.from_numpy(full)),
                           "blk.0.ffn_up_exps.weight": ("gguf-scale", torch.from_numpy(experts.astype(np.float32) * each[:, None, None]))})

with open(f"{out}/expected.json", "w") as f:
    json.dump(expected, f, indent=1, sort_keys=True)
    f.write("\n")
