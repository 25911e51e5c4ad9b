"""Where the layers of a compiled model run, and why some are left to the CPU."""

import warnings
from dataclasses import dataclass
from typing import Any

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.graph.compile import Layer
from vtakit.compiler.graph.vta.place import OTHERWISE, UNQUANTISED, Left
from vtakit.hw.isa.text import counted, one_line
from vtakit.runtime.image import Image

_NAMED = 4  # operators that one line names; the others are counted
QUANTISE = "vtakit quantize MODEL --calibration SAMPLES.npz -o INT8.onnx"


class PlacementWarning(UserWarning):
    """Nothing of a model that was compiled for the accelerator runs there."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a model's layers run; `str` of it is some lines for people.

    name              : of the model
    launches          : programs that the accelerator runs, one after another
    accelerator, cpu  : the layers of each
    left              : operators that are left to the CPU, with the reason; its conversions of numbers are not among them
    """

    name: str
    launches: int
    accelerator: tuple[Layer, ...]
    cpu: tuple[Layer, ...]
    left: tuple[Left, ...]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the accelerator's layers in one run."""
        return sum(layer.macs for layer in self.accelerator)

    @property
    def share_of_macs(self) -> float | None:
        """The accelerator's share of all multiply-accumulates; None of a model without any."""
        total = self.macs + sum(layer.macs for layer in self.cpu)
        return self.macs / total if total else None

    @property
    def warning(self) -> str:
        """One sentence if nothing runs on the accelerator; "" else."""
        if self.launches:
            return ""
        lead = f"nothing of the model {self.name!r} runs on the accelerator"
        if any(each.reason == UNQUANTISED for each in self.left):
            return (f"{lead}: the model computes in floating point and the accelerator in int8; quantise it first "
                    f"({QUANTISE}), then give INT8.onnx instead")
        if any(each.reason == OTHERWISE for each in self.left):
            return (f"{lead}: the model is quantised otherwise than the accelerator computes, in int8 with zero points of 0, a "
                    f"layer being a product, a residual sum and an activation; quantise its float model ({QUANTISE})")
        return f"{lead}: it has no convolution or matrix product in int8 that the accelerator can run"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {
            "launches": self.launches, "layers_on_accelerator": len(self.accelerator), "layers_on_cpu": len(self.cpu),
            "share_of_macs_on_accelerator": self.share_of_macs, "left_to_cpu": [each._asdict() for each in self.left],
        }

    def __str__(self) -> str:
        count, share = len(self.accelerator) + len(self.cpu), self.share_of_macs
        macs = "" if share is None else f", {share:.1%} of the multiply-accumulates"
        where = f" in {counted(self.launches, 'launch', 'launches')}" if self.launches else ""
        lines = [f"accelerator: {len(self.accelerator)} of {counted(count, 'layer')}{where}{macs}"]
        groups: dict[str, list[Left]] = {}
        for each in self.left:
            groups.setdefault(each.reason, []).append(each)
        for reason, group in groups.items():
            names = ", ".join(f"{each.op} {each.name!r}" for each in group[:_NAMED])
            more = f" and {len(group) - _NAMED} more" if len(group) > _NAMED else ""
            lines.append(one_line(f"on the CPU: {names}{more}: {reason}"))
        return "\n".join(lines)


def placement_of(image: Image) -> Placement:
    """Return where the layers of a compiled model run."""
    cpu = tuple([layer for part in image.cpu_parts for layer in part.layers])
    there = tuple([layer for part in image.vta_parts for layer in part.layers])
    return Placement(image.name, len(image.vta_parts), there, cpu, image.left)


def check_placed(image: Image, device: object) -> None:
    """Warn if nothing of a model that was compiled for the accelerator runs there.

    Raises VtaError if a `device` was asked for, which would have nothing to do.
    """
    if message := placement_of(image).warning:
        if device is not None:
            raise VtaError(f"{message}; or name no device, and the CPU runs it")
        warnings.warn(message, PlacementWarning, stacklevel=3)
