"""Checking arrays against a function's parameters, and reading sizes off their shapes."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from vtakit.base.errors import VtakitError
from vtakit.base.text import counted
from vtakit.compiler.codegen.llvm.signature import Signature
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.values import value_of
from vtakit.compiler.ir.walk import subexpressions
from vtakit.runtime.cpu.packed import numpy_dtype


class ArgumentError(VtakitError, ValueError):
    """An argument that does not fit a compiled function's parameter."""


_WAYS: dict[type[ir.Expr], Callable[[int, int], int]] = {
    ir.Add: operator.add, ir.Sub: operator.sub, ir.Mul: operator.mul, ir.FloorDiv: operator.floordiv, ir.FloorMod: operator.mod,
    ir.Min: min, ir.Max: max,
}


def _evaluate(e: ir.Expr, sizes: dict[ir.Var, int]) -> int:
    if isinstance(e, ir.Var):
        return sizes[e]
    if isinstance(e, ir.IntImm):
        return e.value
    if isinstance(e, ir.Cast):
        return _evaluate(e.value, sizes)
    if isinstance(e, ir.Binary) and type(e) in _WAYS:
        return _WAYS[type(e)](_evaluate(e.a, sizes), _evaluate(e.b, sizes))
    raise ArgumentError(f"the extent {e} of a parameter is no sum, product, quotient or extreme of sizes: make it a size")


