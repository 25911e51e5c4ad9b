"""Decisions of models: `vtakit.decisions`, `vtakit.compile(…, decisions=…)`, `vtakit decisions` and --decisions."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks.checks import FLOAT_ERROR
from onnx import TensorProto, helper, numpy_helper
from support import raises

import vtakit
from vtakit import te
from vtakit.compiler.graph.decisions import ModelDecisions, read_decisions
from vtakit.compiler.schedule.decisions import DecisionError, Decisions, plain
from vtakit.runtime import cli
from vtakit.runtime.images import read_image
from vtakit.runtime.vta.part import VtaPart

RNG = np.random.default_rng(6)
X = RNG.standard_normal((1, 16, 14, 14)).astype("f4")
TARGET = vtakit.target("llvm", triple="x86_64-unknown-linux-gnu", cpu="haswell")


def network() -> onnx.ModelProto:
    """Two convolutions with a pool between them."""
    weights = {"w": (32, 16, 5, 5), "v": (16, 32, 3, 3)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv1", pads=[2] * 4), helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("MaxPool", ["b"], ["c"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "v"], ["y"], "conv2", pads=[1] * 4),
    ]
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
             for name, shape in (("x", X.shape), ("y", (1, 16, 7, 7)))]
    rng = np.random.default_rng(5)
    known = [numpy_helper.from_array(rng.standard_normal(shape).astype("f4"), name) for name, shape in weights.items()]
    graph = helper.make_graph(nodes, "net", *ports, known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def int8() -> onnx.ModelProto:
    """The network in int8."""
    model: onnx.ModelProto = vtakit.quantize(network(), X).model
    return model


@pytest.fixture(scope="module")
def wide() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Convolutions of 64 channels, plain and strided, a depthwise one and a product, in float32 and in int8."""
    rng = np.random.default_rng(4)
    weights = {"w": (64, 64, 3, 3), "v": (64, 64, 1, 1), "d": (64, 1, 3, 3), "m": (64, 48)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv1", pads=[1] * 4), helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "v"], ["c"], "conv2", strides=[2, 2]),
        helper.make_node("Conv", ["c", "d"], ["e"], "conv3", pads=[1] * 4, group=64),
        helper.make_node("GlobalAveragePool", ["e"], ["f"], "mean"), helper.make_node("Flatten", ["f"], ["g"], "flat"),
        helper.make_node("MatMul", ["g", "m"], ["y"], "product"),
    ]
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
             for name, shape in (("x", (1, 64, 14, 14)), ("y", (1, 48)))]
    known = [numpy_helper.from_array(rng.standard_normal(shape).astype("f4"), name) for name, shape in weights.items()]
    model = helper.make_model(helper.make_graph(nodes, "wide", *ports, known), opset_imports=[helper.make_opsetid("", 17)],
                              ir_version=8)
    return model, vtakit.quantize(model, rng.standard_normal((1, 64, 14, 14)).astype("f4")).model


def chosen(*args, **options) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for layer, decision in vtakit.decisions(*args, **options):
        found.setdefault(layer, {})[decision.name] = decision.chosen
    return found


def test_decisions_of_a_model_on_a_cpu():
    made = {(layer, each.name): each for layer, each in vtakit.decisions(network(), TARGET)}
    tile = made["conv1", "sums.tile"]
    assert tile.rule == "schedule_blocked"
    assert tile.chosen == tile.default
    assert tile.chosen in tile.candidates
    assert made["conv1", "layout"].candidates == ("plain", "blocks")
    layers = [layer for layer in dict.fromkeys(layer for layer, _ in made) if layer.startswith("conv")]
    assert layers == ["conv1", "conv2", "conv2#2"], "the last one brings the result out of its blocks"
    assert made["conv2#2", "unblock_channels.parallel"].candidates == (False, True)


