"""Long runs of random programs: a device against its definition, and what to do with a difference.

The definition is `sim.plain` for results; for the cycles of device "cycle" it is the RTL. A difference is reported as the first
element or cycle that differs, the first instruction after which it does, a program shrunk by turning instructions into ones that
only carry tokens, and the command that repeats it.
"""

import random
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing import get_context, resource_tracker
from typing import Any

from vtakit.base.process import endings_noted
from vtakit.hw.isa.asm import disasm
from vtakit.hw.isa.codec import decode, encode, from_bytes, to_bytes
from vtakit.hw.isa.config import INSN_BYTES, NAMED, VTAConfig, load_config
from vtakit.hw.isa.errors import ConfigError
from vtakit.hw.isa.insns import FORMATS, TRANSFERS, Opcode
from vtakit.hw.system import BUS_BITS
from vtakit.sim.api import Result, find_device, run_image
from vtakit.sim.checker import check_image
from vtakit.sim.differences import first_cycle, first_difference
from vtakit.sim.faults import DeviceError, ProgramFault
from vtakit.sim.order import POLICIES
from vtakit.sim.program import decoded_program
from vtakit.sim.random_programs import RandomProgram, random_program
from vtakit.sim.random_systems import random_dram

ANY = "any"  # a configuration of its own for each program; for the RTL, whose models take a minute to build, for some in a row
_PROGRAMS_A_MODEL = 250
_MOST_MACS = 512  # of a random RTL model: larger ones take minutes
_CHUNK = 25  # programs a worker runs before it reports
_ORDERS = (*POLICIES, None)  # None: the program's seed
_REGISTERS = 3  # that a report names
_ON_RTL = ("rtl", "cycle")  # devices that are compared on models of the RTL


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Case of the fuzzer: all that is needed to repeat one random program."""

    config: str  # a name, the path of a JSON file, or "any"
    seed: int
    length: int
    device: str

    def load(self) -> VTAConfig:
        """The configuration meant."""
        if self.config != ANY:
            return load_config(self.config)
        if self.device in _ON_RTL:
            return random_config(self.model[1], _MOST_MACS)
        return random_config(self.seed)

    def program(self) -> RandomProgram:
        """The program meant; it may use all that the device has."""
        cfg = self.load()
        return random_program(cfg, self.seed, self.length, find_device(self.device).features(cfg))

    @property
    def model(self) -> tuple[str, int]:
        """Return the key of the case's RTL model. Cases with equal keys share a model."""
        return self.config, self.seed // _PROGRAMS_A_MODEL if self.config == ANY else 0

    @property
    def command(self) -> str:
        """The command that repeats it."""
        config = shlex.quote(self.config)
        return f"vtakit fuzz --device {self.device} --config {config} --seed {self.seed} --length {self.length} --programs 1"


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


def run_case(case: Case) -> Failure | None:
    """Run one random program on the definition and on a device, and check it statically."""
    program = case.program()
    found = check_image(program.dram, program.insn_addr, program.insn_count, program.config, memories=program.memories)
    if found:
        return Failure(case=case, difference=f"the static checker rejects a legal program: {found[0]}", instruction="", shrunk=())
    difference = _difference(program, case)
    if difference is None:
        return None

    def differs(kept: list[bool]) -> bool:
        return _difference(_emptied(program, kept), case) is not None

    def prefix(length: int) -> list[bool]:
        return [i < length for i in range(program.insn_count)]

    first = next(n for n in range(program.insn_count + 1) if n == program.insn_count or differs(prefix(n)))
    lines = [f"{i} ({disasm(word, program.config)})" for i, word in enumerate(from_bytes(_code(program)))]
    kept = shrink(prefix(first), differs)
    return Failure(
        case=case, difference=difference, instruction=f"instruction {lines[first - 1]}" if first else "",
        shrunk=tuple(line for line, keep in zip(lines, kept, strict=True) if keep),
        block=_first_block(program, case) if case.device == "cycle" else "",
    )


