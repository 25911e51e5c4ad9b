"""Placement: what runs on the accelerator, in how many launches, and what is packed where."""

import numpy as np
import pytest
from integer_nets import Integers, inputs_of, random_network, resnet18
from model_support import run_graph, vta_image, vta_module
from support import raises

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import vta
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.ir import Graph, Value
from vtakit.compiler.graph.reference import reference
from vtakit.compiler.graph.vta.compile import compile_parts
from vtakit.compiler.graph.vta.place import Placement, Region, place
from vtakit.compiler.graph.vta.region import Launch
from vtakit.hw.isa.insns import NEEDS, Feature
from vtakit.hw.isa.program import BufferKind
from vtakit.runtime.module import Module
from vtakit.runtime.vta.part import VtaPart
from vtakit.runtime.vta.target import Vta, image_of_parts


def regions(placement: Placement) -> list[Region]:
    return [part for part in placement.parts if isinstance(part, Region)]


def kinds(placement: Placement) -> str:
    """A letter for each part: c for the CPU, v for the accelerator."""
    return "".join("v" if isinstance(part, Region) else "c" for part in placement.parts)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def check_same(graph: Graph, config: str = "default", seed: int = 0) -> Placement:
    """The module's outputs are those of the reference in NumPy and of the CPU alone; returns the placement."""
    given = inputs_of(graph, seed)
    arrays = [given[value.name] for value in graph.inputs]
    module, placement = vta_module(graph, config), place(graph, vta(config))
    there = [{name for layer in part.layers for name in layer.names} for part in module.image.parts_of(VtaPart)]
    assert there == [{name for unit in region.units for name in unit.names} for region in regions(placement)]
    got = module.run(given)
    plain = run_graph(graph, *arrays)
    wanted = reference(graph, *arrays, nodes=lambda node, operands: [1 / (1 + np.exp(-operands[0]))])
    for (name, _), cpu, want in zip(graph.outputs, plain, wanted, strict=True):
        np.testing.assert_array_equal(got[name], want)
        np.testing.assert_array_equal(cpu, want)
    return placement


def test_a_residual_network_is_one_launch_with_its_first_layer_folded_and_its_classifier():
    placement = place(resnet18(64, 16, 10), vta())
    assert kinds(placement) == "cvc"
    first, region, last = placement.parts
    assert isinstance(first, Graph)
    assert isinstance(last, Graph)
    assert ops(first) == ["quantize_linear", "vta_fold"]
    assert ops(last) == ["vta_unpack", "dequantize_linear"]
    assert isinstance(region, Region)
    assert region.units[0].ops == ("conv_integer", "requantize", "max_pool")
    assert sum("scaled_add" in unit.ops for unit in region.units) == 8
    assert region.units[-1].ops == ("matmul_integer", "requantize")
    assert not placement.reasons


def test_layers_of_all_kinds_are_the_reference():
    net = Integers(seed=1)
    x = net.conv(net.input(2, 5, 9, 10), 20, 5, 2)
    y = net.conv(net.conv(x, 20, groups=20), 20, skip=x)
    joined = net.concat(net.sum(x, y), net.sum(x, y, small=True), net.conv(y, 3))
    z = net.resize(net.pad(net.max_pool(joined, 3, 1, 1), 1, -7), 2)
    placement = check_same(net.finish(net.mean(net.conv(z, 7, dilation=2, groups=1)), net.deconv(y, 9)))
    assert kinds(placement) == "cvc"
    assert not placement.reasons


def test_images_become_rows_and_rows_images_without_a_launch_between():
    """Of LeNet's flatten in front of a matrix product, and of a generator's reshape behind one."""
    net = Integers(seed=2)
    x = net.dense(net.input(2, 30), 18 * 3 * 2)
    image = net.deconv(net.reshape(x, 2, 18, 3, 2), 5)
    graph = net.finish(net.dense(net.reshape(image, 2, 5 * 6 * 4), 11))
    (region,) = regions(check_same(graph))
    assert [unit.ops for unit in region.units] == [
        ("matmul_integer", "requantize", "reshape"), ("conv_transpose_integer", "requantize"), ("matmul_integer", "requantize")]


@pytest.mark.parametrize(
    ("channels", "outs", "groups", "dilation"), [(6, 10, 1, 1), (32, 48, 2, 1), (20, 20, 20, 2), (12, 6, 3, 1)])
