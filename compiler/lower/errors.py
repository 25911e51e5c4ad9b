"""What lowering and the verifier raise."""

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.printer import function_text
from vtakit.hw.isa.errors import VtakitError


class LowerError(VtakitError):
    """A schedule that no program can be made of; the message says what was asked, what is true and what would work."""


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
