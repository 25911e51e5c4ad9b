"""The registers of the RTL beside those of the cycle model, cycle by cycle: the block in which the two part first.

The RTL's registers are read from a waveform, so a configuration takes a build of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.config import INSN_BYTES, VTAConfig
from vtakit.hw.params import CoreParams
from vtakit.hw.system import REFERENCE
from vtakit.hw.timing import LOAD_COUNT_BITS
from vtakit.sim.cycle.compute.arithmetic import result_bank
from vtakit.sim.cycle.control.supervisor import BEGIN, IDLE
from vtakit.sim.cycle.state import NONE
from vtakit.sim.cycle.timing import Steps
from vtakit.sim.decode import Memories
from vtakit.sim.faults import DeviceError, ProgramFault
from vtakit.sim.program import decoded_program
from vtakit.sim.rtl import simulate
from vtakit.sim.rtl.surroundings import Surroundings

_TOP = "TOP.outside.vta"
_CONTROL = ("registers", "supervisor")  # blocks beside the core
_RESET_CYCLES = 4  # of `sim/rtl/harness.cpp`, before the model's first
_COUNT = 1 << LOAD_COUNT_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Registers of a block that both have.

    name        path in the RTL's hierarchy, from the core on, or a block beside the core
    state       path in the model's state, likewise
    registers   the model's register for each signal, or the signal's value from the state
    holds       whether the registers mean anything in a state: behind a reset, or between two uses, they may hold what they like
    built       whether a core has them
    """

    name: str
    state: str
    registers: dict[str, str | Callable[[Any], int]]
    holds: Callable[[Any], object] = lambda state: True
    built: Callable[[CoreParams], bool] = lambda core: True


def _same(*names: str) -> dict[str, str | Callable[[Any], int]]:
    return {name: name for name in names}


def _modulo(field: str) -> Callable[[Any], int]:
    return lambda s: int(getattr(s, field)) % _COUNT


def _writes(arithmetic: Any) -> int:
    """Return the banks of ACC that a result is written to, a bit each."""
    bank = result_bank(arithmetic)
    return 0 if bank == NONE else 1 << bank


def _bursts(place: str) -> list[Block]:
    name = f"{place}.bursts"
    return [
        Block(name=name, state=name, registers=_same("any_left", "has_found", "has_row", "busy") | {
            "o__valid": lambda s: s.count > 0}),
        Block(name=name, state=name, registers=_same("left", "knows_end"), holds=lambda s: s.any_left),
        Block(name=name, state=name, registers={"now.beat": "beat", "now.beats": "beats", "ends": "ends"},
              holds=lambda s: s.busy),
    ]


def _buffer(place: str) -> list[Block]:
    name = f"{place}.buffer"
    return [
        Block(name=name, state=name, registers={"room": "room", "taken_before": "taken_before",
                                                "requests__valid": lambda s: s.count > 0}),
        Block(name=f"{name}.queue", state=f"{name}.queue", registers={"o__valid": lambda s: s.out > 0}),
        Block(name=f"{name}.queue.fifo", state=f"{name}.queue.fifo", registers={"inner_level": "inner", "r_rdy": "valid"}),
    ]


def _load_port(place: str) -> list[Block]:
    planner, state = f"{place}.writer.planner", f"{place}.planner"
    return [
        *_bursts(place), *_buffer(place),
        Block(name=f"{place}.queue", state=place, registers={"level": "queued"}),
        Block(name=planner, state=state, registers=_same("stage", "planned", "active") | {
            "pieces__valid": lambda s: s.pieces.offered}),
        Block(name=planner, state=state, holds=lambda s: s.active, registers=_same(
            "next_row", "left", "leading", "trailing", "place", "row_place", "beat", "most", "data_row")),
        Block(name=f"{place}.writer", state=f"{place}.writer", registers=_same("has")),
        Block(name=f"{place}.writer", state=f"{place}.writer", registers=_same("next", "end"), holds=lambda s: s.has),
    ]


def _issue(stage: str, units: int) -> list[Block]:
    state = f"{stage}.issue"
    queue = f"fetch.{stage}_queue"
    return [
        Block(name=f"{state}.retire.queue", state=state, registers={"level": "under_way"}),
        Block(name=f"{state}.retire", state=state, registers={f"finished{n}": f"finished{n + 1}" for n in range(units)}),
        Block(name=queue, state=f"{state}.queue", registers={"has_room": "has_room", "o__valid": lambda s: s.out > 0}),
        Block(name=f"{queue}.fifo", state=f"{state}.queue.fifo", registers={"inner_level": "inner", "r_rdy": "valid"}),
    ]


