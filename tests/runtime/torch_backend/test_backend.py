"""torch.compile(backend="vtakit"): the same numbers as PyTorch, whatever sizes, memory and modules; what it leaves is said.

These tests need torch, an extra; tests/conftest.py leaves them out where it is not installed.
"""

import sys
import threading
import tomllib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
import torch
from support import raises
from torch import nn
from torch_cases import MODULES, NETWORKS

import vtakit
from vtakit.runtime.module import InputError
from vtakit.runtime.target import TargetError
from vtakit.runtime.torch_backend import sizes
from vtakit.runtime.torch_backend.notices import RunsInPyTorch
from vtakit.runtime.torch_backend.settings import settings
from vtakit.runtime.torch_backend.weights import Packed

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "error::vtakit.runtime.torch_backend.notices.RunsInPyTorch")
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _anew(monkeypatch):
    torch.compiler.reset()
    torch.manual_seed(0)
    monkeypatch.setattr(torch._dynamo.config, "allow_rnn", True)


@pytest.fixture
def compilations(monkeypatch):
    """Count compilations, so that no test passes on PyTorch's own computation."""
    found = []
    before = sizes.runner
    monkeypatch.setattr(sizes, "runner", lambda traced, chosen: found.append(traced) or before(traced, chosen))
    return found


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend=vtakit.torch_backend, **options)


def same(got: Any, wanted: Any) -> None:
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect what the backend says meanwhile."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", RunsInPyTorch)
        yield found
    found += [str(each.message) for each in said if each.category is RunsInPyTorch]