class _Buffer:
    """A buffer parameter, with what its check needs worked out."""

    def __init__(self, buffer: Buffer, signature: Signature) -> None:
        self.buffer, self.name, self.writes = buffer, buffer.name, signature.writes(buffer)
        self.dtype = numpy_dtype(buffer.dtype)
        lanes = (ir.IntImm(buffer.dtype.lanes),) if buffer.dtype.lanes > 1 else ()
        self.shape = (*buffer.shape, *lanes)
        constant = [value_of(extent) for extent in self.shape]
        self.constant = tuple(constant) if all(isinstance(extent, int) for extent in constant) else None
        self.align = max(buffer.align, 1)

    @property
    def type(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


class Arguments:
    """The check of a function's arguments, which turns them into those that C takes."""

    def __init__(self, signature: Signature) -> None:
        self.signature, self.name = signature, signature.name
        self.params = [_Buffer(p, signature) if isinstance(p, Buffer) else p for p in signature.params]
        extents = [e for p in self.params if isinstance(p, _Buffer) for e in (*p.buffer.shape, *p.buffer.strides)]
        self.plain = {e for e in extents if isinstance(e, ir.Var)}
        offsets = {e.offset for e in signature.params if isinstance(e, Buffer) if isinstance(e.offset, ir.Var)}
        for size in signature.sizes:
            if size not in self.plain and size not in offsets:
                where = next(p for p in self.params if isinstance(p, _Buffer) and any(
                    size in subexpressions(e) for e in (*p.buffer.shape, *p.buffer.strides, p.buffer.offset)
                ))
                raise ArgumentError(
                    f"the size {size.name} of {self.name} cannot be read off a shape: it is only part of {where.name}: "
                    f"{where.type}; make {size.name} a parameter"
                )

    def bind(self, args: tuple[Any, ...]) -> tuple[list[Any], tuple[Any, ...]]:
        """Return the arguments of the C function, and the arrays that must live until it returns.

        Raises ArgumentError if an argument does not fit.
        """
        if len(args) != len(self.params):
            names = ", ".join(p.name for p in self.params)
            raise ArgumentError(f"{self.name} takes {counted(len(self.params), 'argument')} ({names}), got {len(args)}")
        sizes: dict[ir.Var, int] = {}
        said: dict[ir.Var, str] = {}
        for param, arg in zip(self.params, args, strict=True):
            if isinstance(param, ir.Var) and (param in self.plain or param.size):
                sizes[param], said[param] = self._number(param, arg), "the argument of that name"
        arrays = [self._array(p, arg) if isinstance(p, _Buffer) else None for p, arg in zip(self.params, args, strict=True)]
        for param, array in zip(self.params, arrays, strict=True):
            if isinstance(param, _Buffer) and array is not None:
                self._sizes(param, array, sizes, said)
        passed: list[Any] = []
        spans: list[tuple[_Buffer, int, int]] = []
        for param, array, arg in zip(self.params, arrays, args, strict=True):
            if isinstance(param, _Buffer):
                assert array is not None
                start = int(array.__array_interface__["data"][0])
                self._layout(param, array, start, sizes)
                passed.append(start - self._offset(param, sizes) * array.itemsize)
                spans.append((param, start, start + _span(array)))
            else:
                passed.append(sizes[param] if param in sizes else self._number(param, arg))
        self._apart(spans)
        passed += [sizes.get(size, 0) for size in self.signature.sizes]
        return passed, tuple(arrays)

    def _array(self, p: _Buffer, arg: Any) -> np.ndarray[Any, Any]:
        """The argument as an array of the right type and number of dimensions."""
        if not isinstance(arg, np.ndarray):
            if not hasattr(arg, "__dlpack__"):
                raise ArgumentError(
                    f"argument {p.name} of {self.name}: expected an array of {p.type}, got {type(arg).__name__}: "
                    f"use numpy.array(…, {p.dtype.name!r})"
                )
            try:
                arg = np.from_dlpack(arg)
            except (BufferError, RuntimeError, TypeError, ValueError) as error:  # of a gradient's tensor, or of bfloat16
                raise ArgumentError(
                    f"argument {p.name} of {self.name}: expected an array of {p.type}, got a {type(arg).__name__} that NumPy "
                    f"cannot read: {' '.join(str(error).split())}"
                ) from None
        array: np.ndarray[Any, Any] = arg
        if arg.dtype != p.dtype or arg.ndim != len(p.shape):
            cure = f": convert it with .astype({p.dtype.name!r})" if arg.dtype != p.dtype else ""
            shape = ", ".join(map(str, arg.shape))
            name = arg.dtype.str if arg.dtype != p.dtype and arg.dtype.name == p.dtype.name else arg.dtype.name  # bytes swapped
            raise ArgumentError(f"argument {p.name} of {self.name}: expected {p.type}, got {name}[{shape}]{cure}")
        if p.writes and not arg.flags.writeable:
            raise ArgumentError(f"argument {p.name} of {self.name} is written to, and the array is read-only: pass a copy")
        return array

    def _sizes(self, p: _Buffer, array: np.ndarray[Any, Any], sizes: dict[ir.Var, int], said: dict[ir.Var, str]) -> None:
        """Read the sizes that stand alone in a shape or stride off the array."""
        if p.constant is None:
            for extent, given in zip(p.shape, array.shape, strict=True):
                if isinstance(extent, ir.Var) and extent not in sizes:
                    sizes[extent], said[extent] = given, f"argument {p.name}"
        for stride, given in zip(p.buffer.strides, array.strides, strict=False):
            if isinstance(stride, ir.Var) and stride not in sizes:
                sizes[stride], said[stride] = given // array.itemsize, f"argument {p.name}"
        if p.constant == array.shape:
            return
        for axis, (extent, given) in enumerate(zip(p.shape, array.shape, strict=True)):
            if isinstance(extent, ir.Var) and sizes[extent] != given:
                raise ArgumentError(
                    f"argument {p.name} of {self.name}: dimension {axis} is {given}, but {extent.name} is {sizes[extent]} by "
                    f"{said[extent]}"
                )

    def _layout(self, p: _Buffer, array: np.ndarray[Any, Any], start: int, sizes: dict[ir.Var, int]) -> None:
        """Extents that are computed, strides and alignment."""
        if p.constant != array.shape:
            wanted = tuple(_evaluate(extent, sizes) for extent in p.shape)
            if wanted != array.shape:
                shape = ", ".join(map(str, array.shape))
                means = "" if p.constant else f" with {', '.join(f'{v.name} = {n}' for v, n in sizes.items())}"
                if wanted and min(wanted) < 0:
                    raise ArgumentError(f"argument {p.name} of {self.name}: {p.type}{means} has a negative extent")
                got = f"{array.dtype.name}[{shape}]"
                raise ArgumentError(f"argument {p.name} of {self.name}: expected {p.type}{means}, got {got}")
        if p.buffer.strides:
            lanes = (array.itemsize,) if p.buffer.dtype.lanes > 1 else ()
            steps = (*(_evaluate(stride, sizes) * array.itemsize for stride in p.buffer.strides), *lanes)
            fits = all(n == 1 or 0 <= a == b for a, b, n in zip(array.strides, steps, array.shape, strict=True))
        else:
            fits, steps = bool(array.flags.c_contiguous), ()
        if not fits:
            strides = tuple(step // array.itemsize for step in array.strides)
            wanted_steps = tuple(s // array.itemsize for s in steps) if steps else "those of row-major order"
            raise ArgumentError(
                f"argument {p.name} of {self.name} has strides of {strides} elements, expected {wanted_steps}: "
                "pass a contiguous array (numpy.ascontiguousarray makes a copy that is)"
            )
        if not array.flags.aligned or start % p.align:
            needed = max(p.align, array.dtype.alignment)
            raise ArgumentError(
                f"argument {p.name} of {self.name} starts at the address {start:#x}, which is no multiple of {needed} bytes: "
                "make the array with vtakit.runtime.cpu.function.empty(shape, dtype, align)"
            )

    def _offset(self, p: _Buffer, sizes: dict[ir.Var, int]) -> int:
        return 0 if isinstance(p.buffer.offset, ir.Var) else _evaluate(p.buffer.offset, sizes)

    def _number(self, param: ir.Var, arg: Any) -> Any:
        dtype = param.dtype
        if dtype.is_float and isinstance(arg, int | float | np.number) and not isinstance(arg, bool | np.complexfloating):
            return float(arg) if dtype.bits > 16 else int(np.array(float(arg), numpy_dtype(dtype)).view(np.uint16))
        if not dtype.is_float and isinstance(arg, int | np.integer | np.bool_):
            least = max(0, dtype.min) if param.size else dtype.min
            if least <= int(arg) <= dtype.max:
                return int(arg)
            raise ArgumentError(f"argument {param.name} of {self.name}: {arg} is outside {dtype}'s {least} to {dtype.max}")
        raise ArgumentError(f"argument {param.name} of {self.name}: expected a number of type {dtype}, got {type(arg).__name__}")

    def _apart(self, spans: list[tuple[_Buffer, int, int]]) -> None:
        """Code is made as if what it writes to shared no memory with anything else."""
        for p, start, end in spans:
            if p.writes:
                for other, first, last in spans:
                    if other is not p and first < end and start < last:
                        raise ArgumentError(
                            f"arguments {p.name} and {other.name} of {self.name} share memory, and {p.name} is written to: "
                            "pass a copy"
                        )


def _span(array: np.ndarray[Any, Any]) -> int:
    """Bytes from the first element to the end of the last."""
    if array.size == 0:
        return 0
    return int(sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True))) + array.itemsize