def _tokens(number: int, name: str) -> Block:
    return Block(name=name, state="tokens", registers={"count": lambda s: s.count[number]})


BLOCKS = (
    Block(name="registers", state="registers", registers=_same("has_address", "has_data") | {"axil__b__valid": "b_valid"}),
    Block(name="supervisor", state="supervisor", registers={"fsm_state": "state"}),
    *_bursts("fetch"), *_buffer("fetch"),
    Block(name="fetch", state="fetch", registers=_same("left", "has_decoded")),
    *(_tokens(n, name) for n, name in enumerate(("load_to_compute", "compute_to_load", "compute_to_store", "store_to_compute"))),
    Block(name="reader", state="reader", registers=_same("in_flight", "is_open", "latest") | {
        "axi__ar__valid": lambda s: s.count > 0}),
    Block(name="reader.owners", state="reader.owners", registers={"inner_level": "inner", "r_rdy": "valid"}),
    *_issue("load", 1), *_load_port("load.port"),
    *_issue("compute", 2), *_load_port("compute.port"),
    Block(name="compute", state="compute", registers=_same("may_write", "waits", "bubbles") | {
        "loads_started": _modulo("loads"), "loads_begun": _modulo("begun"), "loads_written": _modulo("written"),
        "maths_started": _modulo("maths"), "maths_issued": _modulo("issued"), "maths_retired": _modulo("retired")}),
    Block(name="compute.loads", state="compute", registers={"level": "loads_queued"}),
    Block(name="compute.maths", state="compute", registers={"level": "maths_queued"}),
    Block(name="compute.steps", state="compute.steps", registers=_same("active", "room", "has_room")),
    Block(name="compute.steps", state="compute.steps", holds=lambda s: s.active, registers=_same(
        "ready", "inner", "outer", "last_uop", "last_turn", "last_row")),
    Block(name="compute.steps.queue", state="compute.steps.queue", registers={"inner_level": "inner", "r_rdy": "valid"}),
    Block(name="compute.arithmetic", state="compute.arithmetic", registers=_same("has", "hold") | {
        "result__valid": "result_valid", "writes": _writes}),
    Block(name="compute.arithmetic", state="compute.arithmetic", holds=lambda s: s.has, registers=_same("unwritten", "delay") | {
        "now.dst": "dst", "now.is_alu": "is_alu"}),
    Block(name="compute", state="compute", registers=_same("store_waits"), built=lambda core: core.acc_copies == 1),
    Block(name="compute.arithmetic", state="compute.arithmetic", holds=lambda s: s.has, registers=_same("doubles", "half"),
          built=lambda core: core.acc_copies == 1),
    Block(name="compute.arithmetic", state="compute.arithmetic", holds=lambda s: s.has, registers=_same("part"),
          built=lambda core: max(core.gemm_passes, core.mul_passes) > 1),
    *_issue("store", 1), *_bursts("store.port"),
    Block(name="store.port", state="store.port", registers=_same("active")),
    Block(name="store.port", state="store.port", holds=lambda s: s.active, registers=_same("left", "rows_left", "part")),
    Block(name="store.port.narrower", state="store.port.narrower", registers=_same("room")),
    Block(name="store.master", state="store.master", registers=_same("here", "in_flight", "sent") | {
        "axi__aw__valid": "aw_valid"}),
)


def _path(block: str) -> str:
    return block if block in _CONTROL else f"core.{block}"


# A block, whether it is beside the core, its place in a state, and each register's name, path in the RTL and value.
_Compared = tuple[Block, bool, Callable[[Any], Any], tuple[tuple[str, str, Callable[[Any], Any]], ...]]
_COMPARED: tuple[_Compared, ...] = tuple(
    (block, block.name in _CONTROL, attrgetter(block.state), tuple(
        (signal, f"{_TOP}.{_path(block.name)}.{signal}", attrgetter(register) if isinstance(register, str) else register)
        for signal, register in block.registers.items()
    ))
    for block in BLOCKS
)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Parting:
    """Register that differs, in a cycle from the program's start on."""

    cycle: int
    block: str
    register: str
    got: int
    want: int

    def __str__(self) -> str:
        return f"cycle {self.cycle}: {_path(self.block)}.{self.register} is {self.got}, want {self.want}"


