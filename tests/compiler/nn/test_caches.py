"""The sizes of caches, and which loops a convolution in blocks has because of them."""

import numpy as np
import pytest
from nn_support import check, floats, onnx_run

from vtakit import te
from vtakit.compiler.codegen.llvm import machines
from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.codegen.llvm.machines import machine_of
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.nn.conv import blocked_cpu as blocked
from vtakit.compiler.nn.conv.blocked import blocked_vectors, blocked_weight
from vtakit.compiler.nn.cpu.flow import Flow
from vtakit.compiler.nn.cpu.tiles import repeated_steps
from vtakit.compiler.nn.operators import find
from vtakit.compiler.schedule.schedule import create_schedule

LARGE = Machine(l1_bytes=48 << 10, l2_bytes=2 << 20)
NONE = Machine(l1_bytes=1 << 10, l2_bytes=2 << 10)  # nothing stays
FIRST = Machine(l1_bytes=4 << 10, l2_bytes=8 << 10)  # sums of an image stay, weights do not


def files(folder, *rows):
    for at, row in enumerate(rows):
        (folder / f"index{at}").mkdir()
        for name, value in zip(("type", "level", "size"), row, strict=True):
            (folder / f"index{at}" / name).write_text(value + "\n")
    return folder


def test_what_the_system_tells(tmp_path):
    folder = files(tmp_path, ("Data", "1", "48K"), ("Instruction", "1", "64K"), ("Unified", "2", "2048K"), ("Unified", "3", "9K"))
    assert machines._caches_of_system(folder) == {"l1_bytes": 48 << 10, "l2_bytes": 2 << 20}


@pytest.mark.parametrize("rows", [[], [("Data", "1", "48K")], [("Data", "1", "48K"), ("Unified", "2", "2 MiB")],
                                  [("Data", "1", "0K"), ("Unified", "2", "512K")]])
def test_a_system_that_does_not_tell(tmp_path, rows):
    assert machines._caches_of_system(files(tmp_path, *rows)) == {}


def test_named_processors_have_the_same_sizes_everywhere():
    assert sizes("x86_64-unknown-linux-gnu", "sapphirerapids") == (48 << 10, 2 << 20)
    assert sizes("x86_64-unknown-linux-gnu", "znver3") == (32 << 10, 512 << 10)
    assert sizes("x86_64-unknown-linux-gnu", "x86-64-v3") == (32 << 10, 256 << 10)
    assert sizes("aarch64-linux-gnu", "neoverse-n1") == (64 << 10, 1 << 20)


def sizes(*names: str) -> tuple[int, int]:
    machine = machine_of(Target(*names))
    return machine.l1_bytes, machine.l2_bytes


def lowered(machine: Machine, x, w, words):
    """The function of a convolution that follows a machine's sizes, and its tensors' arrays."""
    given = [te.placeholder(a.shape, name=name) for a, name in zip((x, w), "xw", strict=True)]
    out = find("conv_blocked").define(*given, **words)
    s = create_schedule([out.op])
    flow = Flow.of(s.outputs)
    (anchor,) = [op for op in flow.computes() if op.tag == "conv_blocked"]
    for op in flow.computes():
        if op.tag == "unflatten" and op not in flow.followers(anchor):
            s[op].compute_inline()
    blocked.schedule_blocked(s, flow, anchor, machine)
    return lower(s, [*given, out]), [extent.value for extent in out.shape]


def nest(function) -> list[int]:
    """The extents of the loops around each other, from the outermost of the last nest."""
    last = [s for s in statements(function.body) if isinstance(s, st.For) and s.kind is st.LoopKind.PARALLEL][-1]
    return [s.extent.value for s in statements(last) if isinstance(s, st.For)]


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("machine", [LARGE, NONE, FIRST], ids=["large", "none", "first"])
def test_every_order_of_loops_gives_the_same(kernel, machine):
    x, w = floats(1, 32, 8, 8), floats(64, 32, kernel, kernel, seed=1)
    words = {"pads": (kernel // 2,) * 4}
    function, shape = lowered(machine, blocked_vectors(x, 16, 1), blocked_weight(w, 16, 16), words)
    got = np.zeros(shape, np.float32)
    interpret(function, [blocked_vectors(x, 16, 1), blocked_weight(w, 16, 16), got])
    check(np.moveaxis(got, -1, 2).reshape(1, 64, 8, 8), onnx_run("Conv", x, w, **words), atol=1e-4)


def test_rows_meet_all_filters_where_weights_stay():
    x, w, words = floats(1, 2, 8, 8, 16), floats(4, 2, 3, 3, 16, 16), {"pads": (1,) * 4}
    large, _ = lowered(LARGE, x, w, words)
    none, _ = lowered(NONE, x, w, words)
    assert nest(large)[0] == 4  # so many parts of the rows; each copies what it reads with its border
    assert nest(none)[0] != 4
    whole = [s.buffer.shape for s in statements(none.body) if isinstance(s, st.Allocate) and s.buffer.name == "padded"]
    part = [s.buffer.shape for s in statements(large.body) if isinstance(s, st.Allocate) and s.buffer.name == "padded"]
    assert [extent.value for extent in whole[0]] == [1, 2, 10, 10, 16]
    assert [extent.value for extent in part[0]] == [1, 2, 4, 10, 16]


def test_steps_are_repeated_where_registers_are_left():
    wide, narrow = Machine(), Machine(vector_bytes=32, vector_registers=16)
    assert repeated_steps(wide, 14, 2) == 1
    assert repeated_steps(wide, 7, 2) == 2
    assert repeated_steps(narrow, 6, 2) == 1
    assert repeated_steps(narrow, 3, 2) == 2


@pytest.mark.parametrize(("channels", "size", "first", "ahead"), [
    (16, 7, 48 << 10, 9 * 16 * 64),  # the next channels' weights have room beside these and the sums
    (16, 7, 24 << 10, 2048),
    (16, 14, 48 << 10, 2048),  # the sums leave none
])
def test_the_weights_of_the_next_channels_are_asked_for_where_they_have_room(channels, size, first, ahead):
    x, w = floats(1, 4, size, size, channels), floats(4, 4, 3, 3, channels, 16)
    function, _ = lowered(Machine(l1_bytes=first, l2_bytes=64 << 10), x, w, {"pads": (1,) * 4})
    notes = [s.notes for s in statements(function.body) if isinstance(s, st.For)]
    assert [note["prefetch_ahead"] for note in notes if "prefetch_ahead" in note] == [ahead]
