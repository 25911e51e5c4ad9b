"""Placement of the layers of a compiled model, and why some are left to the CPU."""

import warnings
from dataclasses import dataclass
from typing import Any

from vtakit.base.text import counted, one_line
from vtakit.compiler.graph.compile import Layer, Left
from vtakit.runtime.target import Image, TargetError

_NAMED = 4  # operators that one line names; the others are counted


class PlacementWarning(UserWarning):
    """Nothing of a model that was compiled for the accelerator runs there."""


class NothingPlaced(TargetError):
    """A device that was asked for, and a model of which nothing runs there."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Placement of a model's layers; `str` of it is some lines for people.

    name              : of the model
    launches          : programs that the accelerator runs, one after another
    accelerator, cpu  : the layers of each
    left              : operators that are left to the CPU, with the reason; its conversions of numbers are not among them
    warning           : one sentence if nothing runs on the accelerator that the model was compiled for; "" else
    """

    name: str
    launches: int
    accelerator: tuple[Layer, ...]
    cpu: tuple[Layer, ...]
    left: tuple[Left, ...]
    warning: str = ""

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the accelerator's layers in one run."""
        return sum(layer.macs for layer in self.accelerator)

    @property
    def share_of_macs(self) -> float | None:
        """The accelerator's share of all multiply-accumulates; None of a model without any."""
        total = self.macs + sum(layer.macs for layer in self.cpu)
        return self.macs / total if total else None

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
        named = {each.name for each in self.left}
        others = sum(named.isdisjoint(layer.names) for layer in self.cpu)
        if others and self.launches:
            verb = "converts" if others == 1 else "convert"
            lines.append(f"on the CPU: {counted(others, 'layer')} that {verb} numbers or layouts")
        return "\n".join(lines)


def placement_of(image: Image) -> Placement:
    """Return where the layers of a compiled model run."""
    own = {part.kind for part in image.target.processor.kinds}
    cpu = tuple([layer for part in image.parts if part.kind in own for layer in part.layers])
    launches = [part for part in image.parts if part.kind not in own]
    there = tuple([layer for part in launches for layer in part.layers])
    return Placement(image.name, len(launches), there, cpu, image.left, image.target.warning(image))


def check_placed(image: Image, device: object) -> None:
    """Warn if nothing of a model that was compiled for an accelerator runs there.

    Raises NothingPlaced if a `device` was asked for, which would have nothing to do.
    """
    if message := image.target.warning(image):
        if device is not None:
            raise NothingPlaced(f"{message}; or name no device, and the CPU runs it")
        warnings.warn(message, PlacementWarning, stacklevel=3)
