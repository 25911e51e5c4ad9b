"""Stages as they run: blocks, and steps in NumPy. Values are arrays, lists for sequences, None for empty optionals."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vtakit.base.errors import VtakitError
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.onnx.host import Call
from vtakit.compiler.frontend.onnx.hosted import HOST
from vtakit.compiler.frontend.onnx.nodes import attribute_value
from vtakit.compiler.frontend.onnx.order import Block, Scope, Step
from vtakit.compiler.frontend.onnx.subgraphs import domain_of
from vtakit.compiler.frontend.onnx.tensors import array_of
from vtakit.runtime.target import Array

if TYPE_CHECKING:
    import onnx

Env = dict[str, Any]
_NONSENSE = (TypeError, ValueError, IndexError, KeyError, ArithmeticError, AttributeError, AssertionError)


class Watch(Protocol):
    """Sees what a run does, to time it."""

    def begin(self) -> None:
        """A run begins."""

    def part(self, compiled: Any, given: Mapping[str, Array]) -> dict[str, Array]:
        """Run a compiled part."""

    def step(self, step: "Running", env: Env) -> None:
        """Run a step."""


class Running(Protocol):
    """A stage that runs.

    frees : names of values that nothing reads afterwards
    """

    frees: tuple[str, ...]

    def run(self, env: Env, watch: Watch | None) -> None:
        """Run on the values that are there, and add those that it makes."""


class Constants:
    """The constants of a scope as arrays, each read once."""

    def __init__(self, scope: Scope) -> None:
        self._scope, self._arrays = scope, dict[str, Array]()

    def value(self, env: Env, name: str) -> Any:
        """Return a value that a run has made, or a constant; None for an operand that is not given."""
        if not name or name in env:
            return env.get(name)
        if name not in self._arrays:
            if name not in self._scope.constants:
                raise ModelError(f"{name!r} is read, and nothing before makes it")
            array = array_of(self._scope.constants[name], f"constant {name!r}")
            array.flags.writeable = False
            self._arrays[name] = array
        return self._arrays[name]


class RunningBlock:
    """A block whose stages run in order.

    stages : one for each stage of the block, ready to run, in the same order
    """

    def __init__(self, block: Block, stages: Sequence[Running], constants: Constants) -> None:
        self.block, self.stages, self.constants = block, tuple(stages), constants

    def run(self, env: Env, watch: Watch | None) -> list[Any]:
        """Run on inputs and captured values; return the outputs."""
        run_stages(self.stages, env, watch)
        return [self.constants.value(env, name) for name in self.block.outputs]

    def captured(self, env: Env, constants: Constants) -> Env:
        """Return the values from outside that the block reads.

        constants : those of the scope around it
        """
        return {name: constants.value(env, name) for name in self.block.captured}


def run_stages(stages: Sequence[Running], env: Env, watch: Watch | None) -> None:
    """Run stages in order, and let go of what nothing reads afterwards."""
    for stage in stages:
        stage.run(env, watch)
        for name in stage.frees:
            env.pop(name, None)


def attributes(node: "onnx.NodeProto") -> dict[str, Any]:
    """Return the attributes of a node that are neither graphs nor types."""
    return {
        each.name: attribute_value(each, f"attribute {each.name!r} of node {node.name!r}") for each in node.attribute
        if not (each.HasField("g") or each.HasField("tp"))
    }


class HostStep:
    """A node that NumPy computes."""

    def __init__(self, step: Step, version: int, constants: Constants) -> None:
        node = step.node
        self.name, self.frees, self.op = step.name, step.frees, str(node.op_type)
        self._inputs, self._outputs = tuple(node.input), tuple(node.output)
        self._constants = constants
        if domain_of(node) or self.op not in HOST:
            raise ModelError(f"node {self.name!r} ({self.op}) reads or makes what is no tensor, and {self.op} takes tensors")
        self._function = HOST[self.op]
        self._call = Call(self.op, self.name, version, attributes(node), len(self._outputs))

    def run(self, env: Env, watch: Watch | None) -> None:
        """Compute the results."""
        if watch is not None:
            watch.step(self, env)
        else:
            self.compute(env)

    def compute(self, env: Env) -> None:
        """Compute the results."""
        operands = [self._constants.value(env, name) for name in self._inputs]
        with Fitting(self.name, self.op):
            results = self._function(self._call, *operands)
        env.update({name: made for name, made in zip(self._outputs, results, strict=False) if name})


class Fitting:
    """Turn what NumPy raises for operands that do not fit into a ModelError that names the node."""

    __slots__ = ("name", "op")

    def __init__(self, name: str, op: str) -> None:
        self.name, self.op = name, op

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, _NONSENSE) and not isinstance(error, VtakitError):
            why = " ".join(str(error).split()) or type(error).__name__
            raise ModelError(f"node {self.name!r} ({self.op}) has operands that do not fit: {why}") from None


def parts_of(stages: Sequence[Running]) -> Iterator[Running]:
    """Yield all stages, those inside others too."""
    for stage in stages:
        yield stage
        yield from parts_of(getattr(stage, "inner", ()))


def as_flag(value: Any) -> bool:
    """Return a condition as True or False. Raises ValueError if it has no element."""
    return bool(first_of(value, "the condition"))


def first_of(value: Any, what: str) -> Any:
    """Return the first element of an operand. Raises ValueError, which calls it `what`, if there is none."""
    array = np.asarray(value)
    if not array.size:
        raise ValueError(f"{what} has the shape {list(array.shape)}, and no element")
    return array.reshape(-1)[0]
