"""export.py OUT [NAME...]: programs of testdata/pte/ by ExecuTorch's exporter, from small modules with seeded weights.

Run by hand (5.2 GB): `$(interop/tools.sh torch) interop/pte/export.py OUT`, then expect.py writes the JSON next to each. Exporting again
gives equal content, not always equal bytes. With NAMEs only those are written.
"""
import os, sys
import torch
from torch.export import Dim, export
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge, to_edge_transform_and_lower

OUT = sys.argv[1]
WITHIN = EdgeCompileConfig(_check_ir_validity=False)


MAKER = "export-1.5.1-"


def save(name, program, external=None):
    if sys.argv[2:] and name not in sys.argv[2:]:
        return
    path = os.path.join(OUT, f"{MAKER}{name}.pte")
    with open(path, "wb") as f:
        program.write_to_file(f)
    if external:  # the exporter's tag, its name for the file of weights
        program.write_tensor_data_to_file(OUT)
        os.rename(os.path.join(OUT, external + ".ptd"), path[:-3] + "ptd")
    print(path, os.path.getsize(path))


def exported(module, inputs, dynamic=None):
    if not isinstance(module, torch.fx.GraphModule):  # that one was exported before, in the right mode
        module.eval()
    return export(module, inputs, dynamic_shapes=dynamic)


def portable(module, inputs, config=None, dynamic=None, methods=None, **kw):
    """The program of a module, or of several methods {name: (module, inputs)}, with the portable kernels only."""
    programs = {"forward": exported(module, inputs, dynamic)} if methods is None else {
        n: exported(m, i) for n, (m, i) in methods.items()}
    return to_edge(programs, compile_config=WITHIN, **kw).to_executorch(config or ExecutorchBackendConfig())


def xnnpack(module, inputs, config=None):
    return to_edge_transform_and_lower(exported(module, inputs), partitioner=[XnnpackPartitioner()], compile_config=WITHIN).to_executorch(config or ExecutorchBackendConfig())


class Linear(torch.nn.Module):
    def __init__(self, n=3, m=2):
        super().__init__()
        self.fc = torch.nn.Linear(n, m)

    def forward(self, x):
        return self.fc(x)


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2, bias=False)

    def forward(self, x):
        return torch.softmax(self.second(torch.relu(self.first(x))), -1)


class Conv(torch.nn.Module):
    def __init__(self, norm=torch.nn.BatchNorm2d):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(2, 3, 3, padding=1), norm(3)

    def forward(self, x):
        return torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)


