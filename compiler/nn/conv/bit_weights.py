"""Weights of few bits as words of bits, made by NumPy when a network is compiled, and the choice of their encoding."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.llvm.kernels.bit_encodings import MOST_BITS, WORD_BITS, WORDS
from vtakit.compiler.nn.conv.packed_weights import COLUMNS
from vtakit.compiler.nn.registry import OperatorError


class Encoding(NamedTuple):
    """How integers are digits; see `bit_encodings`."""

    name: str
    digits: int

    @property
    def words(self) -> int:
        """Return the words of all digits of 32 weights."""
        return self.digits * WORDS[self.name]


def encoding_of(weight: npt.NDArray[Any]) -> Encoding:
    """Return the encoding that holds all of the weights with the fewest digits; of equal ones that with the fewest words."""
    low, high = int(weight.min(initial=0)), int(weight.max(initial=0))
    if low >= 0:
        return Encoding("unipolar", max(1, high.bit_length()))
    digits, bits = max(-low, high).bit_length(), 1 + max((-low - 1).bit_length(), high.bit_length())
    if (weight % 2 != 0).all():
        return Encoding("bipolar", digits)
    return Encoding("signed", bits) if bits <= digits else Encoding("ternary", digits)


def words_of(weight: npt.NDArray[Any], encoding: Encoding) -> npt.NDArray[np.bool_]:
    """Return the bits [digits, words, …] of weights. Raises OperatorError for one that the encoding does not hold."""
    name, digits = encoding
    if name not in WORDS or not 1 <= digits <= MOST_BITS:
        raise OperatorError(f"weights as {digits!r} {name!r} digits: the encodings are {', '.join(WORDS)}; give 1 to {MOST_BITS} "
                            "digits")
    long, places = weight.astype(np.int64), 1 << np.arange(digits).reshape(-1, *[1] * weight.ndim)
    found: npt.NDArray[np.bool_]
    if name == "bipolar":
        found = ((long + (1 << digits) - 1 >> 1) & places == 0)[:, None]
        held = ((1 - 2 * found[:, 0].astype(np.int64)) * places).sum(0)
    elif name == "ternary":
        sign, size = long < 0, np.abs(long) & places != 0
        found = np.stack([sign & size, size], axis=1)
        held = ((1 - 2 * found[:, 0].astype(np.int64)) * found[:, 1] * places).sum(0)
    else:
        found = (long & places != 0)[:, None]
        signs = np.where((np.arange(digits) == digits - 1) & (name == "signed"), -1, 1).reshape(places.shape)
        held = (found[:, 0] * places * signs).sum(0)
    if (held != long).any():
        wrong = long[held != long].flat[0]
        raise OperatorError(f"a weight of {wrong} is no number of {digits} {name} digits: {_held(name, digits)}")
    return found


def _held(name: str, digits: int) -> str:
    most = (1 << digits) - 1
    if name == "bipolar":
        return f"these are the odd numbers from {-most} to {most}"
    low, high = {"unipolar": (0, most), "ternary": (-most, most), "signed": (-(1 << digits - 1), (1 << digits - 1) - 1)}[name]
    return f"these are {low} to {high}"


def packed_bits(weight: npt.NDArray[Any], encoding: Encoding, u: int, v: int) -> npt.NDArray[np.uint32]:
    """Weights [K, C, R, S] as `conv_bits` takes them: uint32 [K' / n, R, S, C'', digits, words, n], filled up with zeros.

    u, v : channels of a block of the data, and of the result's; n is at most 32 of v

    Raises OperatorError for a weight that the encoding does not hold, and for other blocks than of up to 32, or multiples of it.
    """
    for what, block, most in (("channels", u, WORD_BITS), ("filters", v, COLUMNS)):
        if block < 1 or (block > most and block % most):
            raise OperatorError(f"packed_bits: blocks of {block} {what}; give 1 to {most}, or a multiple of it")
    filters, depth, *kernel = weight.shape
    n, each = min(v, COLUMNS), min(u, WORD_BITS)
    bits = words_of(weight, encoding)
    full = np.zeros((*bits.shape[:2], -(-filters // v) * v, -(-depth // u) * u, *kernel), np.uint32)
    full[:, :, :filters, :depth] = bits
    parts = full.reshape(*bits.shape[:2], -1, n, full.shape[3] // each, each, *kernel)
    places = np.arange(each, dtype=np.uint32).reshape(-1, 1, 1)
    joined = (parts << places).sum(5, dtype=np.uint32)  # [digits, words, K' / n, n, C'', R, S]
    return np.ascontiguousarray(joined.transpose(2, 5, 6, 4, 0, 1, 3))


def excess(weight: npt.NDArray[Any], encoding: Encoding, planes: int) -> npt.NDArray[np.int64]:
    """Return by how much the sums of `conv_bits` of each filter [K, …] are too large, for data of so many planes."""
    if encoding.name not in ("bipolar", "ternary"):
        return np.zeros(len(weight), np.int64)
    bits = words_of(weight.reshape(len(weight), -1), encoding)[:, 0]  # [digits, K, C * R * S]
    counts: npt.NDArray[np.int64] = ((1 << np.arange(encoding.digits))[:, None] * bits.sum(2)).sum(0)
    return counts * ((1 << planes) - 1)
