"""Registers behind the multipliers of an ECP5 move into their DSP blocks, which yosys leaves unused."""

import json
from collections import defaultdict
from typing import Any

MULTIPLIER, REGISTER = "MULT18X18D", "TRELLIS_FF"
_HELD = {"REG_OUTPUT_CLK": "CLK0", "REG_OUTPUT_CE": "CE0", "REG_OUTPUT_RST": "RST0", "GSR": "DISABLED"}
_PLAIN = {"CLKMUX": "CLK", "LSRMUX": "LSR", "REGSET": "RESET", "GSR": "DISABLED"}  # of registers that a DSP block's can replace
Cell = dict[str, Any]


def pack_products(netlist: str, top: str) -> tuple[str, int]:
    """The netlist of yosys (its JSON) with products held in DSP blocks, and how many registers of the fabric that saved.

    A multiplier's registers are taken if each bit of the product that is used goes to one register and nowhere else, and these
    have the same clock and enable, no reset, and 0 as their value after configuration. Without them two wires lie between two
    clock edges, into the block and out of it; with them, one.
    """
    design = json.loads(netlist)
    module = design["modules"][top]
    cells: dict[str, Cell] = module["cells"]
    readers: dict[int, list[tuple[str, str]]] = defaultdict(list)  # of a bit: cells and their ports
    for name, cell in cells.items():
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == "input":
                for bit in bits:
                    readers[bit].append((name, port))
    for port in module["ports"].values():
        for bit in port["bits"]:
            readers[bit].append(("", ""))
    moved: dict[int, int] = {}  # bits that are no more, and what they have become
    for cell in [cell for cell in cells.values() if cell["type"] == MULTIPLIER]:
        product = {port: bits[0] for port, bits in cell["connections"].items() if port[0] == "P" and readers[bits[0]]}
        found = {port: _register(cells, readers[bit]) for port, bit in product.items()}
        registers = {port: cells[name] for port, name in found.items() if name}
        if not registers or len(registers) < len(found) or len({_control(register) for register in registers.values()}) > 1:
            continue
        clock, enable = _control(next(iter(registers.values())))
        cell["parameters"] |= _HELD
        for port, bit in (("CLK0", clock), ("CE0", enable), ("RST0", "0")):
            cell["connections"][port] = [bit]
            cell["port_directions"][port] = "input"
        for port, register in registers.items():
            kept = register["connections"]["Q"][0]
            moved[product[port]] = kept
            cell["connections"][port] = [kept]
        for name in found.values():
            del cells[name]
    for net in module["netnames"].values():
        net["bits"] = [moved.get(bit, bit) for bit in net["bits"]]
    return json.dumps(design), len(moved)


def _register(cells: dict[str, Cell], readers: list[tuple[str, str]]) -> str:
    """The name of the register that alone reads a bit, if a DSP block's can replace it; else nothing."""
    (name, port), *others = readers
    if others or port != "DI" or cells[name]["type"] != REGISTER:
        return ""
    settings, connections = cells[name]["parameters"], cells[name]["connections"]
    plain = all(settings.get(key) == value for key, value in _PLAIN.items())
    return name if plain and connections["LSR"] == ["0"] and settings["CEMUX"].strip() in {"CE", "1"} else ""


def _control(register: Cell) -> tuple[int, int | str]:
    """A register's clock and enable."""
    always = register["parameters"]["CEMUX"].strip() == "1"
    connections = register["connections"]
    return connections["CLK"][0], "1" if always else connections["CE"][0]
