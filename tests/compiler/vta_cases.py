"""What the random operators of the accelerator share: a case, random epilogues, and what an epilogue is in NumPy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from vta_support import values, wrap

from vtakit import te
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.requantize import Requantize
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import Feature

Given = dict[Any, np.ndarray]
BOUND = 1000  # of what an ALU requantizes, which must not overflow


@dataclass(frozen=True, slots=True)
class Case:
    """An operator to be run.

    want  : what it makes of its inputs' values
    known : values of some of the inputs; the others are random
    seen  : the part of what it leaves that is compared
    """

    layer: Any
    want: Callable[[Given], np.ndarray]
    known: Given = field(default_factory=dict)
    seen: Callable[[np.ndarray], np.ndarray] = lambda found: found

    @property
    def inputs(self) -> tuple[te.Tensor, ...]:
        """What the program reads."""
        return self.layer.inputs

    @property
    def outputs(self) -> tuple[te.Tensor, ...]:
        """What it makes."""
        return (self.layer.result,)

    def schedule(self) -> te.Schedule:
        """The operator with its default schedule."""
        s = te.create_schedule(self.layer.result.op)
        self.layer.schedule(s)
        return s

    def given(self, rng: np.random.Generator) -> Given:
        """Values of every input."""
        requantize = self.layer.epilogue.requantize
        own = {} if requantize is None else {requantize.parameters: requantize.words}
        return input_values(rng, self.inputs, self.known | own)

    def wanted(self, given: Given) -> Given:
        """What each result is."""
        return {self.layer.result: self.want(given)}


def input_values(rng: np.random.Generator, tensors: Sequence[te.Tensor], known: Given) -> Given:
    """Values of inputs, random ones where they are not known; shifts are counts of bits."""
    own = dict(known)
    for tensor in tensors:
        if tensor not in own:
            shift = tensor.name.endswith("shift")
            own[tensor] = values(rng, tensor, 0, int(str(tensor.dtype)[3:]) - 1) if shift else values(rng, tensor)
    return {tensor: own[tensor] for tensor in tensors}


def of_data(target: Target, shape: tuple[int, ...], name: str = "data") -> te.Tensor:
    """Activations [images, blocks, height, width] in elements."""
    return te.placeholder((*shape, *target.element("inp")), target.dtype("inp"), name=name)


def of_weights(target: Target, shape: tuple[int, ...], name: str = "weights") -> te.Tensor:
    """Weights whose elements come in so many."""
    return te.placeholder((*shape, *target.element("wgt")), target.dtype("wgt"), name=name)


def pick(rng: np.random.Generator, *choices: int) -> int:
    """One of them."""
    return int(rng.choice(choices))


def finish(epilogue: Epilogue, x: np.ndarray, given: dict[Any, np.ndarray], cfg: VTAConfig) -> np.ndarray:
    """What an epilogue makes of accumulators [images, blocks, rows, columns, batch, block]; each step wraps."""
    def vector(of: Any) -> Any:
        if not isinstance(of, te.Tensor):
            return of
        return given[of][None, :, None, None] if of.ndim == 3 else given[of]
    bits = cfg.acc_bits
    x = wrap(x, bits)
    if epilogue.bias is not None:
        x = wrap(x + vector(epilogue.bias), bits)
    if epilogue.scale is not None:
        x = wrap(x * vector(epilogue.scale), bits)
    if epilogue.shift is not None:
        x = x >> vector(epilogue.shift)
    if epilogue.add is not None:
        scaled = given[epilogue.add] * (1 if epilogue.add_scale is None else vector(epilogue.add_scale))
        x = wrap(x + wrap(scaled, bits), bits)
    if epilogue.low is not None:
        x = np.maximum(x, epilogue.low)
    if epilogue.high is not None:
        x = np.minimum(x, epilogue.high)
    return wrap(x if epilogue.requantize is None else requantized(epilogue.requantize, x), cfg.out_bits)


def requantized(by: Requantize, x: np.ndarray) -> np.ndarray:
    """Requantized accumulators; channels that only fill the last block are 0, clipped, if it multiplies."""
    def lanes(numbers: Any) -> np.ndarray:
        found = np.zeros(x.shape[1] * x.shape[-1], np.int64)
        found[:by.channels] = numbers
        return found.reshape(x.shape[1], 1, 1, 1, x.shape[-1])
    shift = lanes(by.shift)
    scaled = (x + lanes(by.bias)) * lanes(by.multiplier) + ((1 << shift) >> 1) >> shift
    if not (by.on_store or by.multiplies):
        fills = np.arange(x.shape[1] * x.shape[-1]).reshape(shift.shape) >= by.channels
        scaled = np.where(fills, x >> (by.one_shift or 0), scaled)
    return np.clip(scaled + lanes(by.zero_point), by.low, by.high)


def random_epilogue(
    rng: np.random.Generator, target: Target, blocks: int, shape: tuple[int, ...], prefix: str = "",
    added: te.Tensor | None = None,
) -> Epilogue:
    """Any part of an epilogue may be there.

    prefix : of its tensors' names; added : what a residual is if not an input of its own
    """
    acc = target.dtype("acc")

    def vector(name: str) -> Any:
        return te.placeholder((blocks, *target.element("acc")), acc, name=f"{prefix}{name}")

    def some() -> bool:
        return bool(rng.random() < 0.4)
    add = None
    if some() and target.has(Feature.ACC_8BIT):
        add = te.placeholder(shape, target.dtype("out"), name=f"{prefix}added") if added is None else added
    requantize = random_requantize(rng, target, blocks, f"{prefix}requant") if some() else None
    bound = min(BOUND, (1 << target.config.acc_bits - 1) - 1)
    low, high = (-bound, bound) if requantize is not None and not requantize.on_store else (
        int(rng.integers(-9, 2)) if some() else None, int(rng.integers(2, 9)) if some() else None)
    alone = add is not None and some()  # a residual that is added to the sums themselves
    return Epilogue(
        bias=vector("bias") if not alone and some() else None,
        scale=None if alone else vector("scale") if some() else int(rng.integers(1, 99)) if some() else None,
        shift=None if alone else vector("shift") if some() else int(rng.integers(0, min(32, target.config.acc_bits))) if (
            some()) else None,
        add=add, add_scale=None if add is None or some() else vector("add_scale") if some() else int(rng.integers(1, 99)),
        low=low, high=high, requantize=requantize,
    )


def random_requantize(rng: np.random.Generator, target: Target, blocks: int, name: str) -> Requantize | None:
    """Numbers that the device can hold, for all channels or for each, or None where it holds none of those tried."""
    channels, half = int(rng.integers((blocks - 1) * target.config.block + 1, blocks * target.config.block + 1)), (
        1 << target.config.out_bits - 1)
    low, high = sorted(int(end) for end in rng.integers(-half, half, 2))
    for bits in (15, 8, 4, 1):
        most = {"bias": 1 << bits, "multiplier": 1 << bits, "shift": min(bits + 9, target.config.acc_bits), "zero_point": half}

        def number(name: str, most: dict[str, int] = most) -> Any:
            least = 0 if name in ("multiplier", "shift") else -most[name]
            return rng.integers(least, most[name], channels if rng.random() < 0.5 else ())
        try:
            return Requantize(target=target, channels=channels, low=low, high=high, largest=BOUND, name=name,
                              **{field: number(field) for field in most})
        except VtaError:
            continue
    return None
