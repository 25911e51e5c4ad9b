"""Quantized PyTorch programs: layers in integers, on the accelerator too, and each within a quantum of what PyTorch computes.

These tests need torch 2.13, an extra; tests/conftest.py leaves them out where it is not installed. Programs are written here as
`convert_pt2e` writes them; those that need torchao, which makes them of float modules, are left out where it is not installed.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from pt2e_support import X86, XNNPACK, Q, by_pt2e, layer_by_layer
from support import raises
from torch import nn

import vtakit
from vtakit.compiler.frontend.errors import UnsupportedError
from vtakit.compiler.frontend.torch.importer import import_program
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.passes.quantized.form import integer_form

BYTE, CHAR = (0, 255, torch.uint8), (-128, 127, torch.int8)
RNG = torch.Generator().manual_seed(0)
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
needs_torchao = pytest.mark.skipif(find_spec("torchao") is None, reason="torchao, which quantizes programs, is not installed")


class Weight(nn.Module):
    """A weight of int8 with a scale for each channel, dequantized.

    late : kept in floating point, and quantized when the program runs
    """

    def __init__(self, *shape: int, late: bool = False) -> None:
        super().__init__()
        self.late = late
        scale = torch.rand(shape[0], generator=RNG) * 0.01 + 0.002
        self.register_buffer("scale", scale)
        self.register_buffer("zero", torch.zeros(shape[0], dtype=torch.int64))
        whole = torch.randint(-127, 128, shape, generator=RNG, dtype=torch.int8)
        self.register_buffer("weight", whole * scale.reshape(-1, *[1] * (len(shape) - 1)) if late else whole)

    def forward(self) -> torch.Tensor:
        params = self.scale, self.zero, 0, -127, 127, torch.int8
        held = Q.quantize_per_channel(self.weight, *params) if self.late else self.weight
        return Q.dequantize_per_channel(held, *params)


class Net(nn.Module):
    """A residual block and a classifier.

    ends  : least and greatest number of an activation, and its type     late : as of `Weight`
    """

    def __init__(self, ends: tuple[int, int, torch.dtype] = BYTE, late: bool = False) -> None:
        super().__init__()
        self.ends = ends
        self.w1, self.w2, self.w3, self.w4 = (
            Weight(*shape, late=late) for shape in ((16, 3, 3, 3), (16, 1, 3, 3), (16, 16, 1, 1), (10, 16)))
        self.b1, self.b3 = nn.Parameter(torch.randn(16, generator=RNG)), nn.Parameter(torch.randn(16, generator=RNG))

    def q(self, x: torch.Tensor, share: float, scale: float) -> torch.Tensor:
        """Quantize and dequantize; the zero point is at a share of the range."""
        low, high, _ = self.ends
        params = scale * 255 / (high - low), round(low + share * (high - low)), *self.ends
        return Q.dequantize_per_tensor(Q.quantize_per_tensor(x, *params), *params)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        f = nn.functional
        x = self.q(x, 0.5, 0.03)
        x = self.q(f.max_pool2d(torch.relu(f.conv2d(x, self.w1(), self.b1, padding=1)), 2), 0, 0.0213)
        y = self.q(f.relu6(f.conv2d(x, self.w2(), padding=1, groups=16)), 0, 6 / 255)
        y = self.q(f.conv2d(y, self.w3(), self.b3), 0.4, 0.0417)
        x = self.q(torch.relu(y + x), 0, 0.0391)
        x = self.q(torch.flatten(f.adaptive_avg_pool2d(x, 1), 1), 0, 0.0187)
        return f.linear(x, self.w4())


def both(program: Any, x: torch.Tensor, **target: Any) -> tuple[np.ndarray, Any]:
    """The outputs on the CPU, which are the accelerator's bytes, and what is where."""
    cpu, vta = vtakit.compile(program), vtakit.compile(program, "vta", **target)
    (name,) = cpu.inputs
    (got,), (other,) = (module.run({name: x.numpy()}).values() for module in (cpu, vta))
    assert got.tobytes() == other.tobytes()
    return got, vta.placement


FORMS = {"U8S8": Net(), "S8S8": Net(CHAR), "7 bits": Net((0, 127, torch.uint8)), "weights quantized late": Net(late=True)}


