"""Every proof there is, as data: the checker, how it is decided, and how long that may take."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from formal.buffers import BeatsHaveRoom
from formal.bursts import BurstsCoverRows
from formal.checker import Checker, SmallParams
from formal.ending import DoneAfterAllWrites
from formal.loads import LoadsFollowTheDefinition
from formal.narrowing import BeatsHoldTheRows, requantizing
from formal.products import RowsMakeTheProduct
from formal.reads import ReadsComeBackInOrder
from formal.requantizing import PRODUCT_AT, ResultsAreLookedUp, ValuesAreRequantized
from formal.retirement import InstructionsRetireInOrder
from formal.sdram import ChipIsInitialised, CommandsAreLegal
from formal.stores import StoresRetireWhenWritten
from formal.tokens import TokensAreKept
from formal.walks import WindowsAreReadOnceForEachPart
from formal.windows import TapsAreTheLastTiles
from formal.writes import WritesAreWhole

from vtakit.boards.memory.chips import find_chip
from vtakit.hw.dram import Dram
from vtakit.hw.isa.config import NAMED, VTAConfig
from vtakit.hw.isa.insns import TOKEN_QUEUE_DEPTH, MemType
from vtakit.hw.params import CoreParams
from vtakit.hw.timing import REQUANT_LATENCY, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One run of the prover.

    cycles        look at all runs of so many cycles; None: prove for all time
    window        prove for all time, by the last of so many cycles from any state; 0: by whatever invariant ABC finds
    cover_cycles  each cover is reached within so many; 0: another proof of the same checker shows it
    deep          too slow for every test run
    """

    name: str
    checker: Callable[[], Checker]
    cycles: int | None = None
    window: int = 0
    cover_cycles: int = 0
    seconds: int = 60
    deep: bool = False


def small(
    *, outstanding: int = 2, address_bits: int = 2, bus_bits: int = 8, burst_beats: int = 2, cfg: VTAConfig = NAMED["tiny"],
) -> SmallParams:
    """A memory port of a few bits."""
    return SmallParams(
        cfg=cfg, bus_bits=bus_bits, address_bits=address_bits, outstanding=outstanding, burst_beats=burst_beats,
        buffer_beats=2 * burst_beats,
    )


TINY = VTAConfig(  # one 8-bit element a tile, four entries of ACC
    log_block=0, log_acc_width=3, log_uop_buff_size=3, log_inp_buff_size=1, log_wgt_buff_size=1, log_acc_buff_size=2,
)
PAIR = replace(TINY, log_block=1, log_inp_buff_size=2, log_wgt_buff_size=3, log_acc_buff_size=3)  # two of them
LANE = replace(  # 32 bits: what REQUANT exists for
    TINY, log_acc_width=5, log_inp_buff_size=3, log_wgt_buff_size=4, log_acc_buff_size=6,
)
WINDOW = VTAConfig(  # tiles of 8 bits
    log_block=3, log_inp_width=0, log_wgt_width=0, log_acc_width=3, log_uop_buff_size=3, log_inp_buff_size=1, log_wgt_buff_size=4,
    log_acc_buff_size=4,
)
WIDER_WINDOW = replace(WINDOW, log_block=4, log_inp_buff_size=2, log_wgt_buff_size=6, log_acc_buff_size=5)
NARROW = Target(kind=MemType.INP, element_bytes=1, lanes=2, depth=16)  # two elements a beat, both written at once
SINGLE = Target(kind=MemType.INP, element_bytes=1, lanes=1, depth=16)  # two elements a beat, one written at a time
WIDE = Target(kind=MemType.INP, element_bytes=4, lanes=1, depth=16)  # two beats an element
PADS = {"y_pad_0": 1, "y_pad_1": 1, "x_pad_0": 1, "x_pad_1": 1}
ROWS = {"sram_base": 2, "dram_base": 1, "x_size": 2, "y_size": 2, "x_stride": 2}  # bits that are free
ROW = {"dram_base": 1, "x_size": 2, "y_size": 1, "x_pad_0": 1}
MIXED = {"sram_base": 2, "dram_base": 1, "x_size": 2, "y_size": 2, "x_stride": 2, "params": 1}
WALK = {"sram_base": 4, "x_size": 2, "y_size": 2, "pool": 2, "pool_step": 1, "pool_above": 1, "pool_left": 1}
STORES = {"x_size": 2, "y_size": 1, "push_prev": 1, "pop_prev": 1}


