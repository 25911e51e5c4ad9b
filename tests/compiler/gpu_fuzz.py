"""Random schedules with thread bindings: element-wise chains, stencils, products of matrices, reductions, row-wise programs.

Data are small integers, so that results are exact in any order. The unscheduled program, run by the interpreter, is the oracle.

    python tests/compiler/gpu_fuzz.py --seed 0 --count 200 --device interpreter
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from vtakit import te
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.lower import LowerError, VerifyError, lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.passes import lower_late
from vtakit.compiler.schedule.errors import ScheduleError

Array = np.ndarray[Any, Any]
Runner = Callable[[Any, list[Any], list[Array]], None]  # schedule, arguments, arrays; writes the last
TAGS = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z")
KINDS = ("int32", "float32", "int8", "uint8", "int16", "float16", "bfloat16", "int64", "float64")


class Case(NamedTuple):
    """A scheduled program with arguments for it."""

    name: str
    schedule: Any
    args: list[Any]
    inputs: list[Array]
    plain: Any  # the schedule without any step


class Draw:
    """Makes one case from a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.threads = {tag: te.thread_axis(tag) for tag in TAGS}
        self.vthread = te.thread_axis("vthread")

    def case(self) -> Case:
        return self.rng.choice((self.elements, self.stencil, self.product, self.reduction, self.rows))()

    # Parts

    def size(self, most: int = 40) -> int:
        return self.rng.choice((1, 2, 3, 4, 7, 8, 15, 16, 17, 24, 31, 32, 33, most))

    def data(self, shape: Sequence[int], kind: str, least: int = -4) -> Array:
        from vtakit.compiler.ir.dtypes import dtype
        from vtakit.runtime.cpu.packed import numpy_dtype

        values = np.random.default_rng(self.seed).integers(max(least, 0) if kind.startswith("u") else least, 5, shape)
        return values.astype(numpy_dtype(dtype(kind)))

    def bind_grid(self, s: Any, tensor: Any, axes: Sequence[Any], *, lanes: bool = True) -> Any:
        """Split the axes into blocks, threads and rests, each in a random place; returns the innermost axis bound to threads."""
        rng = self.rng
        names = list("xyz")
        rng.shuffle(names)
        outers, inners, rests = [], [], []
        budget = 256
        for axis, name in zip(axes, names, strict=False):
            threads = rng.choice([n for n in (1, 2, 4, 5, 8, 16, 32) if n <= budget])
            budget //= threads
            rest = rng.choice((1, 1, 2, 3, 4))
            outer, inner = s[tensor].split(axis, threads * rest)
            if rng.random() < 0.5:
                inner, kept = s[tensor].split(inner, rest)
            else:
                kept, inner = s[tensor].split(inner, nparts=rest)
            outers.append((outer, f"blockIdx.{name}"))
            inners.append((inner, f"threadIdx.{name}"))
            rests.append((kept, rest))
        s[tensor].reorder(*[axis for axis, _ in (*outers, *inners, *rests)])
        for axis, tag in (*outers, *inners):
            s[tensor].bind(axis, self.threads[tag])
        for at, (axis, extent) in enumerate(rests):
            if lanes and at == len(rests) - 1 and extent in (2, 4) and rng.random() < 0.5:
                s[tensor].vectorize(axis)
            elif at == 0 and extent in (2, 3) and rng.random() < 0.2:
                s[tensor].bind(axis, self.vthread)
            elif rng.random() < 0.4:
                s[tensor].unroll(axis)
        return inners[-1][0]

    def cooperative(self, s: Any, cache: Any, at: Any, where: Any, tags: Sequence[str], counts: Sequence[int]) -> None:
        """Fill a shared cache by the threads of the block together."""
        s[cache].compute_at(s[at], where)
        fused = s[cache].fuse(*s[cache].op.axis) if len(s[cache].op.axis) > 1 else s[cache].op.axis[0]
        if self.rng.random() < 0.3:
            fused, lanes = s[cache].split(fused, self.rng.choice((2, 4)))
            s[cache].vectorize(lanes)
        for tag, count in zip(tags, counts, strict=True):
            fused, inner = s[cache].split(fused, count)
            s[cache].bind(inner, self.threads[tag])

    # Programs

    def elements(self) -> Case:
        rng, kind = self.rng, self.rng.choice(KINDS)
        shape = tuple(self.size() for _ in range(rng.randint(1, 3)))
        symbolic = len(shape) == 1 and rng.random() < 0.5
        sizes = (te.var("n"),) if symbolic else shape

        def program() -> Any:
            a, b = te.placeholder(sizes, kind, name="A"), te.placeholder(sizes, kind, name="B")
            c = te.compute(sizes, lambda *i: te.max(a(*i) + b(*i), b(*i) - a(*i)), name="C")
            d = te.compute(sizes, lambda *i: te.select(c(*i) > a(*i), c(*i), a(*i) * b(*i)), name="D")
            return [a, b, d], c, d
        args, c, d = program()
        s = te.create_schedule(d.op)
        if rng.random() < 0.5:
            s[c].compute_inline()
        else:
            self.bind_grid(s, c, self._axes(s, c))
        self.bind_grid(s, d, self._axes(s, d))
        return Case("elements", s, args, [self.data(shape, kind), self.data(shape, kind)], te.create_schedule(d.op))

    def _axes(self, s: Any, tensor: Any) -> list[Any]:
        axes = list(tensor.op.axis)
        if len(axes) > 1 and self.rng.random() < 0.3:
            return [s[tensor].fuse(*axes)]
        return axes

    def stencil(self) -> Case:
        rng, kind = self.rng, self.rng.choice(("int32", "float32", "int16"))
        h, w = self.size() + 2, self.size() + 2
        a = te.placeholder((h, w), kind, name="A")
        ry, rx = te.reduce_axis((0, 3), name="ry"), te.reduce_axis((0, 3), name="rx")
        b = te.compute((h - 2, w - 2), lambda i, j: te.sum(a[i + ry, j + rx], axis=[ry, rx]), name="B")
        s = te.create_schedule(b.op)
        plain = te.create_schedule(b.op)
        ty, tx = rng.choice((1, 2, 4, 8)), rng.choice((1, 4, 8, 16))
        cache = s.cache_read(a, "shared", [b]) if rng.random() < 0.7 else None
        by, bx, yi, xi = s[b].tile(*b.op.axis, ty, tx)
        for axis, tag in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (yi, "threadIdx.y"), (xi, "threadIdx.x")):
            s[b].bind(axis, self.threads[tag])
        if cache is not None:
            self.cooperative(s, cache, b, bx, ("threadIdx.x", "threadIdx.y"), (tx, ty))
        return Case("stencil", s, [a, b], [self.data((h, w), kind)], plain)

    def product(self) -> Case:
        rng = self.rng
        kind, into = rng.choice((("int32", "int32"), ("float32", "float32"), ("int8", "int32"), ("float16", "float32"),
                                 ("bfloat16", "float32")))
        m, n, depth = self.size(), self.size(), self.size()
        a, b = te.placeholder((m, depth), kind, name="A"), te.placeholder((depth, n), kind, name="B")
        k = te.reduce_axis((0, depth), name="k")
        c = te.compute((m, n), lambda i, j: te.sum(a[i, k].astype(into) * b[k, j].astype(into), axis=k), name="C")
        s, plain = te.create_schedule(c.op), te.create_schedule(c.op)
        local = s.cache_write(c, "local")
        shared = [s.cache_read(tensor, "shared", [local]) for tensor in (a, b) if rng.random() < 0.8]
        ty, tx, ry, rx = rng.choice((1, 2, 4, 8)), rng.choice((2, 4, 8)), rng.choice((1, 2, 3, 4)), rng.choice((1, 2, 4))
        by, bx, yi, xi = s[c].tile(*c.op.axis, ty * ry, tx * rx)
        yt, yi = s[c].split(yi, nparts=ty) if rng.random() < 0.5 else s[c].split(yi, ry)
        xt, xi = s[c].split(xi, nparts=tx)
        s[c].reorder(by, bx, yt, xt, yi, xi)
        for axis, tag in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (yt, "threadIdx.y"), (xt, "threadIdx.x")):
            s[c].bind(axis, self.threads[tag])
        if rx in (2, 4) and rng.random() < 0.5:
            s[c].vectorize(xi)
        s[local].compute_at(s[c], xt)
        ko, ki = s[local].split(s[local].op.reduce_axis[0], rng.choice((1, 2, 4, 8)))
        order = [ki, *s[local].op.axis]
        rng.shuffle(order)
        s[local].reorder(ko, *order)
        if rng.random() < 0.5:
            s[local].unroll(ki)
        for cache in shared:
            if rng.random() < 0.3:
                s[cache].double_buffer()
            elif rng.random() < 0.3:
                s[cache].storage_align(s[cache].op.axis[0], 8, rng.choice((1, 4)))
            self.cooperative(s, cache, local, ko, ("threadIdx.x", "threadIdx.y"), (tx, ty))
        return Case("product", s, [a, b, c], [self.data((m, depth), kind), self.data((depth, n), kind)], plain)

    def reduction(self) -> Case:
        rng = self.rng
        kind = rng.choice(("int32", "float32", "int64", "float64", "int8"))
        into = "int32" if kind == "int8" else kind
        m, n = self.size(), self.size()
        a, k = te.placeholder((m, n), kind, name="A"), te.reduce_axis((0, n), name="k")
        combine = rng.choice((te.sum, te.max, te.min))
        b = te.compute((m,), lambda i: combine(a[i, k].astype(into), axis=k), name="B")
        s, plain = te.create_schedule(b.op), te.create_schedule(b.op)
        _, inner = s[b].split(k, rng.choice((2, 3, 4, 8, 16, 32, 48, 64)))
        s[b].bind(inner, self.threads["threadIdx.x"])
        outer, rows = s[b].split(b.op.axis[0], rng.choice((1, 2, 4)))
        s[b].bind(outer, self.threads["blockIdx.x"])
        if rng.random() < 0.7:
            s[b].bind(rows, self.threads["threadIdx.y"])
        return Case("reduction", s, [a, b], [self.data((m, n), kind)], plain)

    def rows(self) -> Case:
        """Each row less its greatest element, times its sum: two reductions and a map in one block."""
        rng, kind = self.rng, self.rng.choice(("int32", "float32"))
        m, n, threads = self.size(), self.size(), rng.choice((4, 8, 32, 40))
        a = te.placeholder((m, n), kind, name="A")
        k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
        most = te.compute((m,), lambda i: te.max(a[i, k], axis=k), name="most")
        less = te.compute((m, n), lambda i, j: a[i, j] - most[i], name="less")
        total = te.compute((m,), lambda i: te.sum(less[i, r], axis=r), name="total")
        out = te.compute((m, n), lambda i, j: less[i, j] * total[i], name="out")
        s, plain = te.create_schedule(out.op), te.create_schedule(out.op)
        s[out].bind(out.op.axis[0], self.threads["blockIdx.x"])
        s[out].bind(s[out].split(out.op.axis[1], threads)[1], self.threads["threadIdx.x"])
        for stage in (total, less, most):
            s[stage].set_scope("shared")
            s[stage].compute_at(s[out], out.op.axis[0])
        s[less].bind(s[less].split(less.op.axis[1], threads)[1], self.threads["threadIdx.x"])
        for stage, axis in ((total, r), (most, k)):
            if rng.random() < 0.8:
                s[stage].bind(s[stage].split(axis, threads)[1], self.threads["threadIdx.x"])
        return Case("rows", s, [a, out], [self.data((m, n), kind)], plain)


