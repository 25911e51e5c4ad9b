"""The accelerator for a design of somebody else: Verilog, a wrapper with AXI interfaces, the register map, what it asks for."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from xml.etree import ElementTree as xml

from amaranth.hdl import Shape
from amaranth.lib.wiring import In

from vtakit.hw.isa.c_header import c_registers
from vtakit.hw.isa.insns import ISA_VERSION, Feature
from vtakit.hw.isa.regs import ADDRESS_BITS, REGISTER_BYTES, TIMEOUT_CYCLES, AccessMode, Register, offsets
from vtakit.hw.params import PAGE_BYTES, CoreParams
from vtakit.hw.top import TOP_NAME, constants, pins

WRAPPER_NAME = f"{TOP_NAME}_axi"
RESET_CYCLES = 3  # that the accelerator needs its reset for
_BUSES = ("s_axil", "m_axi")
_ACCESS = {AccessMode.READ_ONLY: "read-only", AccessMode.READ_WRITE: "read-write", AccessMode.WRITE_ONE: "write-only"}


def files(params: CoreParams, verilog: str) -> dict[str, str]:
    """Return every file by its name; `verilog` is what `vtakit.hw.verilog.to_verilog` makes of `params`."""
    texts = {f"{TOP_NAME}.v": verilog, f"{WRAPPER_NAME}.v": wrapper(params)}
    return {
        **texts, f"{TOP_NAME}.f": "".join(f"{name}\n" for name in texts), f"{TOP_NAME}.svd": svd(params),
        f"{TOP_NAME}_registers.h": c_registers(), f"{TOP_NAME}.json": parameters(params), "README.md": readme(params),
    }


def _ports(params: CoreParams) -> list[tuple[str, bool, int]]:
    """(name, whether it is an input, width) of each pin but clock and reset."""
    return [(name, member.flow is In, Shape.cast(member.shape).width) for name, member in pins(params).items()]


def wrapper(params: CoreParams) -> str:
    """Return the module `vta_axi`: an active-low reset of one cycle or more, and what block designs know interfaces by.

    The attributes are those of Vivado's IP Integrator; others ignore them.
    """
    lines = []
    for name, is_input, width in _ports(params):
        bus = next((bus for bus in _BUSES if name.startswith(f"{bus}_")), None)
        what = (f"xilinx.com:interface:aximm:1.0 {bus} {name.removeprefix(f'{bus}_').upper()}" if bus else
                "xilinx.com:signal:interrupt:1.0 irq INTERRUPT")
        about = f'X_INTERFACE_INFO = "{what}"'
        if name == "irq":
            about += ', X_INTERFACE_PARAMETER = "SENSITIVITY LEVEL_HIGH"'
        if name in ("s_axil_awaddr", "m_axi_awaddr"):
            about += f', X_INTERFACE_PARAMETER = "{_bus_parameters(params)[name.removesuffix("_awaddr")]}"'
        size = f"[{width - 1}:0] " if width > 1 else ""
        lines.append(f"  (* {about} *)\n  {'input' if is_input else 'output'} wire {size}{name}")
    joined = ",\n".join(f"    .{name}({name})" for name, _, _ in _ports(params))
    body = ",\n".join(lines)
    return f"""// {TOP_NAME} with AXI interfaces and an active-low reset. Written by `vtakit verilog`.
module {WRAPPER_NAME} (
  (* X_INTERFACE_INFO = "xilinx.com:signal:clock:1.0 aclk CLK",
     X_INTERFACE_PARAMETER = "ASSOCIATED_BUSIF {':'.join(_BUSES)}, ASSOCIATED_RESET aresetn" *)
  input wire aclk,
  (* X_INTERFACE_INFO = "xilinx.com:signal:reset:1.0 aresetn RST", X_INTERFACE_PARAMETER = "POLARITY ACTIVE_LOW" *)
  input wire aresetn,
{body}
);
  // A reset of one cycle becomes one of {RESET_CYCLES} more.
  reg [{RESET_CYCLES - 1}:0] held;
  always @(posedge aclk)
    held <= aresetn ? {{held[{RESET_CYCLES - 2}:0], 1'b0}} : {{{RESET_CYCLES}{{1'b1}}}};
  {TOP_NAME} {TOP_NAME} (
    .clk(aclk),
    .rst(!aresetn || |held),
{joined}
  );
