"""Compiled parts: one module for each set of sizes, and of elements where those decide shapes.

What a part needs to know is found when it is read for its first inputs: integers among the model's inputs that decide shapes join
the key; before any other value that does, the part is cut, and the node runs in NumPy or in a part of its own.
"""

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from vtakit.base.reading import memory_bytes
from vtakit.compiler.frontend.errors import LaterError, ModelError, NotConstantError
from vtakit.compiler.frontend.onnx.functions import function_of
from vtakit.compiler.frontend.onnx.host import DECIDED
from vtakit.compiler.frontend.onnx.hosted import HOST
from vtakit.compiler.frontend.onnx.order import Block, Part, Step
from vtakit.compiler.frontend.onnx.stages import CONTROL, Plan
from vtakit.compiler.frontend.onnx.subgraphs import domain_of, inlined
from vtakit.compiler.graph.ir import TensorType
from vtakit.compiler.ir.dtypes import dtype
from vtakit.runtime.stages.blocks import Constants, Env, HostStep, Running, RunningBlock, Watch, run_stages
from vtakit.runtime.stages.control import ControlStep
from vtakit.runtime.stages.kept import Budget, Kept
from vtakit.runtime.stages.source import Compiled
from vtakit.runtime.target import Array

if TYPE_CHECKING:
    import onnx

MOST_KEPT = 32  # modules of one part
_MOST_BYTES = 4096  # of a value that may join a key
Compile = Callable[[Part, Mapping[str, TensorType], Mapping[str, Array], bytes], Compiled]


