"""Compiled models, ready to run."""

import threading
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np

from vtakit.base.errors import one_of
from vtakit.base.process import TIMEOUT_S
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.places import Port
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.runtime import module_file
from vtakit.runtime.cpu.function import placed
from vtakit.runtime.inputs import InputError, as_array, check_threads, output_name, some_array, whole
from vtakit.runtime.memory import Memory, memory_of
from vtakit.runtime.placement import Placement, placement_of
from vtakit.runtime.profile import Profile
from vtakit.runtime.report.report import Report
from vtakit.runtime.target import Array, Engine, Image, Opening, Summary, Target
from vtakit.runtime.targets import check_opening
from vtakit.runtime.timed import Timed

__all__ = ["InputError", "Module", "check_threads", "whole"]


class Module:
    """A compiled model.

    ::

        module = vtakit.compile("model.onnx")
        outputs = module.run({"x": array})

    Several threads may run one module at once: they share its weights, and each run has its own memory for what lies between
    layers, which is kept for later ones. `run` returns what its own run made, whatever others do; `get_output` is that of the
    run that ended last. With parts for an accelerator, one run waits for the other.

    Parts for an accelerator run on a device that the first run opens, and that stays open, the weights in its memory, until
    `close`, the end of a `with` block, or nothing refers to the module.

    device    : one of the target's (`vtakit.targets()`), the first if None: "cpu"; of the accelerator "fsim", "rtl", the
                hardware in Verilator, or "cycle", with the cycles of "rtl"; or a `vtakit.runtime.vta.Driver`
    timeout_s : seconds that a run of a part on the device may take
    threads   : of this processor that one run uses; if None as many as OpenMP has been told, by OMP_NUM_THREADS or
                `vtakit.runtime.cpu.openmp.set_threads`, or else those that this process may use
    options   : of the device, as `latency=100`: see `vtakit.runtime.vta.connect`

    What is compiled for a machine whose code this one cannot run is here to be saved and exported: `run` raises CodegenError.

    Raises TargetError or VtakitError for a device that the target does not have, or an option that the device does not have,
    InputError for a number of threads that is none.
    """

    def __init__(
        self, image: Image, device: Any = None, timeout_s: float = TIMEOUT_S, *, threads: int | None = None,
        **options: Any,
    ) -> None:
        self.image = image
        self.threads = check_threads(threads)
        self._opening = Opening(device=device, timeout_s=timeout_s, threads=self.threads, options=options)
        check_opening(image.target, self._opening)
        self._misfit = image.target.misfit
        engines = {} if self._misfit else image.target.engines(image, self._opening)
        self._steps = [] if self._misfit else [(part, engines[part.kind]) for part in image.parts]
        self._engines = tuple(engines.values())
        self._exclusive = any(engine.exclusive for engine in self._engines)
        self.input_names = tuple([port.name for port in image.inputs])
        self._kinds = {port.name: numpy_dtype(port.dtype) for port in image.inputs}
        self._results = [(port.shape, numpy_dtype(port.dtype)) for port in image.outputs]
        self._names = [port.name for port in image.outputs]
        self._between = [placed(port.shape, numpy_dtype(port.dtype)) for port in image.between]
        self._lock = threading.RLock()
        self._given: dict[str, Array] = {}
        self._made: dict[str, Array] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the device; a later run opens it again."""
        with self._lock:
            for engine in self._engines:
                engine.close()

    @property
    def inputs(self) -> dict[str, str]:
        """The type of each input: ``{"x": "float32[1, 3, 224, 224]"}``."""
        return {port.name: str(port) for port in self.image.inputs}

    @property
    def outputs(self) -> dict[str, str]:
        """The type of each output."""
        return {port.name: str(port) for port in self.image.outputs}

    @property
    def target(self) -> Target:
        """The target that it is compiled for."""
        return self.image.target

    @property
    def summary(self) -> Summary:
        """Facts for a report's page about the whole model."""
        return self.image

    def takes(self, name: str, shape: tuple[int, ...], kind: np.dtype[Any]) -> bool:
        """Return whether an array of this type fits an input."""
        return any((port.name, port.shape, self._kinds[port.name]) == (name, shape, kind) for port in self.image.inputs)

    def some_inputs(self) -> dict[str, Any]:
        """Return inputs for a run whose results do not matter: random numbers from 0 to 1, zeros where they are integers."""
        return {port.name: some_array(port.shape, self._kinds[port.name]) for port in self.image.inputs}

    @property
    def placement(self) -> Placement:
        """Return the placement of the layers, the accelerator's share of multiply-accumulates, and why others stay on the CPU."""
        return placement_of(self.image)

    @property
    def memory(self) -> Memory:
        """Return the memory that the model takes of this machine."""
        return memory_of(self.image)

    def run(self, inputs: Mapping[str, Any] | None = None) -> dict[str, Array]:
        """Run on an array for each input; returns one for each output.

        inputs : by name; those that are left out are what `set_input` gave before

        Raises InputError if one is missing, unknown or of another shape or type, MemoryError if memory ran out.
        """
        given = self._checked(inputs)
        results = [placed(shape, kind) for shape, kind in self._results]  # a name may be there twice
        placed_values = [*[(array, array.ctypes.data) for array in given], *results, *self._between]
        with self._lock if self._exclusive else nullcontext():
            for part, engine in self._steps:
                engine.run(part, placed_values)
        self._made = made = {name: array for name, (array, _) in zip(self._names, results, strict=True)}
        return made.copy()

    def run_counted(self, inputs: Mapping[str, Any] | None = None) -> tuple[dict[str, Array], tuple[dict[str, int], ...]]:
        """Run, and return the accelerator's counters of this run too, whatever other threads run meanwhile."""
        with self._lock if self._exclusive else nullcontext():
            return self.run(inputs), self.counters

    def engine(self, kind: str) -> Engine:
        """Return what runs the parts of a kind, as "cuda". Raises InputError if the model has none, or cannot run here."""
        for part, engine in self._steps:
            if part.kind == kind:
                return engine
        raise InputError(f"model {self.image.name!r} has no part of kind {kind!r} that runs here")

    @property
    def counters(self) -> tuple[dict[str, int], ...]:
        """Return the accelerator's counters of each launch of the last run; cycles where the device has them."""
        return tuple([counted for engine in self._engines for counted in engine.counters])

    def set_input(self, name: str | None = None, value: Any = None, **values: Any) -> None:
        """Keep copies of arrays for the inputs of the runs that follow. Raises InputError if one does not fit."""
        given = {**({} if name is None else {name: value}), **values}
        for word, array in given.items():
            self._given[word] = self._array(self._port(word), array).copy()

    def get_output(self, at: int | str = 0, out: Array | None = None) -> Array:
        """An output of the last run, by number or name: the array that `run` returned, or copied into `out` if that is given.

        Raises InputError if there was no run, there is no such output, or `out` does not fit.
        """
        at = output_name(self.image.name, at, list(self._made))
        found = self._made[at]
        if out is None:
            return found
        if not isinstance(out, np.ndarray):
            raise InputError(f"output {at!r} is {found.dtype}{list(found.shape)}; got {type(out).__name__} for it, not an array")
        if out.shape != found.shape or out.dtype != found.dtype:
            raise InputError(
                f"output {at!r} is {found.dtype}{list(found.shape)}; the array for it is {out.dtype}{list(out.shape)}"
            )
        out[...] = found
        return out

    def profile(self, inputs: Mapping[str, Any] | None = None, *, repeat: int = 5) -> Profile:
        """Run each layer by itself and time it; of `repeat` runs the quickest counts. Programs of an accelerator run once.

        Raises InputError as `run` does, and for a `repeat` under 1.
        """
        if whole(repeat, f"profile(repeat={repeat!r}): give a whole number") < 1:
            raise InputError(f"profile(repeat={repeat}): a layer runs at least once")
        given = self._checked(inputs)
        made = [placed(shape, kind) for shape, kind in self._results]
        values = [*[(array, array.ctypes.data) for array in given], *made, *self._between]
        timed: list[Timed] = []
        launches: list[Report] = []
        with self._lock:
            for part, engine in self._steps:
                layers, report = engine.profile(part, values, repeat)
                timed += layers
                launches += [] if report is None else [report]
        placement = self.placement if launches else None
        return Profile(self.image.name, tuple(timed), tuple(launches), self.image.said, placement)

    def dump_images(self, folder: str | Path, inputs: Mapping[str, Any] | None = None) -> int:
        """Write the device's memory before each launch of the accelerator, as ``000.bin``, and ``000.json`` with its config,
        insn_addr and insn_count, which `vtakit.sim.run_image` takes; returns how many there are.

        inputs : of a run, whose values are then in the images; without, inputs are zero

        Raises InputError as `run` does.
        """
        values: list[Array] | None = None
        if inputs is not None:
            made = self.run(inputs)
            values = [*self._checked(inputs), *[made[name] for name in self._names], *[array for array, _ in self._between]]
        return self.image.target.dump_images(self.image, folder, values)

    def save(self, path: str | Path, *, graph: bool = True) -> None:
        """Write the module to one file that `vtakit.load` reads, whole or not at all; `graph`: with what recompile=True needs."""
        module_file.save(self.image, path, graph=graph)

    def export(self, path: str | Path, *, linker: tuple[str, ...] = ()) -> None:
        """Write a shared library, and beside it a C header (suffix ``.h``) and the parameters (suffix ``.params``).

        linker : the command of a C compiler that links for the target; found on the machine by default

        Raises CodegenError if no linker is found or it fails, or a part of the model runs on an accelerator.
        """
        self.image.target.export_library(self.image, path, linker)

    def export_c(self, folder: str | Path, *, embed: str = "incbin", rtl: bool = False) -> tuple[str, ...]:
        """Write C source, with weights and programs, into a folder: see `vtakit.runtime.crt.export.export_c`."""
        return self.image.target.export_c(self.image, folder, embed=embed, rtl=rtl)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy or what is unpickled has no inputs and outputs yet, and opens a device of its own, of that name."""
        return _from_bytes, (module_file.dump(self.image), self.image.target.portable(self._opening))

    def _port(self, name: object) -> Port:
        for port in self.image.inputs:
            if port.name == name:
                return port
        raise InputError(
            f"model {self.image.name!r} has no input {name!r}; {one_of([p.name for p in self.image.inputs], str(name))}"
        )

    def _checked(self, given: Mapping[str, Any] | None) -> list[Array]:
        """The inputs' arrays in order, contiguous; what is given goes before what was set."""
        if self._misfit:
            raise CodegenError(f"model {self.image.name!r} is compiled for another machine, {self.image.target.processor}: "
                               f"{self._misfit}; write it with save or export, and run it there")
        if given is not None and not isinstance(given, Mapping):
            first = self.image.inputs[0].name if self.image.inputs else "x"
            raise InputError(f"model {self.image.name!r} takes a dict of arrays by name, such as {{{first!r}: array}}, got "
                             f"{type(given).__name__}")
        inputs = {**self._given, **(given or {})}
        for name in inputs.keys() - self._kinds.keys():
            self._port(name)
        if missing := [name for name in self._kinds if name not in inputs]:
            kinds = ", ".join(f"{port.name!r} ({port})" for port in self.image.inputs if port.name in missing)
            raise InputError(f"model {self.image.name!r} lacks {'its input' if len(missing) == 1 else 'its inputs'} {kinds}")
        return [self._array(port, inputs[port.name]) for port in self.image.inputs]

    def _array(self, port: Port, given: Any) -> Array:
        kind = self._kinds[port.name]
        if not isinstance(given, np.ndarray):
            given = as_array(port.name, str(port), kind, given)
        if given.dtype != kind or given.shape != port.shape:
            cure = f": convert it with .astype({kind.name!r})" if given.dtype != kind else ""
            if not cure and given.size and given.shape[1:] == port.shape[1:]:
                cure = (f": compile the model with batch={(n := len(given))} (--batch {n}) if it leaves its first dimension "
                        "open, or for any with batch=vtakit.dim('batch')")
            raise InputError(f"input {port.name!r} is {port}, got {given.dtype}[{', '.join(map(str, given.shape))}]{cure}")
        found: Array = given if given.flags.c_contiguous else np.ascontiguousarray(given)
        return found if found.flags.aligned else found.copy()

    def __repr__(self) -> str:
        return f"<module {self.image.name}: {', '.join(map(str, self.inputs))} -> {', '.join(map(str, self.outputs))}>"


def _from_bytes(data: bytes, opening: Opening) -> Module:
    image = module_file.parse(data, "a pickled module")
    return Module(image, opening.device, opening.timeout_s, threads=opening.threads, **opening.options)
