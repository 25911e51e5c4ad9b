"""Draw random quantized networks: branches, joins, values read again at a distance, several inputs and outputs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from networks.orders import ORDERS
from networks.recipe import INPUT, Array, Recipe, Step, Weights
from networks.scales import Scales, exact_pair

MOST_ELEMENTS = 480  # of a value
MOST_CHANNELS = 36  # of an image
MOST_LAYERS = 30
MORE_LAYERS = 6  # of networks with products of computed matrices, which take several
WILD = 4  # one network of so many has any scales

Fits = Callable[[Step], bool]


class Net:
    """A network being drawn; a value is the number of the step that makes it.

    woven : mostly layers that the accelerator has and that keep the shape, read at any distance and joined in the end: many
            values live at once, of one launch
    kernels : of its convolutions, if it is woven: few, so that machine code is made once for many
    """

    def __init__(self, seed: int) -> None:
        self.rng, self.seed = np.random.default_rng(seed), seed
        self.exact = bool(self.rng.integers(WILD))
        self.scales = Scales(self.rng, self.exact)
        self.steps: list[Step] = []
        self.batch = self.one_of(1, 1, 1, 2, 3)
        self.woven = self.chance(0.6)
        self.kernels = [self.one_of(1, 2, 3), self.one_of(1, 3)]
        self.read: set[int] = set()

    def one_of(self, *of: Any) -> Any:
        """One of several things."""
        return of[self.rng.integers(len(of))]

    def chance(self, share: float) -> bool:
        """True in so many of all cases."""
        return bool(self.rng.random() < share)

    def add(self, step: Step | None) -> int | None:
        """Append a step; None if there is none, or if its result is empty or too large."""
        if step is None or not 0 < prod(step.shape) <= MOST_ELEMENTS or (len(step.shape) > 2 and step.shape[1] > MOST_CHANNELS):
            return None
        if not self.exact and step.bare and not self.steps[step.reads[0]].bare:
            step = replace(step, scale=self.steps[step.reads[0]].scale)
        self.steps.append(step)
        self.read |= set(step.needs)
        return len(self.steps) - 1

    def value(self, fits: Fits = lambda step: True) -> int | None:
        """A value that fits: often the newest, often one that nobody reads yet, else any."""
        found = [at for at, step in enumerate(self.steps) if fits(step)]
        if not found:
            return None
        fresh = [at for at in found if at not in self.read]
        if self.chance(0.2 if self.woven else 0.4):
            return found[-1]
        return int(self.one_of(*(fresh if fresh and self.chance(0.5) else found)))

    def input(self, shape: tuple[int, ...]) -> int | None:
        """One more input."""
        return self.add(Step(INPUT, (), shape, self.scales.any(), integers=self.chance(0.15)))

    def weights(self, shape: Sequence[int], fan_in: int, result: Fraction, data: Fraction, ratio: Fraction, axis: int,
                by_channel: bool) -> Weights:
        """Weights whose sums, divided by `ratio`, are the result in its scale; now and then a channel has a ratio of its own."""
        count = shape[axis] if by_channel else 1
        ratios = np.array([float(ratio) * (self.one_of(1, 1, 3) if by_channel and ratio <= 50 else 1) for _ in range(count)])
        most = np.clip(ratios * 78 / (74 * np.sqrt(fan_in)), 1, 127).astype(int)
        if by_channel:
            most = most.reshape([-1 if at == axis else 1 for at in range(len(shape))])
        numbers = np.rint(self.rng.uniform(-1, 1, shape) * most).astype(np.int8)
        scales = (float(result / data) / ratios).astype(np.float32)
        return Weights(numbers, scales if by_channel else scales[0], axis)

    def with_bias(self, weights: Weights, outs: int, ratio: Fraction) -> Weights:
        """The weights, more often than not with a bias of some tens of the result's quanta."""
        if self.chance(0.3):
            return weights
        return replace(weights, bias=np.rint(self.rng.normal(0, 25 * float(ratio), outs)).astype(np.int32))

    def act(self) -> tuple[Any, ...]:
        """An activation, or none."""
        kind = self.rng.random()
        if kind < 0.5:
            return ()
        return ("Relu",) if kind < 0.8 else ("Clip", *sorted(int(n) for n in self.rng.integers(-100, 128, 2)))

    def skip(self, shape: tuple[int, ...]) -> int | None:
        """A residual for a result of a shape, if there is one and chance has it."""
        return self.value(lambda step: step.shape == shape) if self.chance(0.5) else None

    def layer(self, op: str, x: int, shape: tuple[int, ...], weight: Sequence[int], fan_in: int, axis: int, attrs: dict[str, Any],
              *, per_channel: bool = True, residual: bool = True) -> int | None:
        """Sums of products, perhaps with a residual, and their scales."""
        data, skip = self.steps[x].scale, self.skip(shape) if residual else None
        ratio, scale = self.scales.ratio(self.rng.uniform(3, 130)), self.scales.any()
        if skip is not None:
            found = self.scales.residual(self.steps[skip].scale, float(ratio))
            if found is None:
                skip = None
            else:
                scale, ratio = found
        by_channel = per_channel and skip is None and self.chance(0.5)
        outs = shape[1] if op != "MatMul" else shape[-1]
        weights = self.weights(weight, fan_in, scale, data, ratio, axis, by_channel)
        return self.add(Step(op, (x,), shape, scale, attrs, self.with_bias(weights, outs, ratio), skip=skip, act=self.act()))

    def moved(self, op: str, reads: Sequence[int], shape: tuple[int, ...], attrs: dict[str, Any],
              extra: tuple[Array | None, ...] = (), *, factor: Fraction = Fraction(1), may_stay: bool = True) -> int | None:
        """A layer of one node that chooses among what it reads, each times a factor at most; with its scale or another.

        may_stay : in floating point. What reads it is then in floating point too, unless the layer moves int8 as well; of any
                   scales that is not the same in every runtime.
        """
        scales = [self.steps[value].scale for value in reads]
        same = len(set(scales)) == 1 and factor == 1
        if same and may_stay and self.chance(0.2):
            return self.add(Step(op, tuple(reads), shape, scales[0], attrs, extra=extra, bare=True))
        scale: Fraction | None = scales[0]
        if not same or self.chance(0.25):
            scale = self.scales.of_sum([each * factor for each in scales], 60 * max(map(float, scales)))
        if scale is None:
            return None
        return self.add(Step(op, tuple(reads), shape, scale, attrs, extra=extra))

    def sum(self, op: str, a: int, b: int) -> int | None:
        """Two values of one shape, added, subtracted, or the greater or less of them."""
        scales = [self.steps[value].scale for value in (a, b)]
        if self.exact and not exact_pair(*scales):
            return None
        spread = 60 * (sum(map(float, scales)) if op in ("Add", "Sub") else max(map(float, scales)))
        scale = self.scales.of_sum(scales, spread)
        if scale is None:
            return None
        return self.add(Step(op, (a, b), self.steps[a].shape, scale, act=self.act()))


