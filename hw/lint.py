"""Waivers of Verilator's warnings for the generated Verilog, with reasons; docs/synthesis.md shows this list."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waiver:
    """A rule of `verilator -Wall` that is not applied; with `match`, only to messages of that form."""

    rule: str
    reason: str
    match: str = ""


# What would be a defect stays on, among it LATCH, UNDRIVEN, PINMISSING, SELRANGE and BLKSEQ; yosys looks for loops and for
# signals with two drivers (tests/hw/test_verilog.py).
WAIVERS = (
    Waiver("ASCRANGE", "a token is a stream element without data; its wire of no bits prints as [-1:0]", "*[-1:0]*"),
    Waiver("CASEINCOMPLETE", "Amaranth assigns every signal before its `case`; LATCH would tell if one were missed"),
    Waiver("CMPCONST", "of several lanes the last compares with the highest number there is"),
    Waiver("DECLFILENAME", "all modules are in one file"),
    Waiver("PROCASSINIT", "Amaranth gives every register its reset value as its initial value too"),
    Waiver("UNSIGNED", "blocks are general: instructions may be fetched from any address on, `address >= 0`"),
    Waiver("UNUSEDSIGNAL", "every block declares whole interfaces, and yosys names each intermediate value"),
    Waiver("WIDTHEXPAND", "Amaranth's arithmetic never overflows: it widens an operand where Verilog's rules widen it too"),
    Waiver("WIDTHTRUNC", "Amaranth keeps the low bits where a value is assigned to a narrower signal, and `!x` means x == 0"),
)


def waiver_file() -> str:
    """The waivers as text of a Verilator configuration file (.vlt)."""
    lines = ["`verilator_config"]
    for waiver in WAIVERS:
        match = f' -file "*" -match "{waiver.match}"' if waiver.match else ""
        lines += [f"// {waiver.reason}", f"lint_off -rule {waiver.rule}{match}"]
    return "\n".join(lines) + "\n"
