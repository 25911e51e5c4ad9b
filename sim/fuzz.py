"""Long runs of random programs: a device against its definition, and what to do with a difference.

The definition is `sim.plain` for results; for the cycles of device "cycle" it is the RTL. A difference is reported as the first
element or cycle that differs, the first instruction after which it does, a program shrunk by turning instructions into ones that
only carry tokens, and the command that repeats it.
"""

import random
import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from multiprocessing import get_context, resource_tracker
from typing import Any

from vtakit.base.process import endings_noted
from vtakit.hw.isa.asm import disasm
from vtakit.hw.isa.codec import from_bytes
from vtakit.hw.isa.config import NAMED, VTAConfig, load_config
from vtakit.hw.isa.errors import ConfigError
from vtakit.hw.isa.insns import Feature
from vtakit.hw.system import BUS_BITS, load_system
from vtakit.sim.api import Result, find_device, run_image
from vtakit.sim.checker import check_image
from vtakit.sim.differences import first_cycle, first_difference
from vtakit.sim.faults import DeviceError, ProgramFault
from vtakit.sim.order import POLICIES
from vtakit.sim.program import decoded_program
from vtakit.sim.random_programs import RandomProgram, random_program
from vtakit.sim.random_systems import CYCLES_A_BYTE, random_dram, slowness
from vtakit.sim.shrinking import narrowed

