"""State and measurement of `gpu_suite.py`: cases one after another, ours and torch's timed in turn."""

import math
import statistics
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtakit.base.errors import VtakitError

ROUNDS = 7


@dataclass
class Row:
    """A measured kernel.

    seconds, peer : of one run, ours and torch's; nan where there is none
    work          : floating-point or integer operations, or bytes
    unit          : of the work: "FLOP" or "B"
    error         : largest relative error
    """

    name: str
    seconds: float
    peer: float
    work: float
    unit: str
    error: float
    registers: int
    spills: int

    @property
    def rate(self) -> float:
        return self.work / self.seconds / 1e9

    @property
    def ratio(self) -> float:
        return self.peer / self.seconds


class Suite:
    """State of one run."""

    def __init__(self, target: Any, torch: Any, only: str, seconds: float, *, dry: bool = False) -> None:
        self.dry = dry
        self.seed, self.seeds = 0, 150
        self.target, self.torch, self.only = target, torch, only
        self.end = time.monotonic() + seconds
        self.rows: list[Row] = []
        self.failed: list[str] = []
        self.rng = np.random.default_rng(0)

    def case(self, name: str, run: Callable[[], str]) -> None:
        """Run one case and print one line; a failure is a line too."""
        if self.only not in name:
            return
        if time.monotonic() > self.end:
            print(f"left out  {name}: the time is over", flush=True)
            return
        begin = time.monotonic()
        try:
            said = run()
        except Exception as error:
            self.failed.append(name)
            text = str(error) if isinstance(error, VtakitError | AssertionError | MemoryError) else traceback.format_exc(limit=4)
            print(f"FAILED    {name}: {type(error).__name__}: {text.strip()[:1500]}", flush=True)
            return
        print(f"ok        {name}: {said}  [{time.monotonic() - begin:.1f} s]", flush=True)

    def floats(self, *shape: int, kind: Any = "float32") -> Any:
        return self.rng.standard_normal(shape, "float32").astype(kind)

    def measured(
        self, name: str, function: Any, arrays: Sequence[Any], peer: Callable[[], Any] | None, work: float, unit: str,
        error: float,
    ) -> str:
        """Time a function and its peer in turn."""
        device = function.device
        once = device.timed(lambda: [run() for run in [function.bound(*arrays)] * 2]) / 2
        times = max(1, min(50, int(4e-3 / max(once, 1e-7))))
        graph = function.recorded(*arrays, times=times)
        theirs = self._torch_graph(peer, times) if peer and self.torch else None
        graph.launch()
        device.finish()
        ours_s, peer_s = [], []
        for _ in range(ROUNDS):
            ours_s.append(device.timed(graph.launch) / times)
            if theirs:
                peer_s.append(device.timed(theirs) / times)
        used = [*function.resources.values()]
        row = Row(name, statistics.median(ours_s), statistics.median(peer_s) if peer_s else math.nan, work, unit, error,
                  max((each.registers for each in used), default=0), sum(each.spill_stores for each in used))
        self.rows.append(row)
        return (f"error {error:.2g}, {row.seconds * 1e6:.1f} us, {row.rate:.0f} G{unit}/s"
                + (f", torch {row.peer * 1e6:.1f} us, {row.ratio:.2f} of it" if peer_s else ""))

    def measured_graph(self, name: str, device: Any, graph: Any, peer: Callable[[], Any] | None, error: float) -> str:
        """Time a recorded run, one at a time, and its peer in turn."""
        theirs = self._torch_graph(peer, 1) if peer and self.torch else None
        for _ in range(3):
            graph.launch()
        device.finish()
        ours_s, peer_s = [], []
        for _ in range(4 * ROUNDS):
            ours_s.append(device.timed(graph.launch))
            if theirs:
                peer_s.append(device.timed(theirs))
        row = Row(name, statistics.median(ours_s), statistics.median(peer_s) if peer_s else math.nan, 0, "", error, 0, 0)
        self.rows.append(row)
        return f"error {error:.2g}, {row.seconds * 1e6:.0f} us" + (
            f", torch {row.peer * 1e6:.0f} us, {row.ratio:.2f} of it" if peer_s else "")

    def _torch_graph(self, peer: Callable[[], Any], times: int) -> Callable[[], Any]:
        torch = self.torch
        for _ in range(3):
            peer()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(times):
                peer()
        replay: Callable[[], Any] = graph.replay
        replay()
        torch.cuda.synchronize()
        return replay

    def tensor(self, array: Any) -> Any:
        """A NumPy array as torch's on the GPU; None without torch."""
        if self.torch is None:
            return None
        if array.dtype.name == "bfloat16":
            return self.torch.from_numpy(array.view(np.int16)).cuda().view(self.torch.bfloat16)
        return self.torch.from_numpy(array).cuda()
