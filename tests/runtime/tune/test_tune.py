"""`vtakit tune` on the accelerator: tasks of a network, exact cycles, the network's verdict, `--tuned`, and what is said."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from support import raises

import vtakit
from vtakit import models
from vtakit.base.errors import VtakitError
from vtakit.base.text import counted
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.passes.base import run_passes
from vtakit.compiler.graph.passes.pipeline import passes_for_cpu
from vtakit.compiler.graph.vta.place import Region, place
from vtakit.compiler.graph.vta.region import compile_region
from vtakit.compiler.tune.space import defaults, drawn, listed
from vtakit.compiler.tune.task import DecisionError, Refused, TuneError, alike, decided
from vtakit.compiler.tune.vta_floors import floor_of
from vtakit.runtime import cli
from vtakit.runtime.model import network
from vtakit.runtime.tune.confirm import confirm
from vtakit.runtime.tune.cycles import Cycles, cycles_of, program_of
from vtakit.runtime.tune.forms import try_forms
from vtakit.runtime.tune.network import FORMS, Network, covered, settle
from vtakit.runtime.tune.outcome import Cost
from vtakit.runtime.tune.records import Records
from vtakit.sim import confirmed

SLOW = {"bandwidth": 0.25, "latency": 100}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A quantized model of three convolutions, two of them equal, and a matrix product."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(1)
    shapes = {"w1": (32, 16, 3, 3), "w2": (32, 32, 3, 3), "w3": (32, 32, 3, 3), "w4": (10, 32)}
    known = [numpy_helper.from_array((rng.standard_normal(shape) / 8).astype("f4"), name) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "first", pads=[1] * 4), helper.make_node("Relu", ["a"], ["b"], "relu1"),
        helper.make_node("Conv", ["b", "w2"], ["c"], "second", pads=[1] * 4), helper.make_node("Relu", ["c"], ["d"], "relu2"),
        helper.make_node("Conv", ["d", "w3"], ["e"], "third", pads=[1] * 4), helper.make_node("Relu", ["e"], ["f"], "relu3"),
        helper.make_node("GlobalAveragePool", ["f"], ["g"], "pool"), helper.make_node("Flatten", ["g"], ["h"], "flat"),
        helper.make_node("Gemm", ["h", "w4"], ["y"], "last", transB=1)]
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
             for name, shape in (("x", (1, 16, 12, 12)), ("y", (1, 10)))]
    graph = helper.make_graph(nodes, "net", *ports, known)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    samples = {"x": rng.standard_normal((4, 16, 12, 12)).astype("f4")}
    made = vtakit.quantize(model, samples, evaluation={"x": samples["x"][:1]}, symmetric=True).model  # pads are zeros
    file = tmp_path_factory.mktemp("tune") / "int8.onnx"
    onnx.save(made, file)
    return file


@pytest.fixture(scope="module")
def net(path):
    return network(path, "vta", config="compact", system=SLOW)


@pytest.fixture(scope="module")
def tuned(path, tmp_path_factory):
    """A session's files: (records, result)."""
    folder = tmp_path_factory.mktemp("session")
    (folder / "slow.json").write_text(json.dumps(SLOW))
    words = ["tune", str(path), "--config", "compact", "--system", str(folder / "slow.json")]
    words += ["--records", str(folder / "r.jsonl")]
    assert cli.main([*words, "--trials", "40", "--json", str(folder / "r.json"), "--save-model", str(folder / "m.json")]) == 0
    return folder, words


def task_named(net, layer):
    return next(each for each in net.tuned if layer in each.layers)


def test_equal_layers_are_one_task(net):
    assert task_named(net, "second").layers == ("second", "third")
    assert len({json.dumps(each.task.key, sort_keys=True) for each in net.tuned}) == len(net.tuned)
    json.dumps([each.task.key for each in net.tuned])


def test_a_table_is_the_space_without_doubles(net):
    for each in net.tuned:
        task, table = each.task, each.task.table
        texts = {alike(task, table.candidate(at)) for at in range(len(table))}
        assert len(texts) == len(table)
        assert alike(task, defaults(task)) in texts
        if len(table) < 400:
            assert texts == {alike(task, given) for given in listed(task)}
        rng = np.random.default_rng(0)
        for _ in range(20):
            assert alike(task, drawn(task, rng)) in texts


def test_rows_of_a_table_are_what_the_candidate_says(net):
    for each in net.tuned:
        task, table = each.task, each.task.table
        for at in np.random.default_rng(1).integers(len(table), size=10).tolist():
            given = table.candidate(at)
            assert decided(task, given) == given
            assert np.allclose(task.features(given), table.features[at], rtol=1e-4)
            assert task.estimate(given) == pytest.approx(table.estimates[at])
        assert np.isfinite(table.features).all()


