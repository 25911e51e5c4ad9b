"""Reports of bitstreams: resources by block, clocks with their slowest paths, and what each seed reached."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from vtakit.boards.synth.devices import RESOURCES, Device
from vtakit.boards.synth.report import Clock, Hop, Names, Usage

_DEPTH = 3  # names of a block's path in the table
REST = "(top)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """Place and route with one seed: the share by which its worst clock is above what it is to be, or why there is no result."""

    seed: int
    margin: float | None
    failed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BitstreamReport:
    """One bitstream.

    config, core   the accelerator: its nine log2 values, and fields of `CoreParams` that were given
    mhz            the clock of all but the memory
    memory_mhz     the memory's clock; None: the same
    link           way to the host, of `vtakit.boards.known.LINKS`
    usage          of the device, by the names of `RESOURCES`
    blocks         the same by block of the design; what a block shares with others counts where its name says
    clocks         of the best seed
    seeds          all that were tried
    seconds        that each step took, when it ran
    """

    board: str
    part: str
    speed: str
    config: dict[str, int]
    core: dict[str, Any]
    mhz: float
    usage: dict[str, Usage]
    blocks: dict[str, dict[str, float]]
    clocks: tuple[Clock, ...]
    best: int
    seeds: tuple[Seed, ...]
    versions: dict[str, str]
    seconds: dict[str, float]
    memory_mhz: float | None = None
    link: str = "uart"

    @property
    def margin(self) -> float:
        """Share by which the worst clock is above what it is to be; negative: it misses it."""
        return margin_of(self.clocks)

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Back from what `to_json` wrote."""
        clocks = tuple(Clock(**{**clock, "path": tuple(Hop(**hop) for hop in clock["path"])}) for clock in values["clocks"])
        return cls(**{
            **values, "usage": {name: Usage(**usage) for name, usage in values["usage"].items()}, "clocks": clocks,
            "seeds": tuple(Seed(**seed) for seed in values["seeds"]),
        })


def margin_of(clocks: tuple[Clock, ...]) -> float:
    """The smallest share by which a clock is above what it is to be."""
    return min(clock.fmax_mhz / clock.wanted_mhz - 1 for clock in clocks)


def usage_by_block(device: Device, netlist: str, top: str) -> dict[str, dict[str, float]]:
    """The resources of each block of a flat netlist, by the names of its cells."""
    names = Names(netlist, top)
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for name, cell in json.loads(netlist)["modules"][top]["cells"].items():
        counts[names.block(name, _DEPTH)][cell["type"]] += 1
    used = {block: device.usage(cells) for block, cells in counts.items()}
    return {block: used[block] for block in sorted(used) if any(used[block].get(name) for name in RESOURCES)}
