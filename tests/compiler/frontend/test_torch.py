"""PyTorch programs: compiled, they compute what PyTorch computes; what cannot be is told in one sentence.

These tests need torch 2.13, an extra; tests/conftest.py leaves them out where it is not installed.
"""

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from onnx import numpy_helper
from support import raises
from torch import nn

import vtakit
from vtakit import models
from vtakit.compiler.frontend.errors import ModelError, UnsupportedError
from vtakit.compiler.frontend.torch.importer import import_program
from vtakit.compiler.frontend.torch.operators import CONVERTERS
from vtakit.runtime import cli
from vtakit.runtime.module import Module

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
RNG = torch.Generator().manual_seed(0)


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=RNG)


def indices(bound: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, bound, shape, generator=RNG)


def exported(module: nn.Module, *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch about itself
        return torch.export.export(module, inputs)


def flat(result: Any) -> list[np.ndarray]:
    """The arrays of a module's result, however nested."""
    if isinstance(result, tuple | list):
        return [array for each in result for array in flat(each)]
    return [] if result is None else [result.numpy()]


def agree(module: nn.Module, *inputs: torch.Tensor, tolerance: float = 1e-5) -> Module:
    """Compile a module, and compare what it makes with what PyTorch makes."""
    module.eval()
    with torch.no_grad():
        wanted = flat(module(*inputs))
    compiled = vtakit.compile(exported(module, *inputs))
    names = list(compiled.inputs)
    got = list(compiled.run({name: array.numpy() for name, array in zip(names, inputs, strict=True)}).values())
    assert [(array.shape, array.dtype) for array in got] == [(array.shape, array.dtype) for array in wanted]
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
    return compiled


class Block(nn.Module):
    """A block of ResNet-18; its parts are named as in vtakit.models and torchvision."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = nn.Sequential(
            nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
        ) if stride > 1 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        for number, (inputs, channels) in enumerate(((64, 64), (64, 128), (128, 256), (256, 512)), 1):
            first = Block(inputs, channels, 1 if number == 1 else 2)
            setattr(self, f"layer{number}", nn.Sequential(first, Block(channels, channels, 1)))
        self.fc = nn.Linear(512, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


class Transformer(nn.Module):
    """A vision transformer in small: patches, a class token, positions, attention, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.token, self.places = nn.Parameter(rand(1, 1, 32)), nn.Parameter(rand(1, 17, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu", norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


class Words(nn.Module):
    """A language model in small."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.cells, self.head = nn.Embedding(50, 16), nn.LSTM(16, 24, 2, batch_first=True), nn.Linear(24, 50)

    def forward(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, (state, _) = self.cells(self.embedding(words))
        return self.head(y), state


def test_a_resnet_of_pytorch_is_that_of_onnx():
    """The weights of vtakit.models in PyTorch's modules: PyTorch, its program compiled, and the ONNX model compiled agree."""
    model, size = models.build("resnet18", size=32), 32
    weights = {tensor.name: torch.tensor(numpy_helper.to_array(tensor)) for tensor in model.graph.initializer}
    net = ResNet18()
    missing = net.load_state_dict(weights, strict=False)
    assert missing.unexpected_keys == []
    assert all(key.endswith("num_batches_tracked") for key in missing.missing_keys)
    given = models.inputs("resnet18", size=size)
    compiled = agree(net, torch.from_numpy(given["image"]), tolerance=1e-4)
    (wanted,) = vtakit.compile(model).run(given).values()
    (got,) = compiled.run({"x": given["image"]}).values()
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    assert len(compiled.image.layers) <= len(vtakit.compile(model).image.layers)  # nothing is left that ONNX's way fuses


def test_a_network_of_separable_convolutions():
    def step(inputs: int, channels: int, stride: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False), nn.BatchNorm2d(inputs), nn.ReLU6(),
            nn.Conv2d(inputs, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.Hardswish(),
        )
    agree(nn.Sequential(
        step(3, 16, 2), step(16, 24, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(24, 7), nn.Softmax(-1),
    ), rand(2, 3, 14, 14))


def test_a_generator_of_images():
    agree(nn.Sequential(
        nn.Linear(20, 8 * 16), nn.Unflatten(1, (8, 4, 4)), nn.BatchNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, 6, 4, 2, 1),
        nn.BatchNorm2d(6), nn.LeakyReLU(0.2), nn.ConvTranspose2d(6, 3, 3, 2, 1, output_padding=1), nn.Tanh(),
    ), rand(2, 20))


def test_a_vision_transformer():
    agree(Transformer(), rand(2, 3, 32, 32), tolerance=1e-4)


def test_a_language_model_keeps_its_cells_whole():
    module = agree(Words(), indices(50, 2, 7))
    assert sum("lstm_panels" in layer.ops for layer in module.image.layers) == 2


@pytest.mark.parametrize("module", [
    nn.LSTM(4, 6, 2, bidirectional=True), nn.LSTM(4, 6, bias=False), nn.GRU(4, 6, 2, bidirectional=True),
    nn.GRU(4, 6, bias=False), nn.RNN(4, 6),
], ids=str)
def test_recurrent_layers(module):
    agree(module, rand(3, 2, 4))


@pytest.mark.parametrize(("module", "shape"), [
    (nn.LSTMCell(4, 6), (2, 4)), (nn.GRUCell(4, 6), (2, 4)), (nn.Conv1d(4, 3, 3, dilation=2), (2, 4, 9)),
    (nn.Conv3d(2, 3, 3), (1, 2, 5, 5, 5)), (nn.Conv2d(4, 6, 3, 2, groups=2), (2, 4, 7, 7)),
    (nn.BatchNorm1d(4, affine=False), (3, 4)), (nn.MaxPool1d(2), (2, 4, 9)), (nn.MaxPool2d(3, 2, 1, ceil_mode=True), (3, 8, 8)),
    (nn.AvgPool2d(3, 2, 1, count_include_pad=False), (1, 2, 7, 7)), (nn.AdaptiveAvgPool2d((2, 3)), (1, 2, 4, 6)),
    (nn.GroupNorm(2, 4), (2, 4, 3, 3)), (nn.InstanceNorm2d(4, affine=True), (2, 4, 3, 3)),
    (nn.LayerNorm((4, 5), elementwise_affine=False), (3, 4, 5)), (nn.RMSNorm(5), (3, 4, 5)), (nn.PReLU(4), (2, 4, 3)),
    (nn.PixelShuffle(2), (1, 8, 2, 3)), (nn.Upsample(scale_factor=2), (1, 2, 3, 4)),
    (nn.Upsample(size=(5, 7), mode="bilinear"), (1, 2, 3, 4)),
    (nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), (1, 2, 3, 4)),
    (nn.Upsample(scale_factor=1.5, mode="bicubic"), (1, 2, 4, 6)), (nn.ReflectionPad2d(1), (1, 2, 3, 4)),
    (nn.ZeroPad2d((1, 2, 0, 1)), (1, 2, 3, 4)),
], ids=str)
def test_layers(module, shape):
    agree(module, rand(*shape))


@pytest.mark.parametrize("module", [
    nn.ELU(0.7), nn.SELU(), nn.CELU(0.7), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.Softplus(),
    nn.Hardsigmoid(), nn.Hardtanh(-0.5, 0.5), nn.LogSoftmax(0), nn.LogSigmoid(),
    nn.Softsign(), nn.Tanhshrink(), nn.Threshold(0.1, 20),
], ids=str)
def test_activations(module):
    agree(module, rand(4, 5))


def test_elementwise_operators():
    agree(Of(lambda x: (
        x.log1p(), x.expm1(), x.rsqrt(), x**2, x**0.5, x**3, 2**x, x.clamp(0.2, None), x.clamp(max=0.5), x.floor(), x % 0.3,
        -x % 0.3, -x, x.reciprocal(), x.round(), x.erf(), torch.atan(x), x.clamp(x * 0.5, x * 2), x.masked_fill(x < 0.5, 1.0),
        torch.where(x > 1, x, 0.0),
        torch.div(-x, 0.3, rounding_mode="floor"), torch.div(-x, 0.3, rounding_mode="trunc"),
    )), rand(3, 4).abs() + 0.1)


def test_types_are_promoted_as_pytorch_promotes_them():
    agree(Of(lambda x, y: (
        x + y, x - 2 * y, torch.sub(x, y, alpha=3), x > y, x >= 0, x != y, (x > 0) & (y > 0), (x > 0) | (y < 0), ~(x > 0),
        torch.maximum(x, y), x.int() + 1.5, x.int() * 2, x.to(torch.float64), x.int() % 3, torch.fmod(x, y), x.int() == 1.5,
        torch.logical_xor(x > 0, y > 0), x.int() / 2, x.int() + x.long(), ~x.int(), x.int() & 3, (x > 0) + x.int(),
        x.int().float().sqrt(),
    )), 3 * rand(3, 4), rand(4))


def test_reductions():
    agree(Of(lambda x: (
        x.sum(), x.sum(1), x.mean((1, 2), keepdim=True), x.amax(0), x.prod(1), x.max(1), x.min(-1), x.argmax(),
        x.argmin(1, keepdim=True), x.any(), (x > 0).all(1), (x > 0).sum(), x.var((0, 1)), x.std(2, correction=0), x.cumsum(1),
        x.topk(2, -1), x.logsumexp(1), x.norm(), x.norm(1, 1), x.norm(float("inf"), 0),
    )), rand(3, 4, 5))


def test_operators_that_move_elements():
    agree(Of(lambda x: (
        x.flip(0, 2), x.repeat(2, 1, 1, 1), x.permute(2, 0, 1), x.transpose(0, -1), x[:, 1], x[..., ::2], x[-2:], x[1:-1],
        x.unsqueeze(1),
        x.split(1, 1)[2], x.chunk(2, -1)[1], x.expand(2, 3, 4, 5), x.tril(), x.triu(1), x[:, [2, 0, -1]], torch.stack([x, x],
        1), x.roll(1, 1),
        torch.cat([x, x[:1]]), x.reshape(2, -1), x.select(1, -1), x.view(-1)[::3],
    )), rand(3, 4, 5))


def test_values_that_are_made_of_nothing():
    agree(Of(lambda x: (torch.arange(5) + x, torch.zeros(2, 3) + x, torch.full((2,), 3.0) * x, torch.ones_like(x),
    torch.linspace(0, 1, 5) * x)),
          torch.tensor(2.0))


def test_products_and_indices():
    agree(Of(lambda a, b, i: (
        a @ b, torch.einsum("ij,jk->ki", a, b), torch.addmm(a[0], a, b, beta=0.5, alpha=2),
        torch.baddbmm(a[None], a[None], b[None]),
        a @ b[0], a.gather(1, i), a.index_select(0, i[0]), nn.functional.one_hot(i, 5),
        nn.functional.scaled_dot_product_attention(a[None], b[None], a[None], is_causal=True),
    )), rand(4, 4), rand(4, 4), indices(4, 2, 3))


def test_half_precision():
    agree(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).half(), rand(2, 4).half(), tolerance=1e-2)


def test_everything_unsupported_is_told_at_once():
    module = Of(lambda x: (torch.fft.fft(x).real + x.kthvalue(2)[0], x.kthvalue(3)[1], torch.linalg.det(x), x.nonzero()))
    with pytest.raises(UnsupportedError) as caught:
        vtakit.compile(exported(module, rand(4, 4)))
    assert set(caught.value.nodes) >= {
        "aten.kthvalue.default", "aten._fft_r2c.default", "aten._linalg_det.default", "aten.nonzero.default",
    }
    assert "aten.kthvalue.default (2 nodes: " in str(caught.value)


def test_what_a_converter_cannot_express_is_told_with_the_reason():
    needs = "model 'program' needs what vtakit does not support:"
    pool = nn.AvgPool2d(2, ceil_mode=True, divisor_override=3)
    with raises(UnsupportedError, f"{needs} aten.avg_pool2d.default with divisor_override and ceil_mode (1 node: '0')"):
        vtakit.compile(exported(nn.Sequential(pool), rand(1, 2, 5, 5)))
    with raises(UnsupportedError, f"{needs} aten.max_pool2d_with_indices.default for its result 1 (1 node: 'getitem_1')"):
        vtakit.compile(exported(nn.MaxPool2d(2, return_indices=True), rand(1, 2, 4, 4)))
    with raises(UnsupportedError, f"{needs} aten.index.Tensor where the numbers decide the result's shape [u0] (1 node: 'index')"
                                  f"; aten.nonzero.default (1 node: 'nonzero')"):  # and none of what counts their sizes
        vtakit.compile(exported(Of(lambda x: (x[x > 0] + 1, torch.nonzero(x))), rand(4, 3)))
    with raises(UnsupportedError, f"{needs} aten.scatter_reduce.two with reduce='mean' (1 node: 'scatter_reduce')"):
        vtakit.compile(exported(Of(lambda x, i: x.scatter_reduce(0, i, x, "mean")), rand(4, 3), indices(4, 4, 3)))


def test_programs_that_have_no_fixed_meaning_are_told():
    with raises(ModelError, "Linear is a PyTorch module: give torch.export.export(module.eval(), inputs)"):
        vtakit.compile(nn.Linear(2, 2))
    with raises(ModelError, "program 'program' changes 3 of its buffers, such as 'running_mean', as modules in training do: call "
                            "module.eval() before torch.export.export"):
        vtakit.compile(exported(nn.BatchNorm2d(2), rand(2, 2, 3, 3)))
    dynamic = torch.export.export(nn.ReLU(), (rand(3, 4),), dynamic_shapes={"input": {0: torch.export.Dim("n", min=2)}})
    with pytest.raises(ModelError, match=r"^input 'input' of program 'program' has the open shape \[\w+, 4\]: export the module "
                                         r"without dynamic_shapes$"):
        vtakit.compile(dynamic)
    with raises(ModelError, "a PyTorch program has the shapes of its export: shapes, batch and fixed go with ONNX models"):
        vtakit.compile(exported(nn.ReLU(), rand(3)), batch=2)
    with raises(ModelError, "input 'input' of program 'program' has element type complex64, which vtakit does not have"):
        vtakit.compile(exported(nn.Identity(), torch.zeros(2, dtype=torch.complex64)))


def test_programs_in_files(tmp_path, capsys, caplog):
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    path, x = tmp_path / "net.pt2", rand(2, 4)
    torch.export.save(exported(module, x), path)
    compiled = vtakit.compile(path)
    assert compiled.image.name == "net"
    np.testing.assert_allclose(compiled.run({"input": x.numpy()})["output"], module(x).detach().numpy(), rtol=1e-6, atol=1e-6)
    assert cli.main(["compile", str(path), "-o", str(tmp_path / "net.vtak")]) == 0
    assert "input   input: float32[2, 4]" in capsys.readouterr().out
    path.write_bytes(b"PK junk")
    assert cli.main(["compile", str(path), "-o", str(tmp_path / "net.vtak")]) == 2
    assert capsys.readouterr().err.startswith(f"vtakit compile: '{path}' is no program of torch.export, or a damaged one: ")
    assert "torch.export" not in {record.name for record in caplog.records}  # which tells of it at length
    assert cli.main(["compile", str(tmp_path / "none.pt2"), "-o", str(tmp_path / "net.vtak")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_outputs_may_be_inputs_and_constants():
    agree(Of(lambda x: (x, torch.ones(2), x * 2)), rand(3))


def test_every_converter_is_of_an_operator_that_pytorch_has():
    import_module("torch.ao.quantization.fx._decomposed")  # registers quantized_decomposed
    for name in CONVERTERS:
        space, op, overload = name.split(".")
        if space == "vtakit_tests":  # operators that tests of own ones have registered in this process
            continue
        assert overload in getattr(getattr(torch.ops, space), op).overloads(), name


def test_a_graph_has_the_names_of_the_module():
    graph = import_program(exported(nn.Sequential(nn.Linear(4, 3), nn.Tanh()).eval(), rand(2, 4)), name="net")
    assert [value.name for value in graph.inputs] == ["input"]
    assert [name for name, _ in graph.outputs] == ["output"]
    assert {node.name for node in graph.nodes} == {"0", "1"}
    assert {value.name for value in graph.constants} == {"0.weight", "0.bias"}
