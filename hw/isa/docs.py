"""The reference page of the instruction set for one configuration, in Markdown; docs/isa.md is the default's."""

from collections.abc import Iterable, Iterator

from vtakit.hw.isa.config import NAMED, VTAConfig
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.formats import Format, Kind, Placed, listing
from vtakit.hw.isa.insns import (
    COMMAND_QUEUE_DEPTH,
    FLAG_QUEUES,
    FORMATS,
    ISA_VERSION,
    MEMORIES,
    REQUANT_PARAMS,
    TOKEN_QUEUE_DEPTH,
    UOP,
    Feature,
)
from vtakit.hw.isa.regs import HARDWARE_FAULTS, REGISTER_BYTES, Register, offsets

_NOTE = "<!-- Written by `vtakit isa`; do not edit. -->"


def reference(cfg: VTAConfig) -> str:
    """Everything a programmer of the device must know of bits, limits and registers for `cfg`."""
    name = next((n for n, c in NAMED.items() if c == cfg), "custom")
    parts = [
        _NOTE,
        f"# VTA instruction set {ISA_VERSION[0]}.{ISA_VERSION[1]}, configuration `{name}`",
        "Instructions are 128 bits, micro-ops 32, both little-endian. Bits that belong to no field must be 0.",
        "## Configuration", *_configuration(cfg),
        "## Stages and tokens", *_tokens(),
        "## Instructions", *(part for fmt in FORMATS.values() for part in _format(fmt, cfg)),
        "## Micro-op", *_format(UOP, cfg),
        "## Parameters of a REQUANT", *_format(REQUANT_PARAMS, cfg),
        "## Features", _table(("bit", "feature"), ((f.bit_length() - 1, f.name) for f in Feature)),
        "## Faults", "A program that does one of these is stopped; the code is what the error register reads.",
        _table(("code", "fault", "the program"), ((f.value, f.name, f.doc) for f in HARDWARE_FAULTS)),
        "The static checker also finds:",
        _table(("fault", "the program"), ((f.name, f.doc) for f in Fault if f not in HARDWARE_FAULTS)),
        "## Registers", *_registers(),
    ]
    return "\n\n".join(parts) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (head, ("---",) * len(head), *rows)]
    return "\n".join(lines)


def _configuration(cfg: VTAConfig) -> Iterator[str]:
    yield _table(("chosen (log2)", "value"), cfg.to_dict().items())
    rows = []
    for memory in MEMORIES.values():
        where = (memory.scratchpad, memory.depth_in(cfg), memory.stage.name.lower())
        rows.append((memory.kind.name, memory.kind.value, memory.bytes_in(cfg), *where, memory.doc))
    yield _table(("memory type", "code", "element bytes in DRAM", "scratchpad", "elements", "stage", "holds"), rows)
    if not cfg.has_acc8:
        yield "ACC_8BIT does not exist in this configuration: it needs 8-bit inputs and 32-bit accumulators."
    if not cfg.has_requant:
        yield (
            "REQUANT does not exist in this configuration: it needs 32-bit accumulators, at least 4 elements of them, and "
            "outputs of at most 8 bits."
        )


def _tokens() -> Iterator[str]:
    yield (
        "Each stage runs its own instructions in order. STORE and REQUANT run on the store stage, LOAD of INP and WGT on load, "
        "everything else on compute. A pop flag waits for a token before the instruction runs; a push flag gives one after "
        "its writes are done."
    )
    yield _table(("stage", "flag", "queue"), ((s.name.lower(), f, q.name.lower()) for (s, f), q in FLAG_QUEUES.items()))
    yield (
        f"A token queue holds at least {TOKEN_QUEUE_DEPTH} tokens. Instructions are fetched in program order, and the next is "
        f"fetched while fewer than {COMMAND_QUEUE_DEPTH} instructions of its stage have not retired; a device may fetch further "
        f"ahead. A program that needs a longer queue of either kind on some device is wrong."
    )


def _format(fmt: Format, cfg: VTAConfig) -> Iterator[str]:
    yield f"### {fmt.name}"
    yield fmt.doc
    rows = ((_bits(p), p.field.name, _values(p), p.field.doc) for p in fmt.place(cfg))
    yield _table(("bits", "field", "values", "meaning"), rows)


def _bits(placed: Placed) -> str:
    return f"{placed.offset + placed.width - 1}:{placed.offset}" if placed.width > 1 else str(placed.offset)


def _values(placed: Placed) -> str:
    if placed.field.members is not None:
        return listing(placed.field.members)
    return "flag" if placed.field.kind is Kind.FLAG else f"{placed.low} to {placed.high}"


def _registers() -> Iterator[str]:
    yield f"{8 * REGISTER_BYTES} bits each; ro: read only, rw: read and write, w1: writing a 1 acts."
    yield _table(("offset", "register", "words", "mode", "meaning"), (
        (f"0x{at:03x}", r.name, r.words, r.mode.value, _register_doc(r)) for at, r in offsets()
    ))


def _register_doc(register: Register) -> str:
    at, parts = 0, [register.doc]
    for field in register.fields:
        bits = f"{at + field.width - 1}:{at}" if field.width > 1 else str(at)
        parts.append(f"`{field.name}` {bits} {field.doc}")
        at += field.width
    return "; ".join(parts)
