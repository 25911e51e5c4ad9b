"""Graphs with their compiled code as modules: ``runtime.create(graph, lib, device)``, as TVM's papers and talks have it."""

from os import PathLike
from pathlib import Path
from typing import Any

from vtakit.base.errors import VtakitError
from vtakit.base.text import counted
from vtakit.compiler.graph.ir import Graph
from vtakit.runtime.model import load
from vtakit.runtime.module import InputError, Module
from vtakit.runtime.target import Array, Image


class GraphModule:
    """A module whose inputs are set by keyword.

    ::

        module = runtime.create(graph, lib, device)
        module.set_input(**params)
        module.run(data=array)
        module.get_output(0, out)

    module : what runs
    """

    def __init__(self, module: Module) -> None:
        self.module = module

    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Keep arrays for the inputs of the runs that follow.

        key    : an input's name or number, with its value
        params : inputs by name; those that the graph does not have, as constants that are part of its code, are left out

        Raises InputError for an array that does not fit, or a key that names no input.
        """
        if key is not None:
            self.module.set_input(self._name(key), value)
        known = self.module.inputs
        self.module.set_input(**{name: array for name, array in params.items() if name in known})

    def run(self, **inputs: Any) -> None:
        """Run, on these inputs and those that were set. Raises InputError for one that is missing or does not fit."""
        self.module.run(inputs)

    def get_output(self, at: int | str = 0, out: Array | None = None) -> Array:
        """An output of the last run, by number or name; copied into `out` if that is given."""
        return self.module.get_output(at, out)

    def get_num_outputs(self) -> int:
        """Return the number of outputs."""
        return len(self.module.outputs)

    def get_num_inputs(self) -> int:
        """Return the number of inputs; constants are none."""
        return len(self.module.inputs)

    def _name(self, key: str | int) -> str:
        names = list(self.module.inputs)
        if isinstance(key, str):
            return key
        if not 0 <= key < len(names):
            raise InputError(f"the graph has {counted(len(names), 'input')}, numbered from 0; there is no input {key}")
        return names[key]


def create(
    graph: str | Graph, lib: Module | Image | str | PathLike[str], device: Any = "cpu"
) -> GraphModule:
    """A module of a graph and its code.

    graph  : the graph, or its text, as `Module.image` has it; it must be the one that the code was made of
    lib    : the code: a compiled module, its image, or the path of a module file
    device : "cpu"; or for a model that was compiled for the accelerator "fsim", "cycle", "rtl" or a
             driver

    Raises InputError if the code is another graph's or for another device, and what `vtakit.load` raises.
    """
    where = None if isinstance(device, str) and device == "cpu" else device
    if isinstance(lib, Module | Image):
        module = Module(lib.image if isinstance(lib, Module) else lib, where)
    elif isinstance(lib, str | PathLike):
        module = load(Path(lib), where)
    else:
        raise VtakitError(f"lib is a compiled module or the path of its file, not {type(lib).__name__}")
    if module.placement.launches and where is None:
        known = " or ".join(map(repr, module.image.target.devices))
        raise InputError(f"model {module.image.name!r} is compiled for the accelerator: give the device {known}")
    if str(graph) != module.image.graph:
        raise InputError(f"the code is that of another graph, {module.image.name!r}: give the graph that it was compiled from")
    return GraphModule(module)
