"""Instructions on integers, predicates and bits."""

from vtakit.sim.ptx import opcodes as o
from vtakit.sim.ptx.decode.context import CARRY, Context, ones, width
from vtakit.sim.ptx.opcodes import LANES
from vtakit.sim.ptx.text.syntax import Instruction, Integer, Not, Pair, Vector

_THREE = {"add": o.ADD, "sub": o.SUB, "div": o.DIV, "rem": o.REM, "min": o.MIN, "max": o.MAX, "and": o.AND, "or": o.OR,
          "xor": o.XOR}
_TWO = {"neg": o.NEG, "abs": o.ABS, "not": o.NOT, "cnot": o.CNOT, "popc": o.POPC, "clz": o.CLZ, "brev": o.BREV}
_MULTIPLY = {("mul", "lo"): o.MUL, ("mul", "hi"): o.MUL_HIGH, ("mul", "wide"): o.MUL_WIDE,
             ("mad", "lo"): o.MAD, ("mad", "hi"): o.MAD_HIGH, ("mad", "wide"): o.MAD_WIDE}
_PERMUTE = ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
_COMBINE = {"and": o.COMBINE_AND, "or": o.COMBINE_OR, "xor": o.COMBINE_XOR}


def columns(kind: str) -> dict[str, int]:
    """Columns of a type of integers."""
    bits = width(kind)
    return {"K": 64 - bits, "M": ones(bits), "SIGNED": int(kind[0] == "s")}


