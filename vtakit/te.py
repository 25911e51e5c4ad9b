"""Tensor expressions and their schedules: the names that a user's program needs.

::

    from vtakit import te

    m, n, h = te.var("m"), te.var("n"), te.var("h")
    A, B = te.placeholder((m, h), name="A"), te.placeholder((n, h), name="B")
    k = te.reduce_axis((0, h), name="k")
    C = te.compute((m, n), lambda y, x: te.sum(A[y, k] * B[x, k], axis=k), name="C")
    s = te.create_schedule(C.op)
"""

from vtakit.compiler.intrin.tensor_intrin import TensorIntrin, decl_tensor_intrin, hardware_intrin
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.iters import IterVar, Range
from vtakit.compiler.ir.ops import all_of as all
from vtakit.compiler.ir.ops import any_of as any
from vtakit.compiler.ir.ops import if_then_else, select, truncdiv, truncmod
from vtakit.compiler.ir.values import cast
from vtakit.compiler.schedule.errors import ScheduleError
from vtakit.compiler.schedule.nest import nest_text
from vtakit.compiler.schedule.save import load_schedule, save_schedule
from vtakit.compiler.schedule.schedule import Schedule, create_schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.schedule.trace import Trace
from vtakit.compiler.te import hybrid
from vtakit.compiler.te.compose import decl_buffer, extern, scan
from vtakit.compiler.te.errors import ExpressionError
from vtakit.compiler.te.language import compute, placeholder, reduce_axis, size_var, thread_axis, var
from vtakit.compiler.te.math import (
    Select,
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    call_extern,
    call_intrin,
    call_packed,
    call_pure_extern,
    ceil,
    clz,
    const,
    copysign,
    cos,
    cosh,
    div,
    erf,
    exp,
    exp2,
    exp10,
    expm1,
    floor,
    floordiv,
    floormod,
    fma,
    fmod,
    hypot,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    nearbyint,
    nextafter,
    popcount,
    power,
    round,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from vtakit.compiler.te.operation import ComputeOp, ExternOp, PlaceholderOp, ScanOp
from vtakit.compiler.te.reduce import comm_reducer, infinity, max, max_value, min, min_value, prod, sum
from vtakit.compiler.te.save import load_json, save_json
from vtakit.compiler.te.tensor import Operation, Tensor

indexdiv, indexmod = floordiv, floormod

__all__ = [
    "Buffer",
    "ComputeOp",
    "ExpressionError",
    "ExternOp",
    "IterVar",
    "Operation",
    "PlaceholderOp",
    "Range",
    "ScanOp",
    "Schedule",
    "ScheduleError",
    "Select",
    "Stage",
    "Tensor",
    "TensorIntrin",
    "Trace",
    "abs",
    "acos",
    "acosh",
    "all",
    "any",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "call_extern",
    "call_intrin",
    "call_packed",
    "call_pure_extern",
    "cast",
    "ceil",
    "clz",
    "comm_reducer",
    "compute",
    "const",
    "copysign",
    "cos",
    "cosh",
    "create_schedule",
    "decl_buffer",
    "decl_tensor_intrin",
    "div",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "expm1",
    "extern",
    "floor",
    "floordiv",
    "floormod",
    "fma",
    "fmod",
    "hardware_intrin",
    "hybrid",
    "hypot",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "infinity",
    "isfinite",
    "isinf",
    "isnan",
    "load_json",
    "load_schedule",
    "log",
    "log1p",
    "log2",
    "log10",
    "max",
    "max_value",
    "min",
    "min_value",
    "nearbyint",
    "nest_text",
    "nextafter",
    "placeholder",
    "popcount",
    "power",
    "prod",
    "reduce_axis",
    "round",
    "rsqrt",
    "save_json",
    "save_schedule",
    "scan",
    "select",
    "sigmoid",
    "sin",
    "sinh",
    "size_var",
    "sqrt",
    "sum",
    "tan",
    "tanh",
    "thread_axis",
    "trunc",
    "truncdiv",
    "truncmod",
    "var",
]