SOME = ("Conv2d", "AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "EmbeddingBag", "LSTM", "TransformerEncoderLayer", "Fold", "Bilinear")


@pytest.mark.parametrize("name", [*SOME, "gpt", "buffers", "graph breaks"])
def test_modules_agree_with_pytorch_on_changing_sizes(name, compilations):
    case = {**MODULES, **NETWORKS}[name]
    module, plain = case.make().eval(), case.make().eval()
    plain.load_state_dict(module.state_dict())
    ours = compiled(module)
    with torch.no_grad():
        for batch, length in ((2, 9), (3, 11)):
            inputs = case.inputs(batch, length)
            same(ours(*inputs), plain(*inputs))
    same(list(module.buffers()), list(plain.buffers()))
    assert len(compilations) >= 2


def test_each_set_of_sizes_is_compiled_once_and_the_oldest_goes(compilations):
    ours = compiled(lambda x: torch.relu(x) + 1, dynamic=True, options={"specializations": 2})
    for count in (3, 4, 3, 4, 5, 4, 3):  # 5 makes 3 go
        x = torch.randn(count, 2)
        same(ours(x), torch.relu(x) + 1)
    assert [traced.graph.inputs[0].type.shape[0] for traced in compilations] == [3, 4, 5, 3]


def test_numbers_that_change_with_each_call_end_in_pytorch(compilations):
    ours = compiled(lambda x, step: x * step + 1, dynamic=True, options={"specializations": 1})
    x = torch.randn(3, 2)
    for step in range(2, 9):
        with heard() as said:
            same(ours(x, step), x * step + 1)
        assert ["4 sets of sizes" in each for each in said] == ([True] if step == 6 else []), step
    assert len(compilations) == 4


def test_inputs_are_read_where_they_are_and_others_in_rows():
    ours = compiled(lambda x, y: x * 2 + y)
    x, y = torch.randn(4, 6), torch.randn(6, 4).T
    for a, b in ((x, y), (x[:, ::2], y[:, 1::2]), (x[1:, 3:], y[:3, :3]), (x[0], torch.tensor(2.0)), (x[:0], y[:0])):
        same(ours(a, b), a * 2 + b)
    image = torch.randn(2, 4, 5, 5).to(memory_format=torch.channels_last)
    conv = nn.Conv2d(4, 8, 3).eval().to(memory_format=torch.channels_last)
    with torch.no_grad():
        got, wanted = compiled(conv)(image), conv(image)
    same(got, wanted)
    assert got.stride() == wanted.stride()


def test_changes_of_inputs_and_aliases_of_outputs_are_pytorchs():
    def function(x, y):
        x.add_(y)
        view = x[1:]
        y[0] = 7
        return view, x.T, y * 2, y

    a, b, c, d = torch.randn(3, 3), torch.ones(3), torch.empty(0), torch.empty(0)
    c, d = a.clone(), b.clone()
    got, wanted = compiled(function)(a, b), function(c, d)
    same((a, b), (c, d))
    same(got, wanted)
    got[0].zero_()  # a view of the input
    assert a[1:].abs().sum() == 0
    assert got[3] is b


def test_changed_weights_are_seen_and_then_passed(compilations):
    module = nn.Linear(4, 3).eval()
    ours = compiled(module)
    x = torch.randn(2, 4)
    with torch.no_grad():
        for change in (
            lambda: None, lambda: module.weight.mul_(2), lambda: module.bias.data.add_(1),
            lambda: module.load_state_dict({"weight": torch.ones(3, 4), "bias": torch.zeros(3)}), lambda: module.weight.add_(1),
            lambda: setattr(module.weight, "data", torch.randn(3, 4)),
        ):
            change()
            same(ours(x), module(x))
    assert [len(traced.inputs) for traced in compilations] == [1, 2, 3]  # the weight, then the bias, are inputs


@pytest.mark.parametrize("layout", [
    lambda x: x, lambda x: x.to(memory_format=torch.channels_last), lambda x: x.transpose(0, 1), lambda x: x[::2, :, 1:, ::3],
    lambda x: x[:1].expand(6, -1, -1, -1), lambda x: x.to(torch.complex128), lambda x: x.bool(),
], ids=["rows", "channels last", "transposed", "strided", "expanded", "complex", "bool"])
def test_changed_and_replaced_weights_of_any_layout_are_seen(layout):
    def made(scale=1.0):
        return layout(torch.arange(1.0, 1 + 4 * 2 * 5 * 6).reshape(4, 2, 5, 6) * scale)

    weight = made()
    packed = Packed({1: weight})
    assert packed.changed([None, weight]) == ()
    if not weight.is_complex():  # of which no element is compared
        weight.data[torch.unravel_index(torch.tensor(weight.numel() // 2), weight.shape)] = 0
        assert packed.changed([None, weight]) == (1,)
    address = (weight := made()).data_ptr()
    packed = Packed({1: weight})
    del weight
    others = [made(2.0) for _ in range(40)]  # one of which would have the freed address
    assert all(other.data_ptr() != address for other in others)
    assert all(packed.changed([None, other]) == (1,) for other in others)


@pytest.mark.parametrize(("weights", "inputs"), [("packed", [1, 1]), ("passed", [3])])
def test_weights_may_be_packed_or_passed_always(weights, inputs, compilations):
    module = nn.Linear(4, 3).eval()
    ours = compiled(module, options={"weights": weights, "threads": 1})
    x = torch.randn(2, 4)
    with torch.no_grad():
        same(ours(x), module(x))
        module.weight.mul_(2)
        same(ours(x), module(x))
    assert [len(traced.inputs) for traced in compilations] == inputs


def test_weights_that_change_with_each_call_end_in_pytorch_for_that_reason(compilations):
    module = nn.Linear(4, 3).eval()
    ours = compiled(module, dynamic=True, options={"weights": "packed", "specializations": 2})
    with torch.no_grad():
        for change in range(12):
            with heard() as said:
                same(ours(x := torch.randn(2, 4)), module(x))
            wanted = "a graph has been compiled 8 times because its weights changed; it runs in PyTorch now: give options={'we"
            assert [wanted in each for each in said] == ([True] if change == 9 else []), change
            module.weight.mul_(1.5)
        count = len(compilations)
        same(ours(x := torch.randn(5, 4)), module(x))  # another size, of which there were few
        assert len(compilations) == count + 1 == 10


def test_training_is_pytorchs_and_said_once(compilations):
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    ours, x = compiled(module), torch.randn(8, 4)
    with heard() as said:
        ours(x).sum().backward()
        ours(torch.randn(9, 4)).sum().backward()
    assert ["gradients are enabled" in each for each in said] == [True]
    assert module[0].weight.grad is not None
    with torch.no_grad(), heard() as said:
        torch.manual_seed(3)
        got = ours(x)
        torch.manual_seed(3)
        same(got, module(x))
    assert ["training mode; call its eval()" in each for each in said] == [True]
    assert not compilations
    module.eval()
    with torch.no_grad():
        same(ours(x), module(x))
    assert len(compilations) == 1


def test_what_has_no_code_runs_in_pytorch_between_compiled_parts(compilations):
    def function(x):
        y = torch.relu(x @ x.T) * 2
        z = torch.lgamma(y + 1)
        return (z * 3 + 1).softmax(-1), z

    x = torch.randn(5, 5)
    with pytest.warns(RunsInPyTorch, match=r"2 parts of a graph compiled, the rest runs in PyTorch: aten\.lgamma"):
        same(compiled(function)(x), function(x))
    assert len(compilations) == 2
    with pytest.warns(RunsInPyTorch, match=r"a graph runs in PyTorch: aten\.digamma"):
        same(compiled(torch.digamma)(x.abs() + 1), torch.digamma(x.abs() + 1))


def test_results_are_of_one_run_each_when_threads_share_a_graph():
    module = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)).eval()
    ours = compiled(module)
    inputs = [torch.randn(4, 16) for _ in range(8)]
    with torch.no_grad():
        wanted = [module(x) for x in inputs]
        ours(inputs[0])
    got: list[Any] = [None] * 8

    def work(at: int) -> None:
        with torch.no_grad():
            for _ in range(20):
                got[at] = ours(inputs[at])

    threads = [threading.Thread(target=work, args=(at,)) for at in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    same(got, wanted)


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"thread": 2}, InputError, "options={'thread': …}: … did you mean 'threads'? …"),
    ({"threads": 0}, InputError, "threads=0: a run uses at least 1"),
    ({"target": "vta"}, TargetError, "options={'target': 'vta'}: … run on a processor, target 'llvm'; …"),
    ({"target": "lvm"}, TargetError, "unknown target 'lvm'; did you mean 'llvm'? …"),
    ({"weights": "frozen"}, InputError, "options={'weights': 'frozen'}: … auto, packed, passed"),
    ({"specializations": 0}, InputError, "options={'specializations': 0}: at least 1 …"),
    ({"winograd": 1}, InputError, "options={'winograd': 1}: give True or False"),
    ({"precision": "int4"}, TargetError, "precision 'int4': give one of 'float32', …"),
])
def test_wrong_options_are_sentences(options, error, message):
    with raises(error, message):
        settings(options)


