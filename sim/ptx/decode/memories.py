"""Loads, stores, atomic operations and addresses."""

from vtakit.sim.ptx import opcodes as o
from vtakit.sim.ptx.decode.context import SINK, Context, ones, width
from vtakit.sim.ptx.decode.floats import FORMATS
from vtakit.sim.ptx.execute.codes import PARAM_BASE, SHARED_BASE
from vtakit.sim.ptx.opcodes import LANES
from vtakit.sim.ptx.text.syntax import Address, Instruction, Integer, Name, Operand, Vector

SPACES = {"global": o.GLOBAL, "shared": o.SHARED, "local": o.LOCAL, "param": o.PARAM, "const": o.CONST}
_WEAK = ("weak", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "gpu", "cta", "sys", "unified", "cluster")
_STRONG = ("volatile", "relaxed", "acquire", "release", "mmio")
_ATOMIC = {"add": o.A_ADD, "min": o.A_MIN, "max": o.A_MAX, "and": o.A_AND, "or": o.A_OR, "xor": o.A_XOR, "exch": o.A_EXCHANGE,
           "cas": o.A_CAS, "inc": o.A_INC, "dec": o.A_DEC}


def space_of(words: tuple[str, ...]) -> int:
    """The space that modifiers name, or the generic one."""
    for word in words:
        if word.partition("::")[0] in SPACES:
            return SPACES[word.partition("::")[0]]
    return o.GENERIC


def address(c: Context, operand: Operand, space: int) -> dict[str, int]:
    """Columns of an address."""
    if not isinstance(operand, Address):
        raise c.error("an address in brackets is expected")
    if isinstance(operand.base, Integer):
        return {"A": c.source(Integer(operand.base.value), "b64"), "IMM": operand.offset, "KIND2": space}
    base = operand.base
    wide = "b64"
    if isinstance(base, Name) and c.bits(base) == 32 and base.name in c.kernel.registers:
        wide = "b32"
    return {"A": c.source(base, wide), "IMM": operand.offset, "KIND2": space}


def access(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """ld and st."""
    kind = words[-1]
    count, strong = 1, 0
    for word in words[1:-1]:
        if word in ("v2", "v4", "v8"):
            count = int(word[1:])
        elif word in _STRONG:
            strong = 1
        elif word.partition("::")[0] not in SPACES and word not in _WEAK and not word.startswith(("L1::", "L2::", "level::")):
            raise c.error(f"the modifier {word!r} is unknown")
    size = max(8, width(kind)) // 8
    if size > 8 and kind != "b128":
        raise c.error(f"the type {kind} is unknown")
    space = space_of(words[1:])
    where, what = (i.operands[1], i.operands[0]) if words[0] != "st" else (i.operands[0], i.operands[1])
    parts = what.parts if isinstance(what, Vector) else (what,)
    if len(parts) != count:
        raise c.error(f"it has {len(parts)} operands for a vector of {count}")
    common = {"KIND": size.bit_length() - 1, "COUNT": count, "FLAGS": strong, "K": 64 - 8 * size}
    if words[0] == "st":
        places = [c.source(part, kind) for part in parts]
        c.row(o.ST, "memory", LIST=c.operands(*places), M=ones(8 * size), **common, **address(c, where, space))
    else:
        at = address(c, where, space)
        places = [c.register(part) for part in parts]
        c.row(o.LD, "memory", LIST=c.operands(*places), M=c.mask(parts[0]), SIGNED=int(kind[0] == "s"), **common, **at)


def atomic(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """atom and red."""
    kind = words[-1]
    names = [word for word in words[1:-1] if word in _ATOMIC]
    rest = [word for word in words[1:-1] if word not in (*_ATOMIC, *_WEAK, *_STRONG, "acq_rel", "noftz")
            and word.partition("::")[0] not in SPACES]
    if len(names) != 1 or rest:
        raise c.error(f"its operation or the modifier {rest[0] if rest else ''!r} is unknown")
    bits = width(kind)
    number = FORMATS.get(kind, o.E4M3)
    operands = list(i.operands)
    to = operands.pop(0) if words[0] == "atom" else None
    sources = [c.source(each, kind) for each in operands[1:]]
    more = dict(zip("BC", sources, strict=False)) | address(c, operands[0], space_of(words[1:]))
    place = c.register(to) if to is not None else SINK * LANES
    c.row(o.ATOM if to is not None else o.RED, "memory", D=place, KIND=(bits // 8).bit_length() - 1, K=64 - bits, M=ones(bits),
          COUNT=2 if kind.endswith("x2") else 1, SIGNED=int(kind[0] == "s") | _ATOMIC[names[0]] << 1 | number << 5, **more)


def to_generic(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """cvta: an address of a space as a generic one, or back. Global addresses are the same in both."""
    back = words[1] == "to"
    space = space_of(words)
    base = {o.SHARED: SHARED_BASE, o.PARAM: PARAM_BASE}.get(space, 0)
    a = c.source(i.operands[1], words[-1])
    if space == o.LOCAL:
        c.row(o.SUB if back else o.ADD, "integer", D=c.register(i.operands[0]), A=a, B=c.source(Name("%local_window")), K=0, M=-1)
        return
    bits = width(words[-1])
    b = c.source(Integer(-base if back else base), words[-1])
    c.row(o.ADD, "integer", D=c.register(i.operands[0]), A=a, B=b, K=64 - bits, M=ones(bits))


def nothing(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """prefetch, and hints to caches."""
    c.row(o.NOP, "control")
