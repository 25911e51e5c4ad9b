"""Programs that the compiler has made, proven by the static checker before anything runs them."""

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.program import Program
from vtakit.sim.checker import check_program

# Instructions of a program that is checked if nothing is said. The check takes a tenth of a millisecond for each: for short
# programs a fifth of the time that making them takes, for long ones up to two thirds.
CHECKED_INSNS = 1000


class CompilerDefectError(VtakitError):
    """The compiler has made a program that the instruction set forbids: a defect of vtakit, whatever the compiler was given."""


def prove(program: Program, name: str, check: bool | None = None) -> None:
    """Raise CompilerDefectError if the static checker finds something wrong with a program that the compiler has made.

    check : whether to look; None for programs of at most `CHECKED_INSNS` instructions
    """
    if check is False or (check is None and len(program.insns) > CHECKED_INSNS):
        return
    faults = check_program(program)
    if faults:
        raise CompilerDefectError(f"the program made for {name!r} is illegal, a defect of the code generator, not of what it was "
                                  f"made from: {faults[0]}")