def test_transposed_convolutions_have_groups_dilation_and_residuals(channels, outs, groups, dilation):
    net = Integers(seed=channels)
    x = net.input(2, channels, 3, 4)
    if dilation == 1:  # the result is twice as large; else by one row and one column on each side
        y, larger = net.deconv(x, outs, groups=groups), net.resize(x, 2)
    else:
        y, larger = net.deconv(x, outs, 2, 1, 0, groups=groups, dilation=2), net.pad(x, 1)
    kernel, stride, pad = (4, 2, 1) if dilation == 1 else (2, 1, 0)
    z = net.deconv(x, outs, kernel, stride, pad, groups=groups, dilation=dilation, skip=net.conv(larger, outs))
    placement = check_same(net.finish(net.conv(y, 5), z, net.deconv(z, 7, 2, 2, 0, skip=net.deconv(y, 7, 2, 2, 0))))
    assert kinds(placement) == "cvc"
    assert not placement.reasons


def test_convolutions_along_one_dimension():
    net = Integers(seed=3)
    x = net.input(1, 6, 30)
    sums = net.builder.one("conv_integer", x, net._weights(9, 6, 5), attrs={"strides": (2,), "pads": (2, 1)})
    y = net.requantized(sums, 400, "first")
    assert kinds(check_same(net.finish(y))) == "cvc"


def test_what_the_accelerator_lacks_runs_on_the_cpu_between_two_launches():
    net = Integers(seed=4)
    x = net.conv(net.input(1, 8, 8, 8), 16)
    y = net.quantized(net.builder.one("sigmoid", net.dequantized(x)))
    placement = check_same(net.finish(net.conv(y, 8, skip=net.conv(x, 8))))
    assert kinds(placement) == "cvcvc"
    first, second = regions(placement)
    assert len(first.outputs) == 2  # of which the second launch reads one as it lies in memory
    assert second.inputs[-1][2] in first.writes


def test_branches_that_need_the_cpu_at_different_depths_share_launches():
    """A node is in the earliest part that it can be in, so that two branches take two launches and not three."""
    net = Integers(seed=5)
    x = net.input(1, 8, 8, 8)
    a = net.quantized(net.builder.one("sigmoid", net.dequantized(net.conv(x, 8))))
    b = net.conv(net.conv(x, 8), 8)
    placement = check_same(net.finish(net.concat(net.conv(a, 8), net.conv(b, 8))))
    assert kinds(placement) == "cvcvc"
    assert [len(region.units) for region in regions(placement)] == [4, 2]


@pytest.mark.parametrize(("make", "reason"), [
    (lambda net, x: net.max_pool(x, dilations=(2, 2)), "windows that are dilated"),
    (lambda net, x: net.concat(x, x, axis=2), "it joins along another dimension than channels"),
    (lambda net, x: net.resize(x, 2, nearest_mode="ceil"),
     "a resize from 6 to 12 that takes other values than floor(i * 6 / 12)"),
    (lambda net, x: net.deconv(x, 8, 3, 2, 1),
     "a transposed convolution to 11 x 11 pixels, which are no whole strides of (2, 2)"),
], ids=["dilated", "axis", "nearest", "strides"])
def test_what_does_not_fit_is_told(make, reason):
    net = Integers(seed=6)
    placement = check_same(net.finish(make(net, net.conv(net.input(1, 8, 6, 6), 8))))
    assert list(placement.reasons.values()) == [reason]
    assert f"is on the CPU: {reason}" in str(placement)


def test_windows_reach_over_the_end():
    net = Integers(seed=6)
    placement = check_same(net.finish(net.max_pool(net.conv(net.input(1, 8, 6, 9), 8), 3, 2, ceil_mode=True)))
    assert not placement.reasons


@pytest.mark.parametrize("first", [0, 16, 5])
def test_slices_of_channels_begin_with_a_block(first):
    net = Integers(seed=6)
    x = net.conv(net.input(1, 8, 6, 6), 40)
    part = net.builder.one("slice", x, attrs={"starts": (first,), "ends": (33,), "axes": (-3,)}, name="part")
    placement = check_same(net.finish(net.conv(part, 8)))
    assert bool(placement.reasons) == (first == 5)


@pytest.mark.parametrize("config", ["default", "tiny", "b2x16"])
def test_tables_and_gates_of_channels(config):
    """A table belongs to the requantization before it, if nothing else reads that; a gate is small and read for each pixel."""
    net = Integers(seed=8)
    x = net.conv(net.input(2, 8, 6, 6), 40)
    y = net.lookup(x)
    gates = net.lookup(net.conv(net.lookup(net.conv(net.mean(y), 10, 1)), 40, 1))
    placement = check_same(net.finish(net.conv(net.product(y, gates), 20), net.lookup(x)), config)
    units = [unit.ops for region in regions(placement) for unit in region.units]
    assert units.count(("conv_integer", "requantize", "lookup")) == 2
    assert not placement.reasons