def test_given_decisions_change_the_code_and_not_the_result():
    model = network()
    before = vtakit.compile(model, cache=False)
    given = {"conv1": {"layout": "plain"}}
    after = vtakit.compile(model, cache=False, decisions=given)
    assert "conv_blocked" in before.image.graph
    assert "conv_blocked" not in after.image.graph
    wanted = before.run({"x": X})["y"]
    np.testing.assert_allclose(after.run({"x": X})["y"], wanted, atol=2 * FLOAT_ERROR * np.abs(wanted).max())
    assert chosen(model, decisions=given)["conv1"]["layout"] == "plain"


def test_a_file_and_numbers_of_numpy_can_be_given(tmp_path):
    (tmp_path / "d.json").write_text('{"conv1": {"layout": "plain", "kernel.threads": false}}')
    wanted = chosen(network(), TARGET, decisions={"conv1": {"layout": "plain", "kernel.threads": False}})
    assert chosen(network(), TARGET, decisions=tmp_path / "d.json") == wanted
    given = {"layout": np.str_("plain"), "kernel.threads": np.bool_(False)}
    assert chosen(network(), TARGET, decisions={"conv1": given}) == wanted


PROCESSORS = ("nehalem", "haswell", "skylake-avx512", "znver4", "znver5", "sapphirerapids", "sierraforest")


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("cpu", PROCESSORS)
def test_any_candidates_go_together(wide, monkeypatch, cpu, precision):
    """Every decision takes a random candidate; the default of each is one of its candidates."""
    rng, choose = np.random.default_rng(0), Decisions.choose

    def draw(self, name, candidates, default, rule):
        self.given[name] = plain(candidates[rng.integers(len(candidates))])
        return choose(self, name, candidates, default, rule)
    monkeypatch.setattr(Decisions, "choose", draw)
    model, float_ = wide[precision == "int8"], "float32" if precision == "int8" else precision
    for _ in range(12):
        made = list(vtakit.decisions(model, vtakit.target("llvm", triple="x86_64-unknown-linux-gnu", cpu=cpu), precision=float_))
        assert made
        assert all(each.chosen in each.candidates for _, each in made)


def test_what_is_chosen_can_be_given():
    given = chosen(network(), TARGET)
    assert chosen(network(), TARGET, decisions=given) == given
    one, other = (vtakit.compile(network(), TARGET, cache=False, decisions=each).image for each in (None, given))
    assert [part.code for part in one.parts] == [part.code for part in other.parts]


def test_decisions_are_part_of_the_module_file_and_of_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VTAKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("vtakit.runtime.kept_models.WORTH_SECONDS", 0.0)
    given = {"conv1": {"layout": "plain"}}
    assert "conv_blocked" in vtakit.compile(network()).image.graph
    module = vtakit.compile(network(), decisions=given)
    assert "conv_blocked" not in module.image.graph
    module.save(tmp_path / "net.vtak")
    assert read_image(tmp_path / "net.vtak").source.options.decisions == given
    assert "conv_blocked" not in read_image(tmp_path / "net.vtak", recompile=True).graph


def test_a_layer_is_placed_tiled_and_threaded_on_the_accelerator(int8):
    before = vtakit.compile(int8, "vta", cache=False)
    wanted = before.run({"x": X})
    found = chosen(int8, "vta", decisions={"conv1": {"pool": "apart"}})
    (first, pool, last) = [layer for layer, values in found.items() if "place" in values]
    decisions = {
        first: {"pool": "apart", "result.tile": [1, 1, 7, 7], "result.threads": 2, "result.copies": 1}, pool: {"place": "cpu"},
        last: {"result.keep": not found[last]["result.keep"]},
    }
    module = vtakit.compile(int8, "vta", cache=False, decisions=decisions)
    assert [each.reason for each in module.placement.left if each.op == "max_pool"] == ["a decision places it there"]
    np.testing.assert_array_equal(module.run({"x": X})["y"], wanted["y"])
    assert len(module.image.parts_of(VtaPart)) == 2
    assert len(before.image.parts_of(VtaPart)) == 1