endmodule
"""


def _bus_parameters(params: CoreParams) -> dict[str, str]:
    memory = {
        "PROTOCOL": "AXI4", "DATA_WIDTH": params.bus_bits, "ADDR_WIDTH": params.address_bits, "ID_WIDTH": 1,
        "READ_WRITE_MODE": "READ_WRITE", "HAS_BURST": 1, "SUPPORTS_NARROW_BURST": 0, "MAX_BURST_LENGTH": params.burst_beats,
        "NUM_READ_OUTSTANDING": params.outstanding, "NUM_WRITE_OUTSTANDING": params.outstanding,
    }
    host = {"PROTOCOL": "AXI4LITE", "DATA_WIDTH": 8 * REGISTER_BYTES, "ADDR_WIDTH": ADDRESS_BITS}
    return {bus: ", ".join(f"{name} {value}" for name, value in given.items())
            for bus, given in zip(_BUSES, (host, memory), strict=True)}


def svd(params: CoreParams) -> str:
    """Return the register map as CMSIS-SVD (schema 1.3): a register of two words has 64 bits, its low half first."""
    device = xml.Element("device", {"schemaVersion": "1.3"})
    _add(device, vendor="vtakit", name="VTA", version=f"{ISA_VERSION[0]}.{ISA_VERSION[1]}",
         description="an accelerator for deep learning", addressUnitBits=8, width=32, size=32, access="read-write")
    peripheral = xml.SubElement(xml.SubElement(device, "peripherals"), "peripheral")
    _add(peripheral, name="VTA", description="host registers, AXI4-Lite", baseAddress="0x0")
    block = xml.SubElement(peripheral, "addressBlock")
    _add(block, offset="0x0", size=f"0x{1 << ADDRESS_BITS:x}", usage="registers")
    _add(xml.SubElement(peripheral, "interrupt"), name="VTA", description="a level, until it is acknowledged", value=0)
    registers = xml.SubElement(peripheral, "registers")
    for at, register in offsets():
        _register(registers, at, register, _reset_value(params, register))
    xml.indent(device)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{xml.tostring(device, encoding="unicode")}\n'


def _register(registers: xml.Element, at: int, register: Register, reset: int) -> None:
    found = xml.SubElement(registers, "register")
    _add(found, name=register.name.upper(), description=register.doc, addressOffset=f"0x{at:x}",
         size=32 * register.words, access=_ACCESS[register.mode], resetValue=f"0x{reset:x}")
    if not register.fields:
        return
    fields, bit = xml.SubElement(found, "fields"), 0
    for field in register.fields:
        _add(xml.SubElement(fields, "field"), name=field.name.upper(), description=field.doc, bitOffset=bit, bitWidth=field.width)
        bit += field.width


def _reset_value(params: CoreParams, register: Register) -> int:
    known = constants(params) | {"attributes": params.attributes}
    return known.get(register.name, register.init)


def _add(to: xml.Element, **children: object) -> None:
    for name, value in children.items():
        xml.SubElement(to, name).text = str(value)


def parameters(params: CoreParams) -> str:
    """Return what was built, as JSON: the configuration, what programs do not see, the features, the pins."""
    own = {name: value for name, value in asdict(params).items() if name != "cfg"}
    features = [feature.name for feature in Feature if feature in params.features]
    found = {name: {"direction": "in" if is_input else "out", "width": width} for name, is_input, width in _ports(params)}
    return json.dumps({"config": params.cfg.to_dict(), "core": own, "features": features, "pins": found}, indent=1) + "\n"


def readme(params: CoreParams) -> str:
    """Return what the accelerator asks of a design, in Markdown."""
    return "\n\n".join(_readme(params)) + "\n"


def _readme(params: CoreParams) -> Iterator[str]:
    rows: Mapping[str, str] = {
        "`aclk`": "the one clock, rising edge",
        "`aresetn`": f"active low, synchronous to `aclk`, for one cycle at least; `rst` of `{TOP_NAME}` is active high and needs "
                     f"{RESET_CYCLES} cycles. Initial values of registers are not needed",
        "`s_axil_…`": f"AXI4-Lite subordinate, 32 bits, {1 << ADDRESS_BITS} bytes: the registers of {TOP_NAME}.svd; one access "
                      "at a time",
        "`m_axi_…`": f"AXI4 manager, {params.bus_bits} bits, addresses of {params.address_bits} bits: incrementing bursts of "
                     f"whole beats, at most {params.burst_beats}, none across {PAGE_BYTES} bytes; one ID; up to "
                     f"{params.outstanding} bursts in flight each way. A write begins when all of its data are there. R waits a "
                     "cycle at most, B none",
        "`irq`": "a level, high from the end of a program until `control.acknowledge`, if `irq_enable` is set",
    }
    yield f"# {TOP_NAME}"
    yield "Written by `vtakit verilog`. All texts are Verilog-2001 that SystemVerilog reads alike; `vta.f` lists them in order."
    yield "| pin | |\n|---|---|\n" + "\n".join(f"| {pin} | {what} |" for pin, what in rows.items())
    yield ("`AxCACHE`, `AxPROT` and `AxQOS` are the register `attributes`, at first "
           f"0x{params.attributes:03x}. No output follows an input within a cycle.")
    yield (f"A memory that takes no transfer for `timeout` cycles ({TIMEOUT_CYCLES:,} at first; 0: any number) stops the program "
           "with the fault BUS_TIMEOUT. The accelerator then stays busy, since AXI has no way to take a burst back, until the "
           "memory answers; if it never does, memory and accelerator must be reset together.")
    yield (f"To run programs: `{TOP_NAME}_registers.h` is the `vtakit_registers.h` of `vtakit export`, whose `driver_mmio.c` "
           "maps the registers.")
