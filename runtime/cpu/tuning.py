"""Time of a model on a processor, for the tuner: the whole, and each layer."""

import statistics
import time

from vtakit.runtime.cpu.engine import CpuEngine
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.target import Image, Values
from vtakit.runtime.tune.binary import Port, random_array
from vtakit.runtime.tune.outcome import Cost

ROUNDS = 9  # samples of the whole
SAMPLE_S = 0.02  # least time of a sample


def cost_of(image: Image, threads: int) -> Cost:
    """Return the seconds that a model takes on random inputs: the median of the whole, and the least of each layer."""
    engine = CpuEngine(image, threads)
    arrays = [random_array(Port(str(port.dtype), tuple(port.shape), False), (0, at)) for at, port in enumerate(image.values)]
    values: Values = [(array, array.ctypes.data) for array in arrays]
    parts = image.parts_of(CpuPart)

    def seconds(count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            for part in parts:
                engine.run(part, values)
        return (time.perf_counter() - begin) / count
    count = max(1, round(SAMPLE_S / min(seconds(1), seconds(1))))
    total = statistics.median([seconds(count) for _ in range(ROUNDS)])
    layers: dict[tuple[str, ...], float] = {}
    for part in parts:
        for timed in engine.profile(part, values, ROUNDS)[0]:
            names = timed.layer.names
            layers[names] = min(layers.get(names, timed.seconds), timed.seconds)
    return Cost(total, layers)
