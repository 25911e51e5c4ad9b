"""From a schedule to the loop IR, the verifier of its safety, and the interpreter that defines what it means."""

from vtakit.compiler.lower.errors import LOWER_RULES, LowerError, VerifyError
from vtakit.compiler.lower.function import lower
from vtakit.compiler.lower.verify import RULES, Limits, verify

__all__ = ["LOWER_RULES", "RULES", "Limits", "LowerError", "VerifyError", "lower", "verify"]
