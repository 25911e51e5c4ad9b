"""Which function decodes an instruction, by its name and type."""

from collections.abc import Callable

from vtakit.sim.ptx.decode import controls, converts, floats, integers, matrices, memories
from vtakit.sim.ptx.decode.context import Context
from vtakit.sim.ptx.text.syntax import Instruction

Decoder = Callable[[Context, Instruction, tuple[str, ...]], None]
_EITHER = ("add", "sub", "mul", "mad", "div", "min", "max", "neg", "abs")  # of integers and of floating point
_INTEGERS: dict[str, Decoder] = {
    **dict.fromkeys(("add", "sub", "div", "rem", "min", "max", "and", "or", "xor"), integers.three),
    **dict.fromkeys(("neg", "abs", "not", "cnot", "popc", "clz", "brev"), integers.two),
    **dict.fromkeys(("mul", "mad"), integers.multiply), **dict.fromkeys(("shl", "shr"), integers.shift),
    **dict.fromkeys(("bfe", "bfi"), integers.bit_field), **dict.fromkeys(("selp", "slct"), integers.select),
    **dict.fromkeys(("addc", "subc"), integers.carry), **dict.fromkeys(("dp4a", "dp2a"), integers.dot),
    "shf": integers.funnel, "bfind": integers.find, "prmt": integers.permute, "lop3": integers.look_up, "mov": integers.move,
    "sad": integers.difference, "setp": integers.compare, "set": integers.compare_set,
}
_FLOATS: dict[str, Decoder] = {
    **dict.fromkeys(("add", "sub", "mul", "fma", "mad", "div", "min", "max", "neg", "abs", "sqrt", "rcp", "rsqrt", "ex2", "lg2",
                     "sin",
                     "cos", "tanh", "copysign"), floats.arithmetic),
    "setp": floats.compare, "set": floats.compare_set, "testp": floats.test,
}
_OTHERS: dict[str, Decoder] = {
    "cvt": converts.convert, "cvta": memories.to_generic, "bra": controls.branch, "brx": controls.indexed,
    "shfl": controls.shuffle, "vote": controls.vote, "match": controls.match, "activemask": controls.active_mask,
    "redux": controls.reduction, "elect": controls.elect, "trap": controls.trap,
    "mma": matrices.multiply, "ldmatrix": matrices.load, "stmatrix": matrices.load, "wgmma": matrices.group, "cp": matrices.copy,
    **dict.fromkeys(("ld", "st", "ldu"), memories.access), **dict.fromkeys(("atom", "red"), memories.atomic),
    **dict.fromkeys(("ret", "exit"), controls.leave), **dict.fromkeys(("bar", "barrier"), controls.barrier),
    **dict.fromkeys(("membar", "fence"), controls.fence),
    **dict.fromkeys(("prefetch", "prefetchu", "applypriority", "discard", "nanosleep", "setmaxnreg", "griddepcontrol"),
                    memories.nothing),
}


def decoder(c: Context, words: tuple[str, ...]) -> Decoder:
    """Return the function for an instruction."""
    name, kind = words[0], words[-1]
    found = _OTHERS.get(name) or (_FLOATS.get(name) if kind in floats.TYPES else None) or _INTEGERS.get(name)
    if found is None:
        raise c.error("this instruction is unknown to it")
    return found
