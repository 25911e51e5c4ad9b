"""Networks of kernels on a GPU as parts of a model: launches and copies in module files, parameters, an arena."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.gpu.placed import Copy, PlacedLaunch, Scalar
from vtakit.compiler.codegen.places import Place, Region
from vtakit.compiler.graph.compile import Layer, Network
from vtakit.compiler.ir.dtypes import dtype
from vtakit.runtime.cpu.pages import filled, reserve
from vtakit.runtime.fields import number, text
from vtakit.runtime.target import Part

MOST_BLOCKS = {"x": 2**31 - 1, "y": 65535, "z": 65535}  # of a grid, as NVIDIA's devices have them; OpenCL's are at least those
MOST_THREADS = 4096  # of a block
MOST_SHARED = 1 << 20  # bytes of a block
_REGIONS = {region.value: region for region in Region}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PlacedPart(Part):
    """A network of kernels, whatever their code is.

    steps        : what each layer launches and copies
    params       : parameters and constants
    device_bytes : size of the arena in the device's memory
    """

    name: str
    steps: tuple[tuple[PlacedLaunch | Copy, ...], ...]
    params: npt.NDArray[np.uint8]
    device_bytes: int

    @classmethod
    @abstractmethod
    def of(cls, network: Network) -> Self:
        """Return a compiled network as a part."""

    @classmethod
    def placed(cls, network: Network, **code: Any) -> Self:
        """Return a compiled network as a part; `code` is what the class adds."""
        params = filled(network.params_bytes, network.params)
        count = len(network.inputs)
        return cls(
            reads=tuple(range(count)), writes=tuple(range(count, count + len(network.outputs))), layers=network.layers,
            name=network.code.name, steps=network.code.steps, params=params, device_bytes=network.code.arena_bytes, **code,
        )

    @property
    def constant_bytes(self) -> int:
        """Size in bytes of parameters and constants."""
        return self.params.nbytes

    @property
    def weights_bytes(self) -> int:
        """Size in bytes of parameters and constants in the host's memory."""
        return self.params.nbytes

    @property
    def launches(self) -> int:
        """Number of kernels that one run launches."""
        return sum(isinstance(each, PlacedLaunch) for step in self.steps for each in step)

    def entry(self) -> dict[str, Any]:
        """Return the fields of this class as plain data, but for the parameters."""
        return {"name": self.name, "device": self.device_bytes, "steps": [[listed(each) for each in step] for step in self.steps]}

    @classmethod
    def read(
        cls, entry: Mapping[str, Any], given: memoryview, *, reads: tuple[int, ...], writes: tuple[int, ...],
        layers: tuple[Layer, ...], **code: Any,
    ) -> Self:
        """Return the part that `entry` described.

        given : the parameters
        code  : what the class adds

        Raises VtakitError, ValueError, KeyError or TypeError for other data.
        """
        params = reserve(len(given))
        params[...] = np.frombuffer(given, np.uint8)
        device_bytes = number(entry["device"])
        limits = {Region.INPUT: len(reads), Region.OUTPUT: len(writes), Region.PARAMS: len(given) + 1,
                  Region.ARENA: device_bytes + 1}
        steps = tuple(tuple(parsed(each, limits) for each in step) for step in entry["steps"])
        if len(steps) != len(layers):
            raise ValueError(f"{len(steps)} steps for {len(layers)} layers")
        return cls(reads=reads, writes=writes, layers=layers, name=text(entry["name"]), steps=steps, params=params,
                   device_bytes=device_bytes, **code)


def listed(each: PlacedLaunch | Copy) -> list[Any]:
    """Return a launch or copy as plain data."""
    if isinstance(each, Copy):
        return [[each.source.region.value, each.source.at], [each.to.region.value, each.to.at], each.size]
    args = [[arg.kind, arg.value] if isinstance(arg, Scalar) else [arg.region.value, arg.at] for arg in each.args]
    return [each.kernel, each.grid, each.block, args]


def parsed(given: Sequence[Any], limits: Mapping[Region, int]) -> PlacedLaunch | Copy:
    """Return the launch or copy that `listed` described.

    limits : of places in each region

    Raises VtakitError, ValueError, KeyError or TypeError for other data.
    """
    if len(given) == 3:
        source, to, size = given
        return Copy(_place(source, limits), _place(to, limits), number(size))
    kernel, grid, block, args = given
    x, y, z = (number(size, most + 1) for size, most in zip(grid, MOST_BLOCKS.values(), strict=True))
    across, down, deep = (number(size, MOST_THREADS + 1) for size in block)
    return PlacedLaunch(text(kernel), (x, y, z), (across, down, deep), tuple(
        _place(arg, limits) if arg[0] in _REGIONS else _scalar(arg) for arg in args))


def _place(given: Sequence[Any], limits: Mapping[Region, int]) -> Place:
    name, at = given
    region = _REGIONS[text(name)]
    return Place(region, number(at, limits[region]))


def _scalar(given: Sequence[Any]) -> Scalar:
    kind, value = given
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r:.40} is no number")
    return Scalar(str(dtype(text(kind))), value)