def test_a_candidate_is_the_program_of_its_layer_alone(net):
    """The instructions of a candidate are those that a launch of this layer alone has with the same decisions."""
    graph = run_passes(net.graph, passes_for_cpu(net.evaluate, integer=True))
    (region,) = [part for part in place(graph, net.target).parts if isinstance(part, Region)]
    for unit, layer in ((unit, unit.name) for unit in region.units):
        task = task_named(net, layer).task
        for given in (defaults(task), task.table.candidate(len(task.table) // 2)):
            launch = compile_region(region.of(unit), net.target, "alone", None, ModelDecisions({layer: given}))
            own = program_of(task, given)
            assert own.insns == launch.program.insns
            assert own.uops == launch.program.uops
            assert cycles_of(own, net.target) == cycles_of(launch.program, net.target)


def test_measurement_in_children_is_that_in_this_process(net):
    task = task_named(net, "second").task
    rows = [task.table.candidate(at) for at in range(0, len(task.table), max(1, len(task.table) // 7))]
    alone, children = (
        {at: outcome[:3] for at, outcome in Cycles(workers).measure(task, rows)} for workers in (1, 2))
    assert {at: each for at, each in alone.items() if each[0]}.items() <= children.items()
    assert len(children) == len(rows)


def test_a_candidate_that_is_not_legal_is_refused_before_measurement(net):
    task = task_named(net, "second").task
    with raises(Refused, "its program is not made within 0 s"):
        program_of(task, defaults(task), 0)
    with pytest.raises(DecisionError, match="which is no candidate here"):
        program_of(task, defaults(task) | {"result.tile": [1, 999, 1, 1]})
    with raises(TuneError, "task 'x' is none of the accelerator, whose cycles are measured"):
        list(Cycles().measure("x", [{}]))


def test_a_session_tunes_and_goes_on(tuned, capsys):
    folder, words = tuned
    result = json.loads((folder / "r.json").read_text())
    assert result["trials"] == 40
    assert result["network"]["tuned"] <= result["network"]["default"]
    assert len([each for each in Records.read(folder / "r.jsonl") if each.kind == "trial"]) == 40
    capsys.readouterr()
    assert cli.main([*words, "--trials", "48", "--json", str(folder / "again.json")]) == 0
    again = json.loads((folder / "again.json").read_text())
    assert (again["trials"], again["reused"]) == (48, 40)
    assert "48 trials, 40 of them from the records" in capsys.readouterr().out
    for before, after in zip(result["tasks"], again["tasks"], strict=True):
        assert after["curve"][:before["trials"]] == before["curve"]


def test_the_rtl_confirms_the_best(tuned, net, capsys):
    folder, words = tuned
    result = json.loads((folder / "r.json").read_text())
    changed = [each for each in result["tasks"] if each["decisions"] and each["best"] < each["default"]]
    assert changed
    for each in changed:
        assert each["on_rtl"] == each["best"]
        (record,) = Records.read(folder / "r.jsonl").of(each["key"], "confirmed")
        assert record.cost == each["best"]
        assert not record.error
    count = len(Records.read(folder / "r.jsonl").of(changed[0]["key"], "confirmed"))
    assert cli.main([*words, "--trials", "40"]) == 0
    assert f"the RTL confirms {counted(len(changed), 'candidate')}, every cycle and byte" in capsys.readouterr().out
    assert len(Records.read(folder / "r.jsonl").of(changed[0]["key"], "confirmed")) == count  # the RTL did not run again
    assert cli.main([*words, "--trials", "40", "--confirm", "0"]) == 0
    assert "RTL" not in capsys.readouterr().out


def test_a_candidate_that_differs_on_the_rtl_is_not_used(net, monkeypatch):
    task = task_named(net, "second").task
    given = task.table.candidate(int(task.table.estimates.argsort()[1]))

    def run(program, inputs, device, **options):
        found = simulated(program, inputs, device=device, **options)
        return replace(found, counters=found.counters | {"cycles": 1}) if device == "rtl" else found
    simulated = confirmed.run
    monkeypatch.setattr(confirmed, "run", run)
    found = confirm([task], {0: given})
    assert found.wrong == [0]
    assert "wrong: on the RTL, counter cycles: got 1, want" in found.outcomes[0].error
    assert not f"{found}"


def test_what_the_rtl_did_not_run_is_said(net, monkeypatch):
    task = task_named(net, "second").task
    given = defaults(task)
    assert f"{confirm([task], {0: given}, 10)}" == (
        "1 candidate takes more than 10 cycles, which --confirm sets, and the RTL did not run them")

    def run(program, inputs, device, **options):
        raise VtakitError("the RTL needs Verilator")
    monkeypatch.setattr(confirmed, "run", run)
    assert f"{confirm([task], {0: given})}" == "the RTL did not run the best candidates: the RTL needs Verilator"


def test_cycles_are_those_of_a_smaller_core(path):
    """Half of the products a cycle: a candidate and a network take longer, and floors are higher."""
    whole, half = (network(path, "vta", config="compact", core=core) for core in ({}, {"gemm_passes": 2}))
    costs = [net.target.cost(net.image({})).total for net in (whole, half)]
    assert costs[1] > 1.2 * costs[0]
    tasks = [task_named(net, "second").task for net in (whole, half)]
    programs = [program_of(task, defaults(task)) for task in tasks]
    cycles = [cycles_of(program, task.target) for program, task in zip(programs, tasks, strict=True)]
    assert cycles[1] > 1.2 * cycles[0]
    assert [floor_of(task, defaults(task)) for task in tasks] == [12 * 12 * 2 * 2 * 9, 2 * 12 * 12 * 2 * 2 * 9]


def test_a_floor_is_below_the_cycles_and_saves_a_program(net):
    """Every floor of a random sample, and the sentence of a candidate that is not compiled."""
    rng, compared = np.random.default_rng(5), 0
    for each in net.tuned:
        task = each.task
        for at in rng.choice(len(task.table), min(8, len(task.table)), replace=False):
            given = task.table.candidate(int(at))
            floor = floor_of(task, given)
            compared += floor > 0
            assert floor <= cycles_of(program_of(task, given), task.target), (task.name, given)
    assert compared >= 16
    task = task_named(net, "second").task
    slow = max((task.table.candidate(at) for at in range(len(task.table))), key=lambda given: floor_of(task, given))
    fast = defaults(task)
    measurer = Cycles(workers=1)
    assert [outcome.kind for _, outcome in measurer.measure(task, [fast])] == [""]
    ((_, outcome),) = measurer.measure(task, [slow])
    assert outcome.cost is None
    assert "timeout: its products or loads take" in outcome.error


def test_what_is_compiled_has_the_cycles_that_were_recorded(tuned, path):
    folder, _ = tuned
    records = Records.read(folder / "r.jsonl")
    (record,) = [each for each in records if each.kind == "network"][:1]
    rng = np.random.default_rng(3)
    x = {"x": rng.standard_normal((1, 16, 12, 12)).astype("f4")}
    options = {"config": "compact", "system": SLOW, "device": "cycle"}
    plain = vtakit.compile(path, "vta", **options)
    with plain, vtakit.compile(path, "vta", tuned=folder / "r.jsonl", **options) as module:
        assert "has records of" in module.image.said
        assert all((a == b).all() for a, b in zip(module.run(x).values(), plain.run(x).values(), strict=True))
        cycles, default = (sum(each["cycles"] for each in made.counters) for made in (module, plain))
    assert cycles == pytest.approx(record.cost, rel=0.01)  # buffers lie elsewhere in the device's memory
    assert default == pytest.approx(record.default, rel=0.01)
    assert module.image.source.options.decisions == {layer: dict(values) for layer, values in record.decisions.items()}


def test_decisions_of_whole_layers_are_taken_where_the_network_gains(tuned, path, net):
    """The tuner tries it in the network first, tunes the tasks that there are then, and goes on with what it found."""
    folder, _ = tuned
    records = Records.read(folder / "r.jsonl")
    (forms,) = [each for each in records if each.kind == FORMS]
    assert forms.cost < forms.default
    assert set(forms.decisions) >= {"second"}
    assert all(made and made.items() <= {"pads": "left out", "stores": "between"}.items() for made in forms.decisions.values())
    assert forms.decisions["second"]["pads"] == "left out"
    listed_ = {layer: each for layer, each in vtakit.decisions(path, "vta", config="compact", system=SLOW) if each.name == "pads"}
    assert set(forms.decisions) <= set(listed_)
    assert all(each.is_default and each.candidates == ("multiplied", "left out") for each in listed_.values())
    formed = try_forms(net, None, records)  # nothing is measured again
    assert formed.key == net.key
    task, plain = (task_named(each, "second").task for each in (formed, net))
    assert task.key == {**plain.key, **forms.decisions["second"]}
    assert records.of(task.key)
    assert task.layer.work.left_out == pytest.approx(1 - (34 / 36) ** 2)
    assert task.estimate(defaults(task)) <= plain.estimate(defaults(plain))
    (outcome,), (before,) = ([found for _, found in Cycles(workers=1).measure(each, [defaults(each)])] for each in (task, plain))
    assert floor_of(task, defaults(task)) <= outcome.cost < before.cost
    ended = Records([each for each in records if each.kind != "network"])  # before the whole was measured
    assert covered(net, ended, "r").decisions["second"]["pads"] == "left out"
    broken = [replace(each, decisions={"second": {"pads": "eaten"}}) for each in records if each.kind == "network"]
    assert covered(net, Records([*records, *broken]), "r").decisions.get("second", {}).get("pads") != "eaten"


def test_records_of_other_hardware_are_not_used_and_it_is_said(tuned, path):
    folder, _ = tuned
    records = Records.read(folder / "r.jsonl")
    found = covered(network(path, "vta", config="compact"), records, "r")
    assert found.decisions == {}
    assert "r has records of 0 of" in found.said
    assert "records for another configuration or memory" in found.said
    assert "were not used" in found.said
    assert "without records: 'first', 'second'" in found.said


def test_records_of_another_version_are_said(tuned, net):
    folder, _ = tuned
    old = Records([replace(each, versions={"vtakit": "0.0.1", "code": "0"}) for each in Records.read(folder / "r.jsonl")])
    assert "were measured with another version of vtakit: tune again to be sure" in covered(net, old, "r").said


def test_decisions_that_are_not_legal_are_left_out(tuned, net):
    folder, _ = tuned
    wrong = [replace(each, decisions=dict(each.decisions) | {"result.tile": [9, 9, 9, 9]})
             for each in Records.read(folder / "r.jsonl") if each.kind == "trial"]
    found = covered(net, Records(wrong), "r")
    assert found.decisions == {}
    assert "are not legal in this version and were left out" in found.said


def test_the_network_has_the_last_word():
    """A layer that is slower in the network keeps its default, and a network that is slower as a whole does too."""
    class Fake(Network):
        def image(self, decisions):
            if "c" in decisions:
                raise TuneError("layer 'c' cannot be compiled")
            return decisions

    class Warming:
        """Everything takes longer each time that something is measured."""

        def __init__(self, share):
            self.share, self.asked = share, 0

        def costs(self, images):
            self.asked += 1
            return [self.one(decisions, 1 + self.share * self.asked) for decisions in images]

        def one(self, decisions, slower):
            own = {"a": 5.0 if "a" in decisions else 10.0, "b": 12.0 if "b" in decisions else 10.0, "c": 10.0}
            return Cost(slower * sum(own.values()), {(name,): slower * cost for name, cost in own.items()})

    class Part:
        def __init__(self, layer):
            self.layers, self.task = (layer,), None
    class Cycled:
        unit, forms = "cycles", ()
    fake = Fake(None, Cycled, None, None, [Part("a"), Part("b"), Part("c")])
    for share in (0, 3):  # a machine that is slower each time: the default is measured anew beside each other compilation
        found = settle(fake, {0: {"t": 1}, 1: {"t": 2}, 2: {"t": 3}}, Warming(share))
        assert found.decisions == {"a": {"t": 1}}
        assert found.cost / found.default == pytest.approx(25 / 30)
        assert settle(fake, {1: {"t": 2}}, Warming(share)).decisions == {}


@pytest.mark.parametrize(("words", "told"), [
    (["--time", "soon"], "--time 'soon' is no time: give seconds, minutes or hours, such as 90s, 10m or 2h"),
    (["--search", "magic"], "--search 'magic' is unknown"),
    (["--start-model", "none.json"], "cannot read the cost model 'none.json'"),
    (["--threads", "2"], "--threads 2 goes with --target llvm: on --target vta cycles are counted"),
    (["--threads", "0"], "--threads 0: a model runs on at least one"),
    (["--target", "lvm"], "--target 'lvm' is unknown"),
    (["--confirm", "9", "--target", "llvm"], "--confirm is for the accelerator, whose candidates the RTL runs"),
])
def test_what_cannot_be_tuned_is_one_sentence(path, tmp_path, capsys, words, told):
    assert cli.main(["tune", str(path), "--records", str(tmp_path / "r.jsonl"), *words]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "r.jsonl").exists()


def test_a_float_model_has_nothing_to_tune(tmp_path, capsys):
    onnx.save(models.build("dqn"), tmp_path / "dqn.onnx")
    assert cli.main(["tune", str(tmp_path / "dqn.onnx"), "--records", str(tmp_path / "r.jsonl")]) == 2
    assert "has no layer that target 'vta' tunes" in capsys.readouterr().err


def test_records_are_given_as_a_path(path):
    with raises(TuneError, "tuned is 3: give 'shipped' for the records of this package, or the path of a file that `vtakit "
                "tune --records` wrote"):
        vtakit.compile(path, "vta", tuned=3)


def test_a_page_has_the_curves(tuned):
    pytest.importorskip("matplotlib")
    from vtakit.runtime.report.tuning_page import tuning_page

    result = json.loads((tuned[0] / "r.json").read_text())
    assert any(each["changed"] for each in result["tasks"])
    for each in result["tasks"]:
        for name, (old, new) in each["changed"].items():
            assert each["decisions"][name] == new != old
    text = str(tuning_page("int8.onnx", result))
    assert "<svg" in text
    assert all(each["name"] in text for each in result["tasks"])
