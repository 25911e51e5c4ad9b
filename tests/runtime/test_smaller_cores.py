"""Models for a core that is smaller than its configuration's: tiles for it, what it lacks left out, on devices and in files."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from integer_nets import Integers, inputs_of
from model_support import module_of
from quantized_support import Layers, quantized
from support import raises, says

import vtakit
from vtakit.compiler.codegen.vta.target import vta
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.vta.compile import compile_parts
from vtakit.compiler.nn.vta.blocking import choose
from vtakit.compiler.nn.vta.cuts import Work
from vtakit.hw.isa.codec import decode
from vtakit.hw.isa.errors import ConfigError
from vtakit.hw.isa.file import save
from vtakit.hw.isa.insns import Opcode
from vtakit.hw.isa.program import BufferKind
from vtakit.runtime import cli
from vtakit.runtime.module import Module
from vtakit.runtime.target import Image
from vtakit.runtime.vta.part import VtaPart
from vtakit.runtime.vta.target import Vta, image_of_parts


def compiled(core: dict | None = None) -> tuple[Image, dict, dict]:
    """A network with a depthwise layer and a residual, its inputs, and the CPU's results."""
    net = Integers("small", seed=4)
    x = net.conv(net.input(1, 16, 12, 12), 32, 3)
    x = net.conv(net.conv(x, 32, 3, groups=32), 32, 1, skip=x)
    graph = net.finish(x)
    target = Vta.make(core=core or {}).ready("small")
    image = image_of_parts(compile_parts(graph, CpuKernels(target.processor), target), target)
    return image, inputs_of(graph), module_of(graph).run(inputs_of(graph))


def cycles(image: Image, given: dict, wanted: dict, **options: object) -> int:
    """The cycles of a run, whose results are the CPU's."""
    with Module(image, "cycle", **options) as module:
        for name, array in module.run(given).items():
            np.testing.assert_array_equal(array, wanted[name])
        return sum(counters["cycles"] for counters in module.counters)


def opcodes(image: Image) -> set[Opcode]:
    return {decode(part.program.config, word).op for part in image.parts_of(VtaPart) for word in part.program.insns}


def test_devices_simulate_the_core_that_a_model_is_for():
    plain, given, wanted = compiled()
    slow, _, _ = compiled({"gemm_passes": 2, "mul_passes": 4, "acc_copies": 1})
    assert slow.target.core == (("acc_copies", 1), ("gemm_passes", 2), ("mul_passes", 4))
    there = cycles(slow, given, wanted)
    assert there == cycles(slow, given, wanted, core=dict(slow.target.core))
    assert there > 1.2 * cycles(plain, given, wanted)
    assert cycles(slow, given, wanted, core={}) < there


def test_what_a_core_lacks_is_not_used():
    plain, given, wanted = compiled()
    without, _, _ = compiled({"windows": False, "requantizes": False})
    assert {Opcode.DWCONV, Opcode.REQUANT} <= opcodes(plain)
    assert not {Opcode.DWCONV, Opcode.REQUANT} & opcodes(without)
    cycles(without, given, wanted)


def test_tiles_follow_the_core():
    """The estimate is of the core: what steps hide is hidden sooner where they take more cycles."""
    work = Work(images=1, out_blocks=8, rows=28, columns=28, in_blocks=4, kernel_rows=1, kernel_columns=1, in_rows=28,
                in_columns=28)
    steps = 8 * 28 * 28 * 4
    ones, twos, fours = [choose(vta(core={"gemm_passes": passes}), work).cycles for passes in (1, 2, 4)]
    assert steps <= ones < 1.4 * steps
    assert 0.9 * 2 * steps < fours - twos < 1.1 * 2 * steps


def test_a_core_without_fields_is_the_whole_one():
    assert vta(core={"gemm_passes": 1, "windows": True}) == vta()
    assert vta(core={"gemm_passes": 2}).core == vta(core=(("gemm_passes", 2),)).core
    with raises(ConfigError, "gemm_passes must be a power of two up to the block of 16, got 3"):
        vta(core={"gemm_passes": 3})
    with raises(ConfigError, "core has no field 'passes'; …"):
        vta(core={"passes": 3})


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with a quantized network and its inputs."""
    monkeypatch.chdir(tmp_path)
    net = Layers(3)
    net.conv("x", 8)
    onnx.save(quantized(net.model(), net.inputs(4)), "q.onnx")
    np.savez("in.npz", x=net.inputs(1, 7))
    return tmp_path


def cycles_of(capsys, *words: str) -> int:
    """The cycles that `vtakit run` tells."""
    assert cli.main(["run", *words, "--input", "in.npz", "--json", "report.json"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.endswith("cycles on the accelerator")]
    assert json.loads(Path("report.json").read_text())
    return int(line.split()[0].replace(",", ""))


def test_commands_take_a_core(files, capsys):
    small = ["--gemm-passes", "4", "--acc-copies", "1"]
    made = ["--target", "vta", *small]
    assert cli.main(["compile", "q.onnx", *made, "-o", "q.vtak"]) == 0
    capsys.readouterr()
    assert vtakit.load("q.vtak").image.target.core == (("acc_copies", 1), ("gemm_passes", 4))
    there = cycles_of(capsys, "q.onnx", *made, "--device", "cycle")
    assert cycles_of(capsys, "q.vtak", "--device", "cycle") == there
    assert cycles_of(capsys, "q.vtak", "--device", "cycle", "--system", "ulx3s") > there
    assert cycles_of(capsys, "q.onnx", "--target", "vta", "--device", "cycle") < there
    for words, message in (
        (["run", "q.vtak", "--input", "in.npz", *small], "… 'q.vtak' is compiled already: … options of a smaller core go with …"),
        (["run", "q.vtak", "--input", "in.npz", "--device", "fsim", "--system", "ulx3s"],
         "… --system describes the accelerator's memory, which devices cycle and rtl simulate: add --device cycle"),
        (["run", "q.onnx", "--input", "in.npz", *small], "… options of a smaller core go with --target vta; …"),
        (["compile", "q.onnx", "-o", "n.vtak", "--target", "vta", "--gemm-passes", "3"],
         "… gemm_passes must be a power of two up to the block of 16, got 3"),
    ):
        assert cli.main(words) == 2
        assert says(capsys.readouterr().err.rstrip(), message)


def test_programs_run_on_a_core(files, capsys):
    program = vtakit.compile("q.onnx", "vta").image.parts_of(VtaPart)[0].program
    save(program, "p.vta")
    given = []
    for buffer in program.buffers:
        if buffer.kind is BufferKind.INPUT:
            Path(f"{buffer.name}.bin").write_bytes(np.random.default_rng(1).bytes(buffer.size_bytes))
            given += ["--input", f"{buffer.name}={buffer.name}.bin"]
    words = ["sim", "p.vta", *given, "--device", "cycle", "--json"]
    assert cli.main([*words, "two.json", "--gemm-passes", "2"]) == 0
    assert cli.main([*words, "one.json"]) == 0
    one, two = (json.loads(Path(name).read_text()) for name in ("one.json", "two.json"))
    assert one["dram_crc32"] == two["dram_crc32"]
    assert one["counters"]["cycles"] < two["counters"]["cycles"]
    capsys.readouterr()
    assert cli.main(["sim", "p.vta", "--gemm-passes", "2"]) == 2
    assert "--gemm-passes describes the accelerator's core, which devices cycle and rtl simulate: add --device cycle" in (
        capsys.readouterr().err)
