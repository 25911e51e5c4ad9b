"""Tensors by a Python function with loops: run as it is on arrays, or turned into statements on tensors.

::

    @te.hybrid.script
    def outer(a, b):
        c = output_tensor((a.shape[0], b.shape[0]), "float32")
        for i in parallel(a.shape[0]):
            for j in range(b.shape[0]):
                c[i, j] = a[i] * b[j]
        return c

The names of `NAMES` are known in the function without being imported. `vtakit.compiler.te.hybrid_parser` says which part of
Python may be used; what it refuses is an ExpressionError with the line.
"""

import functools
import math
import types
from collections.abc import Callable
from typing import Any

from vtakit.compiler.te.errors import ExpressionError
from vtakit.compiler.te.hybrid_parser import CASTS, LOOPS, MATH, parse
from vtakit.compiler.te.language import THREAD_TAGS
from vtakit.compiler.te.operation import ExternOp
from vtakit.compiler.te.tensor import Tensor

NAMES = ("output_tensor", "allocate", *LOOPS, *MATH, *CASTS)


class HybridFunction:
    """A function for tensors and for arrays; called with tensors it gives tensors, else it runs as Python on NumPy arrays."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        if not any(isinstance(arg, Tensor) for arg in args):
            return self.emulate(*args)
        parsed = parse(self.function, args)
        op = ExternOp(self.function.__name__, parsed.inputs, parsed.input_buffers, parsed.output_buffers, parsed.body, "hybrid")
        return op.output(0) if op.num_outputs == 1 else op.outputs

    def emulate(self, *args: Any) -> Any:
        """The function run by Python on NumPy arrays and numbers; loops of any kind run in order."""
        source = self.function
        names = source.__globals__ | _runtime()
        own = types.FunctionType(source.__code__, names, source.__name__, source.__defaults__, source.__closure__)
        return own(*args)


def script(function: Callable[..., Any]) -> HybridFunction:
    """Make a function on arrays also one on tensors."""
    return HybridFunction(function)


@functools.cache
def _runtime() -> dict[str, Any]:
    """Return the values of the known names when the function runs as Python."""
    import numpy  # building a program needs no arrays

    def array(shape: Any, dtype: str = "float32", scope: str = "global") -> Any:
        return numpy.zeros(shape, dtype)

    def loop(*ends: int) -> range:
        return range(*ends)

    def bind(tag: str, extent: int) -> range:
        if tag not in THREAD_TAGS:
            raise ExpressionError(f"{tag!r} is no thread index: known are {', '.join(THREAD_TAGS)}")
        return range(extent)

    def float_of(name: str) -> Callable[..., Any]:
        def function(*values: Any) -> Any:
            typed: list[Any] = [value for value in values if isinstance(value, numpy.generic)]
            kind = numpy.result_type(*typed) if typed else numpy.dtype(numpy.float32)
            return kind.type(_PLAIN[name](*map(float, values)))
        return function

    found: dict[str, Any] = dict.fromkeys(LOOPS, loop) | {"bind": bind, "output_tensor": array, "allocate": array}
    found |= {name: float_of(name) for name in MATH if name in _PLAIN}
    found |= {name: getattr(numpy, name) for name in CASTS}
    found |= {"abs": abs, "min": min, "max": max, "range": range}
    return found


_PLAIN: dict[str, Callable[..., float]] = {
    "exp": math.exp, "log": math.log, "sqrt": math.sqrt, "tanh": math.tanh, "erf": math.erf, "sin": math.sin, "cos": math.cos,
    "floor": math.floor, "ceil": math.ceil, "power": math.pow,
    "rsqrt": lambda x: 1 / math.sqrt(x), "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
}
