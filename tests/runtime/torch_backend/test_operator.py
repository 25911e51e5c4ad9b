"""Tensor expressions as operators of PyTorch: eager calls, torch.compile, torch.export and its files."""

import pytest
import torch
from support import raises

import vtakit
from vtakit import te
from vtakit.compiler.nn.operators import OperatorError

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")


def capped(x, bias=None, *, cap=50.0):
    """A soft bound."""
    def read(*at):
        value = x(*at) if bias is None else x(*at) + bias(at[-1])
        return te.tanh(value / cap) * cap
    return te.compute(x.shape, read)


@pytest.fixture(scope="module")
def softcap():
    return vtakit.torch_operator("vtakit_tests::softcap", capped, options={"threads": 1})


class Net(torch.nn.Module):
    def forward(self, x, bias):
        return torch.relu(torch.ops.vtakit_tests.softcap(x, bias, cap=2.0)) + 1


def wanted(x, bias):
    return torch.relu(torch.tanh((x + bias) / 2) * 2) + 1


def test_eager_calls_take_any_shape_layout_and_attribute(softcap):
    x, bias = torch.randn(3, 4), torch.randn(4)
    torch.testing.assert_close(softcap(x, bias, cap=3.0), torch.tanh((x + bias) / 3) * 3)
    torch.testing.assert_close(softcap(x.T), torch.tanh(x.T / 50) * 50)
    torch.testing.assert_close(softcap(x.double()[1:], cap=1.0), torch.tanh(x.double()[1:]))
    torch.library.opcheck(softcap, (x, bias), {"cap": 2.0}, test_utils=("test_schema", "test_faketensor"))


def test_it_is_part_of_compiled_and_exported_graphs(softcap, tmp_path):
    torch.compiler.reset()
    ours = torch.compile(Net(), backend=vtakit.torch_backend, fullgraph=True)
    bias = torch.randn(4)
    for count in (3, 5):
        x = torch.randn(count, 4)
        torch.testing.assert_close(ours(x, bias), wanted(x, bias))
    program = torch.export.export(Net(), (x, bias))
    torch.export.save(program, tmp_path / "net.pt2")
    for model in (program, tmp_path / "net.pt2"):
        made = vtakit.compile(model).run({"x": x.numpy(), "bias": bias.numpy()})["output"]
        torch.testing.assert_close(torch.from_numpy(made), wanted(x, bias))


def test_wrong_names_and_definitions_are_sentences(softcap):
    with raises(OperatorError, "torch_operator('softcap'): give 'namespace::name', …"):
        vtakit.torch_operator("softcap", capped)
    with raises(OperatorError, "torch_operator('vtakit_tests::other', 'softcop'): no operator … did you mean 'softcap'? …"):
        vtakit.torch_operator("vtakit_tests::other", "softcop")
    with raises(OperatorError, "torch_operator('vtakit_tests::third'): attribute 'how' has the type … give it a default, …"):
        vtakit.torch_operator("vtakit_tests::third", lambda x, *, how: x)
    with raises(OperatorError, "torch_operator('vtakit_tests::fourth'): … fixed number of parameters, not *x"):
        vtakit.torch_operator("vtakit_tests::fourth", lambda *x: x[0])
    with pytest.raises(OperatorError, match="complex64"):
        softcap(torch.ones(2, dtype=torch.complex64))
