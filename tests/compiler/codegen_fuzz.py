"""Random programs in low form: machine code against the interpreter.

Each program has several loops, each with one store of a random expression: all types, vectors of any width, every operation
and conversion of the IR, and indices that are contiguous, reversed, strided, gathered and broadcast. What the IR leaves
undefined is kept out: division by 0, shifts out of range, floats outside an integer's range. Results are equal to the bit (any
NaN is as good as another), except that a math function may be off by a few units in the last place.

    python tests/compiler/codegen_fuzz.py --seed 0 --count 200
"""

import argparse
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import FLOAT_MATH, FLOAT_PAIRS, FLOAT_TESTS, math_call
from vtakit.compiler.ir.dtypes import BOOL, INT32, DType, dtype
from vtakit.compiler.ir.ops import binary, if_then_else, maximum, minimum, negate, select
from vtakit.compiler.ir.values import cast, const
from vtakit.compiler.lower.interpreter import interpret
from vtakit.runtime.cpu.function import build
from vtakit.runtime.cpu.packed import numpy_dtype

INTS = [dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = [dtype(name) for name in ("float16", "bfloat16", "float32", "float64")]
TYPES = [*INTS, *FLOATS, BOOL]
STORES = 8  # a program has that many
ELEMENTS = 48  # of each buffer
# Units in the last place of the type that a math function's result may be off. The C library promises little for the rare ones.
ULPS = {"float32": 3, "float64": 4, "float16": 1, "bfloat16": 1}
EXACT = ("sqrt", "floor", "ceil", "trunc", "round", "nearbyint", "copysign", "nextafter")


def values(rng: random.Random, kind: DType) -> "np.ndarray[Any, Any]":
    """Numbers of a type, extremes among them."""
    if kind.is_bool:
        return np.array([rng.random() < 0.5 for _ in range(ELEMENTS)])
    if kind.is_int:
        edges = [kind.min, kind.max, kind.min + 1, 0, 1, 2, 3, 7]
        edges += [-1, -2, -3, -7] if kind.code == "int" else []
        return np.array([
            rng.choice(edges) if rng.random() < 0.4 else rng.randint(kind.min, kind.max) >> rng.randrange(kind.bits)
            for _ in range(ELEMENTS)
        ], str(kind))
    edges_f = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, float("inf"), float("-inf"), float("nan"), 6e-8, 3e-39, 65504.0, 3e38]
    numbers = [
        rng.choice(edges_f) if rng.random() < 0.3 else rng.gauss(0, 1) * 10.0 ** rng.randint(-3, 3) for _ in range(ELEMENTS)
    ]
    with np.errstate(over="ignore"):
        return np.array(numbers).astype(numpy_dtype(kind))