def first_partings(
    cfg: VTAConfig, dram: bytes, insn_addr: int, insn_count: int, memories: Memories, *,
    bus_bits: int = REFERENCE.bus_bits, core: Mapping[str, Any] | None = None, **around: Any,
) -> list[Parting]:
    """Return the registers that differ in the first cycle in which any does; none if all are equal to the program's end.

    core   : fields of `vtakit.hw.params.CoreParams`
    around : fields of `vtakit.sim.rtl.surroundings.Surroundings`

    If none differs, but the RTL stops where the model goes on, that is a difference of the supervisor. Raises `VtakitError` if
    the RTL has no longer a register of that name.
    """
    params = CoreParams.of(cfg, bus_bits, core)
    blocks = [each for each in _COMPARED if each[0].built(params)]
    with TemporaryDirectory(prefix="vtakit.") as folder:
        wave = Path(folder) / "run.vcd"
        bases = {kind.name.lower(): base for kind, base in memories.bases.items()}
        with suppress(DeviceError, ProgramFault):  # hardware that has changed may fail, and leaves a waveform up to there
            simulate(cfg, bytearray(dram), insn_addr, insn_count, bus_bits=bus_bits, core=core, bases=bases, wave=wave, **around)
        hardware = _cycles(wave, {path for _, _, _, registers in blocks for _, path, _ in registers})
        decoded = decoded_program(cfg, bytes(dram[insn_addr : insn_addr + insn_count * INSN_BYTES]), params.published)
        steps = Steps(decoded, bytearray(dram), insn_addr, memories, params, Surroundings(**around))
        busy, ended = 0, False
        for signals in islice(hardware, _RESET_CYCLES, None):
            found = _differences(busy, signals, steps.state, blocks)
            if found or ended:
                return found
            busy += steps.busy
            ended = steps.step()
    return [Parting(cycle=busy, block="supervisor", register="goes_on", got=1, want=0)]


def _differences(cycle: int, signals: dict[str, int], state: Any, blocks: Iterable[_Compared]) -> list[Parting]:
    """Return the registers that differ: the host's until it has started the program, the core's from its first cycle on."""
    found = []
    running = state.supervisor.state
    for block, beside, place, registers in blocks:
        compared = running >= BEGIN if not beside else block.name != "registers" or (running == IDLE and not cycle)
        if not compared:
            continue
        mine = place(state if beside else state.core)
        if not block.holds(mine):
            continue
        for signal, path, register in registers:
            got, want = int(register(mine)), signals[path]
            if got != want:
                found.append(Parting(cycle=cycle, block=block.name, register=signal, got=got, want=want))
    return found


def _cycles(wave: Path, wanted: set[str]) -> Iterator[dict[str, int]]:
    """Yield the signals in each cycle, from a waveform that has them after each rising edge."""
    with wave.open(encoding="ascii") as file:
        names = _declared(file, wanted)
        if missing := wanted - {name for of_code in names.values() for name in of_code}:
            raise VtakitError(f"the RTL has no register {min(missing)}: bring sim/cycle/lockstep.py in step with hw/")
        values = dict.fromkeys(wanted, 0)
        rising = False
        for line in file:
            if line[0] == "#":
                if rising:
                    yield dict(values)
                rising = int(line[1:]) % 2 == 1
                continue
            if line[0] == "b":
                digits, _, code = line[1:].partition(" ")
                value = int(digits, 2)
            else:
                value, code = int(line[0] == "1"), line[1:]
            for name in names.get(code, ()):
                values[name] = value


def _declared(file: Any, wanted: set[str]) -> dict[str, list[str]]:
    """Read the head of a waveform: the wanted signals of each of its codes, which end a line."""
    scope: list[str] = []
    names: dict[str, list[str]] = {}
    for line in file:
        words = line.split()
        if words[:1] == ["$scope"]:
            scope.append(words[2])
        elif words[:1] == ["$upscope"]:
            scope.pop()
        elif words[:1] == ["$var"] and (name := ".".join([*scope, words[4]])) in wanted:
            names.setdefault(f"{words[3]}\n", []).append(name)
        elif words[:1] == ["$enddefinitions"]:
            break
    return names