ANY = "any"  # a configuration of its own for each program; for the RTL, whose models take a minute to build, for some in a row
_PROGRAMS_A_MODEL = 250
_MOST_MACS = 512  # of a random RTL model: larger ones take minutes
_CHUNK = 25  # programs a worker runs before it reports
_ORDERS = (*POLICIES, None)  # None: the program's seed
_REGISTERS = 3  # that a report names
_LONG_EVERY, _LONG = 97, 40  # no divisor in common with a number of configurations; times as long
_FAR_EVERY = 20  # one memory in so many lets the core have all the bursts in flight that it can
_ON_RTL = ("rtl", "cycle")  # devices that are compared on models of the RTL


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Case of the fuzzer: all that is needed to repeat one random program."""

    config: str  # a name, the path of a JSON file, or "any"
    seed: int
    length: int
    device: str
    system: str = ANY  # memory system of hardware: a name, the path of a JSON file, or "any": one of the seed, with stalls

    def load(self) -> VTAConfig:
        """The configuration meant."""
        if self.config != ANY:
            return load_config(self.config)
        if self.device in _ON_RTL:
            return random_config(self.model[1], _MOST_MACS)
        return random_config(self.seed)

    def program(self) -> RandomProgram:
        """The program meant; it may use all that the device has."""
        return self._checked()[0]

    def finding(self) -> str:
        """Return what the static checker finds in the program; empty if it is legal."""
        return self._checked()[1]

    def _checked(self) -> tuple[RandomProgram, str]:
        cfg = self.load()
        return _checked(cfg, self.seed, self.length, find_device(self.device).features(cfg), crowds=self.device == "cycle")

    @property
    def model(self) -> tuple[str, int]:
        """Return the key of the case's RTL model. Cases with equal keys share a model."""
        return self.config, self.seed // _PROGRAMS_A_MODEL if self.config == ANY else 0

    @property
    def command(self) -> str:
        """The command that repeats it."""
        config = shlex.quote(self.config)
        system = f" --system {shlex.quote(self.system)}" if self.system != ANY else ""
        return (f"vtakit fuzz --device {self.device} --config {config}{system} --seed {self.seed} --length {self.length} "
                "--programs 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A program on which a device and the definition, or the static checker, disagree."""

    case: Case
    difference: str
    instruction: str  # the first after which the two differ; empty if that is not known
    shrunk: tuple[str, ...]  # disassembly of what is left of the program
    block: str = ""  # of the hardware, whose registers differ first from those of the cycle model; empty of other devices

    def __str__(self) -> str:
        lines = [self.difference, *([f"first differs after {self.instruction}"] if self.instruction else []),
                 *([f"first registers: {self.block}"] if self.block else [])]
        return "\n".join([*lines, f"replay: {self.case.command}", "shrunk program:", *(f"  {line}" for line in self.shrunk)])


def random_config(seed: int, most_macs: int | None = None) -> VTAConfig:
    """A legal configuration that a seed stands for, with scratchpads small enough to fill and at most so many MACs."""
    numbers = random.Random(seed)
    while True:
        block, batch = numbers.randint(0, 6), numbers.randint(0, 3)
        if most_macs is not None and 1 << (2 * block + batch) > most_macs:
            continue
        inp, wgt, acc = numbers.randint(0, 4), numbers.randint(0, 4), numbers.randint(3, 5)
        depth = [numbers.randint(1, 11) for _ in range(4)]
        try:
            return VTAConfig(
                log_inp_width=inp, log_wgt_width=wgt, log_acc_width=acc, log_batch=batch, log_block=block,
                log_uop_buff_size=depth[0] + 2, log_inp_buff_size=max(0, depth[1] + batch + block + inp - 3),
                log_wgt_buff_size=max(0, depth[2] + 2 * block + wgt - 3),
                log_acc_buff_size=max(0, depth[3] + batch + block + acc - 3),
            )
        except ConfigError:
            continue


@lru_cache(maxsize=1)  # memory systems of one program follow each other
def _checked(cfg: VTAConfig, seed: int, length: int, features: Feature, *, crowds: bool) -> tuple[RandomProgram, str]:
    p = random_program(cfg, seed, length, features, crowds=crowds)
    found = check_image(p.dram, p.insn_addr, p.insn_count, cfg, memories=p.memories)
    return p, str(found[0]) if found else ""


def run_case(case: Case) -> Failure | None:
    """Run one random program on the definition and on a device, and check it statically."""
    program = case.program()
    if wrong := case.finding():
        return Failure(case=case, difference=f"the static checker rejects a legal program: {wrong}", instruction="", shrunk=())
    found = difference(program, case)
    if found is None:
        return None

    lines = [f"{i} ({disasm(word, program.config)})" for i, word in enumerate(from_bytes(program.code))]
    first, kept = narrowed(program, lambda less: difference(less, case) is not None)
    return Failure(
        case=case, difference=found, instruction=f"instruction {lines[first - 1]}" if first else "",
        shrunk=tuple(line for line, keep in zip(lines, kept, strict=True) if keep),
        block=first_block(program, case) if case.device == "cycle" else "",
    )


def difference(program: RandomProgram, case: Case) -> str | None:
    """Return the first difference between a device and its definition; None if there is none."""
    if case.device == "cycle":
        bound = _bound(program, case)
        want = _run(program, "rtl", trace=True, **options(case), **bound)
        got = _run(program, "cycle", trace=True, data=False, **options(case), **bound)
    else:
        want = _run(program, "fsim", path="plain")
        got = _run(program, case.device, **options(case), **_bound(program, case))
    if isinstance(want, str) or isinstance(got, str):
        return None if want == got else f"{case.device} says {_said(got)}, the definition says {_said(want)}"
    return first_cycle(got, want) if case.device == "cycle" else first_difference(got, want)


def options(case: Case) -> dict[str, Any]:
    """Return the options that the seed varies: the order of stages in fsim; in hardware, the memory's latency, stalls and DRAM.

    Of random configurations also what a model is built for: the width of the bus, and the core. A memory system that the case
    names decides all but the core.
    """
    if case.device == "fsim":
        order = _ORDERS[case.seed % len(_ORDERS)]
        return {"order": case.seed if order is None else order, "path": "compiled"}
    if case.device in _ON_RTL:
        numbers = random.Random(case.seed)
        built = _built(case.load(), case.model[1]) if case.config == ANY else {}
        if case.system != ANY:
            return built | load_system(case.system).options
        memory = {
            "latency": numbers.choice((0, 1, 7, 40, 200)), "stall": numbers.choice((0, 10, 50, 80)), "seed": case.seed,
            "outstanding": numbers.choice((1, 2, 4, 16)), "bandwidth": numbers.choice((100, 100, 30)),
            "chip": random_dram(case.seed) if case.seed % 3 else None,
        }
        far = {"latency": 1000, "stall": 0, "outstanding": 64} if numbers.randrange(_FAR_EVERY) == 0 else {}
        return memory | far | built
    return {}


def _built(cfg: VTAConfig, seed: int) -> dict[str, Any]:
    numbers = random.Random(seed)
    bus_bits = numbers.choice(BUS_BITS)
    passes = {"gemm_passes": min(cfg.block, cfg.wgt_bytes), "mul_passes": cfg.batch * cfg.block}  # at most
    core = {name: numbers.choice([n for n in (1, 2, 4) if n <= most]) for name, most in passes.items()}
    return {"bus_bits": bus_bits, "core": core | {"acc_copies": numbers.choice((1, 2))}}


def first_block(program: RandomProgram, case: Case) -> str:
    """Return registers of the hardware that differ from the cycle model's, in the first cycle in which any does."""
    lockstep = import_module("vtakit.sim.cycle.lockstep")  # needs Amaranth, which who fuzzes fsim may lack
    found = lockstep.first_partings(
        program.config, program.dram, program.insn_addr, program.insn_count, program.memories,
        **options(case), **_bound(program, case))
    if not found:
        return "none; what is counted differs, or blocks are left out that do not wait"
    return "; ".join(map(str, found[:_REGISTERS]))


def _bound(program: RandomProgram, case: Case) -> dict[str, int]:
    """Return the cycles after which the hardware counts as hanging: many times those of the slowest memory of `options`."""
    if case.device not in _ON_RTL:
        return {}
    decoded = decoded_program(program.config, program.code)
    rows, loops = int(decoded["y_size"].sum()), decoded.transfer_counters()
    moved = sum(value for name, value in loops.items() if name.endswith("nbytes"))
    steps = sum(loops[name] for name in ("gemm_counter", "gemm_reset_counter", "alu_counter"))
    slow = slowness(load_system(case.system)) if case.system != ANY else 1
    return {"max_cycles": slow * (20_000 + 5_000 * rows + CYCLES_A_BYTE * moved + 100 * steps)}


def _run(program: RandomProgram, device: str, **options: Any) -> Result | str:
    try:
        return run_image(
            program.dram, program.insn_addr, program.insn_count, program.config, device, bases=program.bases, **options
        )
    except (ProgramFault, DeviceError) as found:  # any other error is neither the program's nor the device's: it ends the run
        return str(found)


def _said(found: Result | str) -> str:
    return f"{found!r:.200}" if isinstance(found, str) else "that the program ends"


def cases(
    device: str, configs: list[str], seed: int, programs: int, length: int, systems: Sequence[str] = (ANY,),
) -> Iterator[Case]:
    """Yield the cases of `programs` programs from `seed` on, the configurations in turn, each on every memory system.

    For the cycle model one in `_LONG_EVERY` is longer, so that the queues of instructions fill.
    """
    for number in range(programs):
        longer = _LONG if device == "cycle" and number % _LONG_EVERY == _LONG_EVERY - 1 else 1
        for system in systems:
            yield Case(config=configs[number % len(configs)], seed=seed + number, length=longer * length, device=device,
                       system=system)


def fuzz(work: list[Case], jobs: int, done: Callable[[int], None]) -> list[Failure]:
    """Run cases on up to `jobs` processes; `done` is told how many have been run each time some have.

    Stops at the end of the round in which the first failure shows.
    """
    chunks = list(_chunks(work))
    jobs = min(jobs, len(chunks))
    if jobs <= 1:
        for chunk in chunks:
            failures = _run_chunk(chunk)
            done(len(chunk))
            if failures:
                return failures
        return []
    with ExitStack() as ending:  # leaving ends the workers at once, and they the tools they have started
        with _interrupts_wait():
            pool = ending.enter_context(get_context("spawn").Pool(jobs))
        for chunk, failures in zip(chunks, pool.imap(_run_chunk, chunks), strict=True):
            done(len(chunk))
            if failures:
                return failures
    return []


def _chunks(work: list[Case]) -> Iterator[list[Case]]:
    """The cases in pieces; those of an RTL model follow each other, so that each is built when the ones before it have run."""
    groups: dict[tuple[str, int] | None, list[Case]] = {}
    for case in work:
        groups.setdefault(case.model if case.device in _ON_RTL else None, []).append(case)
    for group in groups.values():
        for at in range(0, len(group), _CHUNK):
            yield group[at : at + _CHUNK]


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Ctrl-C waits until the end. Processes started here never see it, not even while they import: the answer is ours alone."""
    resource_tracker.ensure_running()  # its own start, with the first worker, would let interrupts through again
    with endings_noted():  # blocking is for this thread and what it starts; another thread may still get the signal
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _run_chunk(chunk: list[Case]) -> list[Failure]:
    return [failure for failure in map(run_case, chunk) if failure is not None]


def default_configs() -> list[str]:
    """All named configurations, and "any"."""
    return [*NAMED, ANY]
