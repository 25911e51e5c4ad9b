"""Results of synthesis, and readers of the files that yosys and nextpnr write."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from vtakit.boards.synth.devices import RESOURCES, Device

_ADDED = re.compile(r"_(?=[A-Z])")  # yosys adds cell and port names, in capitals; ours are in small letters
_MEMORY_PIECE = re.compile(r"(\.\d+)+$")  # a memory is spread over several cells
_BOUNDARY = re.compile(r"[_\[ .]")
_ARRIVAL = re.compile(r"^\s*(\d+)\s+(\S+(?: \[\d+\])?) \((.*)\)$")


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a resource: the amount that the core takes, and the amount that the device has."""

    used: float
    available: int

    @property
    def fits(self) -> bool:
        """Return whether the device has enough."""
        return self.used <= self.available


@dataclass(frozen=True, slots=True)
class Hop:
    """A piece of a path: a cell, and the wire behind it.

    signal   the wire's name in the Amaranth source, or of the nearest signal that yosys named it after
    source   file and line of that signal
    """

    signal: str
    source: str
    cell_ns: float
    wire_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One synthesis run.

    config, bus_bits   what was synthesised
    usage              by the names of `RESOURCES`; the pins around the core are not counted
    fmax_mhz           highest clock frequency after place and route, or None; `fmax_note` says why, or what it holds for
    bound_mhz          where nothing was placed: the frequency that the cells alone would allow, with wires of no delay
    path               the slowest path from register to register
    versions           of the tools;  seconds: what each took
    """

    device: str
    part: str
    speed: str | None
    seed: int
    config: dict[str, int]
    bus_bits: int
    usage: dict[str, Usage]
    fmax_mhz: float | None
    fmax_note: str
    bound_mhz: float | None
    path: tuple[Hop, ...]
    versions: dict[str, str]
    seconds: dict[str, float]

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Back from what `to_json` wrote."""
        return cls(**{
            **values, "usage": {name: Usage(**usage) for name, usage in values["usage"].items()},
            "path": tuple(Hop(**hop) for hop in values["path"]),
        })


def usage_of(device: Device, stat: str, module: str) -> dict[str, Usage]:
    """The usage of one module, from the text of yosys's `stat -json`."""
    counts = json.loads(stat)["modules"][f"\\{module}"]["num_cells_by_type"]
    used = device.usage({cell: int(count) for cell, count in counts.items()})
    return {name: Usage(used[name], device.capacity[name]) for name in RESOURCES}


class Names:
    """From the names of a netlist's nets and cells back to signals and memories of the source."""

    def __init__(self, netlist: str, module: str) -> None:
        found = json.loads(netlist)["modules"][module]
        self._signals = {
            name: source for name, net in found["netnames"].items()
            if not _ADDED.search(name) and (source := source_of(net["attributes"].get("src", "")))
        }
        self._blocks = {  # where a block was made part of another
            name: source_of(cell["attributes"].get("cell_src", ""))
            for name, cell in found["cells"].items() if cell["type"] == "$scopeinfo"
        }

    def find(self, name: str) -> tuple[str, str]:
        """The signal or memory that a net or cell is, or is named after, and where it is declared.

        What is declared nowhere, as memories are, has the place of the block around it.
        """
        ours = _MEMORY_PIECE.sub("", _ADDED.split(name.removeprefix("\\"), maxsplit=1)[0])
        cuts = [len(ours), *(match.start() for match in reversed(list(_BOUNDARY.finditer(ours))))]
        for cut in cuts:
            if ours[:cut] in self._signals:
                return ours[:cut], self._signals[ours[:cut]]
            if ours[:cut] in self._blocks:
                return ours, self._blocks[ours[:cut]]
        return ours, ""

    def block(self, name: str, depth: int) -> str:
        """The block that a cell is in, by its name, with at most `depth` names of its path; empty at the top."""
        ours = name.removeprefix("\\")
        for cut in [match.start() for match in reversed(list(_BOUNDARY.finditer(ours)))]:
            if ours[:cut] in self._blocks:
                return ".".join(ours[:cut].split(".")[:depth])
        return ""


def source_of(attribute: str) -> str:
    """The first place in Python that yosys's attribute `src` names, as file and line; empty if there is none."""
    for place in attribute.split("|"):
        path, _, line = place.partition(":")
        if path.endswith(".py"):
            for root in ("/vtakit/", "/site-packages/"):
                path = path.rpartition(root)[2]
            return f"{path}:{line.partition('.')[0]}"
    return ""


def read_placed(report: str, names: Names) -> tuple[float, tuple[Hop, ...]]:
    """The clock frequency in MHz and the slowest path from the text of nextpnr's --report.

    Raises ValueError if the report has no clock.
    """
    clocks = read_clocks(report, names)
    if len(clocks) != 1:
        raise ValueError(f"nextpnr's report has {len(clocks)} clocks")
    return clocks[0].fmax_mhz, clocks[0].path


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock after place and route: its net, the frequency that it reaches and the one that it is to have, its slowest path."""

    net: str
    fmax_mhz: float
    wanted_mhz: float
    path: tuple[Hop, ...]


def read_clocks(report: str, names: Names) -> tuple[Clock, ...]:
    """The clocks in the text of nextpnr's --report that drive registers."""
    found = json.loads(report)
    paths = {path["from"]: path["path"] for path in found["critical_paths"] if path["from"] == path["to"]}
    return tuple(
        Clock(clock.removeprefix("$glbnet$"), round(result["achieved"], 2), round(result["constraint"], 2),
              _hops(paths.get(f"posedge {clock}", []), names))
        for clock, result in found["fmax"].items()
    )


def _hops(steps: list[dict[str, Any]], names: Names) -> tuple[Hop, ...]:
    """The pieces of a path in nextpnr's report."""
    hops, cell_ns = [], 0.0
    for step in steps:
        if step["type"] != "routing":
            cell_ns += step["delay"]
            continue
        hops.append(Hop(*names.find(step["net"]), round(cell_ns, 3), round(step["delay"], 3)))
        cell_ns = 0.0
    if steps:
        hops.append(Hop(*names.find(steps[-1]["to"]["cell"]), round(cell_ns, 3), 0.0))
    return tuple(hops)


def read_sta(text: str, names: Names) -> tuple[float, tuple[Hop, ...]]:
    """Return the frequency in MHz and the critical path from the output of yosys's `sta`: delays of cells only.

    Raises ValueError if it has no path.
    """
    rows: list[tuple[int, str, str]] = []  # from the end of the path to its start: arrival in ps, the cell, the net into it
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("Latest arrival time"):
            break
    for line in lines:
        arrival = _ARRIVAL.match(line)
        if not arrival or arrival[3] == "<primary input>":
            break
        rows.append((int(arrival[1]), arrival[2], next(lines, "").strip()))
    if len(rows) < 2:
        raise ValueError("yosys's sta has no path")
    arrivals = [arrival for arrival, _, _ in rows] + [0]
    hops = [  # the net into a cell is driven by the cell of the next row
        Hop(*names.find(rows[n][2]), round((arrivals[n + 1] - arrivals[n + 2]) / 1000, 3), 0.0)
        for n in reversed(range(len(rows) - 1))
    ]
    hops.append(Hop(*names.find(rows[0][1]), round((arrivals[0] - arrivals[1]) / 1000, 3), 0.0))
    return round(1e6 / arrivals[0], 2), tuple(hops)
