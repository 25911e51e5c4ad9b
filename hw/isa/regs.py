"""The host's registers, as data: the RTL's register block, every driver and the reference page are derived from this.

All registers are 32 bits wide, on an AXI4-Lite bus of byte addresses. A 64-bit quantity takes two neighbours, low half first;
reading the low half of a counter latches its high half. An access to an address without a register, a write to a read-only
one, a start while busy, a change of the settings while busy and a write that sets a bit which the device does not have (of an
address beyond `bus.address_bits`) are answered with SLVERR and change nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from vtakit.hw.isa.config import INSN_BYTES, VTAConfig
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import ALL_FEATURES, ISA_VERSION, MEMORIES, Feature, Stage, usable

REGISTER_BYTES = 4
TIMEOUT_CYCLES = 1 << 24  # a sixth of a second at 100 MHz
NORMAL_MEMORY = 0b0011  # AxCACHE: modifiable, bufferable
IDENTITY = int.from_bytes(b"VTA1", "big")
DRAM_ADDRESS_BITS = 40  # of a device, if it is not built otherwise: what `bus.address_bits` reads
BASE_ALIGN_BYTES = 64  # a base register is a multiple of this, so that an element never straddles bus beats needlessly


class AccessMode(StrEnum):
    """Who may write a register."""

    READ_ONLY = "ro"
    READ_WRITE = "rw"
    WRITE_ONE = "w1"  # writing a 1 acts; reads as 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RegField:
    """Some bits of a register."""

    name: str
    width: int
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """One 32-bit register, or two for a 64-bit quantity (`words` 2); fields fill from bit 0 up.

    align    its value is a multiple of this: the bits below are 0, whatever is written
    init     its value after a reset of the whole device
    """

    name: str
    mode: AccessMode
    doc: str
    fields: tuple[RegField, ...] = ()
    words: int = 1
    align: int = 1
    init: int = 0


# The order of the fields in CONFIG: the nine values of a VTAConfig.
_CONFIG_FIELDS = tuple(VTAConfig.__dataclass_fields__)
# What each stage's cycles are attributed to; every cycle of every stage is counted in exactly one.
CYCLE_CAUSES = {
    "busy": "moved data or ran a step",
    "wait_prev": "waited for a token from the stage before",
    "wait_next": "waited for a token from the stage after",
    "wait_memory": "waited for DRAM",
    "idle": "had no instruction",
}

REGISTERS: tuple[Register, ...] = (
    Register(name="identity", mode=AccessMode.READ_ONLY, doc=f"0x{IDENTITY:08x}, the letters VTA1"),
    Register(name="version", mode=AccessMode.READ_ONLY, doc="the instruction set's version", fields=(
        RegField(name="minor", width=16, doc=f"{ISA_VERSION[1]} in this version"),
        RegField(name="major", width=16, doc=f"{ISA_VERSION[0]} in this version"),
    )),
    Register(name="features", mode=AccessMode.READ_ONLY, doc="abilities beyond the smallest device", fields=tuple(
        RegField(name=(feature.name or "").lower(), width=1, doc=f"bit {feature.bit_length() - 1}") for feature in Feature
    )),
    Register(name="config", mode=AccessMode.READ_ONLY, doc="the configuration's nine log2 values", words=2, fields=tuple(
        RegField(name=name, width=6, doc=name.upper()) for name in _CONFIG_FIELDS
    )),
    Register(name="bus", mode=AccessMode.READ_ONLY, doc="the memory port", fields=(
        RegField(name="log_data_bytes", width=8, doc="log2 of the bytes a beat moves"),
        RegField(name="outstanding", width=8, doc="reads in flight at most"),
        RegField(name="address_bits", width=8, doc="width of a DRAM address"),
        RegField(name="no_causes", width=1, doc="1: no cycles of stages are counted, their counters read as 0"),
    )),
    Register(name="control", mode=AccessMode.WRITE_ONE, doc="commands", fields=(
        RegField(name="start", width=1, doc="run the program; refused while busy"),
        RegField(name="reset", width=1, doc="stop and forget everything but the host's settings"),
        RegField(name="clear_counters", width=1, doc="set all counters to 0"),
        RegField(name="acknowledge", width=1, doc="take the interrupt back, until the next end"),
    )),
    Register(name="status", mode=AccessMode.READ_ONLY, doc="what the device is doing", fields=(
        RegField(name="busy", width=1, doc="a program runs"),
        RegField(name="done", width=1, doc="the last program ended with FINISH and all its writes are accepted"),
        RegField(name="error", width=1, doc="the last program was stopped; see error"),
    )),
    Register(name="error", mode=AccessMode.READ_ONLY, doc="why the program was stopped; kept until start or reset", fields=(
        RegField(name="fault", width=8, doc="the code of the fault, 0 for none"),
        RegField(name="stage", width=8, doc="the stage of its instruction, or compute of a deadlock: " + ", ".join(
            f"{s.name} {s.value}" for s in Stage)),
    )),
    Register(name="error_insn", mode=AccessMode.READ_ONLY, doc="number of the instruction at fault, from 0"),
    Register(name="insn_addr", mode=AccessMode.READ_WRITE, words=2, align=INSN_BYTES,
             doc=f"byte address of the first instruction, a multiple of {INSN_BYTES}"),
    Register(name="insn_count", mode=AccessMode.READ_WRITE, doc="instructions to run"),
    *(
        Register(name=f"base_{kind.name.lower()}", mode=AccessMode.READ_WRITE, words=2, align=BASE_ALIGN_BYTES,
                 doc=f"base register of {kind.name}: a byte address, a multiple of {BASE_ALIGN_BYTES}, added to every transfer's")
        for kind in MEMORIES
    ),
    Register(name="window_low", mode=AccessMode.READ_WRITE, words=2, doc="first DRAM byte that transfers may touch"),
    Register(name="window_high", mode=AccessMode.READ_WRITE, words=2, doc="DRAM byte after the last that transfers may touch"),
    Register(name="cycles", mode=AccessMode.READ_ONLY, words=2,
             doc="cycles from start to done, of all runs since the counters were cleared; so for those below"),
    *(
        Register(name=f"{stage.name.lower()}_{cause}", mode=AccessMode.READ_ONLY, words=2,
                 doc=f"cycles in which the {stage.name.lower()} stage {what}")
        for stage in Stage for cause, what in CYCLE_CAUSES.items()
    ),
    # Younger than those above, whose addresses drivers know.
    Register(name="irq_enable", mode=AccessMode.READ_WRITE, doc="1: the pin irq is irq_pending; 0: it is low"),
    Register(name="irq_pending", mode=AccessMode.READ_ONLY,
             doc="1: a program has ended, or waits for a memory that does not answer; until acknowledged"),
    Register(name="timeout", mode=AccessMode.READ_WRITE, init=TIMEOUT_CYCLES,
             doc="cycles that memory may take for the next transfer of any of its channels; 0: any number"),
    Register(name="attributes", mode=AccessMode.READ_WRITE, init=NORMAL_MEMORY, doc="AXI4 signals of every burst", fields=(
        RegField(name="cache", width=4, doc="AxCACHE; 0b0011: modifiable, bufferable"),
        RegField(name="prot", width=3, doc="AxPROT"),
        RegField(name="qos", width=4, doc="AxQOS"),
    )),
)


ADDRESS_BITS = 12  # of the register bus: one page


def offsets() -> Iterator[tuple[int, Register]]:
    """Every register with its byte address."""
    at = 0
    for register in REGISTERS:
        yield at, register
        at += register.words * REGISTER_BYTES


@cache
def offset_of(name: str) -> int:
    """Byte address of the register `name`."""
    return next(at for at, register in offsets() if register.name == name)


def mask_of(register: str, field: str) -> int:
    """The bits of a field in its register."""
    at = 0
    for f in next(r for r in REGISTERS if r.name == register).fields:
        if f.name == field:
            return ((1 << f.width) - 1) << at
        at += f.width
    raise KeyError(f"register {register} has no field {field}")


def fields_of(register: str, value: int) -> dict[str, int]:
    """The fields of what the register `register` reads as."""
    found, at = {}, 0
    for f in next(r for r in REGISTERS if r.name == register).fields:
        found[f.name] = value >> at & (1 << f.width) - 1
        at += f.width
    return found


def pack_config(cfg: VTAConfig) -> int:
    """Return the value of the two words of `config` as one 64-bit number."""
    width = {f.name: f.width for r in REGISTERS if r.name == "config" for f in r.fields}
    value, at = 0, 0
    for name in _CONFIG_FIELDS:
        value |= getattr(cfg, name) << at
        at += width[name]
    return value


def device_features(cfg: VTAConfig) -> Feature:
    """The abilities that a device of this configuration can have."""
    absent = Feature(0)
    if not cfg.has_acc8:
        absent |= Feature.ACC_8BIT
    if not cfg.has_requant:
        absent |= Feature.REQUANT
    if not cfg.has_lookup:
        absent |= Feature.LOOKUP
    if not cfg.has_dwconv:
        absent |= Feature.DWCONV
    if not cfg.has_pad_value:
        absent |= Feature.PAD_VALUE
    return usable(ALL_FEATURES & ~absent)


# The registers that count cycles: of a run, and for each stage what its cycles were spent on.
COUNTERS = ("cycles", *(f"{stage.name.lower()}_{cause}" for stage in Stage for cause in CYCLE_CAUSES))
HARDWARE_FAULTS = tuple(fault for fault in Fault if fault < Fault.RACE)