def three(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """Two sources and a destination: add, and the like."""
    kind = words[-1]
    if len(words) == 3 and words[1] == "cc" and words[0] in ("add", "sub"):
        return carry(c, i, words)
    if len(words) > 2 and (words[1:-1] != ("relu",) or words[0] not in ("min", "max")):
        raise c.error(f"the modifier {words[1]!r} is unknown")
    if kind.endswith("x2"):
        return packed(c, i, words)
    a, b = c.source(i.operands[1], kind), c.source(i.operands[2], kind)
    c.row(_THREE[words[0]], "integer", D=c.register(i.operands[0]), A=a, B=b, FLAGS=int("relu" in words), **columns(kind))


def packed(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """Integers of 16 bits, two to a register."""
    if words[0] not in ("add", "sub", "min", "max"):
        raise c.error("two numbers of 16 bits are unknown to it")
    kind = words[-1]
    a, b = c.source(i.operands[1], kind), c.source(i.operands[2], kind)
    c.row(o.HALVES, "integer", D=c.register(i.operands[0]), A=a, B=b, K=48, M=0xFFFF, SIGNED=int(kind[0] == "s"),
          IMM=_THREE[words[0]],
          FLAGS=int("relu" in words))


def carry(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """add.cc, addc and so on."""
    kind = words[-1]
    op = o.ADD_CARRY if words[0].startswith("add") else o.SUB_CARRY
    flags = int(words[0].endswith("c")) | 2 * int("cc" in words)
    a, b = c.source(i.operands[1], kind), c.source(i.operands[2], kind)
    c.row(op, "integer", D=c.register(i.operands[0]), A=a, B=b, E=CARRY * LANES, FLAGS=flags, **columns(kind))


def two(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """One source and a destination."""
    kind = words[-1]
    a = c.source(i.operands[1], kind)
    c.row(_TWO[words[0]], "integer", D=c.register(i.operands[0]), A=a, **columns(kind))


def multiply(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """mul and mad."""
    kind = words[-1]
    if words[:2] not in _MULTIPLY or len(words) != 3:
        raise c.error("its mode is unknown")
    third = ("su"[kind[0] == "u"] + str(2 * width(kind))) if words[1] == "wide" else kind
    places = {"A": c.source(i.operands[1], kind), "B": c.source(i.operands[2], kind)}
    if words[0] == "mad":
        places["C"] = c.source(i.operands[3], third)
    c.row(_MULTIPLY[words[:2]], "integer", D=c.register(i.operands[0]), **places, **columns(kind))


def shift(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """shl and shr."""
    a, b = c.source(i.operands[1], words[-1]), c.source(i.operands[2], "u32")
    c.row(o.SHL if words[0] == "shl" else o.SHR, "integer", D=c.register(i.operands[0]), A=a, B=b, **columns(words[-1]))


def funnel(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """shf."""
    a, b, amount = (c.source(each, "b32") for each in i.operands[1:4])
    c.row(o.SHF_LEFT if words[1] == "l" else o.SHF_RIGHT, "integer", D=c.register(i.operands[0]), A=a, B=b, C=amount,
          FLAGS=int(words[2] == "wrap"), **columns("b32"))


def bit_field(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """bfe and bfi."""
    kind = words[-1]
    if words[0] == "bfe":
        places = {"A": c.source(i.operands[1], kind), "B": c.source(i.operands[2], "u32"), "C": c.source(i.operands[3], "u32")}
    else:
        places = {"A": c.source(i.operands[1], kind), "B": c.source(i.operands[2], kind), "C": c.source(i.operands[3], "u32"),
                  "E": c.source(i.operands[4], "u32")}
    c.row(o.BFE if words[0] == "bfe" else o.BFI, "integer", D=c.register(i.operands[0]), **places, **columns(kind))


def find(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """bfind."""
    c.row(o.BFIND, "integer", A=c.source(i.operands[1], words[-1]), D=c.register(i.operands[0]), FLAGS=int("shiftamt" in words),
          **columns(words[-1]))


def permute(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """prmt."""
    a, b, selector = (c.source(each, "b32") for each in i.operands[1:4])
    c.row(o.PRMT, "integer", D=c.register(i.operands[0]), A=a, B=b, C=selector,
          IMM=_PERMUTE.index(words[2] if len(words) > 2 else ""),
          **columns("b32"))


def look_up(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """lop3."""
    table = i.operands[4]
    if words != ("lop3", "b32") or not isinstance(table, Integer):
        raise c.error("only lop3.b32 with a constant table is known")
    places = dict(zip("ABC", (c.source(each, "b32") for each in i.operands[1:4]), strict=True))
    c.row(o.LOP3, "integer", D=c.register(i.operands[0]), IMM=table.value, **places, **columns("b32"))


def select(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """selp and slct."""
    if words[0] == "selp":
        kind = words[-1]
        a, b, p = c.source(i.operands[1], kind), c.source(i.operands[2], kind), c.source(i.operands[3], "pred")
        c.row(o.SELP, "integer", D=c.register(i.operands[0]), A=a, B=b, C=p, **columns(kind))
        return
    kind, by = words[-2:]
    if by != "s32":
        raise c.error("only a choice by s32 is known")
    a, b, p = c.source(i.operands[1], kind), c.source(i.operands[2], kind), c.source(i.operands[3], by)
    c.row(o.SLCT, "integer", D=c.register(i.operands[0]), A=a, B=b, C=p, KIND=64 - width(by), **columns(kind))


def move(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """mov, also of a vector's parts into one register and back."""
    kind = words[-1]
    to, given = i.operands[0], i.operands[1]
    if isinstance(given, Vector):
        bits = width(kind) // len(given.parts)
        places = [c.source(part, f"b{bits}") for part in given.parts]
        c.row(o.PACK, "integer", D=c.register(to), LIST=c.operands(*places), COUNT=len(places), K=bits, M=ones(bits))
    elif isinstance(to, Vector):
        bits = width(kind) // len(to.parts)
        a = c.source(given, kind)
        places = [c.register(part) for part in to.parts]
        c.row(o.UNPACK, "integer", A=a, LIST=c.operands(*places), COUNT=len(places), K=bits, M=ones(bits))
    else:
        a = c.source(given, kind)
        c.row(o.MOV, "integer", D=c.register(to), A=a, **columns(kind))


def dot(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """dp4a and dp2a."""
    a, b, total = (c.source(each, "b32") for each in i.operands[1:4])
    more = columns("b32") | {"SIGNED": int(words[-2][0] == "s"), "KIND": int(words[-1][0] == "s"), "IMM": int("hi" in words)}
    c.row(o.DOT4 if words[0] == "dp4a" else o.DOT2, "integer", D=c.register(i.operands[0]), A=a, B=b, C=total, **more)


def difference(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """sad."""
    a, b, total = (c.source(each, words[-1]) for each in i.operands[1:4])
    c.row(o.SAD, "integer", D=c.register(i.operands[0]), A=a, B=b, C=total, **columns(words[-1]))


def comparison(c: Context, i: Instruction, words: tuple[str, ...]) -> dict[str, int]:
    """Columns of setp that do not depend on its type."""
    found = {"KIND2": o.COMBINE_NONE, "IMM": 0}
    if len(words) > 3 and words[2] in _COMBINE:
        last = i.operands[3]
        found = {"KIND2": _COMBINE[words[2]], "IMM": int(isinstance(last, Not)), "C": c.source(last, "pred")}
    to = i.operands[0]
    if isinstance(to, Pair):
        return found | {"D": c.register(to.first), "E": c.register(to.second)}
    return found | {"D": c.register(to)}


def compare(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """setp of integers."""
    kind = words[-1]
    a, b = c.source(i.operands[1], kind), c.source(i.operands[2], kind)
    signed = columns(kind) | {"SIGNED": int(kind[0] == "s" and words[1] not in ("lo", "ls", "hi", "hs"))}
    c.row(o.SETP, "integer", A=a, B=b, KIND=o.COMPARISONS[words[1]], **comparison(c, i, words), **signed)


def compare_set(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """set of integers: words of ones, or 1.0."""
    result, kind = words[-2:]
    a, b = c.source(i.operands[1], kind), c.source(i.operands[2], kind)
    c.row(o.SET, "integer", D=c.register(i.operands[0]), A=a, B=b, KIND=o.COMPARISONS[words[1]], FLAGS=int(result == "f32"),
          IMM=0xFFFFFFFF, **columns(kind))