def test_precision_and_target_of_the_options_are_used():
    module = nn.Linear(64, 64).eval()
    x = torch.randn(2, 64)
    with torch.no_grad():
        got = compiled(module, options={"precision": "float16", "target": vtakit.target("llvm")})(x)
        worst = (got - module(x)).abs().max()
    assert 0 < worst < 1e-2


def test_the_entry_point_names_the_backend(tmp_path):
    """PyTorch finds the backend by the metadata of the installed package, without an import of vtakit."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["torch_dynamo_backends"]
    (name, value), = points.items()
    assert EntryPoint(name, value, "torch_dynamo_backends").load() is vtakit.torch_backend
    folder = tmp_path / "vtakit-0.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: vtakit\nVersion: 0.1.0\n")
    (folder / "entry_points.txt").write_text(f"[torch_dynamo_backends]\n{name} = {value}\n")
    code = ("import sys, torch; sys.path[:0] = sys.argv[1:]; f = torch.compile(lambda x: x * 2 + 1, backend='vtakit'); "
            "assert f(torch.ones(3)).tolist() == [3, 3, 3]; assert 'vtakit.runtime.torch_backend.code' in sys.modules")
    done = run([sys.executable, "-c", code, str(tmp_path), str(ROOT)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def test_vtakit_itself_does_not_load_torch():
    code = ("import vtakit, sys; vtakit.compile, vtakit.register_operator, vtakit.InferenceSession; "
            "assert 'torch' not in sys.modules")
    done = run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]


def test_notices_are_warnings_that_can_be_silenced():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("ignore", RunsInPyTorch)
        compiled(torch.digamma)(torch.ones(2))
    assert not said
