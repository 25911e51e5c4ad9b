"""Modules whose sizes, values or control flow a run decides."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Never

import numpy as np

from vtakit.base.errors import one_of
from vtakit.base.process import TIMEOUT_S
from vtakit.base.text import counted
from vtakit.base.writing import write_bytes
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.frontend.errors import LaterError, ModelError
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.ir import TensorType
from vtakit.runtime.memory import Memory, memory_of
from vtakit.runtime.inputs import InputError, check_threads, some_array, whole
from vtakit.runtime.module import Module
from vtakit.runtime.placement import Placement
from vtakit.runtime.profile import Profile
from vtakit.runtime.stages.blocks import Env, parts_of
from vtakit.runtime.stages.dims import Dim
from vtakit.runtime.stages.part import CompiledPart, Maker
from vtakit.runtime.stages.source import OpenSource
from vtakit.runtime.stages.watch import Counting, Timing
from vtakit.runtime.target import Array, Opening, Summary, Target
from vtakit.runtime.targets import check_opening

_MOST_CHECKED = 4096  # sets of sizes that are known to fit


class Whole(NamedTuple):
    """Facts of several modules together, in bytes."""

    target: Target
    params_bytes: int
    arena_bytes: int


class OpenModule(Module):
    """A model that is compiled, part by part, for the sizes that its runs have.

    ::

        module = vtakit.compile("bert.onnx")         # with symbolic sizes
        module.run({"ids": ids})                     # compiles for this length
        module.run({"ids": others})                  # runs at once if it has been seen

    Each part keeps code for the last 32 sets of sizes (`vtakit.runtime.stages.part.MOST_KEPT`). Several threads may run one module
    at once; two that need the same code wait for one compilation. Values are arrays, lists of them for sequences, and None for an
    empty optional.

    source : the model, and what its parts are compiled with
    device, timeout_s, threads, options : as of `Module`
    """

    def __init__(
        self, source: OpenSource, device: Any = None, timeout_s: float = TIMEOUT_S, *, threads: int | None = None, **options: Any,
    ) -> None:
        self.source = source
        self.threads = check_threads(threads)
        self._opening = Opening(device=device, timeout_s=timeout_s, threads=self.threads, options=options)
        check_opening(source.target, self._opening)
        self._misfit = source.target.misfit
        self._main = Maker(source.plan, lambda *asked: source.compiled(*asked, opening=self._opening)).block(
            source.plan.main, main=True)
        first, block = self._main.stages[0] if self._main.stages else None, source.plan.main
        whole = isinstance(first, CompiledPart) and len(self._main.stages) == 1 and first.part.outputs == block.outputs
        counts = source.target.processor is not source.target
        self._whole = first if whole and set(first.part.inputs) == set(source.inputs.ports) and not counts else None  # type: ignore[union-attr]
        self._fresh = whole  # results share no memory with inputs
        self._given: dict[str, Any] = {}
        self._made: dict[str, Any] = {}
        self._checked_sizes: set[Any] = set()
        self._counting = Counting() if counts else None

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.source.name

    @property
    def image(self) -> Never:  # type: ignore[override]
        """There is none: raises InputError."""
        raise InputError(f"model {self.name!r} is compiled for the sizes that its runs have, and has no one image: for export, C, "
                         "decisions and tuning compile it with shapes= (--shape) for one set of sizes")

    @property
    def target(self) -> Target:
        """The target that it is compiled for."""
        return self.source.target

    @property
    def summary(self) -> Summary:
        """What a report's page says of the modules that are compiled, together."""
        images = [module.image for module in self.modules]
        return Whole(self.source.target, sum(image.params_bytes for image in images), sum(image.arena_bytes for image in images))

    def takes(self, name: str, shape: tuple[int, ...], kind: np.dtype[Any]) -> bool:
        """Return whether an array of this type fits an input, whatever the others are."""
        port = self.source.inputs.ports.get(name)
        if port is None or port.kind is None or not port.form.endswith("tensor") or numpy_dtype(port.kind) != kind:
            return False
        try:
            self.source.inputs.check({name: shape})
        except InputError:
            return False
        return True

    def some_inputs(self) -> dict[str, Any]:
        """Return inputs of the first sizes that are compiled ahead. Raises InputError if a size is open of which none is."""
        found = {}
        for name, port in self.source.inputs.ports.items():
            shape = [size.ahead[0] if isinstance(size, Dim) and size.ahead else size for size in port.sizes or (None,)]
            if port.form != "tensor" or port.kind is None or not all(isinstance(size, int) for size in shape):
                raise InputError(f"input {name!r} is {port}: give an array for it (--input), or sizes with shapes= (--shape)")
            found[name] = some_array(tuple([size for size in shape if isinstance(size, int)]), numpy_dtype(port.kind))
        return found

    @property
    def parts(self) -> tuple[CompiledPart, ...]:
        """The compiled parts, those inside loops and branches too."""
        return tuple([stage for stage in parts_of(self._main.stages) if isinstance(stage, CompiledPart) and not stage.inner])

    @property
    def modules(self) -> tuple[Module, ...]:
        """The compiled modules of all parts, those that were used last at the end."""
        return tuple([module for part in self.parts for _, module in part.kept.items()])

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
        found = [module.placement for module in self.modules]
        left = tuple(dict.fromkeys(each for placement in found for each in placement.left))
        launches = sum(placement.launches for placement in found)
        warnings = [placement.warning for placement in found if placement.warning]
        return Placement(
            self.name, launches, tuple([layer for each in found for layer in each.accelerator]),
            tuple([layer for each in found for layer in each.cpu]), left, "" if launches or not warnings else warnings[0],
        )

    @property
    def memory(self) -> Memory:
        """Return the memory of all modules that are compiled, and of the model; arenas are those of one run in each."""
        found = [memory_of(module.image) for module in self.modules]
        return Memory(**{name: sum(getattr(each, name) for each in found) + (self.source.model_bytes if name == "graph_bytes" else 0)
                         for name in Memory.__slots__})

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
        part = self._whole
        if part is None or part.values or part.inner or type(inputs) is not dict or len(inputs) != len(part.part.inputs):
            return None
        try:
            module = part.kept.find(tuple([inputs[name].shape for name in part.part.inputs]))
        except (KeyError, AttributeError):  # what is set before, missing, or no array
            return None
        return None if module is None else module.run(inputs)

    def _run(self, inputs: Mapping[str, Any] | None, watch: Any) -> dict[str, Any]:
        given = self._values(inputs)
        if watch is not None:
            watch.begin()
        try:
            results = self._main.run(dict(given), watch)
        except (LaterError, GraphError) as error:
            shapes = ", ".join(f"{name}: {list(value.shape)}" for name, value in given.items() if isinstance(value, np.ndarray))
            raise ModelError(f"model {self.name!r}, run on {shapes or 'no arrays'}: {error}") from error
        names = self._main.block.outputs
        if self._fresh and not self._main.stages[0].inner:  # type: ignore[attr-defined]
            return dict(zip(names, results, strict=True))
        return dict(zip(names, self._owned(results, given), strict=True))

    def _owned(self, results: list[Any], given: Mapping[str, Any]) -> list[Any]:
        """Return results that share no memory with inputs, constants or each other."""
        taken = [each for value in given.values() for each in (value if isinstance(value, list) else [value])]
        found = []
        for value in results:
            each = value
            if isinstance(value, list):
                each = self._owned(value, given)
            elif value is not None:
                array = np.asarray(value)
                shared = any(array is x or (isinstance(x, np.ndarray) and np.may_share_memory(array, x)) for x in taken)
                each = array.copy() if shared or not array.flags.writeable or not array.flags.c_contiguous else array
                taken.append(each)
            found.append(each)
        return found

    def prepare(self, **sizes: int) -> bool:
        """Compile for sizes by name, as far as they alone decide it; return whether that is all that a run needs.

        Raises InputError for a size that is missing, of no such name or outside its range.
        """
        known = {word for port in self.source.inputs.ports.values() for size in port.sizes or () if (word := _word(size))}
        for word in sizes:
            if word not in known:
                raise InputError(f"model {self.name!r} has no open size {word!r}; {one_of(sorted(known), word)}")
        env: Env = {}
        for name, port in self.source.inputs.ports.items():
            if port.sizes is None or port.form != "tensor" or port.kind is None:
                return False
            shape = []
            for size in port.sizes:
                word = _word(size)
                if word and word not in sizes:
                    raise InputError(f"model {self.name!r} needs the size {word!r} too: give prepare(…, {word}=N)")
                shape.append(sizes[word] if word else size)
            if any(not isinstance(size, int) for size in shape):
                return False
            env[name] = TensorType(tuple([int(size) for size in shape if isinstance(size, int)]), port.kind)
        self.source.inputs.check({name: value.shape for name, value in env.items()})
        for stage in self._main.stages:
            if not isinstance(stage, CompiledPart) or not self._prepared(stage, env):
                return False
        return True

    def _prepared(self, part: CompiledPart, env: Env) -> bool:
        try:
            module = part.module(env)
        except LaterError:
            return False
        if module is None:
            return False
        env.update({port.name: TensorType(port.shape, port.dtype) for port in module.image.outputs})
        return True

    def prepare_all(self) -> bool:
        """Compile for the sizes that `vtakit.dim(…, ahead=…)` names; return whether that is all that runs of them need."""
        dims = {size.name: size for port in self.source.inputs.ports.values() for size in port.sizes or () if isinstance(size, Dim)}
        ahead = {name: size.ahead for name, size in dims.items() if size.ahead}
        if not ahead:
            return True
        open_sizes = {word for port in self.source.inputs.ports.values() for size in port.sizes or () if (word := _word(size))}
        if missing := sorted(open_sizes - ahead.keys()):
            raise ModelError(f"sizes are compiled ahead for {', '.join(map(repr, ahead))}, and {missing[0]!r} is open too: name "
                             f"sizes of it, as vtakit.dim({missing[0]!r}, ahead=(…))")
        return all([self.prepare(**dict(zip(ahead, each, strict=True))) for each in product(*ahead.values())])

    def set_input(self, name: str | None = None, value: Any = None, **values: Any) -> None:
        """Keep copies of arrays for the inputs of the runs that follow. Raises InputError if one does not fit."""
        for word, given in {**({} if name is None else {name: value}), **values}.items():
            found = self.source.inputs.value(word, given)
            self._given[word] = [each.copy() for each in found] if isinstance(found, list) else None if found is None else found.copy()

    def get_output(self, at: int | str = 0, out: Array | None = None) -> Any:
        """An output of the last run, by number or name, copied into `out` if that is given. Raises InputError as `Module` does."""
        if not self._made:
            raise InputError(f"model {self.name!r} has not run yet: call run first")
        names = list(self._made)
        if not isinstance(at, str):
            at = whole(at, f"get_output({at!r}): an output is a number or a name")
            if not 0 <= at < len(names):
                raise InputError(f"model {self.name!r} has {counted(len(names), 'output')}, numbered from 0; there is no output {at}")
            at = names[at]
        if at not in names:
            raise InputError(f"model {self.name!r} has no output {at!r}; {one_of(names, at)}")
        found = self._made[at]
        if out is None:
            return found
        if not (isinstance(out, np.ndarray) and isinstance(found, np.ndarray)) or (out.shape, out.dtype) != (found.shape, found.dtype):
            raise InputError(f"output {at!r} is {_described(found)}; the array for it is {_described(out)}")
        out[...] = found
        return out

    def profile(self, inputs: Mapping[str, Any] | None = None, *, repeat: int = 5) -> Profile:
        """Run each layer by itself and time it; see `Module.profile`. A layer that runs several times has the sum of its times."""
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

        return dump(self.source, self.modules)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy or what is unpickled has no inputs and outputs yet, and opens a device of its own, of that name."""
        return _from_bytes, (self.dump(), self.source.target.portable(self._opening))

    def _values(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the values of all inputs; sizes that are new are checked."""
        if self._misfit:
            raise CodegenError(f"model {self.name!r} is compiled for another machine, {self.source.target.processor}: {self._misfit}; "
                               "write it with save, and run it there")
        inputs = self.source.inputs
        if given is not None and not isinstance(given, Mapping):
            first = next(iter(inputs.ports), "x")
            raise InputError(f"model {self.name!r} takes a dict of arrays by name, such as {{{first!r}: array}}, got "
                             f"{type(given).__name__}")
        asked = {**self._given, **given} if self._given and given else given or self._given
        for name in asked.keys() - inputs.ports.keys():
            inputs.port(name)
        missing = [port for name, port in inputs.ports.items() if name not in asked and not port.form.startswith("optional")]
        if missing:
            kinds = ", ".join(f"{port.name!r} ({port})" for port in missing)
            raise InputError(f"model {self.name!r} lacks {'its input' if len(missing) == 1 else 'its inputs'} {kinds}")
        found = {name: inputs.value(name, asked.get(name)) for name in inputs.ports}
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
        for text, count in Counter(", ".join(f"{port.name}: {port}" for port in module.image.inputs) for module in self.modules).items():
            yield text if count == 1 else f"{text} ({count} parts)"


def _word(size: Any) -> str:
    return size.name if isinstance(size, Dim) else size if isinstance(size, str) else ""


def _described(given: Any) -> str:
    return f"{given.dtype}{list(given.shape)}" if isinstance(given, np.ndarray) else f"a {type(given).__name__}"


def _from_bytes(data: bytes, opening: Opening) -> OpenModule:
    from vtakit.runtime.stages.file import parse

    source = parse(data, "a pickled module")
    return OpenModule(source, opening.device, opening.timeout_s, threads=opening.threads, **opening.options)
