"""Products of matrices, loads of their fragments and asynchronous copies."""

import re

from vtakit.sim.ptx import opcodes as o
from vtakit.sim.ptx.decode.context import Context
from vtakit.sim.ptx.decode.floats import FORMATS
from vtakit.sim.ptx.decode.memories import address, space_of
from vtakit.sim.ptx.execute.matrix import INTEGERS
from vtakit.sim.ptx.text.syntax import Address, Instruction, Integer, Operand, Vector

_BITS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8}
_SUMS = ("f32", "s32", "f16")


def _parts(c: Context, operand: Operand, count: int) -> tuple[Operand, ...]:
    found = operand.parts if isinstance(operand, Vector) else (operand,)
    if len(found) != count:
        raise c.error(f"an operand has {len(found)} registers, and {count} are needed")
    return found


def _kinds(c: Context, words: tuple[str, ...], sums: str, a: str, b: str) -> dict[str, int]:
    """Columns of the types."""
    if sums not in _SUMS or a not in _BITS or b not in _BITS or _BITS[a] != _BITS[b] or (a != b and a[0] not in "su"
                                                                                         and _BITS[a] != 8):
        raise c.error(f"the types {sums}, {a} and {b} are unknown")
    kinds = [INTEGERS if each[0] in "su" else FORMATS[each] for each in (sums, a)]
    if (kinds[0] == INTEGERS) != (kinds[1] == INTEGERS):
        raise c.error(f"the types {sums} and {a} do not go together")
    return {"KIND": kinds[0], "KIND2": kinds[1], "K": _BITS[a], "SIGNED": int(a[0] == "s") | 2 * int(b[0] == "s")}


def multiply(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """mma.sync of 16 x 8."""
    shape = next((match for word in words if (match := re.fullmatch(r"m16n8k(\d+)", word))), None)
    rest = [word for word in words[1:] if word not in ("sync", "aligned", "row", "col", "satfinite")]
    if shape is None or len(rest) != 5 or rest[1] != rest[4] or words[3:6][1:] != ("row", "col"):
        raise c.error("only m16n8 with .row.col and equal types of sums is known")
    kinds = _kinds(c, words, rest[1], rest[2], rest[3])
    if rest[2] != rest[3] and kinds["KIND2"] != INTEGERS:
        raise c.error("A and B of different types are unknown")
    depth = int(shape[1])
    of_b = depth * kinds["K"] // 128
    if of_b not in (1, 2):
        raise c.error("its depth is unknown")
    of_sums = 2 if rest[1] == "f16" else 4
    given = [c.source(part, "b32") for operand, count in zip(i.operands[1:4], (2 * of_b, of_b, of_sums), strict=True)
             for part in _parts(c, operand, count)]
    to = [c.register(part) for part in _parts(c, i.operands[0], of_sums)]
    c.row(o.MMA, "tensor", LIST=c.operands(*to, *given), COUNT=16 * 2 * of_b + of_b, IMM=depth, FLAGS=int("satfinite" in words),
          **kinds)


def load(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """ldmatrix and stmatrix."""
    count = next((int(word[1]) for word in words if word in ("x1", "x2", "x4")), 0)
    if not count or words[-1] != "b16" or "m8n8" not in words:
        raise c.error("only m8n8 of .b16 is known")
    stores = words[0] == "stmatrix"
    where, what = (i.operands[0], i.operands[1]) if stores else (i.operands[1], i.operands[0])
    columns = address(c, where, space_of(words[1:]))
    columns["KIND2"] = int(columns["KIND2"] == o.SHARED)
    parts = _parts(c, what, count)
    places = [c.source(part, "b32") if stores else c.register(part) for part in parts]
    c.row(o.ST_MATRIX if stores else o.LD_MATRIX, "memory", LIST=c.operands(*places), COUNT=count, FLAGS=int("trans" in words),
          **columns)


def copy(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """cp.async and its groups."""
    if words[1] != "async" or "bulk" in words or "mbarrier" in words:
        raise c.error("only cp.async without mbarrier is known")
    if words[2] == "commit_group":
        c.row(o.CP_COMMIT, "asynchronous")
        return
    if words[2] in ("wait_group", "wait_all"):
        newest = i.operands[0] if words[2] == "wait_group" else Integer(0)
        if not isinstance(newest, Integer):
            raise c.error("the groups that may be under way are no constant")
        if words[2] == "wait_all":
            c.row(o.CP_COMMIT, "asynchronous")
        c.row(o.CP_WAIT, "asynchronous", IMM=newest.value)
        return
    if words[2] not in ("ca", "cg"):
        raise c.error("this form of cp.async is unknown")
    to, source, size = i.operands[:3]
    if not isinstance(size, Integer) or size.value not in (4, 8, 16) or not isinstance(source, Address):
        raise c.error("it copies 4, 8 or 16 bytes")
    columns = address(c, to, o.SHARED)
    columns["KIND2"] = int(any(word.startswith("shared") for word in words))
    given = c.source(i.operands[3] if len(i.operands) > 3 else size, "u32")
    c.row(o.CP_ASYNC, "asynchronous", B=c.source(source.base, "b64"), KIND=source.offset, C=given, COUNT=size.value, **columns)


def group(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """wgmma: products, fences, commits and waits."""
    if words[1] == "fence":
        c.row(o.WG_FENCE, "asynchronous")
    elif words[1] == "commit_group":
        c.row(o.WG_COMMIT, "asynchronous")
    elif words[1] == "wait_group":
        newest = i.operands[0]
        if not isinstance(newest, Integer):
            raise c.error("the groups that may be under way are no constant")
        c.row(o.WG_WAIT, "asynchronous", IMM=newest.value)
    elif words[1] == "mma_async":
        _product(c, i, words)
    else:
        raise c.error("this form of wgmma is unknown")


def _product(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    shape = next((match for word in words if (match := re.fullmatch(r"m64n(\d+)k(\d+)", word))), None)
    rest = [word for word in words[2:] if word not in ("sync", "aligned", "satfinite")][1:]
    if shape is None or len(rest) != 3:
        raise c.error("its shape or its types are unknown")
    columns, depth = int(shape[1]), int(shape[2])
    kinds = _kinds(c, words, *rest)
    if depth * kinds["K"] != 256 or columns % 8 or columns > 256:
        raise c.error(f"the shape m64n{columns}k{depth} is none of {rest[1]}")
    sums, a, b, adds, *more = i.operands
    if not all(isinstance(each, Integer) for each in more):
        raise c.error("its scales must be constants")
    scales = [each.value for each in more if isinstance(each, Integer)]
    if any(scales[2:]):
        raise c.error("operands whose rows are not along the depth are unknown")
    flags = 2 * int(scales[:1] == [-1]) | 4 * int(scales[1:2] == [-1])
    to = [c.register(part) for part in _parts(c, sums, columns // (4 if rest[0] == "f16" else 2))]
    given = []
    if isinstance(a, Vector):
        flags |= 1
        given = [c.source(part, "b32") for part in _parts(c, a, 4)]
        first = {}
    else:
        first = {"A": c.source(a, "b64")}
    c.row(o.WG_MMA, "tensor", LIST=c.operands(*to, *given), COUNT=columns, IMM=depth, B=c.source(b, "b64"),
          C=c.source(adds, "pred"),
          FLAGS=flags, **first, **kinds)
