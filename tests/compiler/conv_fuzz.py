"""Random convolutions and transposed convolutions by their default schedules, against sums over NumPy's slices.

    python tests/compiler/conv_fuzz.py [--seed N] [--count N] [--keep-going]

Sizes are small and odd on purpose: several images and groups, strides, pads, dilations, results that no tile divides, and
operators behind. The data are small integers, so that every order of summation gives the same numbers.
"""

import argparse
import random
import sys
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from nn_support import placeholders, run_group

from vtakit import te
from vtakit.compiler.nn.operators import find

Array = np.ndarray
BEHIND = ("", "relu", "bias", "bias relu", "scale", "residual", "sigmoid residual")


@dataclass(frozen=True)
class Case:
    """One convolution; `pads` in front of each dimension, then behind each."""

    op: str
    images: int
    channels: int
    filters: int
    groups: int
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    more: tuple[int, ...]
    dtype: str
    behind: str

    @property
    def out(self) -> tuple[int, ...]:
        """The spatial extents of the result."""
        found = []
        for at, (size, k, step, spread) in enumerate(zip(self.sizes, self.kernel, self.strides, self.dilations, strict=True)):
            pad, reach = self.pads[at] + self.pads[at + len(self.sizes)], (k - 1) * spread + 1
            transposed = (size - 1) * step + reach + self.more[at] - pad
            found.append((size + pad - reach) // step + 1 if self.op == "conv" else transposed)
        return tuple(found)


def random_case(seed: int) -> Case:
    """A convolution whose result has at least one element."""
    r = random.Random(seed)
    while True:
        count = r.choices((1, 2, 3), (2, 10, 1))[0]
        op = r.choice(("conv", "conv", "conv_transpose"))
        groups = r.choice((1, 1, 1, 2, 3, 4))
        depth, per_group = (r.choice((1, 2, 3, 5, 8, 16, 24)) for _ in range(2))
        largest = {1: 60, 2: 41, 3: 9}[count]
        kernel = tuple(r.choice((1, 2, 3, 3, 4, 5, 7)) for _ in range(count))
        whole = op == "conv_transpose" and r.random() < 0.4  # a step of the whole kernel, as decoders have
        found = Case(
            op, r.choice((1, 1, 2, 3, 8)), groups * depth, groups * per_group, groups,
            tuple(r.randint(1, largest) for _ in range(count)), kernel,
            kernel if whole else tuple(r.choice((1, 1, 2, 2, 3)) for _ in range(count)),
            tuple(r.choice((1, 1, 1, 2)) for _ in range(count)), tuple(r.choice((0, 0, 1, 1, 2, 3)) for _ in range(2 * count)),
            tuple(r.choice((0, 0, 1)) for _ in range(count)), r.choice(("float32", "float32", "float32", "float16", "int32")),
            r.choice(BEHIND),
        )
        work = found.images * found.filters * depth * prod(kernel) * prod(found.out if op == "conv" else found.sizes)
        if min(found.out) >= 1 and work <= 3_000_000:
            return found


def reference(case: Case, x: Array, weight: Array) -> Array:
    """The convolution of int64 data, one cell of the kernel at a time."""
    per_group, depth = case.filters // case.groups, case.channels // case.groups
    front = case.pads[:len(case.sizes)]
    around = tuple(zip(front, case.pads[len(case.sizes):], strict=True))
    result = np.zeros((case.images, case.filters, *case.out), np.int64)
    if case.op == "conv":
        inside = np.pad(x, ((0, 0), (0, 0), *around))
    else:  # what pads cut off is made too
        extents = [extent + a + b for extent, (a, b) in zip(case.out, around, strict=True)]
        whole = np.zeros((case.images, case.filters, *extents), np.int64)
    for group in range(case.groups):
        ours, theirs = slice(group * per_group, (group + 1) * per_group), slice(group * depth, (group + 1) * depth)
        for at in product(*map(range, case.kernel)):
            steps = zip(at, case.strides, case.dilations, strict=True)
            extents = case.out if case.op == "conv" else case.sizes
            place = tuple(slice(k * d, k * d + (n - 1) * s + 1, s) for (k, s, d), n in zip(steps, extents, strict=True))
            if case.op == "conv":
                cell = weight[(ours, slice(None), *at)]
                result[:, ours] += np.einsum("mc,nc...->nm...", cell, inside[(slice(None), theirs, *place)])
            else:
                cell = weight[(theirs, slice(None), *at)]
                whole[(slice(None), ours, *place)] += np.einsum("cm,nc...->nm...", cell, x[:, theirs])
    if case.op == "conv":
        return result
    return whole[(slice(None), slice(None), *[slice(a, a + n) for (a, _), n in zip(around, case.out, strict=True)])]


def check_case(seed: int) -> Case:
    """Compile and run a random convolution. Raises AssertionError, or what the compiler raises, with the seed."""
    case = random_case(seed)
    rng = np.random.default_rng(seed)
    shape = (case.filters, case.channels // case.groups) if case.op == "conv" else (case.channels, case.filters // case.groups)
    x = rng.integers(-4, 5, (case.images, case.channels, *case.sizes))
    weight = rng.integers(-2, 3, (*shape, *case.kernel))
    each = (case.filters, *[1] * len(case.sizes))
    bias, scale = rng.integers(-9, 10, each), rng.integers(1, 4, each)
    other = rng.integers(-3, 4, (case.images, case.filters, *case.out))
    want = reference(case, x, weight)
    arrays = [array.astype(case.dtype) for array in (x, weight, bias, scale, other)]
    given = placeholders(tuple(arrays))
    words = {"strides": case.strides, "pads": case.pads, "dilations": case.dilations, "groups": case.groups}
    if case.op == "conv_transpose":
        words |= {"output_padding": case.more}
    sums = out = find(case.op).define(given[0], given[1], **words)
    for word in case.behind.split():
        out, want = _behind(word, sums, out, given, want, (bias, scale, other))
    try:
        (got,) = run_group(arrays, given, [out])
    except Exception as error:
        raise AssertionError(f"seed {seed}: {case}: {type(error).__name__}: {error}") from error
    if "sigmoid" in case.behind:
        near = 2e-3 if case.dtype == "float16" else 1e-5  # 4 steps of float16 around 1; some 100 of float32
        np.testing.assert_allclose(got, want, rtol=near, atol=near, err_msg=f"seed {seed}: {case}")
    elif case.dtype == "float16":
        exact = np.abs(want) <= 2048  # larger integers are not all float16 numbers
        np.testing.assert_array_equal(got[exact], want.astype(case.dtype)[exact], err_msg=f"seed {seed}: {case}")
    else:
        np.testing.assert_array_equal(got, want.astype(case.dtype), err_msg=f"seed {seed}: {case}")
    return case


def _behind(
    word: str, sums: te.Tensor, out: te.Tensor, given: list[te.Tensor], want: Array, arrays: tuple[Array, ...],
) -> tuple[te.Tensor, Array]:
    """The result after one more operator, ours and NumPy's."""
    bias, scale, other = arrays
    match word:
        case "relu":
            return find("relu").define(out), np.maximum(want, 0)
        case "bias":
            return find("add").define(out, given[2]), want + bias
        case "scale":
            return find("mul").define(out, given[3]), want * scale
        case "residual":
            return find("add").define(out, given[4]), want + other
        case _ if str(sums.dtype).startswith("int"):
            return out, want
        case _:
            return find("mul").define(sums, find("sigmoid").define(sums)), want / (1 + np.exp(-want.astype(np.float64)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--keep-going", action="store_true", help="print all failures, one line each")
    args = parser.parse_args()
    failed = 0
    for seed in range(args.seed, args.seed + args.count):
        try:
            check_case(seed)
        except AssertionError as error:
            if not args.keep_going:
                raise
            failed += 1
            print(" ".join(str(error).split())[:300], flush=True)
    print(f"{args.count - failed} of {args.count} convolutions are right")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
