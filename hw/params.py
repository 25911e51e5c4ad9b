"""Parameters of a core: a configuration and the choices that programs do not see."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from vtakit.base.errors import one_of
from vtakit.hw.isa.config import DEFAULT, VTAConfig
from vtakit.hw.isa.errors import ConfigError
from vtakit.hw.isa.insns import Feature, usable
from vtakit.hw.isa.published import PUBLISHED_FEATURES
from vtakit.hw.isa.regs import DRAM_ADDRESS_BITS, NORMAL_MEMORY, device_features
from vtakit.hw.system import BUS_BITS, REFERENCE

PAGE_BYTES = 4096  # no AXI burst crosses a multiple of this
MOST_OUTSTANDING = 255  # that the register `bus` can tell


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreParams:
    """A configuration with its memory port.

    bus_bits        width of the AXI4 data bus: 64, 128, 256 or 512
    address_bits    width of a DRAM byte address
    outstanding     read bursts in flight at most; writes likewise
    burst_beats     beats of the longest burst: short bursts share the bus fairly
    buffer_beats    beats of read data that each reader has room for, at least two bursts
    requantizes     REQUANT's multipliers are built, where the configuration has it
    pad_values      PAD_LOAD is built, where the configuration has it
    lookups         REQUANT's table is built, where the configuration has it
    windows         DWCONV is built, where the configuration has it
    pools           REQUANT's windows are built, where the configuration has it
    counters        what each stage's cycles are spent on is counted; without, only all cycles are
    dsp_budget      DSP blocks that the core may take: products of the matrix core beyond it are logic; None: all in DSP blocks
    gemm_passes     parts of a tile's outputs that the matrix core forms one after the other: cycles that a step of GEMM takes
    mul_passes      parts of the ALU's lanes that have its multipliers in turn: cycles that a step of MUL takes
    acc_copies      2: ACC serves arithmetic and STOREs in every cycle; 1: half of its memory, and both wait where they meet
    published       the published instruction set alone (`vtakit.hw.isa.published`): no extension is built, bits of no field are
                    ignored, a STORE of no elements may have any memory type, and FINISH may take a STORE's token
    axi_cache, axi_prot, axi_qos    AxCACHE, AxPROT and AxQOS of every burst, until the host sets others

    Raises `ConfigError` naming the field.
    """

    cfg: VTAConfig = DEFAULT
    bus_bits: int = REFERENCE.bus_bits
    address_bits: int = DRAM_ADDRESS_BITS
    outstanding: int = 16
    burst_beats: int = 16
    buffer_beats: int = 128
    requantizes: bool = True
    pad_values: bool = True
    lookups: bool = True
    windows: bool = True
    pools: bool = True
    counters: bool = True
    dsp_budget: int | None = None
    gemm_passes: int = 1
    mul_passes: int = 1
    acc_copies: int = 2
    published: bool = False
    axi_cache: int = NORMAL_MEMORY
    axi_prot: int = 0
    axi_qos: int = 0

    def __post_init__(self) -> None:
        if self.bus_bits not in BUS_BITS:
            raise ConfigError(f"bus_bits must be one of {BUS_BITS}, got {self.bus_bits}")
        for name, bits in (("axi_cache", 4), ("axi_prot", 3), ("axi_qos", 4)):
            if not 0 <= getattr(self, name) < 1 << bits:
                raise ConfigError(f"{name} must be from 0 to {(1 << bits) - 1}, got {getattr(self, name)}")
        lanes = self.cfg.batch * self.cfg.block
        if self.mul_passes < 1 or lanes % self.mul_passes or self.mul_passes & (self.mul_passes - 1):
            raise ConfigError(f"mul_passes must be a power of two up to the {lanes} lanes of the ALU, got {self.mul_passes}")
        if self.gemm_passes < 1 or self.cfg.block % self.gemm_passes or self.gemm_passes & (self.gemm_passes - 1):
            raise ConfigError(f"gemm_passes must be a power of two up to the block of {self.cfg.block}, got {self.gemm_passes}")
        if self.cfg.wgt_bytes < self.gemm_passes:
            raise ConfigError(f"gemm_passes must leave at least a byte of weights a pass, got {self.gemm_passes}")
        if self.acc_copies not in (1, 2):
            raise ConfigError(f"acc_copies must be 1 or 2, got {self.acc_copies}")
        if self.dsp_budget is not None and self.dsp_budget < self.other_dsps:
            raise ConfigError(f"dsp_budget must be at least {self.other_dsps}, which ALU, requantizer and addresses take, got "
                              f"{self.dsp_budget}")
        if not 32 <= self.address_bits <= 64:
            raise ConfigError(f"address_bits must be from 32 to 64, got {self.address_bits}")
        if not 1 <= self.outstanding <= MOST_OUTSTANDING:
            raise ConfigError(f"outstanding must be from 1 to {MOST_OUTSTANDING}, got {self.outstanding}")
        if self.burst_beats not in (2, 4, 8, 16, 32, 64) or self.burst_beats * self.bus_bytes > PAGE_BYTES:
            bounds = f"a power of two from 2 to 64 within {PAGE_BYTES} bytes"
            raise ConfigError(f"burst_beats must be {bounds}, got {self.burst_beats}")
        if self.buffer_beats < 2 * self.burst_beats or self.buffer_beats & (self.buffer_beats - 1):
            raise ConfigError(f"buffer_beats must be a power of two of at least two bursts, got {self.buffer_beats}")

    @property
    def other_dsps(self) -> int:
        """DSP blocks beside the matrix core: the ALU's, the requantizer's, and two for addresses.

        Of blocks that multiply 18 by 18 bits, such as those of an ECP5; others take no more.
        """
        lanes = self.cfg.batch * self.cfg.block
        alu = lanes // self.mul_passes * (1 if self.cfg.acc_bits <= 16 else 3)
        requantizer = 2 * min(lanes, self.bus_bits // self.cfg.out_bits) if Feature.REQUANT in self.features else 0
        return alu + requantizer + 2

    @property
    def dsp_products(self) -> int | None:
        """Products of the matrix core that DSP blocks form; None: all."""
        return None if self.dsp_budget is None else min(self.products, self.dsp_budget - self.other_dsps)

    @property
    def products(self) -> int:
        """Multipliers of the matrix core."""
        return self.cfg.products // self.gemm_passes

    @property
    def attributes(self) -> int:
        """The first value of the register `attributes`."""
        return self.axi_cache | self.axi_prot << 4 | self.axi_qos << 7

    @property
    def bus_bytes(self) -> int:
        """Bytes a beat moves."""
        return self.bus_bits // 8

    @property
    def bus_bytes_log2(self) -> int:
        """log2 of the bytes a beat moves."""
        return self.bus_bytes.bit_length() - 1

    @property
    def features(self) -> Feature:
        """The abilities beyond the smallest device that the core has."""
        features = device_features(self.cfg)
        built = {
            Feature.REQUANT: self.requantizes, Feature.PAD_VALUE: self.pad_values,
            Feature.LOOKUP: self.lookups, Feature.DWCONV: self.windows, Feature.POOL: self.pools,
        }
        for feature, there in built.items():
            if not there:
                features &= ~feature
        return usable(features & PUBLISHED_FEATURES if self.published else features)

    @classmethod
    def of(cls, cfg: VTAConfig, bus_bits: int, core: Mapping[str, Any] | None = None) -> Self:
        """Return the parameters of a simulated core. `core` maps names of fields other than `cfg` and `bus_bits` to their values.

        Raises `ConfigError` for a name that is no such field, or a value that it cannot have.
        """
        if not isinstance(core, Mapping | None):
            raise ConfigError(f"core must be a mapping of fields, such as {{'mul_passes': 4}}, got {core!r:.40}")
        known = {field.name: field.default for field in fields(cls) if field.name not in ("cfg", "bus_bits")}
        for name, value in (core or {}).items():
            if name not in known:
                raise ConfigError(f"core has no field {name!r:.40}; {one_of(known, str(name))}")
            switch = isinstance(known[name], bool)
            if isinstance(value, bool) != switch or (not isinstance(value, int) and value is not known[name]):
                raise ConfigError(f"{name} must be {'True or False' if switch else 'an integer'}, got {value!r:.40}")
        return cls(cfg=cfg, bus_bits=bus_bits, **core or {})

    def lanes(self, element_bytes: int, depth: int) -> int:
        """Elements of a scratchpad that one beat fills."""
        return max(1, min(self.bus_bytes // element_bytes, depth))
