"""The verifier: rules that every program in block form keeps, checked independently of how it was made.

It sees the program alone: loops, blocks, what they declare to read and write. Each rule is a generator of the places where it
is broken; `verify` raises `VerifyError` for the first.
"""

from vtakit.compiler.ir.depth import deep
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.lower.errors import VerifyError
from vtakit.compiler.lower.verify.bindings import check_bindings, check_declared
from vtakit.compiler.lower.verify.capacity import check_copies, check_memory, check_threads, check_vectors
from vtakit.compiler.lower.verify.double_buffers import check_double_buffers
from vtakit.compiler.lower.verify.flow import check_outputs, check_reads
from vtakit.compiler.lower.verify.fragments import check_asynchronous, check_fragments, check_swizzles
from vtakit.compiler.lower.verify.inside import check_inside
from vtakit.compiler.lower.verify.iterations import check_iterations
from vtakit.compiler.lower.verify.limits import NO_LIMITS, Limits
from vtakit.compiler.lower.verify.loops import check_barriers, check_disjoint, check_launches, check_reductions, check_scopes
from vtakit.compiler.lower.verify.names import check_names
from vtakit.compiler.lower.verify.program import Program
from vtakit.compiler.lower.verify.report import Rule

__all__ = ["RULES", "Limits", "Rule", "verify"]

# In this order: a rule may rely on those before it.
RULES = (
    Rule("names", check_names),
    Rule("bindings", check_bindings),
    Rule("declared", check_declared),
    Rule("launches", check_launches),
    Rule("scopes", check_scopes),
    Rule("threads", check_threads),
    Rule("vectors", check_vectors),
    Rule("copies", check_copies),
    Rule("memory", check_memory),
    Rule("reductions", check_reductions),
    Rule("disjoint writes", check_disjoint),
    Rule("barriers", check_barriers),
    Rule("reads", check_reads),
    Rule("outputs", check_outputs),
    Rule("inside", check_inside),
    Rule("iterations", check_iterations),
    Rule("double buffers", check_double_buffers),
    Rule("fragments", check_fragments),
    Rule("asynchronous copies", check_asynchronous),
    Rule("swizzles", check_swizzles),
)


@deep()
def verify(function: Function, limits: Limits | None = None) -> None:
    """Raise VerifyError for the first rule that a function in block form breaks."""
    program = Program(function, limits or NO_LIMITS)
    for rule in RULES:
        for broken in rule.check(program):
            raise VerifyError(rule.name, broken.found, function, broken.mark, broken.cure)
