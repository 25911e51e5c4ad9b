"""The benchmark of the CPU back end: documents have what its file of results says, and its figures are what they are called."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
COMMAND = "python benchmarks/cpu_suite.py --write"


def benchmark(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


PAGE = benchmark("cpu_page")
EVERY = PAGE.kept()
KEPT = EVERY[0]


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The suite, which imports its neighbours as a script does and tells OpenMP its number of threads."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    return benchmark("cpu_suite")


def generated(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition(PAGE.BEGIN)[2].partition(PAGE.END)[0]


def test_the_documents_have_what_was_measured():
    assert generated(PAGE.PAGE) == PAGE.page(EVERY), f"run {COMMAND}"
    assert generated(PAGE.README) == PAGE.short(EVERY), f"run {COMMAND}"
    for each in EVERY:
        assert f"## On {each['machine']['processor']}\n" in generated(PAGE.PAGE)
        assert PAGE.file_of(each).exists()
    assert b"<svg" in PAGE.PICTURE.read_bytes()


def test_every_network_and_layer_was_measured(suite):
    names = [*(f"{name} float32" for name in suite.models.NETWORKS)]
    names += [f"{name} {kind}" for kind, chosen in suite.OTHERS.items() for name in chosen]
    assert list(KEPT["networks"]) == names
    assert list(KEPT["layers"]) == [layer.name for layer in suite.cpu_convolutions.LAYERS]
    assert list(KEPT["peers"]) == [peer.name for peer in suite.cpu_peers.PEERS]


@pytest.mark.parametrize(("at", "key"), [(at, key) for at, each in enumerate(EVERY) for key in each["networks"]])
def test_memory_is_at_most_what_is_promised(at, key):
    """Weights once, and an arena of at most 1.3 times what is needed at one time."""
    memory = EVERY[at]["networks"][key]["memory"]
    assert memory["live"] <= memory["arena"] <= 1.3 * memory["live"]


def test_figures_are_medians_of_what_happened_in_a_turn(suite):
    turns = [
        {"vtakit": 1.0, "a": 2.0, "b": 5.0, "peak": 0.5},
        {"vtakit": 2.0, "a": 8.0, "b": 3.0, "peak": 1.0},
        {"vtakit": 4.0, "a": 4.0, "b": 20.0, "peak": 2.0},
    ]
    assert suite.figures(turns, flops=30, operations=100) == {
        "ms": {"vtakit": 2000, "a": 4000, "b": 5000}, "ratios": {"a": 2.0, "b": 5.0}, "best": 1.5,
        "share_of_peak": pytest.approx(0.15),
    }
    assert suite.figures([{"vtakit": 3.0}], 1, 0) == {"ms": {"vtakit": 3000}, "ratios": {}}


def test_products_are_those_of_the_model(suite):
    assert suite.macs_of_model(suite.models.build("dqn")) == KEPT["networks"]["dqn float32"]["macs"] == 9_352_192


def test_contenders_take_turns(suite):
    order = []
    now = iter(range(1000))
    runs = {name: lambda name=name: order.append(name) for name in ("x", "y")}
    turns = suite.in_turns(runs, 2, lambda: next(now))  # each run seems to take a second, more than a turn should
    assert turns == [{"x": 1, "y": 1}] * 2
    assert order == ["x", "x", "y", "y", "x", "y", "x", "y"]


def test_a_wrong_result_ends_the_measurement(suite):
    runs = {"vtakit": lambda: {"y": suite.np.array([1.0, 2.1])}, "other": lambda: [suite.np.array([1.0, 2.0])]}
    assert suite.compared(runs, "int8", "net") == pytest.approx(0.05)
    says = r"^net: the result differs by 5.0e-02 of the largest value from that of another runtime$"
    with pytest.raises(SystemExit, match=says):
        suite.compared(runs, "float32", "net")


@pytest.mark.parametrize("name", ["onnxruntime"])
def test_a_small_network_is_measured_from_beginning_to_end(suite, name):
    """As the command measures it, with the peer that tests have anyway."""
    (peer,) = [peer for peer in suite.cpu_peers.PEERS if peer.name == name]
    results = suite.measure("dqn float32", [peer], [1, 2], 1)
    (row,) = results["networks"].values()
    assert row["difference"] < 1e-5
    assert set(row["threads"]) == {"1", "2"}
    assert all(found["ms"]["vtakit"] > 0 and found["best"] > 0 for found in row["threads"].values())
    assert 0 < row["threads"]["1"]["share_of_peak"] < 1
    ours, theirs = row["processes"]["vtakit"], row["processes"][name]
    assert ours["compile_s"] > 0
    assert ours["held_bytes"] > row["memory"]["weights"]
    assert theirs["most_bytes"] > 0
    assert "| DQN | " in PAGE.text(results)
