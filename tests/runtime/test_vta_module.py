"""Models on the accelerator: the same bytes on every device, files, profiles, raw images, and what is wrong in a sentence."""

import copy
import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from integer_nets import Integers, inputs_of
from model_support import run_graph, vta_module
from support import raises

import vtakit
from vtakit import runtime
from vtakit.base.errors import VtakitError
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target as CpuTarget
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import vta
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.ir import Array, Graph
from vtakit.compiler.graph.reference import reference
from vtakit.compiler.graph.vta.compile import compile_parts
from vtakit.hw.isa.errors import ProgramError
from vtakit.runtime import module_file
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.module import InputError, Module
from vtakit.runtime.module_file import PackageError
from vtakit.runtime.target import TargetError
from vtakit.runtime.vta import DeviceMemoryError, DeviceTimeout, connect
from vtakit.runtime.vta.part import VtaPart
from vtakit.sim.api import run_image


def small_network() -> Graph:
    """Two launches on the accelerator, a residual, and a classifier."""
    net = Integers("small", seed=12)
    x = net.conv(net.input(2, 3, 7, 8), 6, stride=2)
    y = net.quantized(net.builder.one("sigmoid", net.dequantized(net.conv(x, 6))))
    z = net.mean(net.conv(y, 5, skip=None))
    return net.finish(net.dense(net.reshape(z, 2, 5), 4), net.conv(x, 7, 1))


GRAPH = small_network()
GIVEN = inputs_of(GRAPH)


@pytest.fixture(scope="module")
def wanted() -> dict[str, Array]:
    return dict(zip([name for name, _ in GRAPH.outputs], run_graph(GRAPH, *GIVEN.values()), strict=True))


@pytest.fixture(scope="module")
def tiny() -> Module:
    return vta_module(GRAPH, "tiny")


def check(got: dict[str, Array], wanted: dict[str, Array]) -> None:
    assert got.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(got[name], array)


def test_progress_goes_on_within_a_program():
    net = Integers("row")
    x = net.input(1, 8, 6, 6)
    for _ in range(6):
        x = net.conv(x, 8)
    told: list[tuple[int, int]] = []
    compile_parts(net.finish(x), CpuKernels(CpuTarget.host()), vta("tiny"), progress=lambda done, of: told.append((done, of)))
    assert told == sorted(told)
    assert {of for _, of in told} == {told[-1][0]}
    assert len({done for done, _ in told}) > 6  # of three parts


def test_the_simulators_and_the_cpu_give_the_same_bytes(tiny, wanted):
    check(tiny.run(GIVEN), wanted)
    check(tiny.run(GIVEN), wanted)  # with what the first run left in the device's memory
    with Module(tiny.image, "rtl") as on_rtl:
        check(on_rtl.run(GIVEN), wanted)
        assert all(counters["cycles"] > 100 for counters in on_rtl.counters)
    assert [counters["gemm_counter"] for counters in tiny.counters] == [counters["gemm_counter"] for counters in on_rtl.counters]


def mobile_network() -> Graph:
    """Depthwise and pointwise convolutions, a narrow residual, a classifier."""
    net = Integers("mobile", seed=14)
    x = net.conv(net.input(1, 3, 9, 9), 6, stride=2)
    narrow = net.conv(net.conv(net.conv(x, 10, 1), 10, groups=10), 6, 1, low=-128)
    y = net.conv(net.conv(narrow, 10, 1), 10, stride=1, groups=10)
    z = net.conv(net.conv(net.conv(y, 6, 1, skip=narrow), 6, stride=2, groups=6), 9, 1)
    return net.finish(net.dense(net.reshape(net.mean(z), 1, 9), 5))


def generator() -> Graph:
    """Rows to images, which transposed convolutions enlarge; one with groups, one with a residual."""
    net = Integers("generator", seed=15)
    x = net.reshape(net.dense(net.input(1, 7), 8 * 2 * 3), 1, 8, 2, 3)
    y = net.deconv(x, 6, groups=2)
    return net.finish(net.deconv(y, 3, skip=net.deconv(y, 3, 2, 2, 0)))


@pytest.mark.parametrize("make", [mobile_network, generator])
def test_whole_networks_in_one_launch_are_the_reference_on_every_device(make):
    graph = make()
    given = inputs_of(graph)
    wanted = dict(zip([name for name, _ in graph.outputs], reference(graph, *given.values()), strict=True))
    module = vta_module(graph, "tiny")
    assert len(module.image.parts_of(VtaPart)) == 1
    there = {op for part in module.image.parts_of(CpuPart) for layer in part.layers for op in layer.ops}
    assert there <= {"quantize_linear", "vta_pack", "vta_fold", "vta_unpack", "dequantize_linear"}
    check(module.run(given), wanted)
    with Module(module.image, "rtl") as hardware:
        check(hardware.run(given), wanted)


@pytest.mark.parametrize("config", ["tiny_b2", "blk8"])
def test_other_shapes_of_the_hardware_give_the_same_bytes(wanted, config):
    check(vta_module(GRAPH, config).run(GIVEN), wanted)


