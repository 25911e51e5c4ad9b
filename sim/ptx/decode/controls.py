"""Branches, barriers and instructions of a warp."""

from vtakit.sim.ptx import opcodes as o
from vtakit.sim.ptx.decode.context import Context, ones, width
from vtakit.sim.ptx.decode.integers import columns
from vtakit.sim.ptx.text.syntax import Instruction, Integer, Name, Not, Pair

_SHUFFLES = ("up", "down", "bfly", "idx")
_VOTES = ("all", "any", "uni", "ballot")
_REDUCTIONS = ("add", "min", "max", "and", "or", "xor")


def label(c: Context, operand: object) -> str:
    """The name of a branch's target."""
    if isinstance(operand, Name):
        return operand.name
    raise c.error("its target is no label")


def branch(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """bra; the target's place is written when all labels are known."""
    c.branches[len(c.rows)] = (label(c, i.operands[0]),)
    c.row(o.BRA, "control")


def indexed(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """brx.idx."""
    name = label(c, i.operands[1])
    if name not in c.kernel.targets:
        raise c.error(f"{name} is no table of targets")
    targets = c.kernel.targets[name]
    c.branches[len(c.rows)] = targets
    c.row(o.BRX, "control", A=c.source(i.operands[0], "u32"), LIST=c.operands(*[0] * len(targets)), COUNT=len(targets))


def leave(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """ret and exit."""
    c.row(o.EXIT, "control")


def trap(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """trap."""
    c.row(o.TRAP, "control")


def barrier(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """bar and barrier: sync, arrive, and bar.warp.sync."""
    names = [word for word in words if word not in ("bar", "barrier", "cta", "aligned")]
    if names == ["warp", "sync"]:
        c.row(o.BAR_WARP, "control", A=c.source(i.operands[0], "b32"))
        return
    if names not in (["sync"], ["arrive"]):
        raise c.error("this barrier is unknown")
    number = c.source(i.operands[0], "b32")
    expected = c.source(i.operands[1] if len(i.operands) > 1 else Integer(0), "b32")
    c.row(o.BAR_SYNC if names == ["sync"] else o.BAR_ARRIVE, "control", A=number, B=expected)


def fence(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """membar and fence."""
    c.row(o.FENCE, "control", KIND=int("proxy" in words))


def shuffle(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """shfl.sync."""
    if words[1] != "sync":
        raise c.error("only the form with .sync is known")
    a, b, clamp, mask = (c.source(each, "b32") for each in i.operands[1:5])
    to = i.operands[0]
    found, truth = (to.first, c.register(to.second)) if isinstance(to, Pair) else (to, -1)
    c.row(o.SHFL, "warp", D=c.register(found), A=a, B=b, C=clamp, E=mask, IMM=truth, KIND=_SHUFFLES.index(words[2]), M=ones(32))


def vote(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """vote.sync."""
    if words[1] != "sync":
        raise c.error("only the form with .sync is known")
    a, mask = c.source(i.operands[1], "pred"), c.source(i.operands[2], "b32")
    c.row(o.VOTE, "warp", D=c.register(i.operands[0]), A=a, E=mask, KIND=_VOTES.index(words[2]),
          FLAGS=int(isinstance(i.operands[1], Not)))


def match(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """match.sync."""
    a, mask = c.source(i.operands[1], words[-1]), c.source(i.operands[2], "b32")
    to = i.operands[0]
    found, truth = (to.first, c.register(to.second)) if isinstance(to, Pair) else (to, -1)
    c.row(o.MATCH, "warp", D=c.register(found), A=a, B=truth, E=mask, KIND=int(words[1] == "all"))


def active_mask(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """activemask."""
    c.row(o.ACTIVE_MASK, "warp", D=c.register(i.operands[0]))


def reduction(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """redux.sync."""
    kind = words[-1]
    if len(words) != 4 or width(kind) != 32 or kind[0] == "f":
        raise c.error("only reductions of integers are known")
    a, mask = c.source(i.operands[1], kind), c.source(i.operands[2], "b32")
    c.row(o.REDUX, "warp", D=c.register(i.operands[0]), A=a, E=mask, KIND=_REDUCTIONS.index(words[2]), **columns(kind))


def elect(c: Context, i: Instruction, words: tuple[str, ...]) -> None:
    """elect.sync."""
    to = i.operands[0]
    if not isinstance(to, Pair):
        raise c.error("it needs a register and a predicate")
    mask = c.source(i.operands[1], "b32")
    c.row(o.ELECT, "warp", D=c.register(to.first), A=c.register(to.second), E=mask)