@pytest.mark.parametrize("without", [Feature(0), Feature.PAD_VALUE, Feature.LOOKUP, Feature.PAD_VALUE | Feature.LOOKUP])
def test_devices_without_pads_of_any_value_and_tables(without):
    """The pad is an operator of its own, and the table is the CPU's."""
    net = Integers(seed=9)
    x = net.conv(net.input(1, 3, 8, 8), 20, 5, 2, fill=-9)
    x = net.mean(net.lookup(net.conv(x, 20, fill=77)), (2, 2), 1, -5)
    graph = net.finish(net.conv(x, 20, fill=3))
    given, (want,) = inputs_of(graph), reference(graph, *inputs_of(graph).values())
    target = Vta.adopt(vta("default", without=without)).ready("net")
    module = Module(image_of_parts(compile_parts(graph, CpuKernels(target.processor), target), target))
    np.testing.assert_array_equal(module.run(given)["y0"], want)
    placement = place(graph, target)
    assert bool(placement.reasons) == bool(without & Feature.LOOKUP)
    pads = [unit for region in regions(placement) for unit in region.units if unit.ops == ("pad",)]
    assert len(pads) == (4 if without & Feature.PAD_VALUE else 0)


def test_values_between_others_are_not_the_accelerators():
    net = Integers(seed=6)
    x = net.conv(net.input(1, 8, 6, 6), 8)
    placement = place(net.finish(net.resize(x, 2, mode="linear", coordinates="half_pixel")), vta())
    assert list(placement.reasons.values()) == ["the accelerator resizes to the nearest value, and keeps images and channels"]


def test_without_products_nothing_is_launched():
    net = Integers(seed=7)
    placement = check_same(net.finish(net.max_pool(net.input(1, 8, 6, 6))))
    assert placement.parts == (placement.graph,)
    assert list(placement.reasons.values()) == ["there is no convolution or matrix product beside it"]


def test_data_that_has_no_layout_is_the_cpus():
    net, shape = Integers(seed=7), (1, 8, 4, 4, 2)
    x = net.input(*shape)
    placement = check_same(net.finish(net.concat(net.sum(x, x), x)))
    assert kinds(placement) == "c"
    why = f"it reads data of shape {shape}; the accelerator's has 2 to 4 dimensions and is not empty"
    assert set(placement.reasons.values()) == {why}


def test_data_without_elements_are_constants():
    net = Integers(seed=7)
    x = net.input(1, 8, 0, 4)
    graph = net.finish(net.concat(net.sum(x, x), x))
    assert not graph.nodes
    assert not check_same(graph).reasons


def test_a_float_network_is_the_cpus():
    net = Integers(seed=8)
    x = net.builder.input("x", (1, 4), "float32")
    graph = net.builder.finish([("y", net.builder.one("relu", x))])
    assert place(graph, vta()).parts == (graph,)


def test_an_operator_that_fits_no_scratchpad_runs_on_the_cpu():
    net = Integers(seed=9)
    small = {"LOG_BATCH": 0, "LOG_BLOCK": 4, "LOG_INP_WIDTH": 3, "LOG_WGT_WIDTH": 3, "LOG_ACC_WIDTH": 5, "LOG_UOP_BUFF_SIZE": 10,
             "LOG_INP_BUFF_SIZE": 7, "LOG_WGT_BUFF_SIZE": 9, "LOG_ACC_BUFF_SIZE": 10}
    graph = net.finish(net.conv(net.max_pool(net.conv(net.input(1, 8, 20, 20), 8), 5, 1), 8))
    placement = place(graph, vta(small))
    assert all("scratchpad" in reason or "beside it" in reason for reason in placement.reasons.values())


def test_without_requant_layers_of_small_factors_are_the_accelerators():
    """And the reason of others says nothing that the model has not."""
    net = Integers(seed=13)
    target = vta(without=Feature.REQUANT)
    x = net.input(1, 8, 6, 6)

    def layer(factor: int) -> Value:
        sums = net.builder.one("conv_integer", x, net._weights(8, 8, 3, 3), name=f"times{factor}", attrs={"pads": (1,) * 4})
        numbers = [net._of(np.full(8, number, np.int32)) for number in (100, factor << 7, 7 + 18)]
        return net.builder.one("requantize", sums, *numbers, attrs={"low": 0, "high": 127}, name=f"times{factor}")
    placement = place(net.finish(layer(301), layer(511 << 7 | 1)), target)
    (region,) = regions(placement)
    assert [unit.name for unit in region.units] == ["times301"]
    (reason,) = placement.reasons.values()
    assert reason.startswith("this device has no REQUANT, and its ALU could overflow: ")