def test_a_device_that_was_closed_is_opened_again(tiny, wanted):
    tiny.run(GIVEN)
    tiny.close()
    check(tiny.run(GIVEN), wanted)


def test_a_driver_may_be_given_and_stays_open(tiny, wanted):
    with connect("fsim", "tiny", memory_bytes=1 << 20) as driver:
        before = driver.free_bytes
        module = Module(tiny.image, driver)
        check(module.run(GIVEN), wanted)
        assert driver.free_bytes < before  # weights stay there
        module.close()
        assert driver.free_bytes == before


def test_a_saved_module_is_the_same_on_another_device(tiny, wanted, tmp_path):
    tiny.save(tmp_path / "small.vtak")
    again = vtakit.load(tmp_path / "small.vtak", device="rtl")
    check(again.run(GIVEN), wanted)
    assert module_file.dump(again.image) == module_file.dump(tiny.image)
    for module in (copy.deepcopy(tiny), pickle.loads(pickle.dumps(tiny))):
        check(module.run(GIVEN), wanted)


def test_images_before_each_launch_run_on_any_simulator(tiny, tmp_path):
    assert tiny.dump_images(tmp_path, GIVEN) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000.bin", "000.json", "001.bin", "001.json"]
    about = json.loads((tmp_path / "001.json").read_text())
    dram = (tmp_path / "001.bin").read_bytes()
    result = run_image(dram, about["insn_addr"], about["insn_count"], about["config"])
    part = tiny.image.parts_of(VtaPart)[1]
    for name, number in zip(part.outputs, part.writes, strict=True):
        at = about["buffers"][name]
        found = result.dram[at["address"]:at["address"] + at["size_bytes"]]
        assert found == tiny._between[number - 3][0].tobytes()  # behind one input and two outputs
    assert tiny.dump_images(tmp_path / "zero") == 2


def test_a_profile_has_the_layers_of_both(tiny):
    profile = Module(tiny.image, "rtl").profile(GIVEN, repeat=1)
    assert [report.device for report in profile.launches] == ["rtl", "rtl"]
    first, second = profile.launches
    assert [layer.name for layer in first.layers] == ["conv2", "conv3", "conv11"]
    assert first.layers[0].macs == 2 * 6 * 4 * 4 * 27
    assert all(layer.cycles for layer in (*first.layers, *second.layers))
    assert all(report.trace is not None and report.trace.cycles == report.total.cycles for report in profile.launches)
    assert {op for timed in profile.layers for op in timed.layer.ops} >= {"sigmoid", "vta_fold", "vta_unpack"}
    assert json.loads(json.dumps(profile.to_dict()))["launches"][1]["device"] == "rtl"
    assert "conv11" in str(profile)


def test_the_published_snippet(tiny, wanted):
    graph, lib, params = tiny.image.graph, tiny, {"w": np.zeros(3, "f4")}
    module = runtime.create(graph, lib, "fsim")
    module.set_input(**params)  # constants are part of the code
    module.run(x=GIVEN["x"])
    out = np.empty((2, 4), np.float32)
    assert module.get_output(0, out) is out
    np.testing.assert_array_equal(out, wanted["y0"])
    module.set_input(0, GIVEN["x"] * 0)
    module.run()
    assert not np.array_equal(module.get_output("y1"), wanted["y1"])
    assert (module.get_num_inputs(), module.get_num_outputs()) == (1, 2)
    with raises(InputError, "… another graph, 'small' … graph … compiled from"):
        runtime.create("graph other():", lib, "fsim")
    with raises(InputError, "model 'small' … accelerator … device 'fsim' or 'cycle' or 'rtl' or 'sim' or 'board' …"):
        runtime.create(graph, lib)
    with raises(InputError, "the graph has 1 input, numbered from 0; there is no input 1"):
        module.set_input(1, GIVEN["x"])


def test_what_is_wrong_is_told_in_a_sentence(tiny, tmp_path):
    why = "a shared library has machine code only: write C source with export_c (vtakit export), or a module with save"
    with raises(CodegenError, f"model 'small' has 2 parts for the accelerator, and {why}"):
        tiny.export(tmp_path / "small.so")
    assert not list(tmp_path.iterdir())
    with raises(TargetError, "unknown device 'rlt'; did you mean 'rtl'? Known: board, cpu, … sim, uio"):
        Module(tiny.image, "rlt")
    with raises(VtakitError, "device 'fsim' has no option 'latency'; known: max_steps, memory_bytes, order, path, published"):
        Module(tiny.image, "fsim", latency=3)
    with (
        connect("fsim", "tiny_b2") as driver,
        pytest.raises(ProgramError, match="for another configuration than the device: LOG_BATCH"),
    ):
        Module(tiny.image, driver)
    with (
        connect("fsim", "tiny") as driver,
        raises(VtaError, "path … option … device … driver was given …"),
    ):
        Module(tiny.image, driver, path="plain")


