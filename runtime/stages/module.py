"""Modules whose sizes, values or control flow a run decides."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Never

import numpy as np

from vtakit.base.process import TIMEOUT_S
from vtakit.base.writing import write_bytes
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.frontend.errors import ModelError, UnsupportedError
from vtakit.compiler.graph.errors import GraphError
from vtakit.runtime.inputs import InputError, check_threads, output_name, whole
from vtakit.runtime.memory import Memory
from vtakit.runtime.module import Module
from vtakit.runtime.placement import Placement
from vtakit.runtime.profile import Profile
from vtakit.runtime.stages.ahead import prepare, sizes_ahead, some_inputs
from vtakit.runtime.stages.blocks import parts_of
from vtakit.runtime.stages.owned import owned
from vtakit.runtime.stages.part import CompiledPart, Maker
from vtakit.runtime.stages.source import Compiled, OpenSource
from vtakit.runtime.stages.totals import memory_of_all, placement_of_all, summary_of_all
from vtakit.runtime.stages.watch import Counting, Timing
from vtakit.runtime.target import Array, Opening, Summary, Target
from vtakit.runtime.targets import check_opening

_MOST_CHECKED = 4096  # sets of sizes that are known to fit


class OpenModule(Module):
    """A model that is compiled, part by part, for the sizes that its runs have.

    Each part keeps code for the last 32 sets of sizes (`vtakit.runtime.stages.part.MOST_KEPT`). Several threads may run one
    module at once; two that need the same code wait for one compilation. Values are arrays, lists of them for sequences, and None
    for an empty optional.

    source : the model, and what its parts are compiled with
    device, timeout_s, threads, options : as of `Module`
    """

    def __init__(
        self, source: OpenSource, device: Any = None, timeout_s: float = TIMEOUT_S, *, threads: int | None = None,
        **options: Any,
    ) -> None:
        self.source = source
        self.threads = check_threads(threads)
        self._opening = Opening(device=device, timeout_s=timeout_s, threads=self.threads, options=options)
        check_opening(source.target, self._opening)
        self._misfit = source.target.misfit
        self._main = Maker(source.plan, lambda *asked: source.compiled(*asked, opening=self._opening)).block(
            source.plan.main, main=True)
        counts = source.target.processor is not source.target
        self._single = self._only_part()  # whose results share no memory with the inputs
        whole = self._single is not None and set(self._single.part.inputs) == set(source.inputs.ports)
        self._quick = self._single if whole and not counts else None
        self._given: dict[str, Any] = {}
        self._made: dict[str, Any] = {}
        self._checked_sizes: set[Any] = set()
        self._counting = Counting() if counts else None

    def _only_part(self) -> CompiledPart | None:
        """Return the part that is the whole model, if there is one."""
        first, *others = self._main.stages or (None,)
        if isinstance(first, CompiledPart) and not others and first.part.outputs == self._main.block.outputs:
            return first
        return None

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.source.name

    @property
    def image(self) -> Never:  # type: ignore[override]
        """There is none: raises InputError."""
        raise self._without_image()

    def engine(self, kind: str) -> Never:
        """There is none: raises InputError."""
        raise self._without_image()

    def dump_images(self, folder: str | Path, inputs: Mapping[str, Any] | None = None) -> Never:
        """Images of memory are those of one set of sizes: raises InputError."""
        raise self._without_image()

    def _without_image(self) -> InputError:
        return InputError(f"model {self.name!r} is compiled for the sizes that its runs have, and has no one image: for export, "
                          "C, decisions, engines, images of memory and tuning compile it with shapes= (--shape) for one set of "
                          "sizes")

    @property
    def target(self) -> Target:
        """The target that it is compiled for."""
        return self.source.target

    @property
    def summary(self) -> Summary:
        """Facts for a report's page about all compiled modules together."""
        return summary_of_all(self.source.target, self.modules)

    def takes(self, name: str, shape: tuple[int, ...], kind: np.dtype[Any]) -> bool:
        """Return whether an array of this type fits an input, whatever the others are."""
        return self.source.inputs.takes(name, shape, kind)

    def some_inputs(self) -> dict[str, Any]:
        """Return inputs of the first sizes that are compiled ahead. Raises InputError if a size is open of which none is."""
        return some_inputs(self.source.inputs)

    @property
    def parts(self) -> tuple[CompiledPart, ...]:
        """The compiled parts, those inside loops and branches too."""
        return tuple([stage for stage in parts_of(self._main.stages) if isinstance(stage, CompiledPart) and not stage.inner])

    @property
    def modules(self) -> tuple[Module, ...]:
        """The compiled modules of all parts, those that were used last at the end."""
        return tuple([compiled.module for compiled in self._compiled()])

    def _compiled(self) -> tuple[Compiled, ...]:
        return tuple([compiled for part in self.parts for compiled in part.kept.values()])

    @property
    def inputs(self) -> dict[str, str]:
        """The type of each input, open sizes by name: ``{"x": "float32[1, n]"}``."""
        return {name: str(port) for name, port in self.source.inputs.ports.items()}

    @property
    def outputs(self) -> dict[str, str]:
        """The type of each output, as far as the model says it."""
        return {port.name: str(port) for port in self.source.outputs}

    @property
    def placement(self) -> Placement:
        """Return the placement of the layers of all modules that are compiled."""
        return placement_of_all(self.name, self.modules)

    @property
    def memory(self) -> Memory:
        """Return the memory of all modules that are compiled, and of the model; arenas are those of one run in each."""
        return memory_of_all(self.modules, self.source.model_bytes)

    def run(self, inputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run on an array for each input, compiling what no run before has needed; returns one for each output.

        Raises what `Module.run` raises, and what `vtakit.compile` raises for sizes that the model cannot have.
        """
        made = self._run_whole(inputs)
        if made is None:
            made = self._run(inputs, self._counting)
        self._made = made
        return made.copy()

    def _run_whole(self, inputs: Any) -> dict[str, Any] | None:
        """Run a model that is one part, on sizes that it has run on, without a look at anything else; None if it is none."""
        part = self._quick
        if part is None or part.values or part.inner or type(inputs) is not dict or len(inputs) != len(part.part.inputs):
            return None
        try:
            compiled = part.kept.find(tuple([inputs[name].shape for name in part.part.inputs]))
        except (KeyError, AttributeError):  # what is set before, missing, or no array
            return None
        return None if compiled is None else compiled.module.run(inputs)

    def _run(self, inputs: Mapping[str, Any] | None, watch: Any) -> dict[str, Any]:
        given = self._values(inputs)
        if watch is not None:
            watch.begin()
        try:
            results = self._main.run(dict(given), watch)
        except UnsupportedError:
            raise
        except (ModelError, GraphError) as error:
            shapes = ", ".join(f"{name}: {list(x.shape)}" for name, x in given.items() if isinstance(x, np.ndarray))
            raise ModelError(f"model {self.name!r}, run on {shapes or 'no arrays'}: {error}") from error
        names = self._main.block.outputs
        if self._single is not None and not self._single.inner:
            return dict(zip(names, results, strict=True))
        return dict(zip(names, owned(results, given), strict=True))

    def prepare(self, **sizes: int) -> bool:
        """Compile for sizes by name, as far as they alone decide it; return whether that is all that a run needs.

        Raises InputError for a size that is missing, of no such name or outside its range.
        """
        return prepare(self.source.inputs, self._main.stages, sizes)

    def prepare_all(self) -> bool:
        """Compile for the sizes that `vtakit.dim(…, ahead=…)` names; return whether that is all that runs of them need."""
        return all([self.prepare(**sizes) for sizes in sizes_ahead(self.source.inputs)])

    def set_input(self, name: str | None = None, value: Any = None, **values: Any) -> None:
        """Keep copies of arrays for the inputs of the runs that follow. Raises InputError if one does not fit."""
        for word, given in {**({} if name is None else {name: value}), **values}.items():
            found = self.source.inputs.value(word, given)
            self._given[word] = [x.copy() for x in found] if isinstance(found, list) else None if found is None else found.copy()

    def get_output(self, at: int | str = 0, out: Array | None = None) -> Any:
        """An output of the last run, by number or name, copied into `out` if that is given; errors as of `Module`."""
        at = output_name(self.name, at, list(self._made))
        found = self._made[at]
        if out is None:
            return found
        arrays = isinstance(out, np.ndarray) and isinstance(found, np.ndarray)
        if not arrays or (out.shape, out.dtype) != (found.shape, found.dtype):
            raise InputError(f"output {at!r} is {_described(found)}; the array for it is {_described(out)}")
        out[...] = found
        return out

    def profile(self, inputs: Mapping[str, Any] | None = None, *, repeat: int = 5) -> Profile:
        """Run each layer by itself and time it; see `Module.profile`. Times of a layer that runs several times are summed."""
        if whole(repeat, f"profile(repeat={repeat!r}): give a whole number") < 1:
            raise InputError(f"profile(repeat={repeat}): a layer runs at least once")
        self._run(inputs, None)  # what is not compiled yet
        timing = Timing(repeat)
        self._run(inputs, timing)
        launches = tuple(timing.launches)
        return Profile(self.name, timing.layers, launches, timing.said, self.placement if launches else None)

    @property
    def counters(self) -> tuple[dict[str, int], ...]:
        """Return the accelerator's counters of each launch of the last run."""
        return () if self._counting is None else tuple(self._counting.last())

    def run_counted(self, inputs: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], tuple[dict[str, int], ...]]:
        """Run, and return the accelerator's counters of this run too, whatever other threads run meanwhile."""
        return self.run(inputs), self.counters

    def close(self) -> None:
        """Let go of the device; a later run opens it again."""
        for module in self.modules:
            module.close()

    def save(self, path: str | Path, *, graph: bool = True) -> None:
        """Write the model and all that is compiled of it to one file that `vtakit.load` reads, whole or not at all."""
        if not graph:
            raise InputError(f"model {self.name!r} is compiled for the sizes that its runs have, for which its file needs the "
                             "graph: leave out graph=False (--no-graph)")
        write_bytes(path, self.dump(), "module file")

    def dump(self) -> bytes:
        """Return the bytes that `save` writes."""
        from vtakit.runtime.stages.file import dump

        return dump(self.source, self._compiled())

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy or what is unpickled has no inputs and outputs yet, and opens a device of its own, of that name."""
        return _from_bytes, (self.dump(), self.source.target.portable(self._opening))

    def _values(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the values of all inputs; sizes that are new are checked."""
        if self._misfit:
            raise CodegenError(f"model {self.name!r} is compiled for another machine, {self.source.target.processor}: "
                               f"{self._misfit}; write it with save, and run it there")
        inputs = self.source.inputs
        found = inputs.values(given, self._given)
        sizes = tuple([value.shape if isinstance(value, np.ndarray) else None for value in found.values()])
        if sizes not in self._checked_sizes:
            inputs.check({name: value.shape for name, value in found.items() if isinstance(value, np.ndarray)})
            if len(self._checked_sizes) >= _MOST_CHECKED:
                self._checked_sizes = set()
            self._checked_sizes.add(sizes)
        return found

    def __repr__(self) -> str:
        return f"<module {self.name}: {', '.join(map(str, self.inputs))} -> {', '.join(map(str, self.outputs))}; open>"

    def sizes(self) -> Iterator[str]:
        """Yield one line for each compiled module: the types of its inputs."""
        texts = [", ".join(f"{port.name}: {port}" for port in module.image.inputs) for module in self.modules]
        for text, count in Counter(texts).items():
            yield text if count == 1 else f"{text} ({count} parts)"


def _described(given: Any) -> str:
    return f"{given.dtype}{list(given.shape)}" if isinstance(given, np.ndarray) else f"a {type(given).__name__}"


def _from_bytes(data: bytes, opening: Opening) -> OpenModule:
    from vtakit.runtime.stages.file import parse

    source = parse(data, "a pickled module")
    return OpenModule(source, opening.device, opening.timeout_s, threads=opening.threads, **opening.options)