class Program:
    """One random program with its inputs."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.inputs = {kind: Buffer(f"in_{kind}", (ELEMENTS,), kind) for kind in TYPES}
        self.outputs: list[Buffer] = []
        self.ulps: list[int] = []
        self.loops: list[tuple[ir.Var, int]] = []
        self.scale = ir.Var("scale", INT32)
        stores = [self.store(i) for i in range(STORES)]
        self.function = st.Function("program", (*self.inputs.values(), *self.outputs, self.scale), st.seq(*stores))
        self.arrays = [values(rng, kind) for kind in TYPES]
        self.number = rng.randint(-5, 5)

    def store(self, number: int) -> st.Stmt:
        rng = self.rng
        kind, lanes = rng.choice(TYPES), rng.choice((1, 1, 2, 3, 4, 5, 8, 16))
        i, j = ir.Var(f"i{number}"), ir.Var(f"j{number}")
        self.loops = [(i, rng.randint(1, 3)), (j, rng.randint(1, 2))]
        ulps = 0
        if kind.is_float and rng.random() < 0.4:
            name = rng.choice([*FLOAT_MATH, *FLOAT_PAIRS])
            args = [self.load(kind, lanes) for _ in range(2 if name in FLOAT_PAIRS else 1)]
            value: ir.Expr = math_call(name, *args)
            ulps = 0 if name in EXACT else ULPS[str(kind)]
        else:
            value = self.expr(kind, lanes, rng.randint(1, 4))
        out = Buffer(f"out{number}", (6 * lanes,), kind)
        self.outputs.append(out)
        self.ulps.append(ulps)
        at = (i * 2 + j) * lanes
        way = rng.randrange(4)
        index = at
        if lanes > 1 and way == 0:
            index = ir.Ramp(at + (lanes - 1), const(-1, INT32), lanes)
        elif lanes > 1 and way == 1:  # apart
            index = ir.Ramp(i * 2 + j, const(6, INT32), lanes)
        elif lanes > 1:
            index = ir.Ramp(at, const(1, INT32), lanes)
        body: st.Stmt = st.Store(out, (index,), value)
        if rng.random() < 0.2:
            body = st.If(self.expr(BOOL, 1, 2), body, st.Store(out, (index,), self.expr(kind, lanes, 1)))
        zero = ir.Broadcast(const(0, kind), 6 * lanes) if lanes > 1 else const(0, kind)
        clear: st.Stmt = st.Store(out, (ir.Ramp(const(0, INT32), const(1, INT32), 6 * lanes),), zero)
        if lanes == 1:
            z = ir.Var("z")
            clear = st.For(z, const(6, INT32), st.Store(out, (z,), zero))
        (_, n), (_, m) = self.loops
        outer = rng.choice([st.LoopKind.SERIAL, st.LoopKind.SERIAL, st.LoopKind.PARALLEL])
        return st.seq(clear, st.For(i, const(n, INT32), st.For(j, const(m, INT32), body), outer))

    def index(self, lanes: int) -> ir.Expr:
        """An index within an input."""
        rng = self.rng
        base: ir.Expr = const(rng.randint(0, 3), INT32)
        for var, _ in self.loops:
            base = base + var * rng.randint(0, 4)
        if lanes == 1:
            return base
        way = rng.randrange(5)
        if way == 0:
            return ir.Ramp(base + (lanes - 1), const(-1, INT32), lanes)
        if way == 1:
            return ir.Ramp(base, const(2, INT32), lanes)
        if way == 2:
            return ir.Broadcast(base, lanes)
        if way == 3:  # a gather
            wild = ir.Cast(INT32.with_lanes(lanes), self.load(rng.choice(INTS[:3]), lanes, plain=True))
            return binary(ir.FloorMod, wild, ir.Broadcast(const(rng.choice((7, 16, 48)), INT32), lanes))
        return ir.Ramp(base, const(1, INT32), lanes)

    def load(self, kind: DType, lanes: int, *, plain: bool = False) -> ir.Expr:
        buffer = self.inputs[kind]
        return ir.Load(buffer, (ir.Ramp(self.loops[0][0] * 2, const(1, INT32), lanes) if plain and lanes > 1
                                else self.index(1) if plain else self.index(lanes),))

    def constant(self, kind: DType, lanes: int) -> ir.Expr:
        rng = self.rng
        if kind.is_float:
            found: ir.Expr = const(rng.choice((0.0, 1.0, -2.5, 0.1, 1e3)), kind)
        else:
            found = const(rng.choice((0, 1, min(kind.max, 7), kind.max, kind.min)), kind)
        return ir.Broadcast(found, lanes) if lanes > 1 else found

    def expr(self, kind: DType, lanes: int, depth: int) -> ir.Expr:
        """A random expression of a type."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.1:
            if kind is INT32 and lanes == 1 and rng.random() < 0.3:
                return rng.choice([self.scale, *(var for var, _ in self.loops)])
            return self.constant(kind, lanes) if rng.random() < 0.2 else self.load(kind, lanes)
        ways: list[Callable[[DType, int, int], ir.Expr]] = [self._select, self._cast, self._let]
        ways += [self._logic, self._compare, self._compare] if kind.is_bool else [self._arithmetic] * 5
        return rng.choice(ways)(kind, lanes, depth - 1)

    def _select(self, kind: DType, lanes: int, depth: int) -> ir.Expr:
        choose = self.rng.choice((select, if_then_else))
        return choose(self.expr(BOOL, self.rng.choice((lanes, 1)) if choose is select else lanes, depth),
                      self.expr(kind, lanes, depth), self.expr(kind, lanes, depth))

    def _let(self, kind: DType, lanes: int, depth: int) -> ir.Expr:
        var = ir.Var("let", kind.with_lanes(lanes))
        value, condition, other = self.expr(kind, lanes, depth), self.expr(BOOL, lanes, depth), self.expr(kind, lanes, depth)
        return ir.Let(var, value, select(condition, var, other))

    def _cast(self, kind: DType, lanes: int, depth: int) -> ir.Expr:
        source = self.rng.choice(TYPES)
        value = self.expr(source, lanes, depth)
        if source.is_float and kind.is_int:
            low, high = cast(max(kind.min, -100), source), cast(100, source)
            fits = ir.And(*(ir.LE(*pair) for pair in ((_spread(low, lanes), value), (value, _spread(high, lanes)))))
            value = select(fits, value, _spread(cast(1, source), lanes))
        return cast(value, kind)

    def _logic(self, kind: DType, lanes: int, depth: int) -> ir.Expr:
        a, b = self.expr(kind, lanes, depth), self.expr(kind, lanes, depth)
        return self.rng.choice([ir.And(a, b), ir.Or(a, b), ir.Not(a), negate(a)])

    def _compare(self, kind: DType, lanes: int, depth: int) -> ir.Expr:
        source = self.rng.choice(TYPES)
        if source.is_float and self.rng.random() < 0.3:
            return math_call(self.rng.choice(FLOAT_TESTS), self.expr(source, lanes, depth))
        node = self.rng.choice((ir.EQ, ir.NE, ir.LT, ir.LE))
        return node(self.expr(source, lanes, depth), self.expr(source, lanes, depth))

    def _arithmetic(self, kind: DType, lanes: int, depth: int) -> ir.Expr:
        rng = self.rng
        a, b = self.expr(kind, lanes, depth), self.expr(kind, lanes, depth)
        if kind.is_float:
            way = rng.randrange(11)
            if way < 7:
                return rng.choice([ir.Add, ir.Sub, ir.Mul, ir.Div, minimum, maximum, ir.FloorMod, ir.TruncMod])(a, b)
            if way == 7:
                return math_call("fma", a, b, self.expr(kind, lanes, depth))
            return math_call(rng.choice(EXACT[:6]), a) if way < 10 else ir.Call(a.dtype, "abs", (a,))
        node = rng.choice((
            ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max, ir.BitAnd, ir.BitOr, ir.BitXor, ir.FloorDiv, ir.FloorMod, ir.TruncDiv,
            ir.TruncMod, ir.ShiftLeft, ir.ShiftRight, "abs", "popcount", "clz",
        ))
        if isinstance(node, str):
            return ir.Call(a.dtype, node, (a,))
        if node in (ir.ShiftLeft, ir.ShiftRight):
            b = ir.BitAnd(b, _spread(const(kind.bits - 1, kind), lanes))
        elif node in (ir.FloorDiv, ir.FloorMod, ir.TruncDiv, ir.TruncMod):
            if rng.random() < 0.5:
                b = _spread(const(rng.choice((1, 2, 3, 7, 8, 64, *((-1, -3, -4) if kind.code == "int" else ()))), kind), lanes)
            else:
                b = select(ir.EQ(b, _spread(const(0, kind), lanes)), _spread(const(1, kind), lanes), b)
        return node(a, b)


