"""A fault of a kernel is a sentence: what happened, in which block, warp and lane, at which line."""

import numpy as np
import pytest

from vtakit.base.errors import VtakitError
from vtakit.sim.ptx import DeviceMemory, KernelFault, load

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n"
SETUP = """.reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %x<20>; .shared .align 16 .b8 sh[256];
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; ld.param.u64 %x0, [p0]; ld.param.u64 %x1, [p1];
mad.wide.u32 %x2, %r0, 4, %x0; mov.u64 %x4, sh; mad.wide.u32 %x5, %r0, 4, %x4; xor.b32 %r9, %r0, 1; mad.wide.u32 %x6, %r9, 4, %x4;
"""
END = "\nret;\n}"


def fault(body, *, grid=1, block=32, **options):
    """The sentence of a kernel on a buffer of 32 words that are 0 … 31, and one of 32 words that nothing has written."""
    memory = DeviceMemory()
    args = [memory.put(np.arange(32, dtype=np.int32)), memory.allocate(128)]
    with pytest.raises(KernelFault) as error:
        load(HEAD + SETUP + body + END).launch("k", (grid,), (block,), args, memory, **options)
    return str(error.value)


CASES = {
    "beyond a buffer": ("ld.global.u32 %r2, [%x2+64]; st.global.u32 [%x2], %r2;", {},
                        ["block (0, 0, 0), warp 0, lane 16", "4 bytes at global address", "lie outside", "128 bytes"]),
    "before a buffer": ("st.global.u32 [%x2+-4], %r0;", {}, ["lane 0", "lie outside"]),
    "beyond a shared variable": ("st.shared.u32 [%x5+132], %r0;", {}, ["lane 31", "shared variable sh of 256 bytes"]),
    "no buffer": ("mov.u64 %x3, 0; ld.global.u32 %r2, [%x3]; st.global.u32 [%x2], %r2;", {}, ["address 0x0"]),
    "misaligned": ("ld.global.v2.u32 {%r2, %r3}, [%x2]; st.global.u32 [%x2], %r2;", {}, ["lane 1", "multiple of 8"]),
    "a shared address as a global one": ("cvta.shared.u64 %x7, %x5; ld.global.u32 %r2, [%x7]; st.global.u32 [%x2], %r2;", {},
                                         ["another space"]),
    "an undefined register": ("setp.lt.u32 %p0, %r0, 7; @%p0 mov.u32 %r2, 5; st.global.u32 [%x2], %r2;", {},
                              ["lane 7", "%r2 is used, and no value was written"]),
    "undefined through arithmetic": (
        "setp.lt.u32 %p0, %r0, 7; @%p0 mov.u32 %r2, 5; add.u32 %r3, %r2, 1; st.global.u32 [%x2], %r3;", {},
                                     ["lane 7", "%r3 is used"]),
    "an undefined predicate": ("setp.lt.u32 %p0, %r0, 7; @%p0 setp.eq.u32 %p1, %r0, 1; @%p1 st.global.u32 [%x2], %r0;", {},
                               ["lane 7", "%p1"]),
    "undefined shared memory": ("ld.shared.u32 %r2, [%x5]; st.global.u32 [%x2], %r2;", {}, ["nothing has written"]),
    "undefined global memory": ("ld.global.u32 %r2, [%x1]; st.global.u32 [%x2], %r2;", {}, ["nothing has written"]),
    "a race in a warp": ("st.shared.u32 [%x5], %r0; ld.shared.u32 %r2, [%x6]; st.global.u32 [%x2], %r2;", {},
                         ["race", "lane 1 of the same block"]),
    "a race of reads with a later write": (
        "st.shared.u32 [%x5], %r0; bar.sync 0; ld.shared.u32 %r2, [%x6]; st.shared.u32 [%x5], %r2;", {},
                                           ["race", "written"]),
    "a race between warps": (("setp.ge.u32 %p0, %r0, 32; @%p0 bra B; st.shared.u32 [sh], %r0; bra B;\nB: @!%p0 bra C; "
                             "ld.shared.u32 %r2, [sh]; st.global.u32 [%x1], %r2;\nC: "), {"block": 64},
                             ["race", "warp 0, lane"]),
    "a race between blocks": ("setp.eq.u32 %p0, %r0, 0; add.u32 %r2, %r1, 7; @%p0 st.global.u32 [%x0], %r2;", {"grid": 2},
                              ["race", "block (1, 0, 0)", "an earlier block"]),
    "a divergent barrier": ("setp.lt.u32 %p0, %r0, 3; @%p0 bra B; bar.sync 0;\nB: ", {},
                            ["lanes 3 to 31", "without lanes 0 to 2"]),
    "a barrier that a warp does not reach": ("setp.lt.u32 %p0, %r0, 32; @%p0 bra B; bar.sync 0;\nB: ", {"block": 64},
                                             ["no warp can go on", "warp 1 waits at barrier 0", "warp 0 has exited"]),
    "a barrier after an exit": ("setp.lt.u32 %p0, %r0, 3; @%p0 ret; bar.sync 0;", {}, ["threads of this warp have exited"]),
    "a shuffle without a lane": ("setp.lt.u32 %p0, %r0, 3; @%p0 bra B; shfl.sync.idx.b32 %r2, %r0, 0, 31, -1;\nB: ", {},
                                 ["only lanes 3 to 31"]),
    "a trap": ("trap;", {}, ["traps"]),
    "a target outside its table": ("ts: .branchtargets A; brx.idx %r0, ts;\nA: ", {}, ["outside its table"]),
    "an endless loop": ("A: bra A;", {"limit": 1000}, ["more than the limit of 1000"]),
    "a copy that nothing waited for": (("cp.async.ca.shared.global [%x5], [%x2], 4; cp.async.commit_group; "
                                       "ld.shared.u32 %r2, [%x5]; st.global.u32 [%x2], %r2;"), {}, ["race", "asynchronous copy"]),
    "a copy whose other lanes have no barrier": (("cp.async.ca.shared.global [%x5], [%x2], 4; cp.async.commit_group; bar.sync 0; "
                                                 "ld.shared.u32 %r2, [%x6]; st.global.u32 [%x2], %r2;"), {},
                                                 ["asynchronous copy"]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("plain", [False, True], ids=["compiled", "definition"])
def test_sentence(name, plain):
    body, options, words = CASES[name]
    said = fault(body, plain=plain, **options)
    assert said.startswith("kernel k")
    for word in words:
        assert word in said, said


def test_what_is_right_is_no_fault():
    """Barriers, atomic operations and equal values of several threads order or excuse the same accesses."""
    memory = DeviceMemory()
    args = [memory.put(np.arange(32, dtype=np.int32)), memory.allocate(128)]
    body = """st.shared.u32 [%x5], %r0; bar.sync 0; ld.shared.u32 %r2, [%x6]; bar.sync 0;
    st.shared.u32 [%x5], %r2; bar.warp.sync -1;
    ld.shared.u32 %r3, [%x6]; red.global.add.u32 [%x0], 1; st.global.u32 [%x1], 7;
    cp.async.ca.shared.global [%x5+128], [%x2+0], 4; cp.async.wait_all; bar.sync 0; ld.shared.u32 %r4, [%x6+128];"""
    body = body.replace("[%x2+0]", "[%x2]").replace("red.global.add.u32 [%x0], 1; ", "")
    load(HEAD + SETUP + body + END).launch("k", (2,), (32,), args, memory)
    assert memory.read(args[1], 1, np.int32)[0] == 7


@pytest.mark.parametrize(("text", "words"), [
    ("frobnicate.f32 %r1, %r2;", ["PTX line", "frobnicate.f32", "unknown"]), ("add.rz.f32 %r1, %r2, %r3;", ["'rz' is unknown"]),
    ("add.u32 %r1, %q7, 1;", ["no operand"]), ("bra NOWHERE;", ["NOWHERE"]), ("ld.global.u32 %r1, %r2;", ["address in brackets"]),
])
def test_what_the_emulator_does_not_know_is_named(text, words):
    with pytest.raises(VtakitError) as error:
        load(HEAD + SETUP + text + END)
    for word in words:
        assert word in str(error.value)


def test_launches_that_fit_no_device():
    module = load(HEAD + SETUP + END)
    memory = DeviceMemory()
    for dims, args, word in (((0, 32), [0, 0], "at least 1"), ((1, 2048), [0, 0], "1024"), ((1, 32), [0], "2 parameters")):
        with pytest.raises(VtakitError, match=word):
            module.launch("k", (dims[0],), (dims[1],), args, memory)
    with pytest.raises(VtakitError, match="no kernel 'other'"):
        module.launch("other", (1,), (1,), [0, 0], memory)
    place = memory.allocate(10)
    with pytest.raises(VtakitError, match="leaves the buffers"):
        memory.read(place, 3, np.int32)
    memory.release(place)
    with pytest.raises(VtakitError, match="no buffer"):
        memory.release(place)