def drawn(seed: int) -> Case | None:
    """The case of a seed; None if it broke a rule of schedules or of the verifier."""
    try:
        case = Draw(seed).case()
        lower(case.schedule, case.args)
    except (ScheduleError, LowerError, VerifyError):
        return None
    return case


def truth(case: Case) -> tuple[list[Array], Array]:
    """The inputs and what the unscheduled program computes."""
    out = result_of(case)
    interpret(lower(case.plain, case.args), [*[array.copy() for array in case.inputs], out])
    return case.inputs, out


def result_of(case: Case) -> Array:
    """An array for the result, filled with a number that is no result."""
    from vtakit.compiler.ir.values import value_of
    from vtakit.runtime.cpu.packed import numpy_dtype

    shape = [value_of(extent) for extent in case.args[-1].shape]
    sizes = case.inputs[0].shape if None in shape else tuple(shape)
    return np.full(sizes, 77, numpy_dtype(case.args[-1].dtype))


def check(seed: int, runner: Runner) -> str:
    """Run one case; returns its name, or "" if the seed has none. Raises AssertionError with the seed and the program."""
    case = drawn(seed)
    if case is None:
        return ""
    inputs, want = truth(case)
    got = result_of(case)
    try:
        runner(case.schedule, case.args, [*inputs, got])
        np.testing.assert_array_equal(got, want)
    except VerifyError:  # `drawn` has found no other fault, so a limit of the device is exceeded
        return ""
    except Exception as error:
        low = lower_late(lower(case.schedule, case.args), "gpu")
        raise AssertionError(f"{case.name}, seed {seed}: {type(error).__name__}: {error}\n\n{low}\n\n"
                             f"replay: python tests/compiler/gpu_fuzz.py --seed {seed} --count 1") from error
    return case.name