def shrink(kept: list[bool], still_fails: Callable[[list[bool]], bool]) -> list[bool]:
    """Drop instructions, in halves and then one by one, while the failure stays."""
    step = max(1, len(kept) // 2)
    while step:
        for start in range(0, len(kept), step):
            trial = [keep and not start <= i < start + step for i, keep in enumerate(kept)]
            if trial != kept and still_fails(trial):
                kept = trial
        step //= 2
    return kept


def _difference(program: RandomProgram, case: Case) -> str | None:
    if case.device == "cycle":
        bound = _bound(program, case)
        want = _run(program, "rtl", trace=True, **options(case), **bound)
        got = _run(program, "cycle", trace=True, data=False, **options(case), **bound)
    else:
        want = _run(program, "fsim", path="plain")
        got = _run(program, case.device, **options(case), **_bound(program, case))
    if isinstance(want, str) or isinstance(got, str):
        return None if want == got else f"{case.device} says {got!r:.200}, the definition says {want!r:.200}"
    return first_cycle(got, want) if case.device == "cycle" else first_difference(got, want)


def options(case: Case) -> dict[str, Any]:
    """Return the options that the seed varies: the order of stages in fsim; in hardware, the memory's latency, stalls and DRAM.

    Of random configurations also what a model is built for: the width of the bus, and the core.
    """
    if case.device == "fsim":
        order = _ORDERS[case.seed % len(_ORDERS)]
        return {"order": case.seed if order is None else order, "path": "compiled"}
    if case.device in _ON_RTL:
        numbers = random.Random(case.seed)
        built = _built(case.load(), case.model[1]) if case.config == ANY else {}
        chip = random_dram(case.seed) if case.seed % 3 else None
        return {
            "latency": numbers.choice((0, 1, 7, 40, 200)), "stall": numbers.choice((0, 10, 50, 80)), "seed": case.seed,
            "outstanding": numbers.choice((1, 2, 4, 16)), "bandwidth": numbers.choice((100, 100, 30)), "chip": chip,
            **built,
        }
    return {}


def _built(cfg: VTAConfig, seed: int) -> dict[str, Any]:
    numbers = random.Random(seed)
    bus_bits = numbers.choice(BUS_BITS)
    passes = {"gemm_passes": min(cfg.block, cfg.wgt_bytes), "mul_passes": cfg.batch * cfg.block}  # at most
    core = {name: numbers.choice([n for n in (1, 2, 4) if n <= most]) for name, most in passes.items()}
    return {"bus_bits": bus_bits, "core": core | {"acc_copies": numbers.choice((1, 2))}}


def _first_block(program: RandomProgram, case: Case) -> str:
    """Return registers of the hardware that differ from the cycle model's, in the first cycle in which any does."""
    lockstep = import_module("vtakit.sim.cycle.lockstep")  # needs Amaranth, which who fuzzes fsim may lack
    found = lockstep.first_partings(
        program.config, program.dram, program.insn_addr, program.insn_count, program.memories, **options(case))
    if not found:
        return "none; what is counted differs, or blocks are left out that do not wait"
    return "; ".join(map(str, found[:_REGISTERS]))


def _bound(program: RandomProgram, case: Case) -> dict[str, int]:
    """Return the cycles after which the hardware counts as hanging: many times those of the slowest memory of `options`."""
    if case.device not in _ON_RTL:
        return {}
    decoded = decoded_program(program.config, _code(program))
    rows, loops = int(decoded["y_size"].sum()), decoded.transfer_counters()
    moved = sum(value for name, value in loops.items() if name.endswith("nbytes"))
    steps = sum(loops[name] for name in ("gemm_counter", "gemm_reset_counter", "alu_counter"))
    return {"max_cycles": 20_000 + 5_000 * rows + 50 * moved + 100 * steps}


def _run(program: RandomProgram, device: str, **options: Any) -> Result | str:
    try:
        return run_image(
            program.dram, program.insn_addr, program.insn_count, program.config, device, bases=program.bases, **options
        )
    except (ProgramFault, DeviceError) as found:  # any other error is neither the program's nor the device's: it ends the run
        return str(found)


def _code(program: RandomProgram) -> bytes:
    return program.dram[program.insn_addr : program.insn_addr + program.insn_count * INSN_BYTES]


def _emptied(program: RandomProgram, kept: list[bool]) -> RandomProgram:
    """The program with all but the kept instructions turned into ones that only carry their tokens."""
    words = []
    for word, keep in zip(from_bytes(_code(program)), kept, strict=True):
        insn = decode(program.config, word)
        if not keep and insn.op is not Opcode.FINISH:
            empty = {"x_size": 0} if insn.op in TRANSFERS else {"rows": 0} if insn.op is Opcode.DWCONV else {"iter_out": 0}
            word = encode(program.config, FORMATS[insn.op].name, **{**insn.fields, **empty})
        words.append(word)
    code = to_bytes(words)
    return replace(program, dram=program.dram[: program.insn_addr] + code + program.dram[program.insn_addr + len(code) :])


def cases(device: str, configs: list[str], seed: int, programs: int, length: int) -> Iterator[Case]:
    """`programs` cases from `seed` on, the configurations in turn."""
    for number in range(programs):
        yield Case(config=configs[number % len(configs)], seed=seed + number, length=length, device=device)


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
