"""Proofs about a checker with open tools: Amaranth writes RTLIL, yosys an and-inverter graph, ABC decides.

ABC first merges signals that it proves equal (`scorr`), then runs property-directed reachability (`pdr`), which ends with an
invariant for all time or a counterexample. A counterexample is run again in Amaranth's own simulator, which shares nothing with
yosys and ABC, and printed cycle by cycle.
"""

import hashlib
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import pyosys
from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, Value
from amaranth.sim import Simulator, SimulatorContext
from formal.checker import Checker

from vtakit.base.process import ToolError, run_tool
from vtakit.base.writing import write_bytes
from vtakit.cache.place import cache_folder, trouble
from vtakit.hw.verilog import no_garbage_collection

ABC = Path(pyosys.__file__).parent / "yosys-abc"
PRODUCTS = Path(__file__).with_name("product.v")
TO_GRAPH = """
read_rtlil {folder}/design.il
hierarchy -top top
proc
flatten
chformal -lower
opt_clean
memory -nomap
memory_map
opt -nodffe -nosdff -keepdc
techmap -map {products}
opt -nodffe -nosdff -keepdc
techmap
opt -fast -nodffe -nosdff -keepdc
dffunmap
simplemap
setundef -undriven -anyseq
setundef -anyseq
aigmap
opt_clean
write_aiger -I -B -zinit -map {folder}/design.map {folder}/design.aig
"""
RUN_YOSYS = (
    "import sys; from pyosys import libyosys as ys; d = ys.Design(); "
    "[ys.run_pass(s.strip(), d) for s in sys.stdin if s.strip()]"
)
YOSYS_SECONDS = 300
MERGE = "scleanup; dc2; scorr; dc2; scleanup"
# What an answer depends on beside the text: the tools, and how they are called.
TOOLS = (version("pyosys"), PRODUCTS.read_text(), Path(__file__).read_text())
Found = TypeVar("Found")


class Verdict(Enum):
    """How an attempt ended."""

    PROVED = "proved for all time"
    BOUNDED = "no counterexample up to the depth"
    REFUTED = "counterexample"
    UNKNOWN = "not decided in time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was found out about a checker.

    depth      cycles of the counterexample, or within which there is none; 0 if proved
    broken     what the counterexample breaks: assertions, or the denial of covers
    trace      the counterexample as a table, one cycle a line
    """

    verdict: Verdict
    seconds: float
    depth: int = 0
    broken: tuple[str, ...] = ()
    trace: str = ""

    def __str__(self) -> str:
        at = f" ({self.depth} cycles)" if self.depth else ""
        why = f": {'; '.join(self.broken)}\n{self.trace}" if self.broken else ""
        return f"{self.verdict.value}{at} after {self.seconds:.1f} s{why}"


def kept(find: Callable[..., Found]) -> Callable[..., Found]:
    """Keep what an attempt has found, beside the models that are built: no tool runs again for the same text and question.

    In CI each run has a cache of its own, so everything is decided anew.
    """
    @wraps(find)
    def found(checker: Checker, **question: int) -> Found:
        asked = {name: value for name, value in question.items() if name != "seconds"}  # what is decided in time is so for ever
        text = "\0".join((find.__name__, repr(asked), _text(checker), _text(checker, denied=True), *TOOLS))
        place = cache_folder("proofs") / hashlib.sha256(text.encode()).hexdigest()
        if not trouble(place.parent) and place.exists():
            return read(json.loads(place.read_text()))
        answer = find(checker, **question)
        short = isinstance(answer, Outcome) and (
            answer.verdict is Verdict.UNKNOWN or (answer.verdict is Verdict.BOUNDED and answer.depth < question.get("cycles", 0)))
        if not short:  # of time: another run may get further
            data = asdict(answer) if isinstance(answer, Outcome) else answer
            write_bytes(place, json.dumps(data, default=str).encode(), "proof")
        return answer

    def read(data: Any) -> Any:
        if isinstance(data, list):
            return data
        return Outcome(**data | {"verdict": Verdict[data["verdict"].partition(".")[2]], "broken": tuple(data["broken"])})

    return found


class ProofError(Exception):
    """The tools disagree or said what this module does not understand: never a statement about the design."""


@kept
def prove(checker: Checker, *, seconds: int) -> Outcome:
    """Decide the checker's assertions for all time."""
    return _decide(checker, f"pdr -T {seconds}", seconds)


