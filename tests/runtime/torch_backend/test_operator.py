"""Tensor expressions as operators of PyTorch: eager calls, torch.compile, torch.export and its files."""

import pytest
import torch
from support import raises, says

import vtakit
from vtakit import te
from vtakit.base.errors import VtakitError
from vtakit.compiler.frontend.own import OWN
from vtakit.compiler.frontend.torch.operators import CONVERTERS
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
    with raises(OperatorError, "torch_operator('vtakit_tests::fifth', 3): give a function, or the name of a registered operator"):
        vtakit.torch_operator("vtakit_tests::fifth", 3)
    with pytest.raises(OperatorError, match="complex64"):
        softcap(torch.ones(2, dtype=torch.complex64))


@pytest.mark.parametrize(("define", "options", "message"), [
    (lambda x, *, cap=float("inf"): x, {}, "… attribute 'cap' has the default inf, which PyTorch's schemas do not have: …"),
    (lambda x, *, cap=float("nan"): x, {}, "… attribute 'cap' has the default nan, which PyTorch's schemas do not have: …"),
    (lambda x, *, step=1 << 63: x, {}, "… attribute 'step' has the default 9223372036854775808, …"),
    (lambda x, *, how: x, {}, "… attribute 'how' has the type …"),
    (lambda x: x, {"target": "vtx"}, "…"),
])
def test_an_operator_that_is_refused_is_not_registered(define, options, message):
    before = dict(OWN), dict(CONVERTERS)
    with pytest.raises(VtakitError) as caught:
        vtakit.torch_operator("vtakit_tests::refused", define, options=options)
    assert says(str(caught.value), message)
    assert before == (OWN, CONVERTERS)
    assert not hasattr(torch.ops.vtakit_tests, "refused")


def test_defaults_of_text_are_kept():
    found = []

    def noted(x, *, text='a"b\\c\nd\tä\x01, e) -> ('):
        found.append(text)
        return te.compute(x.shape, lambda *at: x(*at) + len(text))

    made = vtakit.torch_operator("vtakit_tests::noted", noted)
    torch.testing.assert_close(made(torch.zeros(2)), torch.full((2,), 19.0))
    assert set(found) == {'a"b\\c\nd\tä\x01, e) -> ('}
