"""Operators of PyTorch by themselves: each compiled program computes what PyTorch does, in its shape and type.

These tests need torch, an extra; tests/conftest.py leaves them out where it is not installed.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as f

import vtakit

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
torch.manual_seed(0)
A, B = torch.randint(-20, 20, (50,)), torch.tensor([3, -3, 5, -7, 2] * 10)
X, Y = torch.randn(60) * 9, torch.randn(60)
IMAGE = torch.randn(2, 3, 7, 11)


def put(x, places, value):
    y = x.clone()
    y[places] = value
    return y


CASES = {
    "as_strided of rows": (lambda x: torch.as_strided(x, (2, 3, 3), (12, 1, 4)) + 0, torch.randn(2, 3, 4)),
    "as_strided of columns": (lambda x: torch.as_strided(x.transpose(0, 1), (2, 3), (3, 1), 1) + 0, torch.randn(4, 5)),
    "quotients rounded down": (lambda a, b: torch.div(a, b, rounding_mode="floor"), A, B),
    "quotients rounded to zero": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), A, B),
    "int32 by a number": (lambda a: torch.div(a, -3, rounding_mode="floor"), A.int()),
    "floats rounded down": (lambda a, b: torch.div(a, b, rounding_mode="floor"), X, Y),
    "floats rounded down, by 0": (lambda a: torch.div(a, a * 0, rounding_mode="floor"), torch.tensor([1.0, -1.0])),
    "floats of whole quotients": (lambda a: torch.div(a / 10, 0.1, rounding_mode="floor"), torch.arange(-30.0, 30)),
    "bags of words": (lambda i, w: f.embedding_bag(i, w, mode="sum"), torch.randint(0, 9, (3, 4)), torch.randn(9, 5)),
    "weighted bags": (lambda i, w, p: f.embedding_bag(i, w, mode="sum", per_sample_weights=p), torch.randint(0, 9, (3, 4)),
                      torch.randn(9, 5), torch.randn(3, 4)),
    "indices of two dimensions": (lambda x, i, j: x[:, i[:, None], j], IMAGE, torch.tensor([0, -1]), torch.tensor([6, 2, -7])),
    "indices apart": (lambda x, i, j: x[i, :, j], IMAGE, torch.tensor([0, 1, -1]), torch.tensor([6, 2, -7])),
    "elements put": (put, torch.randn(5, 3), torch.tensor([0, 3]), torch.randn(2, 3)),
    "elements put apart": (
        lambda x, i, v: torch.ops.aten.index_put(x, [i, None, i], v), torch.randn(3, 2, 4), torch.tensor([0, 2]),
        torch.randn(2, 2)),
    "elements put behind others, added": (
        lambda x, i, v: torch.ops.aten.index_put(x, [None, i], v, True), torch.randn(2, 4, 3), torch.tensor([1, 1, -1]),
        torch.randn(2, 3, 3)),
    "a slice put": (lambda x, v: torch.slice_scatter(x, v, 1, 1, 3), torch.randn(4, 5), torch.randn(4, 2)),
    "every other column put": (lambda x, v: torch.slice_scatter(x, v, 1, 0, 5, 2), torch.randn(4, 5), torch.randn(4, 3)),
    "a column put": (lambda x, v: torch.select_scatter(x, v, 1, -2), torch.randn(4, 5), torch.randn(4)),
    "scattered": (lambda x, v: x.scatter(1, torch.tensor([[0, 2], [1, 3]]), v), torch.randn(2, 5), torch.randn(2, 3)),
    "scattered sums": (lambda x, v: x.scatter_add(0, torch.tensor([[0, 1, 1]]), v), torch.randn(2, 3), torch.randn(1, 3)),
    "sorted": (lambda x: torch.sort(x, 1, descending=True), torch.randn(4, 7)),
    "windows of different sizes": (lambda x: f.adaptive_avg_pool2d(x, (5, 3)), IMAGE),
    "greatest of such": (lambda x: f.adaptive_max_pool2d(x, (5, 3)), IMAGE[0]),
    "more windows than rows": (lambda x: f.adaptive_avg_pool3d(x, (2, 3, 15)), IMAGE),
    "a divisor": (lambda x: f.avg_pool2d(x, 3, 2, 1, divisor_override=5), IMAGE),
    "pads that cut": (lambda x: f.pad(x, (-1, 2, 3, -2)), IMAGE),
    "columns of an image": (lambda x: f.unfold(x, 3, padding=1), IMAGE),
    "an image of columns": (lambda x: f.fold(x, (5, 5), 2), torch.randn(2, 12, 16)),
    "windows of a signal": (lambda x: x.unfold(1, 3, 2) * 1, torch.randn(2, 9)),
    "a diagonal": (lambda x: torch.diagonal(x, 1, 0, 2) * 1, torch.randn(4, 2, 5)),
    "a grid": (lambda x, g: f.grid_sample(x, g, align_corners=False), IMAGE, torch.randn(2, 3, 4, 2)),
    "three factors": (f.bilinear, torch.randn(4, 3), torch.randn(4, 5), torch.randn(2, 3, 5)),
    "softplus": (lambda x: f.softplus(x, 3.0), X),
    "a norm of order 3": (lambda x: x.norm(p=3, dim=0), torch.randn(4, 5)),
    "variance and mean": (lambda x: torch.var_mean(x, 1), torch.randn(4, 5)),
    "shifts": (lambda a: ((a << 3) >> 1, a >> 2), A),
    "logarithms": (lambda x: (torch.log2(x.abs()), torch.log10(x.abs()), torch.exp2(x / 9)), X),
    "e to a power, less 1": (lambda x: (torch.expm1(x), torch.log1p(x.abs())), X / 9),
    "shifts of the least integer": (
        lambda a: (a >> 1, a >> 30), torch.tensor([-2**31, -2**31 + 1, 2**31 - 1], dtype=torch.int32)),
    "truth values": (lambda a, b: ((a > 0) * (b > 0), (a > 0) + (b > 0)), A, B),
    "made of nothing": (lambda x: x[torch.triu_indices(3, 3).unbind()] * torch.linspace(0, 1, 6), torch.randn(3, 3)),
}


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


@pytest.mark.parametrize("name", CASES)
def test_a_program_computes_what_pytorch_does(name):
    function, *inputs = CASES[name]
    wanted = function(*inputs)
    wanted = list(wanted) if isinstance(wanted, tuple) else [wanted]
    made = vtakit.compile(torch.export.export(Of(function), tuple(inputs)))
    got = made.run(dict(zip(made.inputs, [each.numpy() for each in inputs], strict=True)))
    for mine, theirs in zip(got.values(), wanted, strict=True):
        torch.testing.assert_close(torch.from_numpy(mine), theirs, rtol=1e-5, atol=1e-5)


LEAST, MOST = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max
SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 3.0, -7.5, LEAST, -LEAST, 1e-45, -1e-42, 1e-30, -3e-30, MOST, -MOST, 0.1, 1e30,
                        float("inf"), -float("inf"), float("nan")])
LEFT, RIGHT = (each.contiguous() for each in torch.meshgrid(SPECIAL, SPECIAL, indexing="ij"))
SINGLE = torch.stack([torch.remainder(*pair) for pair in zip(LEFT.flatten(), RIGHT.flatten(), strict=True)]).reshape(LEFT.shape)
NUMBERS = ~(LEFT.isnan() | RIGHT.isnan())
TINY = torch.tensor([1e-9, -1e-7, 1e-40, 1e-4])
EXACT = {  # with the relative error that is allowed, whatever the results' size
    "floor": (lambda a, b: torch.div(a, b, rounding_mode="floor"), 0, LEFT, RIGHT),
    "remainder": (torch.remainder, 0, LEFT, RIGHT),
    "floor of integers": (
        lambda a, b: (torch.div(a, b, rounding_mode="floor"), torch.floor_divide(a, 3)), 0,
        torch.tensor([[-2**31], [2**31 - 1], [-7], [0]], dtype=torch.int32),
        torch.tensor([3, -3, 7, 2**31 - 1, -2**31], dtype=torch.int32)),
    "copysign": (torch.copysign, 0, LEFT[NUMBERS], RIGHT[NUMBERS]),
    "hypot": (torch.hypot, 2e-7, LEFT, RIGHT),
    "erfc": (torch.erfc, 1e-6, torch.linspace(-5, 9, 500)),
    "log2": (torch.log2, 3e-7, torch.cat([torch.linspace(0.5, 2, 300), SPECIAL])),
    "log10": (torch.log10, 3e-7, torch.cat([torch.linspace(0.5, 2, 300), SPECIAL])),
    "log1p": (torch.log1p, 3e-7, torch.cat([TINY, SPECIAL[SPECIAL != 1e-45]])),
    "expm1": (torch.expm1, 3e-7, torch.cat([TINY, SPECIAL])),
    "exp2": (torch.exp2, 3e-7, torch.cat([torch.linspace(-120, 120, 481), SPECIAL])),
}


@pytest.mark.parametrize("name", EXACT)
def test_results_are_exact_relative_to_their_size(name):
    """Zeros, infinities, denormals, the ends of integers, and results so small that a formula by other functions loses them."""
    function, tolerance, *inputs = EXACT[name]
    wanted = SINGLE if name == "remainder" else function(*inputs)  # of many at once PyTorch has NaN for great quotients
    made = vtakit.compile(torch.export.export(Of(function), tuple(inputs)))
    got = made.run(dict(zip(made.inputs, [each.numpy() for each in inputs], strict=True)))
    for mine, theirs in zip(got.values(), wanted if isinstance(wanted, tuple) else [wanted], strict=True):
        torch.testing.assert_close(torch.from_numpy(mine), theirs, rtol=tolerance, atol=LEAST * tolerance, equal_nan=True)
