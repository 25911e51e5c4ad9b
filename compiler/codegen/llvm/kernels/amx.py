"""Intel's AMX: products by tile registers of at most 16 rows of 64 bytes, behind the same calls as those by vectors.

The system must permit a process to use the registers before it may (Linux documentation, x86/xstate). The code asks once, and
where it is refused runs what vectors do. Their shapes are set up for each thread before loops (`setups`) and released at the
end of the function. Intel's ISA extensions reference, chapter 3, has what the instructions do.
"""

from collections.abc import Callable, Sequence

from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text.module import Module
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant

ROWS = 16  # of a tile register; and columns of 32 bits, and steps of four bytes
REGISTERS = 8
INSTRUCTIONS = {  # a kernel -> the feature, the instruction, and the bytes of an element of a and b
    "gemm_u8s8s32": ("amx-int8", "tdpbusd", 1), "gemm_s8s8s32": ("amx-int8", "tdpbssd", 1),
    "gemm_bf16": ("amx-bf16", "tdpbf16ps", 2),
}
_UNKNOWN, _REFUSED, _PERMITTED = range(3)
_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18  # arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA)


def has(target: Target, kernel: str) -> bool:
    """Return whether the target has tile registers for a kernel, under Linux, whose way to permit them is known here.

    Where they are refused, vectors of AVX-512 do the same: every processor with one has the other.
    """
    needed = "amx-tile", INSTRUCTIONS.get(kernel, ("",))[0], "avx512f"
    return all(map(target.has, needed)) and target.arch == "x86_64" and target.system == "linux"


def takes(target: Target, kernel: str, m: int, n: int, steps: int | None) -> bool:
    """Return whether tile registers hold a kernel's m x n sums beside a row and a column of operands."""
    down, across = len(cut(m)), len(cut(n))
    return bool(steps) and has(target, kernel) and down * across + down + across <= REGISTERS


def cut(size: int) -> list[int]:
    """Return the numbers of rows, or columns of 32 bits, of the registers that hold so many."""
    return [min(ROWS, size - first) for first in range(0, size, ROWS)]


def if_permitted(x: Context, by_tiles: Callable[[], None], by_vectors: Callable[[], None]) -> None:
    """Run `by_tiles` if the system permits the registers, else `by_vectors`. The caller has had them set up."""
    b = x.b
    tiles, vectors, after = b.block("tiles"), b.block("vectors"), b.block("after")
    b.branch(b.icmp("eq", b.flag(_state(x.module)), int_constant("i32", _PERMITTED)), tiles, vectors, likely=True)
    b.place(tiles)
    by_tiles()
    b.jump(after)
    b.place(vectors)
    by_vectors()
    b.jump(after)
    b.place(after)


def registers(down: int, across: int) -> tuple[dict[tuple[int, int], int], list[int], list[int]]:
    """Return the registers of the sums, by row and column of tiles, those of the tiles of a, and those of b."""
    sums = {(i, j): i * across + j for i in range(down) for j in range(across)}
    return sums, [len(sums) + i for i in range(down)], [len(sums) + down + j for j in range(across)]


def set_up(x: Context, heights: Sequence[int], widths: Sequence[int], each: int) -> None:
    """Shape the registers for sums of so many rows and columns of 32 bits, and for `each` steps to a product."""
    sums, a, of_b = registers(len(heights), len(widths))
    shapes = {register: (heights[i], 4 * widths[j]) for (i, j), register in sums.items()}
    shapes |= {register: (height, 4 * each) for register, height in zip(a, heights, strict=True)}
    shapes |= {register: (each, 4 * width) for register, width in zip(of_b, widths, strict=True)}
    # Palette 1: bytes to a row from byte 16 on, two for each register, and rows from byte 48 on.
    config = bytearray(64)
    config[0] = 1
    for register, (rows, bytes_) in shapes.items():
        config[16 + 2 * register], config[48 + register] = bytes_, rows
    text = "".join(f"\\{byte:02X}" for byte in config)
    name = "tiles." + ".".join(f"{rows}x{bytes_}" for rows, bytes_ in shapes.values())
    shape = x.module.variable(name, f'private unnamed_addr constant [64 x i8] c"{text}", align 64')
    name = f"{x.module.name}.tiles"
    if f"{name}.set" not in x.module.declare.defined:
        _write_set(x.module, f"{name}.set")
        _write_release(x.module, f"{name}.release")
    x.b.prepare(f"call void @{name}.set({shape})", f"call void @{name}.release()")


def _state(module: Module) -> Value:
    """Return the variable that holds whether the system permits the registers."""
    return module.variable("tiles.state", f"internal global i32 {_UNKNOWN}, align 4")


def _write_set(module: Module, name: str) -> None:
    """Write the function that shapes the registers of this thread if they are permitted; its first call asks."""
    b = module.function(name, "void", ["ptr %shape"], internal=True)
    state = _state(module)
    asking, known, use, after = b.block("asking"), b.block("known"), b.block("use"), b.block("after")
    b.branch(b.icmp("eq", b.flag(state), int_constant("i32", _UNKNOWN)), asking, known, likely=False)
    b.place(asking)
    refused = b.call("syscall", "i64", *(int_constant("i64", number) for number in (_PRCTL, _REQUEST, _TILE_DATA)))
    found = b.select(b.icmp("eq", refused, int_constant("i64", 0)), *(int_constant("i32", s) for s in (_PERMITTED, _REFUSED)))
    b.raise_flag(found, state)
    b.jump(known)
    b.place(known)
    b.branch(b.icmp("eq", b.flag(state), int_constant("i32", _PERMITTED)), use, after, likely=True)
    b.place(use)
    b.intrinsic("x86.ldtilecfg", "void", Value("%shape", "ptr"))
    b.jump(after)
    b.place(after)
    b.ret()
    module.finish(b)


def _write_release(module: Module, name: str) -> None:
    """Write the function that releases the registers, which makes switching threads cheaper."""
    b = module.function(name, "void", [], internal=True)
    release, after = b.block("release"), b.block("after")
    b.branch(b.icmp("eq", b.flag(_state(module)), int_constant("i32", _PERMITTED)), release, after, likely=True)
    b.place(release)
    b.intrinsic("x86.tilerelease", "void")
    b.jump(after)
    b.place(after)
    b.ret()
    module.finish(b)