def by_interpreter(schedule: Any, args: list[Any], arrays: list[Array]) -> None:
    interpret(low_form(schedule, args), arrays)


def low_form(schedule: Any, args: list[Any]) -> Function:
    return lower_late(lower(schedule, args, "main"), "gpu")


def built_for(target: Any, **options: Any) -> Runner:
    """Return the runner that builds cases for a target."""
    from vtakit import build

    return lambda schedule, args, arrays: build(schedule, args, target, **options)(*arrays)


def run_seeds(seed: int, count: int, target: Any, seconds: float = 1e9) -> str:
    """Run cases on a target; returns how many ran of each kind."""
    runner, begin, ran = built_for(target), time.monotonic(), dict[str, int]()
    for at in range(seed, seed + count):
        if time.monotonic() - begin > seconds:
            break
        name = check(at, runner)
        ran[name or "refused"] = ran.get(name or "refused", 0) + 1
    return ", ".join(f"{name} {number}" for name, number in sorted(ran.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--device", default="interpreter", help="interpreter, opencl, cuda or emulator")
    args = parser.parse_args()
    devices = {"interpreter": by_interpreter, "opencl": built_for("opencl"), "cuda": built_for("cuda"),
               "emulator": built_for("cuda", device="emulator")}
    runner = devices[args.device]
    ran: dict[str, int] = {}
    for at in range(args.seed, args.seed + args.count):
        name = check(at, runner)
        ran[name] = ran.get(name, 0) + 1
    print(ran)
    return 0


if __name__ == "__main__":
    sys.exit(main())
