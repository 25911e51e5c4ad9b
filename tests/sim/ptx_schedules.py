"""Functions in low "gpu" form, compiled to PTX and emulated, beside the interpreter: for tests and for long runs."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import passes_fuzz
import schedule_fuzz

from vtakit.compiler.codegen.gpu import split
from vtakit.compiler.codegen.gpu.host import HostCode
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.signature import signature
from vtakit.compiler.codegen.nvptx.arch import Arch
from vtakit.compiler.codegen.nvptx.compile import compile_launches
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Var
from vtakit.compiler.ir.stmt import For, Function, LoopKind
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.passes import late_passes, lower_late
from vtakit.runtime.cpu.arguments import Arguments
from vtakit.sim.ptx import Counters, DeviceMemory, Module, load

Array = np.ndarray[Any, Any]


class Emulated:
    """A function in low form as PTX. `arch` is that of results equal to the interpreter's: no contraction."""

    def __init__(self, low: Function, arch: Arch | None = None) -> None:
        self.program = split(low)
        kernels = compile_launches(self.program.launches, arch or Arch(contract=False),
                                   cubin=False) if self.program.launches else None
        self.ptx = kernels.ptx if kernels else ""
        self.dynamic = kernels.dynamic if kernels else {}
        self.signature = signature(low)
        self.host = HostCode(self.program)

    def run(self, arrays: list[Any], text: str | None = None, **options: Any) -> list[Counters]:
        """Run on arrays, which then hold the results; `text` replaces the kernels, `options` go to each launch."""
        module: Module | None = load(text or self.ptx) if self.ptx else None
        memory, counts = DeviceMemory(), []
        bound = Arguments(self.signature)
        passed, kept = bound.bind(tuple(arrays))
        names = (*self.signature.params, *self.signature.sizes)
        values = {param: value for param, value in zip(names, passed, strict=True) if isinstance(param, Var)}
        places, back = {}, []
        for param, array, address in zip(self.signature.params, kept, passed, strict=False):
            if isinstance(param, Buffer):
                start = int(array.__array_interface__["data"][0])
                before = start - address
                places[param.data] = base = memory.allocate(before + array.nbytes)
                if array.size:
                    memory.write(base + before, array)
                if array.size and self.signature.writes(param):
                    back.append((array, base + before))
        for buffer, elements in zip(self.program.workspaces, self.host.workspaces(values), strict=True):
            places[buffer.data] = memory.allocate(elements * buffer.dtype.bytes)

        def launch(number: int, grid: tuple[int, int, int], scalars: tuple[Any, ...]) -> None:
            if min(grid) < 1:
                return
            each, rest = self.program.launches[number], iter(scalars)
            args = [places[param.data] if isinstance(param, Buffer) else next(rest) for param in each.params]
            assert module is not None
            counts.append(module.launch(each.name, grid, each.block, args, memory, shared=self.dynamic.get(each.name, 0),
                                        **options))

        self.host.run(values, launch, lambda check: AssertionError(check.reason))
        for array, address in back:
            array[...] = memory.read(address, array.shape, array.dtype)
        return counts


def gpu_loops(function: Function) -> bool:
    return any(s.kind is LoopKind.THREAD and s.thread != "vthread" for s in statements(function.body) if isinstance(s, For))


def run_emulated(counts: Counter[str]) -> Callable[[Function, list[Any]], None]:
    """A runner of `schedule_fuzz`: functions with a GPU's threads are emulated and compared with the interpreter."""

    def run(function: Function, arrays: list[Any]) -> None:
        want = [array.copy() for array in arrays]
        interpret(function, want)
        given = [array.copy() for array in arrays]
        for array, value in zip(arrays, want, strict=True):
            array[...] = value
        if not gpu_loops(function):
            counts["on the host"] += 1
            return
        try:
            emulated = Emulated(lower_late(function, "gpu"))
        except Exception as error:
            counts[f"{type(error).__name__}: {str(error).splitlines()[0][-70:]}"] += 1
            return
        emulated.run(given)
        counts["emulated"] += 1
        for x, y in zip(want, given, strict=True):
            assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f"), "the emulator and the interpreter differ"

    return run


def check_passes(seed: int, counts: Counter[str]) -> None:
    """One program of `passes_fuzz`: emulated, and by the interpreter."""
    function, a, kind = passes_fuzz.drawn(seed)
    if kind != "gpu":
        return
    want = passes_fuzz.run(function, a, len(a))
    low = function
    for step in late_passes("gpu"):
        if step.name != "check_memory":
            low = step.run(low)
    try:
        emulated = Emulated(low)
    except CodegenError as error:
        counts[f"CodegenError: {str(error).splitlines()[0][-70:]}"] += 1
        return
    got = np.zeros_like(want)
    emulated.run([a.copy(), got])
    counts["emulated"] += 1
    assert np.array_equal(want, got), f"seed {seed}\n{want}\n{got}\n{low}"


class BindingScheduler(schedule_fuzz.Scheduler):
    """Random schedules that always bind threads."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.gpu = True


def check_schedule(seed: int, counts: Counter[str]) -> None:
    """One operator of `schedule_fuzz` with a schedule that binds threads: emulated, and by the interpreter."""
    with patch.object(schedule_fuzz, "Scheduler", BindingScheduler):
        schedule_fuzz.one(seed, Counter(), run_emulated(counts))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--of", choices=["schedules", "passes"], default="schedules")
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    failures = 0
    for seed in range(args.seed, args.seed + args.count):
        try:
            (check_passes if args.of == "passes" else check_schedule)(seed, counts)
        except Exception as error:
            failures += 1
            print(f"{args.of} seed {seed}: {type(error).__name__}: {str(error)[:400]}", flush=True)
    print(counts)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
