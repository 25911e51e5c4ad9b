"""Programs in the published instruction set: their rules, which the checker knows, and the processor's bytes."""

import numpy as np
import pytest
import vta_fuzz
from support import raises
from vta_support import build, execute, values

import vtakit
from vtakit import te
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target, vta
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.requantize import Requantize
from vtakit.compiler.nn.vta.sum_pool import SumPool2d
from vtakit.hw.isa.codec import decode
from vtakit.hw.isa.errors import ConfigError
from vtakit.hw.isa.insns import AluOp, Feature, MemType, Opcode
from vtakit.hw.isa.published import PUBLISHED_FEATURES, VTAKIT, Isa
from vtakit.runtime.vta.part import VtaPart
from vtakit.sim.checker import check_program

WHOLE = Isa(published=True, abilities=VTAKIT.abilities)
STRICT = Isa.parse("original")


@pytest.mark.parametrize("operator", vta_fuzz.OPERATORS)
def test_random_operators(operator):
    """`vta_fuzz.py --isa` has more; `build` asks the checker for the rules of the target's instruction set."""
    ends = [vta_fuzz.check(operator, seed, orders=1, isa=WHOLE) for seed in (1, 2)]
    assert not all("does not fit" in end for end in ends), ends


@pytest.mark.parametrize(("name", "size", "launches"), [("dqn", None, 1), ("resnet18", 32, 1)])
def test_networks_with_scales_that_are_powers_of_two(name, size, launches):
    """The strictest device runs every product: no MUL, no ACC_8BIT, shifts by immediates below 16 bits."""
    samples = vtakit.models.inputs(name, 2, size=size)
    model = vtakit.quantize(vtakit.models.build(name, size=size), samples, power_of_two=True).model
    inputs = {each: array[:1] for each, array in samples.items()}
    module = vtakit.compile(model, target="vta", isa="original", device="fsim")
    want, got = vtakit.compile(model).run(inputs), module.run(inputs)
    assert all(np.array_equal(want[each], got[each]) for each in want)
    programs = [part.program for part in module.image.parts if isinstance(part, VtaPart)]
    assert len(programs) == launches
    assert module.placement.share_of_macs == 1
    for program in programs:
        assert not program.features
        assert check_program(program, STRICT) == []
        assert check_program(program) == []


def pool(target: Target, **numbers: object) -> tuple[SumPool2d, te.Schedule]:
    """A sum over 3 x 3 pixels of 30 channels, requantized, with its default schedule."""
    block = target.config.block
    data = te.placeholder((1, 2, 6, 6, 1, block), "int8", name="data")
    identity = te.placeholder((block, block), "int8", name="identity")
    epilogue = Epilogue(requantize=Requantize(target=target, channels=2 * block - 2, largest=1 << 11, **numbers))
    layer = SumPool2d(target=target, name="pool", data=data, weights=identity, kernel=(3, 3), stride=(3, 3), epilogue=epilogue)
    s = te.create_schedule(layer.result.op)
    layer.schedule(s)
    return layer, s


@pytest.mark.parametrize("text", ["original", "original+mul", "original+vector_shift", "original+mul+wide_shift", "vtakit"])
@pytest.mark.parametrize("numbers", [
    {"shift": 4}, {"shift": 4, "bias": 3, "zero_point": -2, "low": -100}, {"shift": 18, "multiplier": 21},
    {"shift": [3, 5] * 15}, {"shift": [3, 5] * 15, "multiplier": range(1, 31)}, {"shift": 20, "multiplier": 1 << 17}])
def test_requantization_by_what_the_device_has(text, numbers):
    """Exact on every device that takes it; the others say what they lack."""
    numbers = {name: np.array(value) for name, value in numbers.items()} | {k: v for k, v in numbers.items() if k == "low"}
    isa, rng = Isa.parse(text), np.random.default_rng(3)
    target = vta(isa=text, without=Feature.REQUANT)
    layer, s = pool(target, **numbers)
    made, lacks = layer.epilogue.requantize, []
    if made.multiplies and isa.published and "mul" not in text:
        lacks.append("this device's ALU has no MUL")
    if lacks:
        with pytest.raises(VtaError, match=lacks[0]):
            build(s, [*layer.inputs, layer.result], target)
        return
    program = build(s, [*layer.inputs, layer.result], target)
    given = {t: values(rng, t) for t in layer.inputs if t.name == "data"} | {made.parameters: made.words}
    given |= {t: np.eye(16, dtype=np.int8) for t in layer.inputs if t.name == "identity"}
    data = next(array for t, array in given.items() if t.name == "data").astype(np.int64)
    sums = data.reshape(1, 2, 2, 3, 2, 3, 1, 16).sum((3, 5)).transpose(0, 1, 5, 2, 3, 4).reshape(1, 32, 2, 2, 1)
    got = execute(program, given, layer.result).reshape(1, 2, 2, 2, 1, 16).transpose(0, 1, 5, 2, 3, 4).reshape(1, 32, 2, 2, 1)
    assert np.array_equal(got[:, :30], made.reference(sums[:, :30]))


def insns_of(text: str, **fields: object) -> list:
    """The instructions of a pool on a device."""
    target = vta(isa=text, **fields)
    layer, s = pool(target, shift=18, multiplier=1 << 17 | 1) if "mul" in text else pool(target, shift=4)
    return [decode(target.config, word) for word in build(s, [*layer.inputs, layer.result], target).insns]


def test_each_instruction_is_one_of_the_published_set():
    found = insns_of("original+mul")
    assert {insn.op for insn in found} <= {Opcode.LOAD, Opcode.STORE, Opcode.GEMM, Opcode.ALU, Opcode.FINISH}
    alu = [insn for insn in found if insn.op is Opcode.ALU]
    assert all(insn["src_in"] == insn["dst_in"] and insn["src_out"] == insn["dst_out"] for insn in alu if insn["use_imm"])
    assert all(abs(insn["imm"]) <= 15 for insn in alu if insn["alu_opcode"] == AluOp.SHR)
    wait = found[-2]
    assert (wait.op, wait["memory_type"], wait["x_size"], wait["pop_next"]) == (Opcode.LOAD, MemType.UOP, 0, 1)
    assert any(insn["alu_opcode"] == AluOp.MUL for insn in alu)
    assert not any(insn["alu_opcode"] == AluOp.MUL for insn in insns_of("original") if insn.op is Opcode.ALU)


def test_what_a_target_may_use():
    assert not any(vta(isa="original").has(feature) for feature in Feature)
    assert [feature for feature in Feature if vta(isa="original+mul+acc_8bit").has(feature)] == [*PUBLISHED_FEATURES]
    with raises(VtaError, "isa … 'original' … Isa … `vta` takes names"):
        Target(isa="original")
    with raises(ConfigError, "the published C bit-fields put dst_out into the first word …"):
        vta("tiny", isa="original")
