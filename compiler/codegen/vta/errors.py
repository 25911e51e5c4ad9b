"""Errors of this code generator."""

from vtakit.base.errors import VtakitError
from vtakit.compiler.ir.printer import function_text
from vtakit.compiler.ir.stmt import Function, Stmt


class VtaError(VtakitError, ValueError):
    """A program that the accelerator cannot run; with a function, the message ends with it and a mark."""

    def __init__(self, what: str, function: Function | None = None, mark: Stmt | None = None) -> None:
        super().__init__(what if function is None else f"{what}\n\n{function_text(function, mark)}")


class UnfitError(VtaError):
    """Why a statement is no instruction, said before it is known where in a program it stands."""
