"""Compilation before any run: for sizes that are named."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from vtakit.base.errors import one_of
from vtakit.compiler.frontend.errors import LaterError, ModelError
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.ir import TensorType
from vtakit.runtime.inputs import InputError, some_array, whole
from vtakit.runtime.stages.blocks import Env, Running
from vtakit.runtime.stages.dims import Dim
from vtakit.runtime.stages.part import CompiledPart
from vtakit.runtime.stages.ports import Inputs


def prepare(inputs: Inputs, stages: Sequence[Running], sizes: Mapping[str, int]) -> bool:
    """Compile the stages that sizes by name decide; return whether those are all. See `OpenModule.prepare`."""
    known = inputs.words()
    for word in sizes:
        if word not in known:
            raise InputError(f"model {inputs.model!r} has no open size {word!r}; {one_of(sorted(known), word)}")
    if missing := sorted(known - sizes.keys()):
        raise InputError(f"model {inputs.model!r} needs the size {missing[0]!r} too: give prepare(…, {missing[0]}=N)")
    sizes = {word: _checked(word, size) for word, size in sizes.items()}
    env: Env = {}
    for name, port in inputs.ports.items():
        shape = [sizes.get(_word(size), size) for size in port.sizes or (None,)]
        if port.form != "tensor" or port.kind is None or not all(isinstance(size, int) for size in shape):
            return False
        env[name] = TensorType(tuple([size for size in shape if isinstance(size, int)]), port.kind)
    inputs.check({name: value.shape for name, value in env.items()})
    return _prepared(stages, env)


def _checked(word: str, given: Any) -> int:
    size = whole(given, f"prepare({word}={given!r}): give a whole number")
    if size < 0:
        raise InputError(f"prepare({word}={size}): a size is 0 or more")
    return size


def _prepared(stages: Sequence[Running], env: Env) -> bool:
    for stage in stages:
        if not isinstance(stage, CompiledPart):
            return False
        try:
            compiled = stage.compiled(env)
        except LaterError:
            return False
        if compiled is not None:
            env.update({port.name: TensorType(port.shape, port.dtype) for port in compiled.module.image.outputs})
        elif not _prepared(stage.inner, env):
            return False
    return True


def sizes_ahead(inputs: Inputs) -> Iterator[dict[str, int]]:
    """Yield all combinations of the sizes to compile ahead. Raises ModelError if another size stays open."""
    dims = {size.name: size for port in inputs.ports.values() for size in port.sizes or () if isinstance(size, Dim)}
    ahead = {name: size.ahead for name, size in dims.items() if size.ahead}
    if ahead and (missing := sorted(inputs.words() - ahead.keys())):
        raise ModelError(f"sizes are compiled ahead for {', '.join(map(repr, ahead))}, and {missing[0]!r} is open too: name "
                         f"sizes of it, as vtakit.dim({missing[0]!r}, ahead=(…)) or --ahead {missing[0]}=…")
    if ahead:
        yield from (dict(zip(ahead, each, strict=True)) for each in product(*ahead.values()))


def some_inputs(inputs: Inputs) -> dict[str, Any]:
    """Return inputs of the first sizes to compile ahead; see `OpenModule.some_inputs`."""
    found = {}
    for name, port in inputs.ports.items():
        shape = [size.ahead[0] if isinstance(size, Dim) and size.ahead else size for size in port.sizes or (None,)]
        if port.form != "tensor" or port.kind is None or not all(isinstance(size, int) for size in shape):
            raise InputError(f"input {name!r} is {port}: give an array for it (--input), or sizes with shapes= (--shape)")
        found[name] = some_array(tuple([size for size in shape if isinstance(size, int)]), numpy_dtype(port.kind))
    return found


def _word(size: Any) -> str:
    return size.name if isinstance(size, Dim) else size if isinstance(size, str) else ""
