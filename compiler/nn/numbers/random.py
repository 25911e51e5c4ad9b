"""Random numbers of a seed: each element is a function of the seed and its place, whatever the order in which they are computed.

The generator is Philox4x32 with ten rounds (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011): the counter is the
element's place in the tensor, row by row, the key the seed, 64 bits each with the low word first.

    uniform float32 : the 24 high bits of the first word, times 2**-24; in [0, 1)
    uniform float64 : the first word and the 21 high bits of the second, times 2**-53
    uniform, narrow : the float32; what rounds to the upper end becomes the greatest number below it
    normal          : Box and Muller's sqrt(-2 log(1 - u)) * cos(2 pi v) of two float64 from words 0, 1 and words 2, 3
"""

from collections.abc import Sequence
from math import ceil, frexp, ldexp, pi

from vtakit.base.limits import check_shape
from vtakit.compiler.ir.dtypes import DType, dtype
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import minimum
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import flattened, made
from vtakit.compiler.nn.elements.elementwise import numeric_type
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import math
from vtakit.compiler.te.tensor import Tensor

UINT64, REAL = dtype("uint64"), dtype("float64")
_FACTORS, _STEPS, _ROUNDS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 10
_LOW = 0xFFFFFFFF


def _u(value: int) -> Expr:
    return const(value, UINT64)


def words(place: Expr, seed: int) -> list[Expr]:
    """The four words of 32 bits, as uint64, at a place."""
    at = place.astype(UINT64)
    counter = [at & _u(_LOW), at >> _u(32), _u(0), _u(0)]
    key = [seed & _LOW, seed >> 32 & _LOW]
    for _ in range(_ROUNDS):
        first, second = counter[0] * _u(_FACTORS[0]), counter[2] * _u(_FACTORS[1])
        counter = [second >> _u(32) ^ counter[1] ^ _u(key[0]), second & _u(_LOW),
                   first >> _u(32) ^ counter[3] ^ _u(key[1]), first & _u(_LOW)]
        key = [word + step & _LOW for word, step in zip(key, _STEPS, strict=True)]
    return counter


def _wide(first: Expr, second: Expr) -> Expr:
    """A float64 in [0, 1) of two words."""
    whole = (first << _u(21)) | (second >> _u(11))
    found: Expr = whole.astype("int64").astype(REAL) * const(2.0**-53, REAL)
    return found


def _below(number: float, kind: DType) -> float:
    """The greatest number of a floating-point type below a number."""
    digits, least = {("float", 16): (11, -13), ("bfloat", 16): (8, -125), ("float", 32): (24, -125)}.get(
        (kind.code, kind.bits), (53, -1021))  # of the fraction, and the least exponent with all of them, as frexp counts
    part, exponent = frexp(number)
    if part == 0.5:  # numbers below a power of two lie closer
        exponent -= 1
    step = (max(exponent, least) if number else least) - digits
    return ldexp(ceil(ldexp(number, -step)) - 1, step)


def _checked(shape: Sequence[int], to: str | DType, what: str) -> DType:
    kind = numeric_type(to, what)
    if not kind.is_float:
        raise OperatorError(f"{what} gives floating-point numbers, not {kind}")
    check_shape(tuple(shape), what)
    return kind


@operator("random_uniform", kind=Kind.INJECTIVE)
def random_uniform(
    *, shape: Sequence[int], dtype: str | DType = "float32", low: float = 0.0, high: float = 1.0, seed: int = 0,
) -> Tensor:
    """Numbers from `low` to below `high`, all as likely, in a type that has a number between them.

    Raises OperatorError for a type that is not floating-point.
    """
    kind = _checked(shape, dtype, "random_uniform")
    last = _below(high, kind)

    def value(*at: Expr) -> Expr:
        found = words(flattened(at, shape), seed)
        if kind.bits == 64:
            number = _wide(found[0], found[1]) * const(high - low, REAL) + const(low, REAL)
        else:
            part = (found[0] >> _u(8)).astype("int32").astype("float32") * const(2.0**-24, "float32")
            number = part * const(high - low, "float32") + const(low, "float32")
        kept: Expr = minimum(number, const(last, number.dtype)) if last >= low else number
        return kept.astype(kind)
    return made(shape, value, "random_uniform")


@operator("random_normal", kind=Kind.INJECTIVE)
def random_normal(
    *, shape: Sequence[int], dtype: str | DType = "float32", mean: float = 0.0, scale: float = 1.0, seed: int = 0,
) -> Tensor:
    """Numbers of the normal distribution. Raises OperatorError for a type that is not floating-point."""
    kind = _checked(shape, dtype, "random_normal")

    def value(*at: Expr) -> Expr:
        found = words(flattened(at, shape), seed)
        size = math.sqrt(const(-2, REAL) * math.log1p(-_wide(found[0], found[1])))
        normal = size * math.cos(_wide(found[2], found[3]) * const(2 * pi, REAL))
        number: Expr = (normal * const(scale, REAL) + const(mean, REAL)).astype(kind)
        return number
    return made(shape, value, "random_normal")