@pytest.mark.parametrize(("given", "message"), [
    ({"conv1": {"layout": "rows"}},
     "layer 'conv1': decision 'layout' is 'rows', which is no candidate here: give one of 'plain', 'blocks'"),
    ({"conv1": {"sums.tiles": 3}}, "layer 'conv1': decision 'sums.tiles' does not exist here: did you mean 'sums.tile'? "),
    ({"conv11": {"layout": "plain"}}, "layer 'conv11' has no decisions here: did you mean 'conv1'? "),
    ({"conv1": 3}, "the decisions of layer 'conv1' are 3: give a mapping of names to values"),
    ({"conv1": {"layout": {}}}, "layer 'conv1': decision 'layout' is {}: give a number, a truth value, text, or a list of these"),
    (3, "decisions are 3: give a mapping of layers"),
])
def test_decisions_that_there_are_not(given, message):
    with pytest.raises(DecisionError) as caught:
        vtakit.compile(network(), TARGET, decisions=given, cache=False)
    assert str(caught.value).startswith(message)


def test_decisions_of_a_layer_that_the_accelerator_then_refuses(int8, monkeypatch):
    """The reason and the decisions are said; without decisions the layer goes to the CPU."""
    first = next(layer for layer, values in chosen(int8, "vta").items() if "place" in values)
    def refuse(*_):
        raise vtakit.compiler.codegen.vta.errors.VtaError("it is too large")
    monkeypatch.setattr("vtakit.compiler.graph.vta.region.compile_for", refuse)
    given = {first: {"result.threads": 1}}
    with raises(DecisionError, f"layer {first!r} cannot be compiled with {given}: it is too large"):
        vtakit.compile(int8, "vta", cache=False, decisions=given)


def test_layers_of_one_name_are_numbered():
    model = network()
    for node in model.graph.node:
        if node.op_type == "Conv":
            node.name = "conv"
    found = chosen(model, TARGET)
    assert {"conv", "conv#2"} <= set(found)
    assert chosen(model, TARGET, decisions=found) == found


def test_plain_data():
    assert read_decisions({"b": {"z": (1, 2), "a": True}, "a": {}}) == {"a": {}, "b": {"a": True, "z": [1, 2]}}
    assert not [*ModelDecisions()]


def test_the_command_writes_what_compile_reads(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "net.onnx")
    assert cli.main(["decisions", "net.onnx"]) == 0
    table = capsys.readouterr().out
    assert "conv1" in table
    assert "plain, blocks" in table
    assert cli.main(["decisions", "net.onnx", "-o", "d.json"]) == 0
    assert "d.json: " in capsys.readouterr().out
    values = json.loads((tmp_path / "d.json").read_text())
    assert values == chosen(network())
    values["conv1"]["layout"] = "plain"
    (tmp_path / "d.json").write_text(json.dumps({"conv1": {"layout": "plain"}}))
    assert cli.main(["decisions", "net.onnx", "--decisions", "d.json", "--json"]) == 0
    made = {(each["layer"], each["name"]): each for each in json.loads(capsys.readouterr().out)}
    assert made["conv1", "layout"]["chosen"] == "plain"
    assert made["conv1", "layout"]["default"] == "blocks"
    assert cli.main(["compile", "net.onnx", "--decisions", "d.json", "-o", "net.vtak"]) == 0
    assert "conv_blocked" not in read_image("net.vtak").graph