class LSTM(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(2, 3, batch_first=True)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return y, h, c


class Views(torch.nn.Module):
    """A convolutional network whose views the exporter elides."""
    def __init__(self):
        super().__init__()
        self.conv, self.pool, self.head = torch.nn.Conv2d(2, 3, 3), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Linear(12, 4)

    def forward(self, x):
        y = self.pool(torch.relu(self.conv(x)))
        return self.head(y.flatten(1)), y.view(2, 6).sum(1)


class Transformer(torch.nn.Module):
    """One block: attention of two heads, normalisation, a feed-forward network, residuals."""
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = (t.view(b, n, self.heads, w // self.heads).transpose(1, 2) for t in self.qkv(self.first(x)).chunk(3, -1))
        a = torch.softmax(q @ k.transpose(-2, -1) / (w // self.heads) ** 0.5, -1) @ v
        x = x + self.out(a.transpose(1, 2).reshape(b, n, w))
        return x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))


class Cond(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Parameter(torch.randn(3)), torch.nn.Parameter(torch.randn(3))

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x * self.a, lambda x: x - self.b, (x,))


class Map(torch.nn.Module):
    def forward(self, xs, y):
        from torch._higher_order_ops.map import map as each
        return each(lambda x, y: x * y + 1, xs, y)


class State(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.tensor([0.5, -0.5]))
        self.register_buffer("calls", torch.tensor(3, dtype=torch.int64))
        self.register_buffer("scale", torch.tensor([2.0, 4.0]))

    def forward(self, x):
        self.total.add_(x * self.scale)
        self.calls.add_(1)
        return self.total.clone(), self.calls.clone()


class DTypes(torch.nn.Module):
    kinds = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64, torch.bool, torch.bfloat16)

    def __init__(self):
        super().__init__()
        for i, d in enumerate(self.kinds):
            self.register_buffer(f"b{i}", (torch.arange(6) % 3).reshape(2, 3).to(d))
        self.register_buffer("last", torch.arange(2 * 3 * 2 * 2, dtype=torch.float32).reshape(2, 3, 2, 2).to(memory_format=torch.channels_last))
        self.register_buffer("nothing", torch.zeros(0, 4))
        self.register_buffer("scalar", torch.tensor(7.5))

    def forward(self, x):
        return [getattr(self, f"b{i}").clone() for i in range(len(self.kinds))] + [self.last.clone(), self.nothing + x, self.scalar + x]


class Arguments(torch.nn.Module):
    """Structured arguments: a dict, a list, numbers."""
    def forward(self, named, listed, n: int, alpha: float, flag: bool):
        return {"sum": named["a"] + named["b"] * alpha, "list": [listed[0] + n, listed[1]], "n": n, "flag": flag}


class Strings(torch.nn.Module):
    """Operators with string, list and None arguments."""
    def forward(self, x):
        y = torch.nn.functional.gelu(x, approximate="tanh")
        y = torch.div(y, 3.0, rounding_mode="floor")
        y = torch.cat([x, y.permute(0, 2, 1).reshape(x.shape), y], dim=1)
        return y[torch.tensor([0]), :, torch.tensor([1])], torch.nn.functional.pad(x, (1, 0), value=float("inf")), y.amax((1, 2)), torch.clamp(x, None, 0.5)


def quantized(module, inputs):
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    m = prepare_pt2e(exported(module, inputs).module(), quantizer)
    m(*inputs)
    return convert_pt2e(m)


def main():
    os.makedirs(OUT, exist_ok=True)
    torch.manual_seed(7)
    config = ExecutorchBackendConfig
    x43, x14 = torch.randn(4, 3), torch.randn(1, 4)
    save("linear", portable(Linear(), (x43,)))
    save("two-layers", portable(Two(), (x14,)))
    save("conv", portable(Conv(), (torch.randn(1, 2, 4, 4),)))
    save("conv-channels-last", portable(Conv(norm=torch.nn.Identity).to(memory_format=torch.channels_last), (torch.randn(1, 2, 4, 4).to(memory_format=torch.channels_last),)))
    save("lstm", portable(LSTM(), (torch.randn(1, 2, 2),)))
    save("cond", portable(Cond(), (torch.randn(3),)))
    save("map", portable(Map(), (torch.randn(4, 3), torch.randn(3))))
    save("dynamic", portable(Linear(), (x43,), dynamic={"x": {0: Dim("batch", min=1, max=16)}}))
    save("dtypes", portable(DTypes(), (torch.randn(1),)))
    save("arguments", portable(Arguments(), ({"a": x43, "b": x43}, [x43, x14], 3, 1.5, True)))
    save("strings", portable(Strings(), (torch.randn(2, 3, 4),)))
    save("no-weights", portable(torch.nn.ReLU(), (x43,)))
    save("state", portable(State(), (torch.randn(2),), config(emit_mutable_buffer_names=True)))
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
    save("state-initial", portable(State(), (torch.randn(2),), config(passes=[InitializedMutableBufferPass(["total", "calls"])])))
    from executorch.exir.passes import MemoryPlanningPass
    save("unplanned", portable(Linear(), (x43,), config(memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False))))
    save("stack-traces", portable(Two(), (x14,), config(emit_stacktrace=True)))

    shared = Two()
    save("methods", portable(None, None, methods={"encode": (shared, (x14,)), "decode": (shared, (torch.randn(3, 4),)), "forward": (Linear(), (x43,))},
                             constant_methods={"get_eos_ids": [1, 2], "get_max_seq_len": 128, "get_rope": 1.5, "use_kv_cache": True, "get_name": "tiny",
                                               "get_table": torch.arange(4, dtype=torch.int32)}))

    for segment, constant in (128, 64), (4096, None), (16384, 256), (1, 16):
        save(f"alignment-{segment}-{constant or 16}", portable(Two(), (x14,), config(segment_alignment=segment, constant_tensor_alignment=constant)))

    save("external", portable(Two(), (x14,), config(external_constants=lambda node: "weights")), external="weights")
    save("external-some", portable(Two(), (x14,), config(external_constants=lambda node: "weights" if "first" in node.name else None)), external="weights")

    save("xnnpack", xnnpack(Two(), (x14,)))
    save("xnnpack-inline", xnnpack(Two(), (x14,), config(extract_delegate_segments=False, delegate_alignment=64)))
    save("xnnpack-conv", xnnpack(Conv(), (torch.randn(1, 2, 4, 4),)))
    from executorch.exir.passes.external_constants_pass import delegate_external_constants_pass_unlifted
    module = exported(Two(), (x14,)).module()
    delegate_external_constants_pass_unlifted(module=module, gen_tag_fn=lambda n: "weights")
    save("xnnpack-external", xnnpack(module, (x14,)), external="weights")

    q = quantized(Two(), (x14,))
    save("xnnpack-quantized", xnnpack(q, (x14,)))
    torch.ops.load_library(os.path.join(os.path.dirname(__import__("executorch.kernels.quantized").kernels.quantized.__file__), "libquantized_ops_aot_lib.so"))
    from executorch.exir.passes.quant_fusion_pass import QuantFusionPass
    save("quantized", portable(quantized(Two(), (x14,)), (x14,), config(passes=[QuantFusionPass()])))

    from torch.export.experimental import _export_forward_backward

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.loss = Linear(), torch.nn.MSELoss()

        def forward(self, x, label):
            y = self.net(x)
            return self.loss(y, label), y.detach()

    joint = _export_forward_backward(export(Loss(), (x43, torch.randn(4, 2))))
    save("training", to_edge(joint, compile_config=WITHIN).to_executorch(config()))
    save("training-external", to_edge(joint, compile_config=WITHIN).to_executorch(config(external_mutable_weights=True)), external="_default_external_constant")

    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer
    program, cases = portable(m := Linear(), (x43,)), [torch.randn(4, 3) for _ in range(2)]
    suite = MethodTestSuite("forward", [MethodTestCase(inputs=(c,), expected_outputs=(m(c),)) for c in cases])
    bundle = serialize_from_bundled_program_to_flatbuffer(BundledProgram(program, [suite]))
    if not sys.argv[2:] or "bundled" in sys.argv[2:]:
        with open(os.path.join(OUT, MAKER + "bundled.bpte"), "wb") as f:
            f.write(bundle)

    save("views", portable(Views(), (torch.randn(1, 2, 6, 6),)))
    save("transformer", portable(Transformer(), (torch.randn(1, 3, 8),)))
    save("xnnpack-views", xnnpack(Views(), (torch.randn(1, 2, 6, 6),)))


main()