def draw(seed: int, layers: int | None = None) -> Recipe:
    """Draw a network of 2 to 30 layers, most often of less than ten."""
    from networks.kinds import KINDS, LATER, LATER_SEEDS, WOVEN, first_shape, joined

    net = Net(seed)
    count = layers or min(MOST_LAYERS, 7 + int(net.rng.exponential(7)) if net.woven else 2 + int(net.rng.exponential(4)))
    for _ in range(net.one_of(1, 1, 2, 3) if not net.woven or net.chance(0.2) else 1):
        while net.input(first_shape(net)) is None:
            pass
    inputs, kinds = len(net.steps), WOVEN if net.woven else KINDS
    if seed >= LATER_SEEDS:
        kinds, net.woven, count = LATER, False, layers or count + MORE_LAYERS
    for _ in range(20 * count):
        before = len(net.steps)
        if before >= inputs + count:
            break
        kinds[net.rng.integers(len(kinds))](net)
        if len(net.steps) > inputs + count:  # several steps at once
            del net.steps[before:]
            net.read = {value for step in net.steps for value in step.needs}
    while net.woven and len(net.steps) < inputs + MOST_LAYERS and joined(net) is not None:
        pass
    share = 0.04 if net.woven else 0.12  # of what is read that is given too, inputs among it
    outputs = [at for at in range(len(net.steps)) if (at not in net.read and at >= inputs) or net.chance(share)]
    if len(outputs) > 2 and net.chance(0.3):
        outputs = sorted(net.rng.choice(outputs, len(outputs) // 2, replace=False).tolist())
    if max(outputs, default=-1) < inputs:
        outputs.append(len(net.steps) - 1)
    net.rng.shuffle(outputs)
    given = [(at, not net.steps[at].bare and net.chance(0.15)) for at in outputs]
    if net.chance(0.05):
        given.append(given[0])
    naming = net.one_of("plain", "plain", "none", "alike")
    return Recipe(seed, tuple(net.steps), tuple(given), net.one_of(*ORDERS), net.chance(0.5), naming, net.exact).tidy()
