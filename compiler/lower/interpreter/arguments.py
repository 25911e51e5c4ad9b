"""Arguments of the interpreter: arrays into cells and back, and the sizes that their shapes tell."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import free_vars
from vtakit.compiler.lower.interpreter.errors import ArgumentError, UndefinedValueError
from vtakit.compiler.lower.interpreter.expressions import Expressions
from vtakit.compiler.lower.interpreter.memory import UNDEFINED, Position, Tracked
from vtakit.compiler.lower.interpreter.numbers import float_type, numpy_type


class Arguments:
    """The values of a function's parameters for one run."""

    def __init__(
        self, function: Function, args: "Mapping[str | Buffer | Var, Any] | Sequence[Any]", position: Position, *, tracked: bool
    ) -> None:
        self.function = function
        self.values: dict[Var, Any] = {}
        self.arrays: list[tuple[Buffer, np.ndarray[Any, Any], list[Any], np.ndarray[Any, Any]]] = []
        given = self._in_order(args)
        for param, value in zip(function.params, given, strict=True):
            if isinstance(param, Var):
                self.values[param] = self._number(param, value)
        arrays = [(p, self._array(p, v)) for p, v in zip(function.params, given, strict=True) if isinstance(p, Buffer)]
        for buffer, array in arrays:
            self._read_sizes(buffer, array)
        places = [self._places(buffer, array) for buffer, array in arrays]
        for required in function.requires:
            if not self.value(required.condition):
                used = sorted(free_vars(required.condition), key=lambda var: var.name)
                here = " and ".join(f"{var.name} = {self.values[var]}" for var in used)
                raise ArgumentError(f"{function.name} needs {required.reason}; here {here}")
        for (buffer, array), where in zip(arrays, places, strict=True):
            cells = [UNDEFINED] * (int(where.max()) + 1 if where.size else 0)
            items: list[Any] = array.ravel().tolist() if not buffer.dtype.is_float else list(array.ravel())
            for at, item in zip(where.ravel().tolist(), items, strict=True):
                cells[at] = item
            self.arrays.append((buffer, array, Tracked(cells, position, buffer.name) if tracked else cells, where))

    def declare(self, exprs: Expressions) -> dict[str, Any]:
        """The generated function's parameters with their values; makes the names known to the translator."""
        inputs: dict[str, Any] = {}
        for var, value in self.values.items():
            whole = isinstance(value, int)
            inputs[exprs.bind(var, value if whole else 0, value if whole else 0)] = value
        for buffer, _, cells, _ in self.arrays:
            name = exprs.fresh(buffer.name)
            exprs.memory[buffer.data] = name
            inputs[name] = cells
        return inputs

    def write_back(self, packed: Mapping[str, Callable[..., Any]]) -> None:
        """Cells that changed, into the arrays; raises UndefinedValueError if one of them is undefined."""
        for buffer, array, cells, where in self.arrays:
            values = list.__getitem__(cells, slice(None))
            if not where.size:
                continue
            picked = [values[i] for i in where.ravel().tolist()]
            for at, value in enumerate(picked):
                if value is UNDEFINED:
                    index = ", ".join(map(str, np.unravel_index(at, where.shape)))
                    raise UndefinedValueError(f"{self.function.name} leaves {buffer.name}[{index}] undefined")
            new = np.array(picked, array.dtype).reshape(array.shape)
            if array.flags.writeable:
                array[...] = new

    def _in_order(self, args: "Mapping[str | Buffer | Var, Any] | Sequence[Any]") -> list[Any]:
        params, name = self.function.params, self.function.name
        if isinstance(args, Mapping):
            found = [[args[key] for key in (param, param.name) if key in args] for param in params]
            missing = [param.name for param, values in zip(params, found, strict=True) if not values]
            if missing:
                raise ArgumentError(f"{name} lacks the argument {missing[0]!r}: it takes {', '.join(p.name for p in params)}")
            return [values[0] for values in found]
        if len(args) != len(params):
            raise ArgumentError(f"{name} takes {len(params)} arguments ({', '.join(p.name for p in params)}), got {len(args)}")
        return list(args)

    def _number(self, param: Var, value: Any) -> Any:
        if param.dtype.is_float:
            return float_type(param.dtype)(value)
        number = int(value)
        if not param.dtype.min <= number <= param.dtype.max:
            raise ArgumentError(f"{self.function.name}: {param.name} = {value} is no value of {param.dtype}")
        return bool(number) if param.dtype.is_bool else number

    def _array(self, buffer: Buffer, value: Any) -> "np.ndarray[Any, Any]":
        kind = numpy_type(buffer.dtype)
        if isinstance(value, np.ndarray) and value.dtype.name == str(buffer.dtype.scalar) != kind.name:  # of ml_dtypes
            value, kind = (value.view(kind), kind) if buffer.dtype.is_storage else (value, value.dtype)
        if not isinstance(value, np.ndarray) or value.dtype != kind or value.ndim != len(buffer.shape) + (buffer.dtype.lanes > 1):
            got = f"{value.dtype}[{', '.join(map(str, value.shape))}]" if isinstance(value, np.ndarray) else repr(value)
            raise ArgumentError(f"{self.function.name}: {buffer.name} is {buffer!r}, got {got}")
        return value

    def _read_sizes(self, buffer: Buffer, array: "np.ndarray[Any, Any]") -> None:
        """Variables that stand alone as an extent, a stride or the offset take what the array has."""
        for e, extent in zip(buffer.shape, array.shape, strict=False):
            self._read_size(e, extent)
        for stride, step in zip(buffer.strides, array.strides, strict=False):
            self._read_size(stride, step // array.itemsize)
        self._read_size(buffer.offset, 0)

    def _read_size(self, e: Expr, value: int) -> None:
        if isinstance(e, Var):
            self.values.setdefault(e, value)

    def value(self, e: Expr) -> int:
        """An extent's value, from the sizes."""
        known = int_value(e)
        if known is not None:
            return known
        exprs = Expressions({})
        names = {exprs.bind(var): value for var, value in self.values.items()}
        found: int = eval(exprs.text(e), exprs.globals | names)  # text of our own making
        return found

    def _places(self, buffer: Buffer, array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """The cell of each element; raises ArgumentError where shape or strides are not the buffer's."""
        for axis, (e, extent) in enumerate(zip(buffer.shape, array.shape, strict=False)):
            if self.value(e) != extent:
                raise ArgumentError(
                    f"{self.function.name}: {buffer.name} has extent {self.value(e)} in dimension {axis}, got {extent}"
                )
        lanes = buffer.dtype.lanes
        where = np.full(array.shape[: len(buffer.shape)], self.value(buffer.offset), np.int64)
        for axis, stride in enumerate(buffer.compact_strides()):
            steps = np.arange(array.shape[axis]) * self.value(stride)
            where += steps.reshape([-1 if i == axis else 1 for i in range(where.ndim)])
        return where if lanes == 1 else where[..., None] * lanes + np.arange(lanes)