def bursts(*, count_bits: int, bytes_bits: int, address_bits: int, kinds: int) -> Callable[[], Checker]:
    """Burst generators of these sizes."""
    params = small(bus_bits=16, address_bits=address_bits)
    return lambda: BurstsCoverRows(params, count_bits=count_bits, bytes_bits=bytes_bits, kinds=kinds)


def requantized(cfg: VTAConfig, *, deep: bool = False, **more: int) -> Proof:
    """Elements of parts of one lane. The window begins with the two halves of a product, whatever these are."""
    return Proof(name=f"requantizer, lanes: {cfg.block}", checker=lambda: ValuesAreRequantized(cfg, 1),
                 window=REQUANT_LATENCY - PRODUCT_AT + 2, seconds=60, deep=deep, **more)


def loads(target: Target, bits: dict[str, int], *, stalls: bool) -> Callable[[], Checker]:
    """Load writers of one target."""
    return lambda: LoadsFollowTheDefinition(small(bus_bits=16, address_bits=8), target, bits, stalls=stalls)


# A chip whose distances are all longer than what the scheduler keeps by itself, and one with little state.
SLOW = Dram(banks=2, rows=2, columns=8, burst=4, width=8, tcas=3, trcd=4, trp=4, tras=7, trc=13, trrd=3, twr=3, trtp=4, trtw=1,
            trfc=12, trefi=50)
FEW = Dram(banks=2, rows=2, columns=8, burst=4, width=8, trtp=4, trefi=32, batch=2)


def sdram(name: str, mhz: float, *, interval: int = 0) -> Dram:
    """Return a chip with two rows, of two bursts each; `interval` replaces the clocks between refreshes."""
    found = find_chip(name).timing(mhz)
    return replace(found, rows=2, columns=2 * found.burst, trefi=interval or found.trefi)


def commands(dram: Dram, *, contents: bool = False) -> Callable[[], Checker]:
    """The scheduler of a chip, at a port whose beats are two words."""
    return lambda: CommandsAreLegal(small(bus_bits=2 * dram.width, burst_beats=2), dram, contents=contents)


def power_up() -> Checker:
    """The initialisation of a chip that needs no long time."""
    chip = find_chip("MT48LC16M16A2-75")
    return ChipIsInitialised(chip, chip.timing(80), 7)


