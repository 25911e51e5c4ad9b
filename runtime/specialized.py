"""ONNX models with open inputs: a module for each set of sizes, made at its first use and kept while it is used."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vtakit.compiler.frontend.errors import NotConstantError
from vtakit.runtime.model import compile
from vtakit.runtime.module import Module
from vtakit.runtime.target import Array

if TYPE_CHECKING:
    import onnx

KEPT = 16


class SpecializedModel:
    """A model that is compiled for the shapes of the arrays that it is given, and for the values that decide shapes.

    open    : inputs whose shape the model leaves open
    kept    : most modules that are kept; the one used longest ago goes first
    options : of `vtakit.compile`
    """

    def __init__(
        self, model: "str | Path | onnx.ModelProto", open_inputs: tuple[str, ...], *, kept: int = KEPT, **options: Any,
    ) -> None:
        self.model, self.open, self.kept, self.options = model, open_inputs, kept, options
        self._deciding: set[str] = set()  # inputs whose values decide shapes
        self._modules: OrderedDict[Any, Module] = OrderedDict()
        self._lock = threading.RLock()

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run on arrays by name. Raises what `vtakit.compile` and `Module.run` raise."""
        module, deciding = self.module(inputs)
        return module.run({name: array for name, array in inputs.items() if name not in deciding})

    def compile_ahead(self) -> None:
        """Compile a model without open inputs now; one whose shapes values decide waits for them. Raises as `vtakit.compile`."""
        if not self.open:
            with suppress(NotConstantError), self._lock:
                self._modules[(), ()] = self._made({}, frozenset())

    def module(self, inputs: Mapping[str, Array]) -> tuple[Module, frozenset[str]]:
        """Return the module for these inputs, and the inputs that are constants of it."""
        with self._lock:
            while True:
                deciding = frozenset(self._deciding & inputs.keys())
                key = (tuple([(name, np.shape(inputs[name])) for name in self.open if name in inputs]),
                       tuple([(name, _key(inputs[name])) for name in sorted(deciding)]))
                found = self._modules.get(key)
                if found is not None:
                    self._modules.move_to_end(key)
                    return found, deciding
                try:
                    found = self._made(inputs, deciding)
                except NotConstantError as error:
                    if new := set(error.inputs) & inputs.keys() - self._deciding:
                        self._deciding |= new
                        continue
                    raise
                self._modules[key] = found
                while len(self._modules) > self.kept:
                    self._modules.popitem(last=False)
                return found, deciding

    def _made(self, inputs: Mapping[str, Array], deciding: frozenset[str]) -> Module:
        shapes = {name: np.shape(inputs[name]) for name in self.open if name in inputs and name not in deciding}
        fixed = {name: inputs[name] for name in deciding}
        return compile(self.model, shapes=shapes or None, fixed=fixed or None, **self.options)


def _key(array: Array) -> tuple[Any, ...]:
    return str(array.dtype), array.shape, array.tobytes()
