"""Profiles: time or cycles of each layer of a model."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vtakit.base.text import counted, one_line
from vtakit.runtime.grid import Grid, share
from vtakit.runtime.placement import Placement
from vtakit.runtime.report.report import TEXT_WIDTH, Report
from vtakit.runtime.timed import Timed

if TYPE_CHECKING:
    from rich.console import Group

CONVERTS = "it converts numbers or layouts for the accelerator"


@dataclass(frozen=True, slots=True)
class Profile:
    """Costs of a model's layers; `str` of it is a headline and tables.

    layers    : those on the CPU, timed
    launches  : a report for each program of an accelerator, in order
    said      : how the computation departs from the model, such as in precision; "" if it does not
    placement : of a model with launches: what runs where, and why
    """

    name: str
    layers: tuple[Timed, ...]
    launches: tuple[Report, ...] = ()
    said: str = ""
    placement: Placement | None = None

    @property
    def seconds(self) -> float:
        """Time in seconds of all layers on the CPU."""
        return sum(timed.seconds for timed in self.layers)

    @property
    def cycles(self) -> int | None:
        """Cycles of all launches on the accelerator; None without launches, and on a device that counts none."""
        found = [report.total.cycles for report in self.launches]
        known = [cycles for cycles in found if cycles is not None]
        return sum(known) if known and len(known) == len(found) else None

    @property
    def headline(self) -> str:
        """Return the total in one line: the accelerator's cycles if it has part in it, then the CPU's time."""
        name, here = one_line(self.name), f"{self.seconds * 1e3:.3f} ms"
        if not self.launches:
            return f"{name}: {here}"
        runs, device = counted(len(self.launches), "launch", "launches"), self.launches[0].device
        if self.cycles is None:
            return f"{name}: {runs} on the accelerator (device {device} counts no cycles; cycle does); {here} on the CPU"
        return f"{name}: {self.cycles:,} cycles in {runs} on the accelerator (device {device}); {here} on the CPU"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {
            "name": self.name,
            **({"device": self.launches[0].device, "cycles": self.cycles} if self.launches else {}),
            "cpu_seconds": self.seconds,
            "layers": [
                {
                    "name": t.name, "nodes": list(t.layer.names), "ops": list(t.layer.ops), "kernel": t.layer.kernel,
                    "seconds": t.seconds, "macs": t.layer.macs, "bytes": t.layer.bytes,
                    **({"why": self.why(t)} if self.placement else {}),
                } for t in self.layers
            ],
            **({"placement": self.placement.to_dict()} if self.placement else {}),
            **({"launches": [json.loads(report.to_json()) for report in self.launches]} if self.launches else {}),
        }

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines above the tables: the headline with the placement, or what is computed in half precision."""
        if not self.launches:
            return (one_line(self.said),) if self.said else ()
        return self.headline, *([] if self.placement is None else str(self.placement).splitlines())

    def tables(self) -> "Group":
        """Return the tables of each launch and of the CPU's layers, for a terminal."""
        from rich.console import Group

        mine = [self.grid, *([self.left] if self.placement else [])]
        return Group(*[report.tables() for report in self.launches], *(mine if self.layers or not self.launches else []))

    def why(self, timed: Timed) -> str:
        """Return why a layer on the CPU is not on the accelerator, the reasons of all its operators."""
        left = () if self.placement is None else self.placement.left
        return "; ".join(dict.fromkeys(each.reason for each in left if each.name in timed.layer.names)) or CONVERTS

    @property
    def left(self) -> Grid:
        """Return the table of what the layers that are left to the CPU cost, the dearest first, and of why they are."""
        there = 0 if self.placement is None else self.placement.macs
        whole = there + sum(timed.layer.macs for timed in self.layers)
        rows = [
            (t.name, t.ops, self.why(t), f"{t.seconds * 1e3:.3f}", share(t.seconds / self.seconds if self.seconds else None),
             share(t.layer.macs / whole if whole else None))
            for t in sorted(self.layers, key=lambda timed: -timed.seconds)
        ]
        columns = ("layer", "operators", "why", "ms", "of the CPU's time", "of all MACs")
        return Grid("left to the CPU", columns, tuple(rows), labels=3)

    @property
    def grid(self) -> Grid:
        """Return the table of the layers on the CPU."""
        rows = []
        for t in self.layers:
            rate = f"{t.layer.macs / t.seconds / 1e9:.1f}" if t.layer.macs and t.seconds else ""
            moved = f"{t.layer.bytes / t.seconds / 1e9:.1f}" if t.seconds else ""
            macs = f"{t.layer.macs / 1e6:.1f}" if t.layer.macs else ""
            part = f"{100 * t.seconds / self.seconds:.1f}%" if self.seconds else ""
            rows.append((t.name, t.ops, f"{t.seconds * 1e3:.3f}", part, macs, rate, f"{t.layer.bytes / 1e6:.2f}", moved))
        columns = ("layer", "operators", "ms", "of all", "MMAC", "GMAC/s", "MB", "GB/s")
        title = f"on the CPU: {self.seconds * 1e3:.3f} ms" if self.launches else self.headline
        return Grid(title, columns, tuple(rows), labels=2)

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=TEXT_WIDTH if self.launches else 120, color_system=None)
        with console.capture() as captured:
            console.print(self.tables())
        return "".join([f"{line}\n" for line in self.lines]) + captured.get()
