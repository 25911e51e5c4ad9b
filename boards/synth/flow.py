"""From parameters to a report: Amaranth to yosys to nextpnr, in a folder that is gone afterwards."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from vtakit.base.errors import VtakitError
from vtakit.base.process import run_tool
from vtakit.boards.synth.devices import RESOURCES, Device
from vtakit.boards.synth.pins import PINS_NAME, module_of, to_rtlil
from vtakit.boards.synth.products import pack_products
from vtakit.boards.synth.report import Hop, Names, Report, Usage, read_placed, read_sta, usage_of
from vtakit.boards.synth.tools import YOSYS, check_yosys, find_tool, run_yosys, tool_version
from vtakit.hw.params import CoreParams
from vtakit.hw.top import TOP_NAME, Top

LIMIT_SECONDS = 3600.0  # for each tool
_LONGER = "--limit gives it longer"
MOST_SEED = 2**63 - 1  # that every nextpnr takes
TARGET_MHZ = 80  # what nextpnr is asked for

# Nothing uses what it reads in the cycle in which that is written (`Scratchpad`). Without being told, yosys surrounds each
# block RAM of an ECP5 or iCE40 with registers and multiplexers that keep the old value: a fifth of all registers of the core.
#
# The design keeps its own module until its cells are counted; then all becomes one module, and generated nets get the names of
# their neighbours.
_SCRIPT = f"""\
read_rtlil design.il
hierarchy -check -top {PINS_NAME}
setparam -set COLLISION_X_MASK 1'1 t:$memrd_v2 r:CLK_ENABLE=1 %i
setattr -mod -set keep_hierarchy 1 {{module}}
{{synthesis}}
tee -q -o stat.json stat -json
setattr -mod -unset keep_hierarchy {{module}}
flatten
autoname
opt_clean
{{timing}}
write_json netlist.json
"""
_STA = "tee -q -o sta.txt sta\nblackbox =A:whitebox"  # cells with insides could not be written


def script_of(device: Device, name: str) -> str:
    """Return yosys's script for a design behind its pins: design.il to netlist.json, with counts of cells in stat.json."""
    return _SCRIPT.format(module=module_of(name), synthesis=device.synthesis, timing="" if device.place else _STA)


def synthesise(
    params: CoreParams, device: Device, *, speed: str | None = None, seed: int = 1, place: bool = True,
    limit_seconds: float = LIMIT_SECONDS, say: Callable[[str], None] = lambda step: None,
) -> Report:
    """Synthesise the accelerator for a device, and place and route it where that is possible and it fits.

    say       is told each step as it begins
    Raises `VtakitError` if an argument is wrong, or a tool is missing, fails or takes longer than `limit_seconds`.
    """
    speed = device.speed(speed)
    if not 0 <= seed <= MOST_SEED:
        raise VtakitError(f"seed is {seed} and must be from 0 to {MOST_SEED}")
    check_yosys()
    places = place and device.place is not None
    nextpnr = find_tool(device.place[0], device.package) if places and device.place else ""
    versions = {package: tool_version(package) for package in ("amaranth", YOSYS, *([device.package] if places else []))}
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="vtakit-synth.") as name:
        work = Path(name)

        def step(what: str, call: Callable[[], object]) -> None:
            say(what)
            begin = time.monotonic()
            call()
            seconds[what] = round(time.monotonic() - begin, 1)

        step("elaborate", lambda: _write(work / "design.il", to_rtlil(Top(params), TOP_NAME)))
        step("yosys", lambda: run_yosys(script_of(device, TOP_NAME), work, limit_seconds=limit_seconds, hint=_LONGER))
        usage = usage_of(device, (work / "stat.json").read_text(), module_of(TOP_NAME))
        netlist = (work / "netlist.json").read_text()
        if device.holds_products:
            netlist, saved = pack_products(netlist, PINS_NAME)
            usage["ff"] = replace(usage["ff"], used=usage["ff"].used - saved)
            _write(work / "netlist.json", netlist)
        names = Names(netlist, PINS_NAME)
        fmax: float | None = None
        bound: float | None = None
        path: tuple[Hop, ...] = ()
        excess = too_large(usage)
        if device.place is None:
            bound, path = read_sta((work / "sta.txt").read_text(), names)
            note = "no open place and route for this device is on PyPI; the bound counts cells, not wires"
        elif excess:
            note = f"does not fit: {excess}"
        elif not place:
            note = "not placed: only yosys was asked for"
        else:
            placing = [nextpnr, *device.place[1:], *(["--speed", speed] if speed else []), "--freq", str(TARGET_MHZ)]
            placing += ["--timing-allow-fail", "--seed", str(seed), "--json", "netlist.json", "--top", PINS_NAME]
            placing += ["-q", "--report", "report.json"]
            step("nextpnr", lambda: run_tool(placing, work=work, limit_seconds=limit_seconds, hint=_LONGER))
            fmax, path = read_placed((work / "report.json").read_text(), names)
            note = "after place and route"
    return Report(
        device=device.name, part=device.part, speed=speed, seed=seed, config=params.cfg.to_dict(), bus_bits=params.bus_bits,
        usage=usage, fmax_mhz=fmax, fmax_note=note, bound_mhz=bound, path=path, versions=versions, seconds=seconds,
    )


def too_large(usage: dict[str, Usage]) -> str:
    """Return the resources of which the device has too few, with the shortfall, as text; empty if the core fits."""
    return ", ".join(
        f"{use.used:,.10g} {RESOURCES[name]} of {use.available:,}" for name, use in usage.items() if not use.fits
    )


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise VtakitError(f"cannot write {path}: {error.strerror or error}") from None