@pytest.mark.parametrize(("text", "message"), [
    (None, "cannot read the file of decisions 'd.json': No such file or directory"),
    ("{", ("the file of decisions 'd.json' is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 "
           "(char 1)")),
    ("[]", "the file of decisions 'd.json' holds no object of layers, such as {\"conv1\": {\"winograd\": 0}}"),
    ("null", "the file of decisions 'd.json' holds no object of layers, such as {\"conv1\": {\"winograd\": 0}}"),
    ('{"conv11": {}}', "layer 'conv11' has no decisions here: did you mean 'conv1'? Known: conv1, conv2, conv2#2, pool, x"),
    ('{"conv1": {"layout": "rows"}}',
     "layer 'conv1': decision 'layout' is 'rows', which is no candidate here: give one of 'plain', 'blocks'"),
])
def test_files_that_are_no_decisions(tmp_path, monkeypatch, capsys, text, message):
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "net.onnx")
    if text is not None:
        (tmp_path / "d.json").write_text(text)
    for command in ("decisions", "compile"):
        words = ["-o", "net.vtak"] if command == "compile" else []
        assert cli.main([command, "net.onnx", "--decisions", "d.json", *words]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err == f"vtakit {command}: {message}\n"
    assert not (tmp_path / "net.vtak").exists()


def test_a_module_is_no_model_to_decide(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    vtakit.compile(network()).save("net.vtak")
    assert cli.main(["decisions", "net.vtak"]) == 2
    assert "a compiled model already" in capsys.readouterr().err
    (tmp_path / "d.json").write_text("{}")
    assert cli.main(["run", "net.vtak", "--decisions", "d.json"]) == 2
    assert "is compiled already" in capsys.readouterr().err


@pytest.mark.parametrize("config", ["default", "tiny"])
def test_a_pool_together_with_its_convolution(int8, config):
    """The greatest sum of a window, requantized, is the greatest requantized sum: the same bytes, and fewer are stored."""
    want = vtakit.compile(int8).run({"x": X})["y"]
    written = {}
    for form in ("apart", "fused"):
        module = vtakit.compile(int8, "vta", config=config, decisions={"conv1": {"pool": form}})
        assert np.array_equal(module.run({"x": X})["y"], want)
        report, = module.profile({"x": X}).launches
        written[form] = sum(layer.written["out"] for layer in report.layers)
    assert written["apart"] - written["fused"] == 32 * X.shape[2] * X.shape[3]


def test_a_pool_on_a_slow_memory(int8):
    """Where the bus bounds the pool it goes with the convolution, without being told."""
    slow = {"bandwidth": 0.1}
    assert chosen(int8, "vta", system=slow)["conv1"]["pool"] == "fused"


def test_the_pages_explain_every_decision():
    """A page about decisions has the name of each decision that a rule or a pass asks for."""
    root = Path(__file__).parents[2]
    asked = re.compile(r'(?:choose|ask)\((?:[\w.\[\]()]+, )?"(\w+)"')
    names = {name for path in (root / "compiler").rglob("*.py") for name in asked.findall(path.read_text())}
    assert len(names) > 25
    pages = ("tuning", "tuning_expressions", "gpu", "tensor_cores")
    page = "".join([(root / "docs" / f"{name}.md").read_text() for name in pages])
    assert {name for name in names if not re.search(rf"[`.]{name}`", page)} == set()


@pytest.mark.parametrize(("given", "message"), [
    ({"conv1": {"pool": "sideways"}}, "layer 'conv1': decision 'pool' is 'sideways'"),
    ({"conv1": {"result.tile": [1, 1, 1]}}, "layer 'conv1': decision 'result.tile' is [1, 1, 1], which is no candidate here"),
    ({"conv1": {"result.tile": [1.0, 1, 1, 1]}}, "layer 'conv1': decision 'result.tile' is [1.0, 1, 1, 1]"),
    ({1: {"place": "vta"}}, "a layer of the decisions is 1: layers are text, such as 'conv1'"),
    ([], "decisions are []: give a mapping of layers"),
    (0, "decisions are 0: give a mapping of layers"),
])
def test_what_is_no_decision_is_told_in_the_names_of_the_table(int8, given, message):
    with pytest.raises(DecisionError) as caught:
        vtakit.decisions(int8, "vta", decisions=given)
    assert str(caught.value).startswith(message)


def test_a_layer_that_stands_twice_in_a_file_is_refused(tmp_path, capsys):
    onnx.save(network(), tmp_path / "net.onnx")
    (tmp_path / "d.json").write_text('{"conv1": {"layout": "plain"}, "conv1": {"winograd": 0}}')
    assert cli.main(["decisions", str(tmp_path / "net.onnx"), "--decisions", str(tmp_path / "d.json")]) == 2
    assert "the key 'conv1' stands twice in an object" in capsys.readouterr().err


def test_what_is_no_mapping_for_a_schedule_is_refused():
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: a[i] + 1, name="b")
    with raises(DecisionError, "decisions are [1]: give a mapping of names to values"):
        te.create_schedule(b.op, decisions=[1])