def test_without_requant_a_table_is_the_processors():
    """LOOKUP extends REQUANT. A device without REQUANT was given tables once, and its programs left them out."""
    net, target = Integers(seed=14), Vta.adopt(vta(without=Feature.REQUANT)).ready("net")
    x = net.lookup(net.input(1, 8, 6, 6))
    sums = net.builder.one("conv_integer", x, net._weights(8, 8, 3, 3), name="sums", attrs={"pads": (1,) * 4})
    numbers = [net._of(np.full(8, number, np.int32)) for number in (100, 301 << 7, 7 + 18)]
    graph = net.finish(net.builder.one("requantize", sums, *numbers, attrs={"low": 0, "high": 127}, name="sums"))
    given, (want,) = inputs_of(graph), reference(graph, *inputs_of(graph).values())
    assert [*place(graph, target).reasons.values()] == ["this device has no table for results: leave the table to the CPU"]
    module = Module(image_of_parts(compile_parts(graph, CpuKernels(target.processor), target), target))
    np.testing.assert_array_equal(module.run(given)["y0"], want)
    assert len(module.image.parts_of(VtaPart)) == 1


@pytest.mark.parametrize("without", list(Feature))
def test_devices_have_no_ability_of_an_instruction_that_they_lack(without):
    target = vta(without=without)
    assert not target.has(without)
    assert all(target.has(needed) for feature, needed in NEEDS.items() if target.has(feature))


def test_scratch_buffers_share_memory_once_their_contents_are_not_needed():
    net = Integers(seed=10)
    x = net.input(1, 16, 12, 12)
    for _ in range(6):
        x = net.conv(x, 16)
    (part,) = vta_image(net.finish(x)).parts_of(VtaPart)
    scratch = [buffer for buffer in part.program.buffers if buffer.kind is BufferKind.SCRATCH]
    assert [buffer.size_bytes for buffer in scratch] == [2 * 16 * 12 * 12]
    assert {entry.value for entry in part.program.relocations} == {"", *(f"conv{at}" for at in range(2, 7))}
    assert [layer.names[0] for layer in part.layers] == [f"conv{at}" for at in range(2, 8)]
    assert all(layer.macs == 16 * 16 * 9 * 144 for layer in part.layers)


@pytest.mark.parametrize("joined", ["sum", "concat"])
def test_values_live_in_the_order_of_the_program_not_of_the_graph(joined):
    """The schedule runs branch by branch, whatever the order of the nodes: live ranges by nodes overwrote a value."""
    net = Integers(seed=3)
    x = net.input(1, 16, 8, 8)
    b1, d1 = net.conv(x, 16), net.conv(x, 16)
    d2 = net.conv(d1, 16)
    b2 = net.conv(b1, 16)
    check_same(net.finish(getattr(net, joined)(b2, d2)))


@pytest.mark.parametrize("together", [False, True])
def test_what_turns_out_not_to_run_is_left_to_the_cpu(together):
    """A layer that compiles by itself into a wrong program, or several of which only the whole is wrong."""
    net = Integers(seed=12)
    graph = net.finish(net.conv(net.conv(net.conv(net.input(1, 8, 6, 6), 8), 9), 8))

    def check(launch: Launch) -> None:
        wrong = len(launch.layers) > 1 if together else any("conv3" in layer.names for layer in launch.layers)
        if wrong:
            raise VtaError("it is wrong\nfor a reason")
    target = Vta.make().ready("net")
    compiled = compile_parts(graph, CpuKernels(target.processor), target, check=check)
    assert kinds(compiled.placement) == ("c" if together else "cvcvc")
    assert set(compiled.placement.reasons.values()) == {"it is wrong"}
    given = inputs_of(graph)
    (wanted,) = reference(graph, *given.values())
    np.testing.assert_array_equal(Module(image_of_parts(compiled, target)).run(given)["y0"], wanted)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_random_networks_are_the_reference(seed):
    check_same(random_network(seed), seed=seed)


def test_a_configuration_of_other_numbers_is_told():
    net = Integers(seed=11)
    cfg = {"LOG_BATCH": 0, "LOG_BLOCK": 2, "LOG_INP_WIDTH": 2, "LOG_WGT_WIDTH": 2, "LOG_ACC_WIDTH": 4, "LOG_UOP_BUFF_SIZE": 9,
           "LOG_INP_BUFF_SIZE": 9, "LOG_WGT_BUFF_SIZE": 9, "LOG_ACC_BUFF_SIZE": 9}
    why = ("networks have activations and weights of 8, 4 or 2 bits and sums of 32, and this one has activations of 4 bits, "
           "weights of 4 and sums of 16: choose one of these")
    with raises(VtaError, why):
        place(net.finish(net.conv(net.input(1, 4, 5, 5), 4)), vta(cfg))