@kept
def bound(checker: Checker, *, cycles: int, seconds: int) -> Outcome:
    """Look for a counterexample among all runs of at most `cycles` cycles."""
    return _decide(checker, f"bmc3 -F {cycles} -T {seconds}", seconds)


@kept
def induct(checker: Checker, *, cycles: int, seconds: int) -> Outcome:
    """Decide the assertions for all time: in the last of `cycles` cycles from any state, and in all of them from reset.

    For pipelines, which forget. "Any" state keeps the equalities of signals that merging proved, for all time, and no more, so a
    run that breaks an assertion need not exist: then the verdict is that it is not known. `seconds` is for each part of a case
    split. The checker may assume nothing.
    """
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _to_graph(checker, folder)
        first = _search(checker, folder, f"bmc3 -F {cycles} -T {seconds}", seconds)
        if first.verdict is not Verdict.BOUNDED or first.depth < cycles:
            return first
        claims = len(checker.assertions)
        if checker.assumptions:
            raise ProofError(f"an assumption holds in no cycle before the first: {next(iter(checker.assumptions))!r}")
        _abc(folder, f"scleanup; scorr; frames -F {cycles}; write_aiger {folder}/frames.aig", 10 * seconds)
        for claim, meaning in enumerate(checker.assertions):
            cone = f"cone -O {claims * (cycles - 1) + claim}; comb; cone -O 0; strash"
            said = _abc(folder, f"{cone}; &get; &splitprove -T {seconds}", 10 * seconds, graph="frames.aig")
            if not re.search(r"\bUNSAT (after|without)", said):
                return Outcome(verdict=Verdict.UNKNOWN, seconds=time.monotonic() - begin, trace=f"{meaning}: {said}")
    return Outcome(verdict=Verdict.PROVED, seconds=time.monotonic() - begin)


@kept
def unreached(checker: Checker, *, cycles: int, seconds: int) -> list[str]:
    """The checker's covers that no run of at most `cycles` cycles was found to make true; none is the good answer."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _to_graph(checker, folder, denied=True)
        covers, reached = list(checker.covers), set[str]()
        for output in range(len(covers)):  # of the graph, in whatever order yosys wrote them: a replay says which it is
            reached.update(_search(checker, folder, f"bmc3 -F {cycles} -T {seconds}", seconds, denied=output).broken)
    return [cover for cover in covers if cover not in reached]


def _decide(checker: Checker, engine: str, seconds: int) -> Outcome:
    """Decide the checker's assertions."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _to_graph(checker, folder)
        return replace(_search(checker, folder, engine, seconds), seconds=time.monotonic() - begin)


def _search(checker: Checker, folder: Path, engine: str, seconds: int, denied: int | None = None) -> Outcome:
    """Decide all assertions of a graph; or, of one of covers, its output `denied`: that this cover is never true."""
    begin = time.monotonic()
    only = "" if denied is None else f"&get; &cone -a -O {denied}; &put; "
    counterexample = folder / "cex"
    counterexample.unlink(missing_ok=True)
    said = _abc(folder, f"{only}{MERGE}; {engine}; write_cex -n {counterexample}", seconds)
    if "network is combinational" in said:
        # Merging left no register: either nothing is left to prove, or the search starts from the unmerged graph.
        said = _abc(folder, f"{only}{MERGE}; orpos; iprove", seconds)
        if not re.search(r"\bUNSATISFIABLE", said):
            said = _abc(folder, f"{only}{engine}; write_cex -n {counterexample}", seconds)
    spent = time.monotonic() - begin
    if "Property proved" in said or re.search(r"\bUNSATISFIABLE", said):
        return Outcome(verdict=Verdict.PROVED, seconds=spent)
    if counterexample.exists():
        broken, trace, cycles = _replay(checker, folder, denied=denied is not None)
        return Outcome(verdict=Verdict.REFUTED, seconds=spent, depth=cycles, broken=broken, trace=trace)
    if frames := re.search(r"No output asserted in (\d+) frames", said):
        return Outcome(verdict=Verdict.BOUNDED, seconds=spent, depth=int(frames[1]))
    return Outcome(verdict=Verdict.UNKNOWN, seconds=spent, trace=said)


def _claims(checker: Checker, *, denied: bool) -> dict[str, Value]:
    """What is to hold in every cycle: the checker's assertions, or that each of its covers is not true."""
    return {cover: ~signal for cover, signal in checker.covers.items()} if denied else dict(checker.assertions)