@pytest.mark.parametrize("name", FORMS)
def test_a_program_of_pt2e_is_one_launch_within_a_quantum(name, tmp_path):
    net, x = FORMS[name].eval(), torch.randn(1, 3, 16, 16, generator=RNG)
    program = torch.export.export(net, (x,))
    got, placement = both(program, x, config="tiny")
    assert placement.launches == 1
    assert placement.share_of_macs > 0.99  # all but the classifier, whose result is not quantized
    with torch.no_grad():
        want = net(x).numpy()
    assert np.mean(np.abs(got - want) <= np.abs(want).max() / 127) >= 0.9
    off = layer_by_layer(program, x)
    assert off.max() <= 1
    assert off.mean() < 0.01
    torch.export.save(program, tmp_path / "net.pt2")
    module = vtakit.compile(tmp_path / "net.pt2")
    assert module.run({"x": x.numpy()})["output"].tobytes() == got.tobytes()


def of_float(module: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Graph:
    """The network in integers of a function."""
    class Module(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return module(x)
    return integer_form(import_program(torch.export.export(Module(), (x,))))


def test_fake_quantization_is_quantization():
    x, weight = torch.randn(2, 6, generator=RNG), torch.randn(5, 6, generator=RNG)
    scales, zeros = torch.rand(5, generator=RNG) * 0.01 + 0.01, torch.zeros(5, dtype=torch.int32)

    class Fake(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(weight), nn.Parameter(torch.randn(5, generator=RNG))
            self.register_buffer("scales", scales)
            self.register_buffer("zeros", zeros)
            self.register_buffer("scale", torch.tensor(0.02))
            self.register_buffer("zero", torch.tensor(100, dtype=torch.int32))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.fake_quantize_per_tensor_affine(x, self.scale, self.zero, 0, 255)
            w = torch.fake_quantize_per_channel_affine(self.weight, self.scales, self.zeros, 0, -128, 127)
            y = nn.functional.linear(x, w, self.bias)
            return torch.fake_quantize_per_tensor_affine(y, 0.03, 3, -128, 127)
    net = Fake().eval()
    program = torch.export.export(net, (x,))
    assert [node.op for node in integer_form(import_program(program)).nodes] == [
        "quantize_linear", "matmul_integer", "requantize", "dequantize_linear"]
    got, placement = both(program, x, config="tiny")
    assert (placement.launches, placement.share_of_macs) == (1, 1)
    with torch.no_grad():
        assert np.abs(got - net(x).numpy()).max() < 0.031


@pytest.mark.parametrize(("ends", "kind"), [((-128, 127), torch.int8), ((0, 255), torch.uint8), ((-8, 7), torch.int8),
                                            ((-32768, 32767), torch.int16)])
def test_numbers_are_those_of_pytorch(ends, kind):
    """But where a real number is in the middle between two."""
    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            q = Q.quantize_per_tensor(x, 0.037, 5, *ends, kind)
            return q, Q.dequantize_per_tensor(q, 0.037, 5, *ends, kind)
    x = torch.randn(3, 50, generator=RNG) * 4
    q, real = Both()(x)
    got = vtakit.compile(torch.export.export(Both(), (x,))).run({"x": x.numpy()})
    assert got["output0"].dtype == q.numpy().dtype
    np.testing.assert_array_equal(got["output0"], q.numpy())
    np.testing.assert_array_equal(got["output1"], real.numpy())


@pytest.mark.parametrize(("params", "says"), [
    ((0, -100000, 100000, torch.int32), "to int32"), ((300, 0, 255, torch.uint8), "with a zero point of uint8 from 300 to 300")])
def test_what_cannot_be_is_told(params, says):
    class Other(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Q.quantize_per_tensor(x, 0.1, *params)
    with raises(UnsupportedError, f"… quantized_decomposed.quantize_per_tensor.default {says} …"):
        vtakit.compile(torch.export.export(Other(), (torch.randn(4),)))


class Real(nn.Module):
    """A float module for torchao's quantizers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16)
        self.second, self.third = nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.Conv2d(16, 16, 1)
        self.last = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(self.third(nn.functional.relu6(self.second(x))) + x)
        return self.last(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


@needs_torchao
@pytest.mark.parametrize("rules", [X86, XNNPACK])
def test_what_torchao_makes_of_a_module(rules):
    torch.manual_seed(0)
    samples = torch.randn(4, 3, 16, 16)
    program = by_pt2e(Real().eval(), samples, rules)
    got, placement = both(program, samples[:1], config="tiny")
    with torch.no_grad():
        want = program.module()(samples[:1]).numpy()
    assert placement.launches == 1
    assert placement.share_of_macs == 1 or rules == X86  # which leaves what a mean reads in floating point
    assert layer_by_layer(program, samples[:1]).max() <= 1
    assert np.abs(got - want).max() <= 2 * np.abs(want).max() / 127
