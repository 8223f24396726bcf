"""export.py OUT PTE: packages of testdata/ptn/ by ExecuTorch's exporter, from small modules with seeded weights, and in PTE programs of testdata/pte/
whose delegate is such a program.

Run by hand (5.2 GB): `interop/ptn.sh --renew`. Exporting again gives equal content, not equal bytes: the archives have the time."""
import os, sys

import torch
from torch import nn
from torch.export import Dim, export
from executorch.backends.native import get_default_compile_config
from executorch.backends.native.partitioner import NativePartitioner
from executorch.backends.native.passes import get_default_passes
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.native import to_native

OUT, PTE = sys.argv[1:]


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return torch.relu(self.fc(x))


class Tied(nn.Module):  # three layers of equal weights, and one of others
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
        for layer in self.layers[1:3]:
            layer.load_state_dict(self.layers[0].state_dict())

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class State(nn.Module):  # a buffer with a stored value, and a cache without one
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.arange(4.0))
        self.register_buffer("same", torch.arange(4.0))
        self.register_buffer("cache", torch.zeros(4), persistent=False)

    def forward(self, x):
        self.total.add_(x)
        self.cache.add_(x * x)
        return self.total + self.cache * self.same


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)

    def forward(self, x):
        return torch.relu(self.conv(x))


class Arguments(nn.Module):  # lists of tensors and of numbers, numbers, dtypes
    def forward(self, x, i):
        y = torch.cat([x, x.sin()], 1)
        return torch.nn.functional.leaky_relu(y[:, i].permute(1, 0).to(torch.float64), 0.25).sum(1, keepdim=True)


class DTypes(nn.Module):
    def __init__(self):
        super().__init__()
        for d in ("uint8", "int8", "int16", "int32", "int64", "float16", "float64", "bfloat16"):
            self.register_buffer("of_" + d, torch.arange(6).reshape(2, 3).to(getattr(torch, d)))
        self.register_buffer("flags", torch.tensor([[True, False, True], [False, True, True]]))
        self.register_buffer("scalar", torch.tensor(2.5))

    def forward(self, x):
        y = x * self.scalar
        for d in ("uint8", "int8", "int16", "int32", "int64", "float16", "float64", "bfloat16"):
            y = y + getattr(self, "of_" + d).to(torch.float32)
        return torch.where(self.flags, y, x)


class NoWeights(nn.Module):
    def forward(self, x, y):
        return x + y


class Encode(nn.Module):
    def __init__(self, fc):
        super().__init__()
        self.fc = fc

    def forward(self, x):
        return self.fc(x).tanh()


class Decode(nn.Module):
    def __init__(self, fc):
        super().__init__()
        self.fc = fc

    def forward(self, x):
        return x @ self.fc.weight


def exported(module, *inputs, **kw):
    return export(module.eval(), inputs, **kw)


def save(name, programs):
    to_native(programs).save(os.path.join(OUT, f"export-1.5.1-{name}.ptn"))


torch.manual_seed(1)
with torch.no_grad():
    save("linear", exported(Linear(), torch.ones(1, 3)))
    save("tied", exported(Tied(), torch.ones(2, 4)))
    save("state", exported(State(), torch.ones(4)))
    save("conv-channels-last", exported(Conv().to(memory_format=torch.channels_last), torch.ones(1, 2, 5, 5).to(memory_format=torch.channels_last)))
    save("arguments", exported(Arguments(), torch.ones(2, 3), torch.tensor([5, 0])))
    save("dtypes", exported(DTypes(), torch.ones(2, 3)))
    save("no-weights", exported(NoWeights(), torch.ones(3), torch.ones(3)))
    save("dynamic", exported(Linear(), torch.ones(2, 3), dynamic_shapes={"x": {0: Dim("batch", max=16)}}))
    fc = nn.Linear(3, 2, bias=False)
    save("methods", {"encode": exported(Encode(fc), torch.ones(1, 3)), "decode": exported(Decode(fc), torch.ones(1, 2))})

    for name, tag in ("native", None), ("native-external", "weights"):
        edge = to_edge_transform_and_lower({"forward": exported(Tied(), torch.ones(2, 4))}, transform_passes=get_default_passes(),
                                           partitioner=[NativePartitioner(tag)], compile_config=get_default_compile_config())
        program = edge.to_executorch()
        path = os.path.join(PTE, f"export-1.5.1-{name}")
        with open(path + ".pte", "wb") as f:
            program.write_to_file(f)
        if tag:
            program.write_tensor_data_to_file(PTE)
            os.rename(os.path.join(PTE, tag + ".ptd"), path + ".ptd")