def test_a_model_that_is_too_large_or_takes_too_long_leaves_a_module_that_runs(tiny, wanted):
    small = Module(tiny.image, "fsim", memory_bytes=8192)
    for _ in range(2):
        with pytest.raises(DeviceMemoryError, match=r"^device 'fsim' has no \d+ free bytes in one piece"):
            small.run(GIVEN)
    slow = Module(tiny.image, "rtl", max_cycles=200)
    with raises(DeviceTimeout, "device 'rtl' has not finished the program within 200 cycles: it was stopped; timeout_s and "
                               "max_cycles say how long it may take"):
        slow.run(GIVEN)
    check(tiny.run(GIVEN), wanted)


@pytest.mark.parametrize(("change", "what"), [
    (lambda part: replace(part, reads=(*part.reads, 0)), "ValueError in its header: zip() argument 2 is longer than argument 1"),
    (lambda part: replace(part, inputs=("other", *part.inputs[1:])),
     "the input buffers of a program are not the values of its part"),
    (lambda part: replace(part, reads=(3, *part.reads[1:])), None),
    (lambda part: replace(part, writes=(0, *part.writes[1:])), None),
    (lambda part: replace(part, reads=(1000, *part.reads[1:])), "ValueError in its header: 1000 is no number from 0 to 8"),
])
def test_a_file_whose_header_and_parts_do_not_agree_is_refused(tiny, change, what):
    parts = [change(part) if isinstance(part, VtaPart) else part for part in tiny.image.parts]
    data = module_file.dump(replace(tiny.image, parts=tuple(parts)))
    with pytest.raises(PackageError, match=r"^the file is inconsistent: ") as caught:
        module_file.parse(data, "the file")
    assert what is None or str(caught.value) == f"the file is inconsistent: {what}"


def test_a_damaged_file_or_one_of_another_version_is_told(tiny, tmp_path, monkeypatch):
    """Flipped bits all over the file: in its header, in machine code, in programs."""
    data, path = module_file.dump(tiny.image), tmp_path / "small.vtak"
    rng = np.random.default_rng(0)
    for at in [0, 8, 12, 16, len(data) - 1, *rng.integers(len(data), size=60)]:
        changed = bytearray(data)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(PackageError, match=r"^module file '.*small.vtak' "):
            vtakit.load(path, device="fsim")
    monkeypatch.setattr(vtakit, "__version__", "0.0.1")
    tiny.save(path)
    monkeypatch.undo()
    versions = f"was made by vtakit 0.0.1; this is vtakit {vtakit.__version__}"
    with raises(PackageError, f"module file {str(path)!r} {versions} … compile … again … recompile=True (--recompile)"):
        vtakit.load(path)


def test_wrong_inputs_are_told_before_the_device_is_opened(tiny):
    module = Module(tiny.image, "fsim")
    with raises(InputError, "model 'small' lacks its input 'x' (float32[2, 3, 7, 8])"):
        module.run({})
    with raises(InputError, "model 'small' has no input 'y'; known: x"):
        module.run({**GIVEN, "y": GIVEN["x"]})
    with raises(InputError, "input 'x' is float32[2, 3, 7, 8] … got float32[1, 3, 7, 8] … batch=1 … (--batch 1) …"):
        module.run({"x": GIVEN["x"][:1]})
    with raises(InputError, "input 'x' is float32[2, 3, 7, 8] … got float64[2, 3, 7, 8] … .astype('float32')"):
        module.run({"x": GIVEN["x"].astype(float)})
    assert not any(module.counters)


@pytest.mark.parametrize("write", [
    lambda module, folder: module.save(folder / "old.vtak"), lambda module, folder: module.dump_images(folder, GIVEN)])
def test_an_interrupt_while_writing_leaves_no_half_written_file(tiny, tmp_path, monkeypatch, write):
    """Ctrl-C when the bytes are written and the file is about to stand there: what stood there before does still."""
    for name in ("old.vtak", "000.bin", "000.json"):
        (tmp_path / name).write_bytes(b"what was there")

    def interrupted(self: Path, target: object) -> None:
        assert self.stat().st_size
        raise KeyboardInterrupt
    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tiny, tmp_path)
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"what was there"}
    assert len([*tmp_path.iterdir()]) == 3


def test_a_model_of_more_elements_than_code_counts_is_told_at_once():
    net = Integers("huge", seed=0)
    graph = net.finish(net.conv(net.input(1, 16, 12000, 12000), 16, 1))
    with pytest.raises(GraphError, match=r"^network 'huge' has a value of the type float32\[1, 16, 12000, 12000\], which is "):
        vta_module(graph)


def test_values_that_no_part_makes_are_told(tiny):
    image = tiny.image
    with raises(PackageError, "… inconsistent … reads … 'quantize1_packed' before …"):
        module_file.parse(module_file.dump(replace(image, parts=image.parts[1:])), "the file")
    with raises(PackageError, "the file is inconsistent: no part makes the value 'y0'"):
        module_file.parse(module_file.dump(replace(image, parts=image.parts[:-1])), "the file")
