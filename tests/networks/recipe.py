"""A random quantized network as data: steps that make one value each, which can be cut, printed, and written as ONNX."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

Array = np.ndarray
INPUT = "Input"


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Symmetric int8 weights of a layer, and its bias.

    scales : one number, or one for each index of `axis`
    bias   : int32, in units of the layer's sums; None for a layer without
    """

    numbers: Array
    scales: Array
    axis: int
    bias: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One layer with its quantization.

    op       : ONNX's operator, or `INPUT`
    reads    : the values that it reads, by the numbers of the steps that make them
    scale    : the real value of 1 in the int8 result
    extra    : constant operands behind those read; None for one that is left out
    skip     : a value that is added to the sums before they are quantized
    act      : an activation in front of the quantization: ("Relu",) or ("Clip", low, high) in quanta
    bare     : leave the result in floating point, without a quantization; its scale is that of what it reads
    integers : an input of the network that is int8
    """

    op: str
    reads: tuple[int, ...]
    shape: tuple[int, ...]
    scale: Fraction
    attrs: Mapping[str, Any] = field(default_factory=dict)
    weights: Weights | None = None
    extra: tuple[Array | None, ...] = ()
    skip: int | None = None
    act: tuple[Any, ...] = ()
    bare: bool = False
    integers: bool = False

    @property
    def needs(self) -> tuple[int, ...]:
        """All values that it reads."""
        return self.reads if self.skip is None else (*self.reads, self.skip)

    def __str__(self) -> str:
        words = [self.op, *[f"v{value}" for value in self.reads]]
        words += [f"{key}={_brief(value)}" for key, value in self.attrs.items()]
        if self.weights is not None:
            words.append(f"weights={[*self.weights.numbers.shape]}")
            words += ["bias"] * (self.weights.bias is not None) + ["by-channel"] * (self.weights.scales.ndim > 0)
        words += [f"with={_brief(array)}" for array in self.extra if array is not None]
        words += [f"plus=v{self.skip}"] if self.skip is not None else []
        words += ["(" + " ".join(map(str, self.act)) + ")"] if self.act else []
        words += ["float"] * self.bare + ["int8"] * self.integers
        return f"{' '.join(words)} -> {[*self.shape]} scale {float(self.scale):.5g}"


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """A network.

    outputs : values that it gives, each as float or, if True, as int8
    order   : in which order its nodes are written (`networks.orders`)
    paired  : dequantize a value anew for each of its readers
    seed    : of the inputs, of the accelerator, and of the order
    again   : which of several random orders of that seed
    naming  : how nodes are called: "plain", "none", or "alike", by names that become the same identifier
    exact   : no result lies near the middle of two integers, so that every correct runtime gives the same bytes
    """

    seed: int
    steps: tuple[Step, ...]
    outputs: tuple[tuple[int, bool], ...]
    order: str
    paired: bool
    naming: str
    exact: bool
    again: int = 0

    @property
    def layers(self) -> int:
        """Steps that are no inputs."""
        return sum(step.op != INPUT for step in self.steps)

    def tidy(self) -> "Recipe":
        """The network without steps that no output needs."""
        wanted = {value for value, _ in self.outputs}
        for at in reversed(range(len(self.steps))):
            if at in wanted:
                wanted |= set(self.steps[at].needs)
        number = {old: new for new, old in enumerate(sorted(wanted))}
        steps = [renumbered(self.steps[old], number) for old in number]
        return replace(self, steps=tuple(steps), outputs=tuple([(number[value], whole) for value, whole in self.outputs]))

    def inputs(self, *, real: bool = False) -> dict[str, Array]:
        """Random arrays for its inputs, by name; they depend on the seed and the input's number alone.

        real : all of them float32
        """
        found = {}
        for at, step in enumerate(self.steps):
            if step.op == INPUT:
                rng = np.random.default_rng([self.seed, at])
                if step.integers and not real:
                    found[f"x{at}"] = rng.integers(-128, 128, step.shape, np.int8)
                else:
                    found[f"x{at}"] = (rng.standard_normal(step.shape) * 50 * float(step.scale)).astype(np.float32)
        return found

    def __str__(self) -> str:
        head = f"network {self.seed}: nodes {self.order}, {'paired' if self.paired else 'shared'} dequantizations, "
        head += f"names {self.naming}"
        lines = [f"  v{at} = {step}" for at, step in enumerate(self.steps)]
        ends = [f"v{value}{' as int8' if whole else ''}" for value, whole in self.outputs]
        return "\n".join([head + (", exact" if self.exact else ", any scales"), *lines, f"  return {', '.join(ends)}"])


def renumbered(step: Step, number: Mapping[int, int]) -> Step:
    """The step with other numbers for what it reads."""
    return replace(step, reads=tuple([number[value] for value in step.reads]),
                   skip=None if step.skip is None else number[step.skip])


def _brief(value: Any) -> str:
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        return "[" + ",".join(str(each) for each in np.ravel(value)) + "]"
    return str(value)