def _text(checker: Checker, *, denied: bool = False) -> str:
    """Return the checker's block with its claims and assumptions, in yosys's own language."""
    module = checker.module()
    for claim in _claims(checker, denied=denied).values():
        module.d.comb += Assert(claim)
    for signal in checker.assumptions.values():
        module.d.comb += Assume(signal)
    ports = [checker.domain.clk, *(Value.cast(value) for value in checker.inputs.values())]
    with no_garbage_collection():
        return str(rtlil.convert(module, ports=ports, emit_src=False))


def _to_graph(checker: Checker, folder: Path, *, denied: bool = False) -> None:
    """Write the claims under the checker's assumptions as `design.aig`, and the places of its inputs as `design.map`."""
    (folder / "design.il").write_text(_text(checker, denied=denied))
    try:
        commands = TO_GRAPH.format(folder=folder, products=PRODUCTS)
        said = run_tool([sys.executable, "-c", RUN_YOSYS], given=commands, limit_seconds=YOSYS_SECONDS)
    except ToolError as error:
        raise ProofError(f"yosys {error.fate}:\n{error.output[-4000:]}") from None
    if not (folder / "design.aig").exists():
        raise ProofError(f"yosys has written no graph:\n{said[-4000:]}")


def _abc(folder: Path, commands: str, seconds: int, graph: str = "design.aig") -> str:
    """What ABC says to these commands on the graph, its assumptions folded in."""
    script = f"read_aiger {folder}/{graph}; fold; strash; {commands}"
    try:
        return run_tool([str(ABC), "-c", script], limit_seconds=seconds + 60)
    except ToolError as error:
        return f"{error.output}\nABC {error.fate}"


def _replay(checker: Checker, folder: Path, *, denied: bool) -> tuple[tuple[str, ...], str, int]:
    """Run ABC's counterexample in Amaranth's simulator: the claims that break, the table, the number of cycles."""
    found = re.findall(r"^input (\d+) (\d+) (\S+)$", (folder / "design.map").read_text(), re.MULTILINE)
    places = {int(number): (name, int(bit)) for number, bit, name in found}
    cycles: list[dict[str, int]] = []
    for number, cycle, value in re.findall(r"pi(\d+)@(\d+)=([01])", (folder / "cex").read_text()):
        while len(cycles) <= int(cycle):
            cycles.append(dict.fromkeys(checker.inputs, 0))
        name, bit = places.get(int(number), ("clk", 0))  # the others are start values of memories' outputs
        if name != "clk":
            cycles[int(cycle)][name] |= int(value) << bit
    module = checker.module()
    columns = {name: Value.cast(value) for name, value in (checker.inputs | checker.watched).items()}
    rows: list[list[int]] = []
    broken: list[str] = []
    claims = _claims(checker, denied=denied)

    async def play(ctx: SimulatorContext) -> None:
        for values in cycles:
            for name, value in values.items():
                ctx.set(Value.cast(checker.inputs[name]), value)
            rows.append([ctx.get(value) for value in columns.values()])
            for meaning, signal in checker.assumptions.items():
                if not ctx.get(signal):
                    raise ProofError(f"the counterexample breaks the assumption {meaning!r} in cycle {len(rows) - 1}")
            broken.extend(meaning for meaning, claim in claims.items() if not ctx.get(claim))
            if broken and not denied:  # a way to one cover may lead past others
                return
            await ctx.tick()

    simulator = Simulator(module)
    simulator.add_clock(1e-6)
    simulator.add_testbench(play)
    simulator.run()
    if not broken:
        raise ProofError(f"the simulator finds nothing wrong with the counterexample:\n{_table(list(columns), rows)}")
    return tuple(dict.fromkeys(broken)), _table(list(columns), rows), len(rows)


def _table(names: list[str], rows: list[list[int]]) -> str:
    """One line a signal, one column a cycle, numbers in hexadecimal."""
    lines = [("cycle", [str(n) for n in range(len(rows))])]
    lines += [(name, [f"{row[n]:x}" for row in rows]) for n, name in enumerate(names)]
    widths = [max(len(cells[n]) for _, cells in lines) for n in range(len(rows))]
    first = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:>{first}}  " + " ".join(f"{cell:>{w}}" for cell, w in zip(cells, widths, strict=True))
                     for name, cells in lines)
