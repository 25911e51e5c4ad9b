"""Random operators for the fuzzer of schedules."""

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vtakit import te
from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.ir.walk import substitute

Array = np.ndarray


@dataclass
class Program:
    """An operator: what to schedule, its arguments, and the values of its symbolic sizes."""

    name: str
    outputs: list[Any]
    args: list[Any]
    sizes: dict[Any, int] = field(default_factory=dict)

    def arrays(self, seed: int) -> list[Array]:
        """Random inputs, and outputs of garbage."""
        rng = np.random.default_rng(seed)
        found = []
        sizes = {var: const(value, var.dtype) for var, value in self.sizes.items()}
        for tensor in self.args:
            shape = [int_value(Analyzer().simplify(substitute(e, sizes))) for e in tensor.shape]
            found.append(rng.integers(-4, 5, shape).astype(str(tensor.dtype)))
        return found


# -- operators -----------------------------------------------------------------------------------------------------------

class Build:
    """Makes a random operator from small parts; integers, so that any order of adding gives the same."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sizes: dict[Any, int] = {}

    def size(self, least: int = 0, most: int = 12) -> tuple[Any, int]:
        """An extent: a number, or a symbolic size of that value; 0 now and then where that is no less than the least."""
        value = 0 if least == 0 and self.rng.random() < 0.1 else self.rng.randint(max(least, 1), most)
        if self.rng.random() < 0.2:
            var = te.size_var(f"n{len(self.sizes)}")
            self.sizes[var] = value
            return var, value
        return value, value

    def chain(self) -> tuple[list[Any], list[Any]]:
        (m, _), (n, _) = self.size(), self.size()
        a = te.placeholder((m, n), "int32", name="A")
        made = [a]
        for at in range(self.rng.randint(1, 4)):
            prev, extra = made[-1], self.rng.choice(made)
            made.append(te.compute((m, n), lambda i, j, p=prev, e=extra, k=at: p[i, j] * 2 + e[i, j] + k, name=f"B{at}"))
        return [made[-1]], [a, made[-1]]

    def stencil(self) -> tuple[list[Any], list[Any]]:
        (n, _) = self.size(0, 14)
        width, stride, dilation = self.rng.randint(1, 4), self.rng.randint(1, 3), self.rng.randint(1, 2)
        a = te.placeholder((n * stride + width * dilation,), "int32", name="A")
        b = te.compute(a.shape, lambda i: a[i] + 1, name="B")
        c = te.compute(
            (n,), lambda i: sum((b[i * stride + d * dilation] * (d + 1) for d in range(1, width)), b[i * stride]), name="C",
        )
        d = te.compute((n,), lambda i: c[i] * 3, name="D")
        return [d], [a, d]

    def blur(self) -> tuple[list[Any], list[Any]]:
        (h, _), (w, _) = self.size(0, 8), self.size(0, 8)
        a = te.placeholder((h + 2, w + 2), "int32", name="A")
        x = te.compute((a.shape[0], w), lambda i, j: a[i, j] + a[i, j + 1] + a[i, j + 2], name="X")
        y = te.compute((h, w), lambda i, j: x[i, j] + x[i + 1, j] + x[i + 2, j], name="Y")
        return [y], [a, y]

    def padded_conv(self) -> tuple[list[Any], list[Any]]:
        n, k, pad = self.rng.randint(2, 10), self.rng.randint(1, 4), self.rng.randint(0, 2)
        if n + 2 * pad < k:
            k = 1
        ci, co = self.rng.choice([0, 1, 1, 2, 2, 3, 3, 4, 4]), self.rng.randint(1, 5)
        a = te.placeholder((ci, n), "int32", name="A")
        w = te.placeholder((co, ci, k), "int32", name="W")
        p = te.compute((ci, n + 2 * pad), lambda c, i: te.if_then_else(te.all(i >= pad, i < n + pad), a[c, i - pad], 0), name="P")
        rc, rk = te.reduce_axis((0, ci), name="rc"), te.reduce_axis((0, k), name="rk")
        c = te.compute((co, n + 2 * pad - k + 1), lambda o, i: te.sum(p[rc, i + rk] * w[o, rc, rk], axis=[rc, rk]), name="C")
        d = te.compute(c.shape, lambda o, i: te.select(c[o, i] > 0, c[o, i], 0), name="D")
        return [d], [a, w, d]

    def matmul(self) -> tuple[list[Any], list[Any]]:
        (m, _), (n, _), (depth, _) = self.size(), self.size(), self.size()
        a, b = te.placeholder((m, depth), "int32", name="A"), te.placeholder((n, depth), "int32", name="B")
        k = te.reduce_axis((0, depth), name="k")
        c = te.compute((m, n), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
        if self.rng.random() < 0.5:
            return [c], [a, b, c]
        d = te.compute((m, n), lambda i, j: c[i, j] + i, name="D")
        return [d], [a, b, d]

    def normalize(self) -> tuple[list[Any], list[Any]]:
        (m, _), (n, _) = self.size(), self.size()
        a = te.placeholder((m, n), "int32", name="A")
        k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
        top = te.compute((m,), lambda i: te.max(a[i, k], axis=k), name="T")
        b = te.compute((m, n), lambda i, j: a[i, j] - top[i], name="B")
        total = te.compute((m,), lambda i: te.sum(b[i, r], axis=r), name="S")
        c = te.compute((m, n), lambda i, j: b[i, j] * total[i], name="C")
        return [c], [a, c]

    def transposed(self) -> tuple[list[Any], list[Any]]:
        (m, _), (n, _) = self.size(), self.size()
        a = te.placeholder((m, n), "int32", name="A")
        b = te.compute((n, m), lambda i, j: a[j, i] + 1, name="B")
        c = te.compute((m, n), lambda i, j: b[j, i] + a[i, j], name="C")
        return [c], [a, c]

    def reshaped(self) -> tuple[list[Any], list[Any]]:
        m, n = self.rng.randint(1, 8), self.rng.randint(1, 8)
        a = te.placeholder((m, n), "int32", name="A")
        b = te.compute((m, n), lambda i, j: a[i, j] * 2, name="B")
        c = te.compute((m * n,), lambda i: b[i // n, i % n] + 1, name="C")
        d = te.compute((n, m), lambda i, j: c[j * n + i], name="D")
        return [d], [a, d]

    def triangular(self) -> tuple[list[Any], list[Any]]:
        (n, _) = self.size(0, 9)
        a = te.placeholder((n,), "int32", name="A")
        b = te.compute((n,), lambda i: a[i] + 1, name="B")
        c = te.compute((n,), lambda i: te.sum(b[(k := te.reduce_axis((0, i + 1), name="k"))], axis=k), name="C")
        return [c], [a, c]

    def half(self) -> tuple[list[Any], list[Any]]:
        """A triangle of a matrix, the lower or the upper one, along rows or columns."""
        (n, _) = self.size(0, 9)
        upper, columns = self.rng.random() < 0.5, self.rng.random() < 0.5
        a = te.placeholder((n, n), "int32", name="A")
        b = te.compute((n, n), lambda i, j: a[i, j] * 2, name="B")

        def row(i: Any) -> Any:
            k = te.reduce_axis((i, n) if upper else (0, i + 1), name="k")
            return te.sum(b[k, i] if columns else b[i, k], axis=k)

        c = te.compute((n,), row, name="C")
        return [c], [a, c]

    def two_outputs(self) -> tuple[list[Any], list[Any]]:
        (m, _), (n, _) = self.size(), self.size()
        a = te.placeholder((m, n), "int32", name="A")
        b = te.compute((m, n), lambda i, j: a[i, j] + 1, name="B")
        x, y = te.compute((m, n), lambda i, j: (b[i, j] * 2, b[i, j] - a[i, j]), name="C")
        return [x], [a, x, y]

    def gather(self) -> tuple[list[Any], list[Any]]:
        (m, _), n = self.size(0, 9), self.rng.randint(5, 9)
        a, at = te.placeholder((n,), "int32", name="A"), te.placeholder((m,), "int32", name="I")
        b = te.compute((n,), lambda i: a[i] * 3, name="B")
        c = te.compute((m,), lambda i: b[te.if_then_else(at[i] < 0, 0, at[i])], name="C")
        return [c], [a, at, c]

    def largest(self) -> tuple[list[Any], list[Any]]:
        (m, _), (n, _) = self.size(0, 6), self.size(0, 9)
        a = te.placeholder((m, n), "int32", name="A")

        def better(x: Any, y: Any) -> tuple[Any, Any]:
            first = te.any(x[1] > y[1], te.all(x[1] == y[1], x[0] < y[0]))
            return te.select(first, x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])

        pick = te.comm_reducer(better, lambda t0, t1: (te.const(1 << 20, t0), te.min_value(t1)), name="argmax")
        k = te.reduce_axis((0, n), name="k")
        i, v = te.compute((m,), lambda r: pick((k.var, a[r, k]), axis=k), name="C")
        return [i], [a, i, v]

    def running(self) -> tuple[list[Any], list[Any]]:
        first = self.rng.randint(1, 2)
        (m, _), (n, _) = self.size(first, 7), self.size(0, 7)
        a = te.placeholder((m, n), "int32", name="A")
        state = te.placeholder((m, n), "int32", name="state")
        init = te.compute((first, n), lambda t, i: a[t, i] - t, name="first")
        scaled = te.compute((m, n), lambda t, i: state[t - 1, i] * 2, name="scaled")
        update = te.compute((m, n), lambda t, i: scaled[t, i] + a[t, i], name="next")
        out = te.scan(init, update, state, inputs=[a], name="scan")
        if self.rng.random() < 0.5:
            return [out], [a, out]
        read = te.compute((m, n), lambda t, i: out[t, i] + a[t, i], name="read")  # the first rows and all others
        return [read], [a, read]


KINDS = (
    "chain", "stencil", "blur", "padded_conv", "matmul", "normalize", "transposed", "reshaped", "triangular", "two_outputs",
    "gather", "largest", "running", "half",
)


def program(seed: int) -> Program:
    """The operator of a seed, built anew at each call."""
    rng = random.Random(f"operator {seed}")
    build = Build(rng)
    name = rng.choice(KINDS)
    outputs, args = getattr(build, name)()
    return Program(name, outputs, args, build.sizes)
