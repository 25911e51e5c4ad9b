"""The benchmark of the CPU back end: documents have what its file of results says, and its figures are what they are called."""

import copy
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import pytest
from quantized_support import quantized, small_classifier

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


def rows_of(text: str, first: str) -> list[list[str]]:
    """The cells of the lines of tables that begin with a word."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith(f"| {first} |")]


def result(processor: str, date: str) -> dict[str, Any]:
    """Results of a processor, with a network on one thread and a layer, beside one peer."""
    network = {
        "title": "Net", "macs": 2_000_000, "difference": 1e-6,
        "memory": {"weights": 4_000_000, "arena": 1_000_000, "live": 1_000_000},
        "threads": {"1": {"ms": {"vtakit": 2.0, "onnxruntime": 3.0}, "ratios": {"onnxruntime": 1.5}, "best": 1.5}},
        "processes": {name: {"compile_s": 1.0, "held_bytes": 7e6, "most_bytes": 9e6} for name in ("vtakit", "onnxruntime")},
    }
    layer = {
        "shape": "a shape", "ours_ms": 0.25, "gflops": 100.0, "share_of_peak": 0.9, "alone_ms": 0.375, "onnxruntime_ms": 0.5,
        "onnxruntime_by_ours": 2.0, "fastest_by_ours": 2.0, "fastest_by_alone": 1.375,
    }
    names = {"processor": processor, "processors": 2, "features": ["avx2"], "system": "Linux", "python": "3.11", "numpy": "2.0"}
    return {"machine": names | {"date": date, "commit": "abc"}, "peers": {"onnxruntime": "1.0"}, "repeat": 3,
            "networks": {"net float32": network}, "layers": {"C2": layer, "D1": layer | {"fastest_by_ours": 4.0}}}


def test_each_processor_has_its_results_and_the_last_comes_first(tmp_path, monkeypatch):
    """A later run replaces those of its own processor alone."""
    monkeypatch.setattr(PAGE, "RESULTS", tmp_path)
    for processor, date in (("Old (R) CPU", "2026-01-01"), ("A New one", "2026-03-01"), ("Old (R) CPU", "2026-02-01")):
        PAGE.keep(result(processor, date))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-new-one-avx2.json", "old-r-cpu-avx2.json"]
    every = PAGE.kept()
    assert [each["machine"]["date"] for each in every] == ["2026-03-01", "2026-02-01"]
    titles = [line for line in PAGE.page(every).splitlines() if line.startswith("## ")]
    assert titles == ["## On A New one", "## On Old (R) CPU"]
    assert PAGE.page(every).count("| Net | 2.00 | 3.00 | 1.50 |") == 2


def test_the_table_of_layers_has_them_in_blocks_and_alone():
    text = PAGE.layers(result("CPU", "2026-01-01"))
    assert rows_of(text, "layer") == [[
        "layer", "pixels, channels, kernel", "in blocks, ms", "GFLOP/s", "of peak", "alone, ms", "onnxruntime, ms",
        "in blocks faster by", "alone faster by"]]
    assert rows_of(text, "C2") == [["C2", "a shape", "0.250", "100", "90%", "0.375", "0.500", "2.00", "1.38"]]
    assert "in blocks, C2 to C12: 2.00." in text
    assert "alone, D1 to D9: 1.38." in text


def test_what_former_results_lack_is_left_blank():
    """A layer that was not measured alone, a peer that one network or layer has not, a network that one processor has not."""
    former = result("CPU", "2026-01-01")
    former["peers"]["OpenVINO"] = "2.0"
    former["networks"]["net int8"] = copy.deepcopy(former["networks"]["net float32"])
    del former["networks"]["net int8"]["threads"]["1"]["best"], former["networks"]["net int8"]["processes"]["onnxruntime"]
    former["layers"]["C3"] = {**former["layers"]["C2"], "openvino_ms": 0.75}
    for key in ("alone_ms", "onnxruntime_ms", "fastest_by_ours", "fastest_by_alone"):
        del former["layers"]["C3"][key]
    text = PAGE.page([result("Other", "2026-02-01"), former])
    assert rows_of(text, "C3") == [["C3", "a shape", "0.250", "100", "90%", "", "", "0.750", "", ""]]
    assert rows_of(text, "C2")[1] == ["C2", "a shape", "0.250", "100", "90%", "0.375", "0.500", "", "2.00", "1.38"]
    assert rows_of(text, "Net, int8") == [
        ["Net, int8", "2.00", "3.00", "", "", "2", "", "1e-06"],
        ["Net, int8", "1.0", "4.0", "1.0", "1.00", "7", "", "", "9", "", ""],
    ]


def test_former_results_without_layers_alone_have_no_mean_of_them():
    former = result("CPU", "2026-01-01")
    for row in former["layers"].values():
        del row["fastest_by_alone"]
    assert "alone, " not in PAGE.layers(former).partition("Geometric")[2]


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
    assert suite.compared(runs, 0.1, "net") == pytest.approx(0.05)
    says = r"^net: the result differs by 5.0e-02 of the largest value from that of another runtime$"
    with pytest.raises(SystemExit, match=says):
        suite.compared(runs, 1e-3, "net")


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


def test_a_layer_is_measured_in_blocks_and_alone(suite):
    """A light one, with the peer that tests have anyway: the columns of the table, and results that are right."""
    (peer,) = [peer for peer in suite.cpu_peers.PEERS if peer.name == "onnxruntime"]
    results = suite.measure("D8", [peer], [1], 1)
    (row,) = results["layers"].values()
    assert {"ours_ms", "alone_ms", "onnxruntime_ms", "fastest_by_ours", "fastest_by_alone"} <= set(row)
    assert row["error"] < 1e-6
    assert row["difference"] < 1e-5
    assert row["fastest_by_alone"] == pytest.approx(row["onnxruntime_ms"] / row["alone_ms"])


def test_the_readme_says_how_fast_as_the_tables_do():
    rows = [row["threads"].get("1", {}) for each in EVERY for row in each["networks"].values()]
    best = [row["best"] for row in rows if "best" in row]
    said = f"{min(best):.2f} to {max(best):.2f} times as fast as the better of onnxruntime and OpenVINO"
    assert said in (ROOT / "README.md").read_text(encoding="utf-8")


def test_models_in_files_are_measured_on_random_inputs(suite, tmp_path):
    """A quantized one is called int8; the first dimension, if it is open, is 1."""
    paths, net = [], small_classifier()
    for name, proto in (("plain", net.model("N")), ("whole", quantized(net.model(), net.inputs(2)))):
        paths.append(tmp_path / f"{name}.onnx")
        onnx.save(proto, paths[-1])
    found = suite.measure_files(paths, [], [1], 1)
    assert list(found["networks"]) == ["plain float32", "whole int8"]
    for row in found["networks"].values():
        assert row["macs"] == 6 * 3 * 9 * 36 + 6 * 4
        assert row["threads"]["1"]["ms"]["vtakit"] > 0
    assert [line[0] for line in rows_of(PAGE.text(found), "whole, int8")] == ["whole, int8"] * 2