def _spread(e: ir.Expr, lanes: int) -> ir.Expr:
    return ir.Broadcast(e, lanes) if lanes > 1 else e


def _apart(got: "np.ndarray[Any, Any]", want: "np.ndarray[Any, Any]", ulps: int) -> "np.ndarray[Any, Any]":
    """Which elements differ."""
    if got.dtype.kind in "biu":
        return np.asarray(got != want)
    bits = {2: np.int16, 4: np.int32, 8: np.int64}[got.dtype.itemsize]
    nan = np.isnan(got.astype("f8")) & np.isnan(want.astype("f8"))
    if ulps == 0:
        return np.asarray((got.view(bits) != want.view(bits)) & ~nan)
    places = [x.view(bits).astype(object) for x in (got, want)]  # of the numbers in order
    a, b = (np.where(x < 0, np.iinfo(bits).min - x, x) for x in places)
    return np.asarray((np.abs(a - b) > ulps) & ~nan)


Runner = Callable[[st.Function, list[Any]], None]  # runs a function on arguments, in place


def on_host(function: st.Function, args: list[Any]) -> None:
    """Machine code in this process, each operation rounded as the interpreter does."""
    build(function, Target.host(contract=False))(*args)


def check(seed: int, machine: Runner = on_host) -> None:
    """Run one program both ways. Raises AssertionError with the first difference."""
    program = Program(seed)
    results = []
    for run in (interpret, machine):
        outputs = [np.zeros(int(b.shape[0].value), numpy_dtype(b.dtype)) for b in program.outputs]
        run(program.function, [*(array.copy() for array in program.arrays), *outputs, program.number])
        results.append(outputs)
    loops = program.function.body.stmts[1::2]
    for buffer, want, got, ulps, s in zip(program.outputs, *results, program.ulps, loops, strict=True):
        wrong = np.flatnonzero(_apart(got, want, ulps))
        assert not len(wrong), (
            f"seed {seed}: {buffer.name}[{wrong[0]}] is {got[wrong[0]]!r}, the interpreter says {want[wrong[0]]!r}\n{s}\n"
            f"replay: python tests/compiler/codegen_fuzz.py --seed {seed} --count 1"
        )


def fuzz(seed: int, count: int, machine: Runner = on_host) -> None:
    """Check that many programs, from a seed on."""
    for number in range(seed, seed + count):
        check(number, machine)


def main() -> None:
    parser = argparse.ArgumentParser(description="random programs: machine code against the interpreter")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    given = parser.parse_args()
    fuzz(given.seed, given.count)
    print(f"{given.count} programs of {STORES} stores each: machine code and interpreter agree")


if __name__ == "__main__":
    main()
