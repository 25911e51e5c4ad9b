"""Render the host's registers, faults, stages and counters as a C header; `runtime/crt/sources/vtakit_registers.h` is one."""

from collections.abc import Iterable, Iterator

from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import MEMORIES, Feature, Stage
from vtakit.hw.isa.regs import (
    COUNTERS,
    HARDWARE_FAULTS,
    IDENTITY,
    REGISTER_BYTES,
    REGISTERS,
    fields_of,
    mask_of,
    offset_of,
    offsets,
)

_NOTE = "/* Registers of the accelerator. Rendered from vtakit's hw/isa/regs.py: do not edit. */"


def c_registers() -> str:
    """Return the text of vtakit_registers.h: offsets, masks and shifts as macros, tables as X-macros."""
    lines = [
        _NOTE, "#ifndef VTAKIT_REGISTERS_H", "#define VTAKIT_REGISTERS_H", "",
        f"#define VTAKIT_REGISTER_BYTES {REGISTER_BYTES}u", f"#define VTAKIT_IDENTITY 0x{IDENTITY:08x}u", "",
        "/* Byte offsets. A register of two words has its low half first; reading that latches the high half. */",
        *(f"#define VTAKIT_REG_{register.name.upper()} 0x{at:03x}u" for at, register in offsets()), "",
        "/* Fields. */", *_fields(), "",
        "/* Base registers of all memory types, each of two words. */",
        f"#define VTAKIT_BASE_REGISTERS {{{', '.join(f'0x{offset_of(name):03x}u' for name in _bases())}}}", "",
        "/* X(name, shift, width) for each of the configuration's log2 values. */",
        *_table("CONFIG_FIELDS", (f'"{name.upper()}", {shift}u, {width}u' for name, shift, width in _config_fields())), "",
        "/* X(name) for each feature bit, from bit 0 up. */",
        *_table("FEATURES", (f'"{feature.name}"' for feature in Feature)), "",
        "/* X(code, name, what the program did) for each fault of the hardware. */",
        *_table("FAULTS", (f'{fault.value}u, "{fault.name}", "{fault.doc}"' for fault in HARDWARE_FAULTS)), "",
        "/* Of a fetch, which no stage does: the field stage means nothing. */",
        f"#define VTAKIT_FAULT_BUS_FETCH {Fault.BUS_FETCH.value}u", "",
        "/* X(code, name) for each stage. */",
        *_table("STAGES", (f'{stage.value}u, "{stage.name.lower()}"' for stage in Stage)), "",
        "/* X(name, offset) for each counter, of two words. */",
        *_table("COUNTERS", (f'"{name}", 0x{offset_of(name):03x}u' for name in COUNTERS)), "",
        "enum vtakit_counter {", *(f"    VTAKIT_COUNTER_{name.upper()}," for name in COUNTERS), "    VTAKIT_COUNTER_COUNT", "};",
        "", "#endif",
    ]
    return "\n".join(lines) + "\n"


def _fields() -> Iterator[str]:
    """Masks, and shifts of fields wider than a bit, of the registers of one word."""
    for register in REGISTERS:
        if register.words == 1:
            for field in register.fields:
                mask = mask_of(register.name, field.name)
                name = f"VTAKIT_{register.name.upper()}_{field.name.upper()}"
                yield f"#define {name} 0x{mask:08x}u"
                if field.width > 1:
                    yield f"#define {name}_SHIFT {_shift(mask)}u"


def _config_fields() -> Iterator[tuple[str, int, int]]:
    for name in fields_of("config", 0):
        mask = mask_of("config", name)
        yield name, _shift(mask), mask.bit_count()


def _shift(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _bases() -> Iterator[str]:
    return (f"base_{kind.name.lower()}" for kind in MEMORIES)


def _table(name: str, rows: Iterable[str]) -> Iterator[str]:
    found = [f"    X({row})" for row in rows]
    yield f"#define VTAKIT_{name}(X) \\"
    for row in found[:-1]:
        yield f"{row} \\"
    yield found[-1]
