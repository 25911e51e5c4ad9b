"""What a stage's cycles are counted as is what it did: programs of which that is known. That counts add up is in test_rtl."""

import pytest
from sim_support import FINISH, TINY

from vtakit.hw.isa.codec import encode, to_bytes
from vtakit.hw.isa.insns import AluOp, MemType
from vtakit.sim import run_image

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model

STEPS, SOON = 2500, 40  # a few pipelines' lengths: what comes before and after the steps
UOP = encode(TINY, "load", memory_type=MemType.UOP, x_size=1, y_size=1, x_stride=1, dram_base=1000)
LOAD_ACC = encode(TINY, "load", memory_type=MemType.ACC, x_size=4, y_size=1, x_stride=4, dram_base=64, sram_base=8)
ONE_ELEMENT = {"uop_end": 1, "iter_out": 50, "iter_in": STEPS // 50}


def counted(*words: int, **memory: int) -> dict[str, int]:
    """The counters of a program that ends with FINISH."""
    image = to_bytes([*words, FINISH]).ljust(1 << 14, b"\0")
    return run_image(image, 0, len(words) + 1, TINY, "rtl", **memory).counters


@pytest.mark.parametrize("bandwidth", [100, 10, 1])
def test_a_store_is_busy_as_long_as_it_reads_and_waits_for_memory_else(bandwidth):
    """40 x 32 elements of 4 bytes, one a cycle. A memory at 1 % takes 100 cycles for each beat of 8."""
    stores = [
        encode(TINY, "store", memory_type=MemType.OUT, x_size=32, y_size=1, x_stride=32, dram_base=256 + 64 * n)
        for n in range(40)
    ]
    found = counted(*stores, bandwidth=bandwidth)
    beats = 40 * 32 * TINY.out_bytes // 8
    assert found["write_beats"] == beats
    assert 40 * 32 <= found["store_busy"] <= 40 * 32 + 40 * 4  # and a few cycles to start each
    assert found["store_wait_memory"] >= (beats - 1) * 100 // bandwidth - found["store_busy"]


@pytest.mark.parametrize("behind", [(), (LOAD_ACC,)], ids=["nothing behind", "a load behind"])
@pytest.mark.parametrize(("name", "fields", "cycles"), [
    ("gemm", {}, STEPS), ("alu", {"alu_opcode": AluOp.ADD, "use_imm": 1, "imm": 1}, 3 * STEPS),
])
def test_arithmetic_is_busy_while_its_steps_wait_for_one_another(name, fields, cycles, behind):
    """Neighbouring ALU steps on one element go every three cycles; memory has nothing to do with it."""
    found = counted(UOP, encode(TINY, name, **ONE_ELEMENT, **fields), *behind, latency=0)
    assert cycles <= found["compute_busy"] <= cycles + SOON
    assert found["compute_wait_memory"] <= SOON


@pytest.mark.parametrize(("kind", "stage"), [(MemType.INP, "load"), (MemType.ACC, "compute")])
def test_loads_of_pads_never_wait_for_memory(kind, stage):
    found = counted(*[encode(TINY, "load", memory_type=kind, x_size=1, y_size=0, y_pad_0=1)] * 200, latency=0)
    assert found[f"{stage}_wait_memory"] == 0
    assert found[f"{stage}_busy"] >= 200


@pytest.mark.parametrize(("kind", "stage"), [(MemType.INP, "load"), (MemType.ACC, "compute")])
def test_loads_from_a_slow_memory_wait_for_it(kind, stage):
    """Each beat takes 100 cycles; the stage works for one of them."""
    found = counted(*[encode(TINY, "load", memory_type=kind, x_size=1, y_size=14, x_stride=1)] * 20, bandwidth=1)
    assert found["read_beats"] >= 20 * 14 // 2
    assert found[f"{stage}_wait_memory"] >= 95 * found["cycles"] // 100