PROOFS = (
    Proof(name="SDRAM, MT48LC16M16A2-75 at 80 MHz", checker=commands(sdram("MT48LC16M16A2-75", 80, interval=60)), seconds=120,
          cover_cycles=70),
    Proof(name="SDRAM, all of its interval", checker=commands(sdram("MT48LC16M16A2-75", 80)), seconds=600, deep=True),
    Proof(name="SDRAM, MT48LC16M16A2-7E at 110 MHz", checker=commands(sdram("MT48LC16M16A2-7E", 110, interval=64)), seconds=300,
          deep=True),
    Proof(name="SDRAM, a slow chip", checker=commands(SLOW), cycles=60, cover_cycles=60),
    Proof(name="SDRAM, columns", checker=commands(FEW, contents=True), cycles=18, cover_cycles=30),
    Proof(name="SDRAM, columns, longer", checker=commands(FEW, contents=True), cycles=24, seconds=600, deep=True),
    Proof(name="SDRAM, power-up", checker=power_up, cover_cycles=100),
    *(Proof(name=f"tokens, depth {depth}", checker=lambda depth=depth: TokensAreKept(depth), cover_cycles=min(depth, 10) + 2)
      for depth in (1, 3)),
    Proof(name=f"tokens, depth {TOKEN_QUEUE_DEPTH}", checker=lambda: TokensAreKept(TOKEN_QUEUE_DEPTH)),
    Proof(name="bursts, 1 row of 3 bytes", checker=bursts(count_bits=1, bytes_bits=2, address_bits=3, kinds=1)),
    Proof(name="bursts, 1 row of 7 bytes", checker=bursts(count_bits=1, bytes_bits=3, address_bits=4, kinds=1), seconds=300,
          deep=True),
    Proof(name="bursts, 3 rows of 7 bytes", checker=bursts(count_bits=2, bytes_bits=3, address_bits=5, kinds=2), cycles=9,
          cover_cycles=16),
    Proof(name="bursts, 3 rows of 7 bytes, longer", checker=bursts(count_bits=2, bytes_bits=3, address_bits=5, kinds=2),
          cycles=13, seconds=600, deep=True),
    *(Proof(name=f"reads, {count} outstanding", checker=lambda count=count: ReadsComeBackInOrder(small(outstanding=count), 2),
            cover_cycles=cover_cycles) for count, cover_cycles in ((1, 0), (2, 15), (3, 0))),
    Proof(name="reads, three readers", checker=lambda: ReadsComeBackInOrder(small(), 3)),
    Proof(name="reads, bursts of 4", checker=lambda: ReadsComeBackInOrder(small(burst_beats=4), 2)),
    Proof(name="buffer, 4 beats", checker=lambda: BeatsHaveRoom(small()), cover_cycles=20),
    Proof(name="writes, 1 outstanding, beats alike", seconds=120,
          checker=lambda: WritesAreWhole(small(outstanding=1), contents=False)),
    Proof(name="writes, 2 outstanding", checker=lambda: WritesAreWhole(small()), cycles=10, cover_cycles=20),
    Proof(name="writes, 2 outstanding, longer", checker=lambda: WritesAreWhole(small()), cycles=14, seconds=600, deep=True),
    Proof(name="loads, narrow", checker=loads(NARROW, ROWS | PADS, stalls=False), cycles=26, seconds=240, deep=True),
    Proof(name="loads, single", checker=loads(SINGLE, ROWS | PADS | {"y_size": 1, "x_stride": 1}, stalls=False), cycles=26,
          seconds=240, deep=True),
    Proof(name="loads, wide", checker=loads(WIDE, ROWS | PADS | {"y_size": 1, "x_stride": 1}, stalls=False),
          cycles=26, seconds=240, deep=True),
    Proof(name="loads, a narrow row", checker=loads(NARROW, ROW | PADS, stalls=False), cycles=18),
    Proof(name="loads, a wide row", checker=loads(WIDE, ROW | PADS, stalls=False), cycles=18),
    Proof(name="loads, a narrow row, any stalls", checker=loads(NARROW, ROW, stalls=True)),
    Proof(name="loads with stalls", checker=loads(NARROW, ROWS | PADS, stalls=True), cycles=8, cover_cycles=34),
    Proof(name="retirement, 3 entries", checker=lambda: InstructionsRetireInOrder(3), cover_cycles=12),
    Proof(name="stores", checker=lambda: StoresRetireWhenWritten(small(address_bits=4, cfg=TINY), STORES),
          cycles=12, cover_cycles=18),
    Proof(name="stores, longer", checker=lambda: StoresRetireWhenWritten(small(address_bits=4, cfg=TINY), STORES), cycles=16,
          seconds=600, deep=True),
    Proof(name="stored bytes", checker=lambda: BeatsHoldTheRows(requantizing(TINY, 16), MIXED, stalls=False), cycles=22,
          cover_cycles=30, seconds=120),
    Proof(name="stored bytes, elements of two beats", cycles=20, cover_cycles=30, seconds=120,
          checker=lambda: BeatsHoldTheRows(requantizing(PAIR, 8), MIXED, stalls=False)),
    Proof(name="stored bytes, any stalls", checker=lambda: BeatsHoldTheRows(requantizing(TINY, 16), MIXED, stalls=True),
          cycles=16, seconds=600, deep=True),
    requantized(LANE, cover_cycles=13),
    requantized(replace(LANE, log_block=1), deep=True),
    Proof(name="looked up, lanes: 2", checker=lambda: ResultsAreLookedUp(replace(LANE, log_block=1), 2),
          cycles=REQUANT_LATENCY + 6, cover_cycles=REQUANT_LATENCY + 6),
    *(Proof(name=f"walk, {name}", cycles=cycles, cover_cycles=cover_cycles, seconds=seconds, deep=deep,
            checker=lambda bits=bits, parts=parts: WindowsAreReadOnceForEachPart(CoreParams(cfg=LANE), WALK | bits, parts))
      for name, bits, parts, cycles, cover_cycles, seconds, deep in (
          ("windows of up to 4", {}, 1, 12, 22, 120, False), ("windows of 1 or 2", {"pool": 1}, 2, 14, 38, 120, False),
          ("longer", {}, 2, 20, 0, 600, True))),
    Proof(name="window, 2 x 4 taps", checker=lambda: TapsAreTheLastTiles(WINDOW, 5), cover_cycles=24),
    Proof(name="window, 3 x 5 taps", checker=lambda: TapsAreTheLastTiles(WIDER_WINDOW, 3), cover_cycles=14),
    *(Proof(name=f"product, {a} by {b} bits", checker=lambda a=a, b=b: RowsMakeTheProduct(a, b), cover_cycles=2, seconds=120)
      for a, b in ((8, 8), (8, 4), (8, 2), (4, 4), (2, 8), (8, 1))),
    Proof(name="end of a program", checker=lambda: DoneAfterAllWrites(small(address_bits=4, cfg=TINY)), cover_cycles=20),
)
