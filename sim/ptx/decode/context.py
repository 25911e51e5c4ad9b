"""Registers, constants and rows of a program that is being made."""

import struct
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from vtakit.base.errors import VtakitError
from vtakit.sim.ptx import opcodes
from vtakit.sim.ptx.opcodes import COLUMNS, LANES
from vtakit.sim.ptx.text.parser import type_bytes
from vtakit.sim.ptx.text.syntax import Float, Instruction, Integer, Kernel, Name, Not, Operand, Variable

SPECIALS = (
    "%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y",
    "%nctaid.z", "%laneid", "%warpid", "%nwarpid", "%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge",
    "%smid", "%nsmid", "%gridid", "%dynamic_smem_size", "%total_smem_size", "%cluster_ctarank", "%cluster_nctarank",
    "%cluster_ctaid.x", "%cluster_ctaid.y", "%cluster_ctaid.z", "%cluster_nctaid.x", "%cluster_nctaid.y", "%cluster_nctaid.z",
    "%clusterid.x", "%clusterid.y", "%clusterid.z", "%nclusterid.x", "%nclusterid.y", "%nclusterid.z", "%is_explicit_cluster",
    "%local_window",  # the emulator's own: where a thread's local memory begins
)
BLOCK_SLOT = SPECIALS.index("%ctaid.x")
SINK = len(SPECIALS)  # the register of `_`
CARRY = SINK + 1
CLASS_OF = {name: number for number, name in enumerate(opcodes.CLASSES)}


def width(kind: str) -> int:
    """Bits of a type such as s32, f16x2 or pred."""
    if kind == "pred":
        return 1
    if kind.endswith("x2"):
        return 2 * width(kind[:-2])
    if kind in ("tf32",):
        return 32
    if kind[:2] == "bf":
        return int(kind[2:])
    return 8 * type_bytes("." + kind)


@dataclass(slots=True)
class Context:
    """A program as it is made: the places of registers and constants, rows, lists of operands."""

    kernel: Kernel
    symbols: dict[str, Variable]
    registers: dict[str, int] = field(default_factory=dict)
    constants: dict[tuple[str, int], int] = field(default_factory=dict)  # (symbol or "", value) to place
    rows: list[list[int]] = field(default_factory=list)
    lists: list[int] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)
    defs: list[int] = field(default_factory=list)
    here: Instruction | None = None
    branches: dict[int, tuple[str, ...]] = field(default_factory=dict)  # row to labels

    def error(self, why: str) -> VtakitError:
        """An error about the instruction at hand."""
        assert self.here is not None
        return VtakitError(f"PTX line {self.here.line}: the emulator cannot run {self.here.name}: {why}: {self.here.text}")

    # Places of operands. Constants are placed when all are known: until then they have negative numbers.

    def _constant(self, symbol: str, value: int) -> int:
        number = self.constants.setdefault((symbol, value), len(self.constants))
        return -2 - number

    def register(self, operand: Operand) -> int:
        """The place of a destination."""
        if isinstance(operand, Name):
            if operand.name == "_":
                return SINK * LANES
            if operand.name in self.kernel.registers:
                number = self.registers.setdefault(operand.name, len(self.registers))
                self.defs.append(number)
                return (1 << 40) + number
        raise self.error(f"{operand} is no register")

    def bits(self, operand: Operand) -> int:
        """Bits of a register's type."""
        if isinstance(operand, Name) and operand.name in self.kernel.registers:
            return width(self.kernel.registers[operand.name])
        return 64

    def mask(self, operand: Operand) -> int:
        """Ones for the bits of a destination's register."""
        return ones(self.bits(operand))

    def source(self, operand: Operand, kind: str = "b64") -> int:
        """The place of a source of a type: a register, special register, constant or address of a symbol."""
        if isinstance(operand, Not):
            operand = operand.part
        if isinstance(operand, Integer):
            bits = width(kind)
            if kind in ("f32", "f64"):
                raise self.error(f"{operand.value} is no constant of {kind}")
            return self._constant("", signed64(operand.value & ones(bits)))
        if isinstance(operand, Float):
            return self._constant("", signed64(_pattern(operand, kind)))
        if isinstance(operand, Name):
            if operand.name in self.kernel.registers:
                number = self.registers.setdefault(operand.name, len(self.registers))
                if number not in self.uses:
                    self.uses.append(number)
                return (1 << 40) + number
            if operand.name in SPECIALS:
                return SPECIALS.index(operand.name) * LANES
            if operand.name == "WARP_SZ":
                return self._constant("", 32)
            if operand.name in self.symbols:
                return self._constant(operand.name, operand.offset)
            if operand.name == "_":
                return self._constant("", 0)
        raise self.error(f"{operand} is no operand that it knows")

    def operands(self, *places: int) -> int:
        """Write a list of places; returns where it begins."""
        self.lists += places
        return len(self.lists) - len(places)

    def row(self, op: int, what: str, **columns: int) -> None:
        """Write an instruction: its operation, its class and the columns that are not 0 (PRED and E: not -1)."""
        assert self.here is not None
        row = [0] * COLUMNS
        zero = self._constant("", 0)
        row[opcodes.OP] = op
        for name in ("D", "A", "B", "C"):
            row[getattr(opcodes, name)] = zero
        row[opcodes.PRED] = row[opcodes.E] = row[opcodes.RECONVERGE] = -1
        for name, value in columns.items():
            row[getattr(opcodes, name)] = value
        row[opcodes.LINE], row[opcodes.CLASS] = self.here.line, CLASS_OF[what]
        if self.here.guard:
            row[opcodes.PRED] = self.predicate(self.here.guard)
            row[opcodes.NEGATED] = int(self.here.negated)
        uses = [(1 << 41) + number for number in self.uses]
        defs = [(1 << 41) + number for number in self.defs]
        row[opcodes.USES], row[opcodes.USE_COUNT] = self.operands(*uses), len(uses)
        row[opcodes.DEFS], row[opcodes.DEF_COUNT] = self.operands(*defs), len(defs)
        self.uses, self.defs = [], []
        self.rows.append(row)

    def predicate(self, name: str) -> int:
        """The place of a guard."""
        if name not in self.kernel.registers:
            raise self.error(f"{name} is no predicate")
        return (1 << 40) + self.registers.setdefault(name, len(self.registers))


def ones(bits: int) -> int:
    """A mask, as a signed number of 64 bits."""
    return signed64((1 << bits) - 1)


def signed64(value: int) -> int:
    """The signed number of 64 bits with a number's low bits."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _pattern(value: Float, kind: str) -> int:
    if value.bits:
        bits = width(kind)
        if value.bits == bits:
            return value.pattern
        number = struct.unpack("<f" if value.bits == 32 else "<d", value.pattern.to_bytes(value.bits // 8, "little"))[0]
    else:
        number = value.value
    if kind in ("f64", "b64"):
        return int(np.float64(number).view(np.int64))
    if kind in ("f16", "b16"):
        return int(np.float16(number).view(np.uint16))
    if kind == "bf16":
        return int(np.array(number, ml_dtypes.bfloat16).view(np.uint16))
    return int(np.float32(number).view(np.uint32))
