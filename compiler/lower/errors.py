"""Errors of lowering and of the verifier."""

from vtakit.base.errors import VtakitError
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.printer import function_text
from vtakit.compiler.schedule.data import StageData
from vtakit.compiler.schedule.nest import nest_text

# What lowering asks of a schedule before there is a program that the verifier could look at.
LOWER_RULES = {
    "arguments": "what the program reads and makes for the caller is among its arguments",
    "inlining": "what is inlined is an expression, and is read by expressions",
    "places": "a stage stands within a loop around all that reads it; an output and an argument stand at the root",
    "lengths": "a length is not data, and has its loops inside of those of the axes that it depends on",
    "thread lengths": "a thread axis has one length in a kernel",
    "thread reductions": "a reduction across threads has terms, its own loops innermost, and none that takes both data and terms",
    "states": "computes make the states of a scan",
    "prefetch": "what is prefetched is read by the stage, and made outside of the loop that runs ahead",
    "depth": "expressions and stages are nested no deeper than Python calls functions",
    "tensorize": "the loops compute what the intrinsic does, on operands in the memory that it declares",
}


class LowerError(VtakitError):
    """A schedule that no program can be made of.

    rule  : the rule's name, a key of `LOWER_RULES`
    found : what is true, in a sentence
    cure  : what would work
    shown : the stages whose loops the message shows, each with what an arrow points at (`nest_text`)
    """

    def __init__(self, rule: str, found: str, cure: str, *shown: tuple[StageData, IterVar | str]) -> None:
        assert rule in LOWER_RULES, rule
        self.rule, self.found, self.cure = rule, found, cure
        nests = [nest_text(stage, mark) for stage, mark in shown]
        super().__init__("\n\n".join([f"{rule}: {found}", *nests, f"hint: {cure}"]))


class VerifyError(VtakitError):
    """A program that breaks a rule.

    rule  : the rule's name, a key of `vtakit.compiler.lower.verify.RULES`
    found : what is true, in a sentence
    mark  : the statement that breaks it
    cure  : what would work
    """

    def __init__(self, rule: str, found: str, function: st.Function, mark: st.Stmt, cure: str) -> None:
        self.rule, self.found, self.function, self.mark, self.cure = rule, found, function, mark, cure
        super().__init__(rule, found)

    def __str__(self) -> str:
        return f"{self.rule}: {self.found}\n\n{function_text(self.function, self.mark)}\n\nhint: {self.cure}"
