"""Random programs through the late passes: the interpreter must see the same results after each.

A program is a row of stages, each from a buffer of a row-major matrix to the next: maps with split, fused, reordered loops
and guards, stencils, row sums, tiles attached to a loop (double buffered, in virtual threads) and kernels with shared memory and
all-reduces.  Data are small integers, so that sums are exact in any order.

    python tests/compiler/passes_fuzz.py --seed 0 --count 1000
"""

import argparse
import random
import sys

import numpy as np

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect, math_call
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.expr import CommReducer, Expr, IntImm, Var
from vtakit.compiler.ir.iters import IterKind, Range
from vtakit.compiler.ir.ops import all_of, if_then_else, maximum, minimum, select
from vtakit.compiler.ir.stmt import Function, LoopKind, Stmt
from vtakit.compiler.ir.values import cast, const
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.lower.interpreter.numbers import numpy_type
from vtakit.compiler.passes import late_passes
from vtakit.compiler.passes.legal import check

TYPES = ("float32", "int32", "int8", "float64", "uint8", "int16")
SERIAL, PARALLEL, VECTORIZED, UNROLLED, THREAD = LoopKind


class Generator:
    """Makes one program from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rows, self.columns = self.rng.randint(1, 9), self.rng.randint(1, 9)
        self.symbolic = self.rng.random() < 0.25
        self.gpu = self.rng.random() < 0.4
        self.n: Expr = Var("n", size=True) if self.symbolic else IntImm(self.rows)

    def function(self) -> Function:
        a = self.buffer("A", self.rng.choice(TYPES))
        out = self.buffer("Out", self.rng.choice(TYPES))
        self.sources = [a]
        count = self.rng.randint(1, 4)
        stages: list[tuple[Buffer, Stmt]] = []
        for i in range(count):
            to = out if i == count - 1 else self.buffer(f"T{i}", self.rng.choice(TYPES))
            stages.append((to, self.stage(to)))
            self.sources.append(to)
        body: Stmt = st.NOTHING
        for to, stmt in reversed(stages):
            body = st.seq(stmt, body)
            if to is not out:
                body = st.Allocate(to, body)
        return Function("main", (a, out), body)

    def buffer(self, name: str, kind: str) -> Buffer:
        return Buffer(name, (self.n, self.columns), dtype(kind))

    def stage(self, to: Buffer) -> Stmt:
        choices = [self.mapped, self.mapped, self.row_sum, self.tiled]
        if self.gpu:
            choices += [self.kernel, self.kernel, self.all_reduced]
        return self.rng.choice(choices)(to)

    # Values

    def value(self, to: Buffer, i: Expr, j: Expr) -> Expr:
        """An element's value from earlier buffers, in the type of `to`; floats are kept to small integers."""
        rng = self.rng
        source = rng.choice(self.sources[-2:])
        at = source[i, j]
        shape = rng.randrange(8)
        if shape == 1:
            at = source[self.n - 1 - i, j] if rng.random() < 0.5 else source[i, self.columns - 1 - j]
        elif shape == 2:
            there = source[minimum(i + 1, self.n - 1), maximum(j - 1, 0)]
            at = if_then_else(all_of(j > 0, i + 1 < self.n), there, const(1, source.dtype))
        elif shape == 3:
            at = select(source[i, j] < const(2, source.dtype), source[i, j], const(2, source.dtype))
        elif shape == 4:
            at = source[i, j] + rng.choice(self.sources)[i, j].astype(source.dtype) if not source.dtype.is_float else source[i, j]
        elif shape == 5:
            var = Var("x", source.dtype)
            at = ir.Let(var, source[i, j], maximum(var, const(1, source.dtype)))
        elif shape == 6 and source.dtype.is_float:
            at = math_call("floor", source[i, j] / const(2, source.dtype))
        elif shape == 7:
            at = if_then_else(j % 2 == 0, at, const(3, source.dtype))
        return self.converted(at, to)

    def converted(self, e: Expr, to: Buffer) -> Expr:
        if e.dtype.is_float and not to.dtype.is_float:  # floats may be beyond a narrow type
            e = maximum(minimum(e, const(100, e.dtype)), const(0, e.dtype))
        return cast(e, to.dtype)

    # Loops

    def split(self, extent: Expr, size: int, name: str) -> tuple[Expr, list[tuple[Var, Expr]], list[Expr]]:
        """An index over an extent, its loops (outermost first) and guards."""
        if self.rng.random() < 0.5:
            var = Var(name)
            return var, [(var, extent)], []
        factor = self.rng.choice((1, 2, 3, 4, 8))
        outer, inner = Var(f"{name}o"), Var(f"{name}i")
        index = outer * factor + inner
        exact = isinstance(extent, IntImm) and size % factor == 0
        return index, [(outer, (extent + (factor - 1)) // factor), (inner, IntImm(factor))], [] if exact else [index < extent]

    def nest(self, body: Stmt, loops: list[tuple[Var, Expr]], *, parallel: bool = True) -> Stmt:
        for depth, (var, extent) in reversed([*enumerate(loops)]):
            kind = SERIAL
            constant = isinstance(extent, IntImm)
            if depth == len(loops) - 1 and constant and self.rng.random() < 0.5:
                kind = VECTORIZED
            elif constant and self.rng.random() < 0.2:
                kind = UNROLLED
            elif depth == 0 and parallel and self.rng.random() < 0.3:
                kind = PARALLEL
            notes = {"auto_unroll_max_step": 8} if kind is SERIAL and self.rng.random() < 0.1 else st.NO_NOTES
            body = st.For(var, extent, body, kind, "", notes)
        return body

    def leaf(self, to: Buffer, bindings: list[tuple[Expr, Expr, IterKind]], guards: list[Expr], make, init=None) -> Stmt:
        """A block, or the statements that it stands for; `make` and `init` get the iterators."""
        if self.rng.random() < 0.6 or init is not None:
            own = [Var(f"v{k}") for k in range(len(bindings))]
            iters = tuple(
                st.BlockIter(var, Range(IntImm(0), extent), kind, binding)
                for var, (binding, extent, kind) in zip(own, bindings, strict=True)
            )
            return st.Block(to.name, iters, (), (), all_of(*guards), None if init is None else init(*own), make(*own))
        body = make(*[binding for binding, _, _ in bindings])
        return st.If(all_of(*guards), body) if guards else body

    # Stages

    def mapped(self, to: Buffer) -> Stmt:
        if not self.symbolic and self.rng.random() < 0.2:
            fused = Var("f")
            i, j, loops, guards = fused // self.columns, fused % self.columns, [(fused, IntImm(self.rows * self.columns))], []
        else:
            i, first, guards = self.split(self.n, self.rows, "i")
            j, second, more = self.split(IntImm(self.columns), self.columns, "j")
            loops, guards = [*first, *second], [*guards, *more]
            self.rng.shuffle(loops)
        bindings = [(i, self.n, IterKind.DATA), (j, IntImm(self.columns), IterKind.DATA)]
        leaf = self.leaf(to, bindings, guards, lambda i, j: st.Store(to, (i, j), self.value(to, i, j)))
        return self.nest(leaf, loops)

    def row_sum(self, to: Buffer) -> Stmt:
        source = self.sources[-1]
        i, first, guards = self.split(self.n, self.rows, "i")
        j, second, more = self.split(IntImm(self.columns), self.columns, "j")
        k, third, rest = self.split(IntImm(self.columns), self.columns, "k")
        wide = dtype("int64")
        total = Buffer("Sum", (self.n, self.columns), wide)
        loops = [*first, *second]
        self.rng.shuffle(loops)
        bindings = [
            (i, self.n, IterKind.DATA), (j, IntImm(self.columns), IterKind.DATA), (k, IntImm(self.columns), IterKind.REDUCE),
        ]

        def term(i: Expr, j: Expr, k: Expr) -> Expr:
            at = source[i, k]
            if at.dtype.is_float:
                at = maximum(minimum(at, const(1000, at.dtype)), const(0, at.dtype))
            return at.astype(wide) * (j + 1).astype(wide)
        leaf = self.leaf(
            to, bindings, [*guards, *more, *rest], lambda i, j, k: st.Store(total, (i, j), total[i, j] + term(i, j, k)),
            lambda i, j, k: st.Store(total, (i, j), const(0, wide)),
        )
        for var, extent in reversed(third):
            leaf = st.For(var, extent, leaf)
        a, b = Var("a"), Var("b")
        narrow = st.Store(to, (a, b), cast(total[a, b] % const(64, wide), to.dtype))
        done = st.For(a, self.n, st.For(b, IntImm(self.columns), narrow))
        return st.Allocate(total, st.seq(self.nest(leaf, loops), done))

    def tiled(self, to: Buffer) -> Stmt:
        """A row at a time through a buffer of its own."""
        source, i = self.sources[-1], Var("i")
        kind = self.rng.choice((SERIAL, SERIAL, SERIAL, PARALLEL, THREAD))
        tile = Buffer("Row", (self.columns,), self.rng.choice((source, to)).dtype)
        notes = {"double_buffer": 1} if kind is SERIAL and self.rng.random() < 0.7 else st.NO_NOTES
        p, first, guards = self.split(IntImm(self.columns), self.columns, "p")
        q, second, more = self.split(IntImm(self.columns), self.columns, "q")
        fill = self.leaf(tile, [(p, IntImm(self.columns), IterKind.DATA)], guards,
                         lambda p: st.Store(tile, (p,), self.converted(source[i, p], tile)))
        use = self.leaf(to, [(q, IntImm(self.columns), IterKind.DATA)], more,
                        lambda q: st.Store(to, (i, q), self.converted(tile[self.columns - 1 - q], to)))
        body = st.seq(self.nest(fill, first, parallel=False), self.nest(use, second, parallel=False))
        thread = self.rng.choice(("vthread", "cthread")) if kind is THREAD else ""
        if kind is THREAD and self.symbolic:
            kind, thread = SERIAL, ""
        return st.For(i, self.n, st.Allocate(tile, body, notes), kind, thread)

    def kernel(self, to: Buffer) -> Stmt:
        """Blocks of threads that exchange a row through shared memory, perhaps several times."""
        source = self.sources[-1]
        b, t, k = Var("b"), Var("t"), Var("k")
        width = self.columns + self.rng.choice((0, 0, 3))
        tile = Buffer("Shared", (self.columns,), source.dtype, "shared")
        own = Buffer("Own", (1,), source.dtype, "local")
        zero = IntImm(0)
        there = self.columns - 1 - t if self.rng.random() < 0.7 else t
        guard = [] if width == self.columns else [t < self.columns]

        def where(s: Stmt) -> Stmt:
            return st.If(guard[0], s) if guard else s
        steps = [
            where(st.Store(tile, (t,), own[0])),
            where(st.Store(own, (zero,), tile[there])),
        ]
        inside = st.seq(*steps) if self.rng.random() < 0.5 or not guard else st.If(guard[0], st.seq(
            st.Store(tile, (t,), own[0]), st.Store(own, (zero,), tile[there])))
        if self.rng.random() < 0.5:
            inside = st.For(k, IntImm(self.rng.randint(1, 3)), inside)
        body = st.seq(
            where(st.Store(own, (zero,), source[b, t])), inside, where(st.Store(to, (b, t), self.converted(own[0], to))),
        )
        if self.rng.random() < 0.4:  # a second exchange, whose memory may be the first one's
            second = Buffer("Second", (self.columns,), to.dtype, "shared")
            body = st.seq(body, st.Allocate(second, st.seq(
                where(st.Store(second, (t,), self.converted(own[0], to))),
                where(st.Store(to, (b, t), second[self.columns - 1 - t])),
            )))
        threads = st.For(t, IntImm(width), st.Allocate(own, st.Allocate(tile, body)), THREAD, "threadIdx.x")
        return st.For(b, self.n, threads, THREAD, "blockIdx.x")

    def all_reduced(self, to: Buffer) -> Stmt:
        """Each row's greatest value in all its elements, by its threads together."""
        source = self.sources[-1]
        b, x, y = Var("b"), Var("x"), Var("y")
        kind = source.dtype
        lhs, rhs = Var("l", kind), Var("r", kind)
        least = const(-1000.0 if kind.is_float else kind.min, kind)
        combiner = CommReducer("max", (lhs,), (rhs,), (maximum(lhs, rhs),), (least,))
        result = Buffer("Result", (1,), kind, "local")
        width = self.rng.choice((self.columns, 8, 16)) if self.columns <= 8 else self.columns
        call = effect("allreduce", 1, source[b, minimum(x, self.columns - 1)], x < self.columns, result.access_ptr("w"), x)
        body = st.seq(
            st.Attr("reducer", combiner, 0, st.Evaluate(call)),
            st.If(all_of(x < self.columns, y < 1), st.Store(to, (b, x), self.converted(result[0], to))),
        )
        threads = st.For(x, IntImm(width), st.Allocate(result, body), THREAD, "threadIdx.x")
        threads = st.For(y, IntImm(self.rng.choice((1, 2))), threads, THREAD, "threadIdx.y")
        return st.For(b, self.n, threads, THREAD, "blockIdx.x")


def run(function: Function, a: np.ndarray, rows: int) -> np.ndarray:
    out_buffer = function.params[1]
    assert isinstance(out_buffer, Buffer)
    out = np.zeros((rows, a.shape[1]), numpy_type(out_buffer.dtype))
    interpret(function, [a.copy(), out])
    return out


def drawn(seed: int) -> tuple[Function, np.ndarray, str]:
    """The program of a seed, its input, and the kind of target that it is for."""
    generator = Generator(seed)
    function = generator.function()
    a = np.array(
        [[generator.rng.randint(0, 9) for _ in range(generator.columns)] for _ in range(generator.rows)],
        numpy_type(function.params[0].dtype),
    )
    return function, a, "gpu" if generator.gpu else "cpu"


def check_one(seed: int) -> str:
    """One program; returns its kind of target. Raises AssertionError with the seed, the pass and both programs."""
    function, a, kind = drawn(seed)
    check(function)
    want = run(function, a, len(a))
    before = function
    steps = [step for step in late_passes(kind) if step.name != "check_memory"]  # here the host computes too
    for step in steps:
        try:
            after = step.run(before)
            check(after, low=step is steps[-1])
            got = run(after, a, len(a))
        except Exception as error:
            raise AssertionError(f"seed {seed}, pass {step.name}: {error}\n\nbefore:\n{before}") from error
        if not np.array_equal(got, want):
            programs = f"before:\n{before}\nafter:\n{after}"
            raise AssertionError(f"seed {seed}, pass {step.name} changes the result\n{want}\n{got}\n{programs}")
        before = after
    return kind


def fuzz(seed: int, count: int) -> dict[str, int]:
    """`count` programs from `seed` on; returns how many were for each kind of target."""
    kinds: dict[str, int] = {}
    for i in range(seed, seed + count):
        kind = check_one(i)
        kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    args = parser.parse_args()
    print(fuzz(args.seed, args.count))
    return 0


if __name__ == "__main__":
    sys.exit(main())
