"""A module around the accelerator whose only inputs are clocks: the other pins are variables that the harness writes.

Verilator works out what depends on a top's input before the clock edge and again behind it. Here every such pin comes from a
register, loaded at the edge with what the harness has put beside it, so all that depends on pins is worked out once a cycle.
"""

import re
from collections.abc import Collection, Mapping

from vtakit.hw.top import TOP_NAME

WRAPPER_NAME = "outside"
CLOCK = "clk"
_PORT = re.compile(r"^  (input|output) (\[\d+:0\] )?(\w+);$", re.MULTILINE)


def wrapper(verilog: str, others: Mapping[str, Collection[str]] | None = None) -> str:
    """Verilog of the module `WRAPPER_NAME` around the module `TOP_NAME` of a Verilog text.

    Its outputs are that module's. For each of that module's inputs but the clock it has a variable `next_…`, which the harness
    writes before a clock edge, and a register, which that edge loads from it.

    others    further clocks among the inputs, and the inputs that go with each
    """
    module = re.search(rf"^module {TOP_NAME}\(.*?^endmodule$", verilog, re.MULTILINE | re.DOTALL)
    assert module is not None
    ports = _PORT.findall(module[0])
    clocks = {CLOCK: (), **(others or {})}
    inputs = [(name, width) for way, width, name in ports if way == "input" and name not in clocks]
    outputs = [(name, width) for way, width, name in ports if way == "output"]
    far = {name for names in clocks.values() for name in names}
    loaded = {clock: names or [name for name, _ in inputs if name not in far] for clock, names in clocks.items()}
    pins = [*(f"input {clock}" for clock in clocks), *(f"output {width}{name}" for name, width in outputs)]
    lines = [
        f"module {WRAPPER_NAME}({', '.join(pins)});",
        *(f"  reg {width}next_{name} /*verilator public_flat_rw*/;\n  reg {width}{name};" for name, width in inputs),
        *(line for clock, names in loaded.items() for line in (
            f"  always @(posedge {clock}) begin", *(f"    {name} <= next_{name};" for name in names), "  end")),
        f"  {TOP_NAME} {TOP_NAME}({', '.join(f'.{name}({name})' for _, _, name in ports)});",
        "endmodule",
    ]
    return "\n".join(lines) + "\n"
