"""Times of models on a processor, for the tuner: each as a whole, and each layer."""

import statistics
import time
from collections.abc import Sequence

from vtakit.runtime.cpu.engine import CpuEngine
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.target import Image, Values
from vtakit.runtime.tune.binary import Port, random_array
from vtakit.runtime.tune.outcome import Cost

ROUNDS = 15  # samples of the whole
SAMPLE_S = 0.02  # least time of a sample


class _Timed:
    """A model with random inputs, ready to run. On one thread its processor time counts, which other programs change little."""

    def __init__(self, image: Image, threads: int) -> None:
        self._engine, self._parts = CpuEngine(image, threads), image.parts_of(CpuPart)
        self._now = time.thread_time if threads == 1 else time.perf_counter
        arrays = [random_array(Port(str(port.dtype), tuple(port.shape), False), (0, at)) for at, port in enumerate(image.values)]
        self._values: Values = [(array, array.ctypes.data) for array in arrays]
        self.layers: dict[tuple[str, ...], float] = {}

    def seconds(self, count: int) -> float:
        """Return the mean time of some runs in a row."""
        begin = self._now()
        for _ in range(count):
            for part in self._parts:
                self._engine.run(part, self._values)
        return (self._now() - begin) / count

    def profile(self) -> None:
        """Run layer by layer; the least time of each counts."""
        for part in self._parts:
            found: dict[tuple[str, ...], float] = {}
            for timed in self._engine.profile(part, self._values, 1)[0]:  # a layer may be several steps
                found[timed.layer.names] = found.get(timed.layer.names, 0.0) + timed.seconds
            for names, seconds in found.items():
                self.layers[names] = min(self.layers.get(names, seconds), seconds)


def costs_of(images: Sequence[Image], threads: int) -> list[Cost]:
    """Return the seconds that models take on random inputs: the median of the whole, and the least of each layer.

    Samples are taken in turn, so that what else the machine does changes all alike.
    """
    models = [_Timed(image, threads) for image in images]
    once = max(min(model.seconds(1) for _ in range(3)) for model in models)
    count = max(1, round(SAMPLE_S / once))
    samples: list[list[float]] = [[] for _ in models]
    for turn in range(ROUNDS):
        for at in [*range(len(models))][::1 if turn % 2 else -1]:  # neither is always first
            samples[at].append(models[at].seconds(count))
            models[at].profile()
    return [Cost(statistics.median(each), model.layers) for each, model in zip(samples, models, strict=True)]