class Maker:
    """Makes what runs out of a plan.

    compile : a part, types of inputs, those that are constants, and the identity of part and sizes, to a module

    Stages have a path, such as "/2.body/0": numbers of stages and names of subgraphs. Node names do not identify a part: branches
    may have equal nodes, and constants of equal names with other elements.
    """

    def __init__(self, plan: Plan, compile: Compile) -> None:
        self.plan, self.compile = plan, compile
        self.budget: Budget[Compiled] = Budget(_bytes_of, memory_bytes() // 2)  # of all parts together
        self.version = plan.versions.get("", 1)

    def block(self, block: Block, path: str = "", *, main: bool = False) -> RunningBlock:
        """Return a block as it runs."""
        stable = frozenset(block.inputs if main else block.captured)
        return RunningBlock(block, self.stages(block.stages, stable, path), Constants(block.scope))

    def stages(self, stages: Sequence[Part | Step], stable: frozenset[str], path: str) -> tuple[Running, ...]:
        """Return stages as they run.

        stable : names of values that change seldom
        path   : that of the block or part which the stages are of
        """
        return tuple([
            CompiledPart(each, self, stable, f"{path}/{at}") if isinstance(each, Part) else self._step(each, f"{path}/{at}")
            for at, each in enumerate(stages)
        ])

    def _step(self, step: Step, path: str) -> Running:
        constants = Constants(step.scope)
        if domain_of(step.node) or step.node.op_type not in CONTROL:
            return HostStep(step, self.version, constants)
        blocks = {name: self.block(block, f"{path}.{name}") for name, block in step.blocks.items()}
        return ControlStep(step, self.version, constants, blocks)


def _bytes_of(compiled: Compiled) -> int:
    return sum(part.weights_bytes + part.code_bytes + part.arena_bytes for part in compiled.module.image.parts)


class CompiledPart:
    """A part as it runs.

    values : names of inputs whose elements decide shapes
    inner  : the stages that it was cut into; () while it is whole
    kept   : its modules
    """

    def __init__(self, part: Part, maker: Maker, stable: frozenset[str], path: str) -> None:
        self.part, self.frees, self._maker, self._stable, self._path = part, part.frees, maker, stable, path
        self.values: tuple[str, ...] = ()
        self.inner: tuple[Running, ...] = ()
        self.kept: Kept[Compiled] = Kept(MOST_KEPT, maker.budget)
        self._lock = Lock()

    def run(self, env: Env, watch: Watch | None) -> None:
        """Run the code for the sizes of the values that are there; compile it first if there is none."""
        compiled = self.compiled(env)
        if compiled is None:
            run_stages(self.inner, env, watch)
            return
        given = {name: env[name] for name in compiled.module.input_names}
        env.update(compiled.module.run(given) if watch is None else watch.part(compiled, given))

    def compiled(self, env: Mapping[str, Any]) -> Compiled | None:
        """Return the module for the values that are there, types in place of arrays if they will do; None if the part is cut."""
        while not self.inner:
            values = self.values
            key = self._key(env, values)
            found = self.kept.find(key)
            if found is not None:
                return found
            try:
                return self.kept.get(key, partial(self._made, env, values, key))
            except LaterError as error:
                self._refine(error, env, values)
        return None

    def _key(self, env: Mapping[str, Any], values: tuple[str, ...]) -> Hashable:
        found: list[Hashable] = []
        for name in self.part.inputs:
            value = env[name]
            found.append(getattr(value, "shape", None))
            if name in values:
                if isinstance(value, TensorType):
                    raise LaterError(f"the elements of {name!r} decide shapes, and only a run has them")
                found.append(value.tobytes())
        return tuple(found)

    def _made(self, env: Mapping[str, Any], values: tuple[str, ...], key: Hashable) -> Compiled:
        types = {}
        for name in self.part.inputs:
            value = env[name]
            if not isinstance(value, TensorType | np.ndarray):
                what = "an empty optional" if value is None else "a sequence"
                raise ModelError(f"the value {name!r} is {what}, and what reads it takes tensors")
            types[name] = value if isinstance(value, TensorType) else TensorType(value.shape, dtype(value.dtype))
        digest = hashlib.sha256(repr((self._path, self.part.inputs, self.part.outputs, values, key)).encode())
        for node in self.part.nodes:
            digest.update(node.SerializeToString(deterministic=True))
        return self._maker.compile(self.part, types, {name: env[name] for name in values}, digest.digest())

    def _refine(self, error: LaterError, env: Mapping[str, Any], values: tuple[str, ...]) -> None:
        """Find what the part needs to know, by the error of reading it without. Raises the error if nothing helps."""
        with self._lock:
            if self.inner or self.values != values:
                return  # another thread did
            if error.position < 0:
                raise error
            node = self.part.nodes[error.position]
            op = "" if domain_of(node) else str(node.op_type)
            needed = error.inputs if isinstance(error, NotConstantError) else ()
            if any(isinstance(env[name], TensorType) for name in needed):
                raise error  # the elements are not there yet
            small = all(getattr(env[name], "nbytes", _MOST_BYTES) < _MOST_BYTES for name in needed)
            plain = small and self._stable.issuperset(needed) and all(env[name].dtype.kind in "biu" for name in needed)
            if needed and plain and op not in DECIDED and op != "If":
                self._join(needed, error)
            elif op in HOST or op in CONTROL:
                self._cut(self.part.nodes, alone=(node,))
            elif (body := self._function(node, error)) is not None:
                at = error.position
                self._cut([*self.part.nodes[:at], *inlined(node, body), *self.part.nodes[at + 1:]])
            elif needed and small:
                self._join(needed, error)
            elif needed and not self._is_first(node):
                self._cut(self.part.nodes, later=(node,))
            else:
                raise error

    def _join(self, names: Iterable[str], error: LaterError) -> None:
        """Make the elements of inputs part of the key."""
        found = tuple(dict.fromkeys((*self.values, *names)))
        if found == self.values:
            raise error
        self.values = found

    def _is_first(self, node: "onnx.NodeProto") -> bool:
        made = {word for each in self.part.nodes for word in each.output}
        return made.isdisjoint(node.input)

    def _function(self, node: "onnx.NodeProto", error: LaterError) -> Any:
        plan = self._maker.plan
        return function_of(node, domain_of(node), plan.versions, error.types, plan.functions)

    def _cut(self, nodes: "Sequence[onnx.NodeProto]", **how: Any) -> None:
        stages = self._maker.plan.cut(nodes, self.part.scope, self.part.outputs, **how)
        self.inner = self._maker.stages(stages, self._stable, self._path)
        self.kept.clear()
