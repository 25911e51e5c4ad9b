"""Hardware configurations: nine chosen values, everything else derived from them (ISA.md section 1)."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Self, TypeGuard

from vtakit.base.errors import one_of
from vtakit.base.jsons import read_json
from vtakit.base.limits import MAX_CONFIG_BYTES
from vtakit.base.reading import read_bytes
from vtakit.hw.isa.errors import ConfigError

# Fixed by the published instruction set; not part of a configuration.
INSN_BITS = 128
INSN_BYTES = INSN_BITS // 8
UOP_BITS = 32
UOP_BYTES = UOP_BITS // 8
UOP_BYTES_LOG2 = 2
MAX_ELEMENT_BYTES = 4096
MAX_DEPTH = 65536
MAX_UOP_DEPTH_LOG2 = 13
MAX_ALU_ACC_DEPTH_LOG2 = 11
# Rows and columns of the window of a DWCONV, by the log2 of the block: as many of five as fit, at least three columns.
WINDOWS = {2: (1, 4), 3: (2, 4), 4: (3, 5), 5: (5, 5)}


@dataclass(frozen=True, slots=True, kw_only=True)
class VTAConfig:
    """The shape of one accelerator; every value is a log2.

    log_inp_width, log_wgt_width   bits of an input and of a weight: 0 to 4, so 1 to 16 bits
    log_acc_width                  bits of an accumulator: 3 to 5, so 8 to 32 bits
    log_batch, log_block           rows and columns of the GEMM core; BLOCK_IN = BLOCK_OUT
    log_*_buff_size                scratchpad sizes in bytes

    Raises `ConfigError` for an illegal combination, with every reason in one message.
    """

    log_inp_width: int = 3
    log_wgt_width: int = 3
    log_acc_width: int = 5
    log_batch: int = 0
    log_block: int = 4
    log_uop_buff_size: int = 15
    log_inp_buff_size: int = 15
    log_wgt_buff_size: int = 18
    log_acc_buff_size: int = 17

    def __post_init__(self) -> None:
        wrong = problems(self)
        if wrong:
            raise ConfigError(f"illegal configuration: {'; '.join(wrong)}")

    @property
    def batch(self) -> int:
        """Rows of the GEMM core."""
        return 1 << self.log_batch

    @property
    def block(self) -> int:
        """Columns of the GEMM core, both BLOCK_IN and BLOCK_OUT."""
        return 1 << self.log_block

    @property
    def inp_bits(self) -> int:
        """Bits of one input value."""
        return 1 << self.log_inp_width

    @property
    def wgt_bits(self) -> int:
        """Bits of one weight value."""
        return 1 << self.log_wgt_width

    @property
    def acc_bits(self) -> int:
        """Bits of one accumulator value."""
        return 1 << self.log_acc_width

    @property
    def out_bits(self) -> int:
        """Bits of one stored output value: those of an input."""
        return self.inp_bits

    @property
    def uop_bytes(self) -> int:
        """Bytes of one micro-op."""
        return UOP_BYTES

    @property
    def inp_bytes(self) -> int:
        """Bytes of one input element, a tile of batch x block values."""
        return (self.batch * self.block * self.inp_bits) // 8

    @property
    def wgt_bytes(self) -> int:
        """Bytes of one weight element, a tile of block x block values."""
        return (self.block * self.block * self.wgt_bits) // 8

    @property
    def acc_bytes(self) -> int:
        """Bytes of one accumulator element, a tile of batch x block values."""
        return (self.batch * self.block * self.acc_bits) // 8

    @property
    def out_bytes(self) -> int:
        """Bytes of one stored output element."""
        return self.inp_bytes

    @property
    def acc8_bytes(self) -> int:
        """Bytes in DRAM of one accumulator element kept as 8-bit values (memory type ACC_8BIT)."""
        return self.batch * self.block

    @property
    def uop_depth_log2(self) -> int:
        """log2 of the micro-ops that the UOP scratchpad holds."""
        return self.log_uop_buff_size - UOP_BYTES_LOG2

    @property
    def inp_depth_log2(self) -> int:
        """log2 of the elements that the INP scratchpad holds."""
        return self.log_inp_buff_size + 3 - self.log_batch - self.log_block - self.log_inp_width

    @property
    def wgt_depth_log2(self) -> int:
        """log2 of the elements that the WGT scratchpad holds."""
        return self.log_wgt_buff_size + 3 - 2 * self.log_block - self.log_wgt_width

    @property
    def acc_depth_log2(self) -> int:
        """log2 of the elements that the ACC scratchpad holds."""
        return self.log_acc_buff_size + 3 - self.log_batch - self.log_block - self.log_acc_width

    @property
    def src_depth_log2(self) -> int:
        """Bits of a micro-op's src, which indexes INP for a GEMM and ACC for an ALU instruction."""
        return max(self.acc_depth_log2, self.inp_depth_log2)

    @property
    def uop_end_bits(self) -> int:
        """Bits of uop_end, which is exclusive and so needs one more than uop_bgn."""
        return self.uop_depth_log2 + 1

    @property
    def uop_depth(self) -> int:
        """Micro-ops that the UOP scratchpad holds."""
        return 1 << self.uop_depth_log2

    @property
    def inp_depth(self) -> int:
        """Elements that the INP scratchpad holds."""
        return 1 << self.inp_depth_log2

    @property
    def wgt_depth(self) -> int:
        """Elements that the WGT scratchpad holds."""
        return 1 << self.wgt_depth_log2

    @property
    def acc_depth(self) -> int:
        """Elements that the ACC scratchpad holds."""
        return 1 << self.acc_depth_log2

    @property
    def has_acc8(self) -> bool:
        """Return whether ACC_8BIT loads exist: only for 8-bit inputs and 32-bit accumulators."""
        return self.log_inp_width == 3 and self.log_acc_width == 5

    @property
    def has_requant(self) -> bool:
        """Return whether REQUANT exists: 32-bit accumulators, outputs of at most 8 bits, room for parameters beside a value."""
        return self.log_acc_width == 5 and self.log_inp_width <= 3 and self.acc_depth_log2 >= 2

    @property
    def table_elements(self) -> int:
        """Accumulator elements that hold the 256 bytes of a REQUANT's table."""
        return -(-256 // self.acc_bytes)

    @property
    def has_lookup(self) -> bool:
        """Return whether a REQUANT can look results up: for outputs of 8 bits, with room for a table beside its parameters."""
        return self.has_requant and self.log_inp_width == 3 and self.acc_depth >= 4 + self.table_elements

    @property
    def products(self) -> int:
        """Multipliers of the matrix core."""
        return self.batch * self.block * self.block

    @property
    def window(self) -> tuple[int, int]:
        """Rows and columns of taps that a DWCONV takes in one step: a multiplier of each lane for each."""
        return WINDOWS[min(self.log_block, max(WINDOWS))]

    @property
    def has_dwconv(self) -> bool:
        """Return whether DWCONV exists: for blocks in which a row of three taps fits."""
        return self.log_block >= 2

    @property
    def has_pad_value(self) -> bool:
        """Return whether PAD_LOAD exists: for inputs of at most 8 bits."""
        return self.log_inp_width <= 3

    def to_json(self) -> str:
        """The nine values under the original's keys (LOG_INP_WIDTH, …), one a line."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def to_dict(self) -> dict[str, int]:
        """The nine values under the original's keys."""
        return {name.upper(): value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Self:
        """Read a mapping with the original's keys, upper or lower case; absent keys keep their default.

        Keys of the original that choose a tool, not a shape (TARGET, HW_VER, …), are accepted and ignored.
        """
        chosen = {field.name for field in fields(cls)}
        given: dict[str, int] = {}
        for key, value in values.items():
            name = _ALIASES.get(str(key).lower(), str(key).lower())
            if name in _NOT_SHAPE:
                continue
            if name not in chosen:
                raise ConfigError(f"unknown configuration key {key!r}; {one_of([n.upper() for n in chosen], str(key).upper())}")
            if not _is_integer(value):
                raise ConfigError(f"configuration key {key!r} must be an integer (a log2), got {value!r}")
            if given.setdefault(name, value) != value:
                square = ": blocks are square, and a core has fewer products by gemm_passes" if name == "log_block" else ""
                raise ConfigError(f"configuration gives {name.upper()} twice, as {given[name]} and as {value}{square}")
        return cls(**given)

    @classmethod
    def from_json(cls, text: str, where: str = "configuration") -> Self:
        """Read JSON text as written by `to_json` or as the original's vta_config.json."""
        try:
            values = read_json(text, most_bytes=MAX_CONFIG_BYTES, pairs=_each_once)
        except ValueError as error:
            raise ConfigError(f"{where} is not valid JSON: {error}") from None
        if not isinstance(values, dict):
            raise ConfigError(f"{where} must hold a JSON object of LOG_… keys, got {type(values).__name__}")
        try:
            return cls.from_dict(values)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object as a dict; of two values for one key none is silently the right one."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"key {name!r:.40} occurs twice")
        found[name] = value
    return found


# Older spellings of the original: one block for both sides, outputs as wide as inputs.
_ALIASES = {"log_block_in": "log_block", "log_block_out": "log_block", "log_out_width": "log_inp_width"}
_NOT_SHAPE = frozenset({"target", "hw_ver", "hw_freq", "hw_clk_target"})


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def problems(cfg: VTAConfig) -> list[str]:
    """Every reason why `cfg` is illegal, each naming the field to change; empty if it is legal."""
    wrong = [
        f"{name.upper()} must be {'' if _is_integer(value) else 'an integer '}from {low} to {high}, got {value!r}"
        for name, value in asdict(cfg).items()
        for low, high in [_RANGES[name]]
        if not _is_integer(value) or not low <= value <= high
    ]
    if wrong:
        return wrong  # the derived values below would be meaningless
    if cfg.log_inp_width > cfg.log_acc_width:
        wrong.append(
            f"LOG_INP_WIDTH {cfg.log_inp_width} is larger than LOG_ACC_WIDTH {cfg.log_acc_width}, "
            f"but STORE writes the low input-width bits of an accumulator"
        )
    tile_log2 = {
        "inp": cfg.log_batch + cfg.log_block + cfg.log_inp_width,
        "wgt": 2 * cfg.log_block + cfg.log_wgt_width,
        "acc": cfg.log_batch + cfg.log_block + cfg.log_acc_width,
    }
    depth_log2 = {name: getattr(cfg, f"{name}_depth_log2") for name in ("uop", "inp", "wgt", "acc")}
    for name, bits_log2 in tile_log2.items():
        width = f"LOG_{name.upper()}_WIDTH"
        if bits_log2 < 3:
            wrong.append(f"one {name} element has {1 << bits_log2} bits and must have at least 8: raise LOG_BLOCK or {width}")
        elif (1 << bits_log2) // 8 > MAX_ELEMENT_BYTES:
            wrong.append(
                f"one {name} element has {(1 << bits_log2) // 8} bytes, more than {MAX_ELEMENT_BYTES}: "
                f"lower LOG_BLOCK{'' if name == 'wgt' else ', LOG_BATCH'} or {width}"
            )
    for name, depth in depth_log2.items():
        key = f"LOG_{name.upper()}_BUFF_SIZE"
        if depth < 1:
            wrong.append(f"{key} {getattr(cfg, key.lower())} holds fewer than 2 {name} elements: raise it by {1 - depth}")
        elif 1 << depth > MAX_DEPTH:
            wrong.append(f"{key} {getattr(cfg, key.lower())} holds {1 << depth} elements, more than {MAX_DEPTH}: lower it")
    if wrong:
        return wrong
    return [*wrong, *_field_widths(cfg, depth_log2)]


def _field_widths(cfg: VTAConfig, depth_log2: dict[str, int]) -> list[str]:
    """Constraints 1 to 4 of ISA.md section 1: do the index fields fit the micro-op and the instruction words?"""
    uop, inp, wgt, acc = (depth_log2[name] for name in ("uop", "inp", "wgt", "acc"))
    wrong = []
    uop_bits = acc + max(acc, inp) + wgt
    if uop_bits > UOP_BITS:
        wrong.append(
            f"a micro-op needs {uop_bits} bits (dst {acc}, src {max(acc, inp)}, wgt {wgt}) and has {UOP_BITS}: "
            f"lower LOG_WGT_BUFF_SIZE to {cfg.log_wgt_buff_size - (uop_bits - UOP_BITS)}, "
            f"or LOG_ACC_BUFF_SIZE and LOG_INP_BUFF_SIZE"
        )
    gemm_bits = 2 * (acc + inp + wgt)
    if gemm_bits > 64:
        wrong.append(
            f"GEMM word 1 needs {gemm_bits} bits (twice dst {acc}, src {inp}, wgt {wgt}) and has 64: "
            f"lower LOG_WGT_BUFF_SIZE, LOG_ACC_BUFF_SIZE or LOG_INP_BUFF_SIZE"
        )
    if uop > MAX_UOP_DEPTH_LOG2:
        wrong.append(
            f"GEMM and ALU word 0 address at most {1 << MAX_UOP_DEPTH_LOG2} micro-ops, not {1 << uop}: "
            f"lower LOG_UOP_BUFF_SIZE to {cfg.log_uop_buff_size - uop + MAX_UOP_DEPTH_LOG2}"
        )
    if acc > MAX_ALU_ACC_DEPTH_LOG2:
        wrong.append(
            f"ALU word 1 addresses at most {1 << MAX_ALU_ACC_DEPTH_LOG2} accumulator elements, not {1 << acc}: "
            f"lower LOG_ACC_BUFF_SIZE to {cfg.log_acc_buff_size - acc + MAX_ALU_ACC_DEPTH_LOG2}"
        )
    return wrong


_RANGES = {
    "log_inp_width": (0, 4),
    "log_wgt_width": (0, 4),
    "log_acc_width": (3, 5),
    "log_batch": (0, 8),
    "log_block": (0, 7),
    "log_uop_buff_size": (0, 32),
    "log_inp_buff_size": (0, 32),
    "log_wgt_buff_size": (0, 32),
    "log_acc_buff_size": (0, 32),
}

DEFAULT = VTAConfig()

# compact is the default with smaller scratchpads, for parts with fewer block RAMs. The sizes of blk8, blk32, w4, w2 and i4w4
# keep the default's depths in elements. The tiny ones reach every bound of their scratchpads within a short random program.
NAMED: dict[str, VTAConfig] = {
    "default": DEFAULT,
    "compact": replace(DEFAULT, log_uop_buff_size=13, log_inp_buff_size=14, log_wgt_buff_size=17, log_acc_buff_size=16),
    "b2x16": replace(DEFAULT, log_batch=1),
    "b4x8": replace(DEFAULT, log_batch=2, log_block=3),
    "blk8": replace(DEFAULT, log_block=3, log_inp_buff_size=14, log_wgt_buff_size=16, log_acc_buff_size=16),
    "blk32": replace(DEFAULT, log_block=5, log_inp_buff_size=16, log_wgt_buff_size=20, log_acc_buff_size=18),
    "w4": replace(DEFAULT, log_wgt_width=2, log_wgt_buff_size=17),
    "w2": replace(DEFAULT, log_wgt_width=1, log_wgt_buff_size=16),
    "i4w4": replace(DEFAULT, log_inp_width=2, log_wgt_width=2, log_inp_buff_size=14, log_wgt_buff_size=17),
    "tiny": VTAConfig(log_block=2, log_uop_buff_size=7, log_inp_buff_size=7, log_wgt_buff_size=8, log_acc_buff_size=9),
    "tiny_b2": VTAConfig(
        log_batch=1, log_block=2, log_uop_buff_size=7, log_inp_buff_size=8, log_wgt_buff_size=7, log_acc_buff_size=9
    ),
    "tiny_acc16": VTAConfig(
        log_acc_width=4, log_block=2, log_uop_buff_size=7, log_inp_buff_size=7, log_wgt_buff_size=8, log_acc_buff_size=8
    ),
    "tiny_i16": VTAConfig(
        log_inp_width=4, log_wgt_width=4, log_block=2,
        log_uop_buff_size=7, log_inp_buff_size=8, log_wgt_buff_size=9, log_acc_buff_size=9,
    ),
    "tiny_i4w2": VTAConfig(
        log_inp_width=2, log_wgt_width=1, log_acc_width=3, log_block=3,
        log_uop_buff_size=7, log_inp_buff_size=7, log_wgt_buff_size=8, log_acc_buff_size=7,
    ),
}


def load_config(what: "VTAConfig | str | Path | Mapping[str, object]") -> VTAConfig:
    """The configuration that `what` means: one already, a name, a mapping of LOG_… keys, or a path to a JSON file.

    A string is a name if it has neither a separator nor the ending .json.
    """
    if isinstance(what, VTAConfig):
        return what
    if isinstance(what, Mapping):
        return VTAConfig.from_dict(what)
    if isinstance(what, str) and what in NAMED:
        return NAMED[what]
    if isinstance(what, str) and not what.endswith(".json") and "/" not in what:
        raise ConfigError(f"unknown configuration {what!r}; {one_of(NAMED, what)}, or the path of a .json file")
    if not isinstance(what, str | Path):
        raise ConfigError(f"a configuration is a VTAConfig, a name, a mapping or a path, not {type(what).__name__}")
    try:
        text = read_bytes(what, "configuration file", MAX_CONFIG_BYTES, error=ConfigError).decode()
    except UnicodeDecodeError:
        raise ConfigError(f"cannot read configuration file {str(what)!r}: it is not UTF-8 text") from None
    return VTAConfig.from_json(text, f"configuration file {str(what)!r}")
