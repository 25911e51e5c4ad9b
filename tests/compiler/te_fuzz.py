"""Random tensor expressions: machine code of the simplified program against NumPy, which computes beside them.

    python tests/compiler/te_fuzz.py [--count N] [--seed N]

Every operation of scalars over ten types, with constants, casts and choices, of two integer inputs, a float one and the index;
scheduled as vectors, vectors with a tail, copies, or a plain loop. Results are equal bit for bit (any NaN for a NaN).
"""

import argparse
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import vtakit
from vtakit import te
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.values import wrapped

N = 24
INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64")
ODD_FLOATS = (0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, 2.5, -3.5)
Array = np.ndarray[Any, Any]


class Value(NamedTuple):
    """An expression, and what it comes to at each index."""

    expr: Expr
    array: Array

    @property
    def kind(self) -> str:
        return str(self.array.dtype)


def _truncated(p: int, q: int) -> int:
    return abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)


PLAIN: dict[str, Callable[[Any, Any], Any]] = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}
BITS: dict[str, Callable[[Any, Any], Any]] = {"&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b}
TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}
DIVISIONS: dict[str, tuple[Callable[[Any, Any], Expr], Callable[[int, int], int]]] = {
    "//": (lambda a, b: a // b, lambda p, q: p // q), "%": (lambda a, b: a % b, lambda p, q: p % q),
    "truncdiv": (te.truncdiv, _truncated), "truncmod": (te.truncmod, lambda p, q: p - q * _truncated(p, q)),
}
OPERATIONS = (*PLAIN, *BITS, *DIVISIONS, "+", "-", "*", "/", "min", "max", "shift", "cast", "cast", "choose", "test")


class Maker:
    """One random expression over given values."""

    def __init__(self, rng: random.Random, leaves: list[Value]) -> None:
        self.rng, self.leaves = rng, leaves

    def make(self, depth: int) -> Value:
        if depth == 0 or self.rng.random() < 0.1:
            return self.rng.choice(self.leaves) if self.rng.random() < 0.7 else self.constant(self.rng.choice(INTS + FLOATS))
        operation, x = self.rng.choice(OPERATIONS), self.make(depth - 1)
        if operation == "cast":
            return self.cast(x, self.rng.choice(FLOATS if x.kind in FLOATS else INTS + FLOATS))
        x, y = self.alike(x, self.make(depth - 1))
        if operation in PLAIN:
            return Value(PLAIN[operation](x.expr, y.expr), PLAIN[operation](x.array, y.array))
        if operation in ("min", "max"):
            return self.extreme(operation, x, y)
        if operation in ("choose", "test"):
            return self.choice(operation, x, y, depth)
        if x.kind in FLOATS:
            return Value(x.expr / y.expr, x.array / y.array)
        if operation in BITS:
            return Value(BITS[operation](x.expr, y.expr), BITS[operation](x.array, y.array))
        return self.division(operation, x, y) if operation in DIVISIONS else self.shift(x)

    def constant(self, kind: str) -> Value:
        if kind in FLOATS:
            number: float = self.rng.choice([0.0, -0.0, 1.5, -2.0, 1e10, 0.1])
        else:
            info = np.iinfo(kind)
            number = self.rng.choice([info.min, info.max, 0, 1, 2, 3, 7, 8, 5, info.max - 1, info.max // 2])
        return Value(te.const(number, kind), np.full(N, number, kind))

    def cast(self, x: Value, kind: str) -> Value:
        return x if x.kind == kind else Value(te.cast(x.expr, kind), x.array.astype(kind))

    def alike(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Both in the type of one of them; no float becomes an integer, as that has no meaning for most."""
        kinds = [v.kind for v in (x, y) if v.kind in FLOATS] or [x.kind, y.kind]
        kind = self.rng.choice(kinds)
        return self.cast(x, kind), self.cast(y, kind)

    def extreme(self, name: str, x: Value, y: Value) -> Value:
        """The first of two that are equal, which tells 0.0 from -0.0."""
        takes = y.array < x.array if name == "min" else y.array > x.array
        found = np.where(takes, y.array, x.array)
        if x.kind in FLOATS:
            found[np.isnan(x.array) | np.isnan(y.array)] = np.nan
        return Value((te.min if name == "min" else te.max)(x.expr, y.expr), found)

    def choice(self, operation: str, x: Value, y: Value, depth: int) -> Value:
        test = TESTS[self.rng.choice([*TESTS])]
        condition, holds = test(x.expr, y.expr), test(x.array, y.array)
        if operation == "test":
            kind = self.rng.choice(INTS + FLOATS)
            return Value(te.cast(condition, kind), holds.astype(kind))
        true, false = self.alike(self.make(depth - 1), self.make(depth - 1))
        choose = self.rng.choice([te.select, te.if_then_else])
        return Value(choose(condition, true.expr, false.expr), np.where(holds, true.array, false.array))

    def division(self, operation: str, x: Value, y: Value) -> Value:
        """By a constant, or by an odd number, which is never 0."""
        if self.rng.random() < 0.6:
            number = self.rng.choice([1, 2, 3, 4, 7, 8, 16, 5, *([-1, -2, -3, -8] if np.iinfo(x.kind).min else [])])
            y = Value(te.const(number, x.kind), np.full(N, number, x.kind))
        else:
            y = Value(y.expr | te.const(1, x.kind), y.array | np.array(1, x.kind))
        made, exact = DIVISIONS[operation]
        pairs = zip(x.array.tolist(), y.array.tolist(), strict=True)
        return Value(made(x.expr, y.expr), np.array([wrapped(exact(p, q), dtype(x.kind)) for p, q in pairs], x.kind))

    def shift(self, x: Value) -> Value:
        count = self.rng.randrange(dtype(x.kind).bits)
        by, number = te.const(count, x.kind), np.array(count, x.kind)
        return self.rng.choice([
            Value(x.expr << by, x.array << number), Value(x.expr >> by, x.array >> number)])


def _data(rng: np.random.Generator, kind: str) -> Array:
    if kind in FLOATS:
        return np.r_[ODD_FLOATS, rng.standard_normal(N - len(ODD_FLOATS)) * 100].astype(kind)
    info = np.iinfo(kind)
    edges = [info.min, info.max, 0, 1, info.max - 1, info.min + 1]
    found = np.r_[np.array(edges, kind), rng.integers(info.min, info.max, N - len(edges), kind, endpoint=True)]
    rng.shuffle(found)
    return found


def _schedule(rng: random.Random, result: te.Tensor) -> te.Schedule:
    s = te.create_schedule(result)
    axis, way = result.op.axis[0], rng.randrange(5)
    if way == 0:
        s[result].vectorize(axis)
    elif way in (1, 2):
        s[result].vectorize(s[result].split(axis, (8, 5)[way - 1])[1])
    elif way == 3:
        s[result].unroll(axis)
    return s


def check(seed: int) -> None:
    """One expression. Raises AssertionError with the first difference, the expression and how to repeat it."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    kinds = (rng.choice(INTS), rng.choice(INTS), rng.choice(FLOATS))
    inputs = [te.placeholder((N,), kind, name) for name, kind in zip("ABF", kinds, strict=True)]
    data = [_data(numbers, kind) for kind in kinds]
    wanted: list[Array] = []

    def body(i: Any) -> Expr:
        leaves = [Value(tensor[i], array) for tensor, array in zip(inputs, data, strict=True)]
        with np.errstate(all="ignore"):
            made = Maker(rng, [*leaves, Value(i, np.arange(N, dtype="int32"))]).make(rng.choice([2, 3, 4, 5]))
        wanted.append(made.array)
        return made.expr

    result = te.compute((N,), body, name="C")
    used = [at for at, tensor in enumerate(inputs) if tensor in result.op.input_tensors]
    f = vtakit.build(_schedule(rng, result), [*(inputs[at] for at in used), result], Target.host(contract=False))
    want, got = wanted[0], np.zeros(N, str(result.dtype))
    f(*(data[at] for at in used), got)
    assert got.dtype == want.dtype, f"seed {seed}: {result.op.body[0]} is of {got.dtype}, NumPy's of {want.dtype}"
    bits = f"u{want.itemsize}"
    wrong = got.view(bits) != want.view(bits)
    if want.dtype.kind == "f":
        wrong &= ~(np.isnan(got) & np.isnan(want))
    if wrong.any():
        at = int(np.argmax(wrong))
        given = ", ".join(f"{tensor.name} {array[at]}" for tensor, array in zip(inputs, data, strict=True))
        raise AssertionError(f"seed {seed}: C[{at}] is {got[at]}, NumPy has {want[at]}, of {given}\n\nC = {result.op.body[0]}\n\n"
                             f"replay: python tests/compiler/te_fuzz.py --seed {seed} --count 1")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="expressions (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the first (default 0)")
    args = parser.parse_args()
    for seed in range(args.seed, args.seed + args.count):
        check(seed)
    print(f"{args.count} expressions equal NumPy")


if __name__ == "__main__":
    main()
