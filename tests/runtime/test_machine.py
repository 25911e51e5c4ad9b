"""A stated record of a processor: in targets, module files, keys of kept modules, on the command line and in the documents."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from model_support import network

import vtakit
from vtakit.compiler.codegen.llvm.machine import Machine, MachineError, facts
from vtakit.compiler.codegen.llvm.machines import machine_of
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.runtime import cli
from vtakit.runtime.cpu.target import Cpu

ROOT = Path(__file__).parents[2]
TINY = {"l1_bytes": 1 << 10, "l2_bytes": 2 << 10}
X = np.random.default_rng(3).standard_normal((1, 3, 16, 16)).astype(np.float32)


def test_a_stated_record_is_the_processors_with_other_fields():
    named = vtakit.target("llvm", triple="x86_64-unknown-linux-gnu", cpu="sapphirerapids", machine=TINY)
    assert named.machine == replace(machine_of(Target("x86_64-unknown-linux-gnu", "sapphirerapids")), **TINY)
    assert vtakit.target("llvm", machine=TINY).machine == replace(machine_of(None), **TINY)
    assert vtakit.target("llvm").machine is None
    with pytest.raises(MachineError, match="has no field 'l2'"):
        vtakit.target("llvm", machine={"l2": 1})


def test_module_files_and_keys_have_a_stated_record(tmp_path):
    target = vtakit.target("llvm", machine=TINY)
    assert Cpu.from_dict(json.loads(json.dumps(target.to_dict()))) == target
    assert "machine" not in vtakit.target("llvm").to_dict()
    module = vtakit.compile(network(), target, cache=False)
    module.save(tmp_path / "net.vtak")
    loaded = vtakit.load(tmp_path / "net.vtak")
    assert loaded.image.target == target
    np.testing.assert_array_equal(loaded.run({"x": X})["y"], module.run({"x": X})["y"])
    keys = [each.key for each in (target, vtakit.target("llvm"), vtakit.target("llvm", machine=TINY | {"tasks": 9}))]
    keys += [vtakit.target("vta", host=each).key for each in (target, vtakit.target("llvm"))]
    assert len({*keys}) == 5
    assert vtakit.target("llvm", machine={}).key != vtakit.target("llvm").key  # its module file says so


def test_results_do_not_depend_on_the_record():
    usual, other = (vtakit.compile(network(), vtakit.target("llvm", machine=machine), cache=False)
                    for machine in (None, TINY | {"vector_registers": 8, "tasks": 64}))
    np.testing.assert_allclose(other.run({"x": X})["y"], usual.run({"x": X})["y"], rtol=1e-4, atol=1e-5)


def test_the_command_line_states_and_lists_records(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "net.onnx")
    Path("tiny.json").write_text(json.dumps(TINY))
    assert cli.main(["compile", "net.onnx", "--machine", "tiny.json", "-o", "net.vtak"]) == 0
    machine = vtakit.load("net.vtak").image.target.machine
    assert machine.l2_bytes == TINY["l2_bytes"]
    capsys.readouterr()
    assert cli.main(["run", "net.vtak", "--machine", "tiny.json"]) == 2
    assert "is compiled already" in capsys.readouterr().err
    assert cli.main(["compile", "net.onnx", "--target", "vta", "--machine", "tiny.json", "-o", "net.vtak"]) == 2
    assert "--machine goes with --target llvm; this is --target vta" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        cli.main(["compile", "--machine", "help"])
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [[fact.name, f"{getattr(machine_of(None), fact.name):,}"] for fact in facts()]
    cli.main(["doctor", "core"])
    assert f"processor: {Target.host().cpu}: " in capsys.readouterr().out


def test_the_page_lists_every_field():
    """Replace the table of docs/targets.md by the rows that this test makes if they differ."""
    page = (ROOT / "docs" / "targets.md").read_text()
    rows = [f"| `{fact.name}` | {fact.default:,} | {fact.unit} | {fact.meaning} |" for fact in facts(Machine)]
    assert "\n".join(["| field | default | unit | what it is |", "|---|---:|---|---|", *rows]) in page


def test_the_command_line_lists_the_record_of_a_target(capsys):
    with pytest.raises(SystemExit):
        cli.main(["compile", "--target", "aarch64-linux-gnu", "--cpu", "neoverse-n1", "--machine", "help"])
    listed = dict(line.split()[:2] for line in capsys.readouterr().out.splitlines())
    assert (listed["vector_bytes"], listed["l1_bytes"]) == ("16", "65,536")


@pytest.mark.parametrize("name", ["vector_bytes", "line_bytes"])
def test_registers_and_lines_are_powers_of_two(name):
    with pytest.raises(MachineError, match=f"{name} is 48 and must be a power of two"):
        Machine(**{name: 48})
