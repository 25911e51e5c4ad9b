"""Random legal programs for any configuration: every simulator, the RTL and the checker are tested with them.

One generator serves long runs (`random_program`, from a seed) and Hypothesis (tests draw its choices, so that failures
shrink): every choice is one call of `pick(low, high)`, and smaller choices make simpler programs. Programs are free of
races by construction: each new instruction is ordered, by tokens, after whatever it conflicts with; besides, tokens
are given and taken at random, so that queues hold several.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import numpy as np

from vtakit.hw.isa.codec import encode_uop, to_bytes
from vtakit.hw.isa.config import INSN_BYTES, UOP_BYTES, VTAConfig
from vtakit.hw.isa.insns import DWCONV, FORMATS, MEMORIES, PAD_LOAD, REQUANT_WORDS, UOP, AluOp, Feature, MemType, Opcode, Stage
from vtakit.hw.isa.pools import pooled_extents
from vtakit.hw.isa.regs import BASE_ALIGN_BYTES, device_features
from vtakit.hw.params import PAGE_BYTES
from vtakit.hw.values import Ints
from vtakit.sim.access import loop_accesses, transfer_accesses, window_accesses
from vtakit.sim.decode import Memories
from vtakit.sim.emitter import Emitter, complete
from vtakit.sim.random_parameters import random_parameters

Pick = Callable[[int, int], int]  # an integer from low to high, both included
T = TypeVar("T")

DATA_BYTES = 1 << 15  # the part of DRAM that programs read and write
_CROWD = 64  # elements of a STORE in a crowd
UOP_WORDS = 48  # different micro-ops of a program
UOP_TABLE = 7 * UOP_WORDS  # micro-ops in DRAM, behind the data: long rows of them reach every length of burst
PUBLISHED = Feature(0)  # nothing beyond the published instruction set, MUL and ACC_8BIT included
PARAMETER_SETS = 8  # of REQUANTs, each for every lane
UOP_TABLE_AT = DATA_BYTES + PAGE_BYTES - UOP_WORDS * UOP_BYTES  # so that rows meet a page's end


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomProgram:
    """Random program, as `vtakit.sim.run_image` takes it, base registers included."""

    config: VTAConfig
    dram: bytes
    insn_addr: int
    insn_count: int
    bases: dict[str, int]

    @property
    def code(self) -> bytes:
        """The instructions."""
        return self.dram[self.insn_addr : self.insn_addr + self.insn_count * INSN_BYTES]

    @property
    def memories(self) -> Memories:
        """Base registers and window as the static checker takes them."""
        return Memories(bases={kind: self.bases[kind.name.lower()] for kind in MEMORIES}, window=(0, len(self.dram)))


_FIRST = AluOp.ADD, AluOp.SHR, AluOp.MIN, AluOp.MAX, AluOp.MUL  # in this order a seed means what it always did
_ALU_OPS = (*_FIRST, *[op for op in AluOp if op not in _FIRST])


def random_program(
    cfg: VTAConfig, seed: int, length: int = 40, features: Feature = PUBLISHED, *, crowds: bool = False,
) -> RandomProgram:
    """The program of a seed: about `length` instructions and the tokens between them.

    features   REQUANT and OVERWRITE are used if they are among these; without them a seed means what it did before they were
    crowds     some STOREs come in crowds that fill the way to memory
    """
    return generate(cfg, _drawing(random.Random(seed)), length, features, crowds=crowds)


def _drawing(numbers: random.Random) -> Callable[[int, int], int]:
    """Return `numbers.randint`, its checks left out: a program takes a thousand numbers."""
    bits = numbers.getrandbits

    def draw(low: int, high: int) -> int:
        count = high - low + 1
        width = count.bit_length()
        drawn = bits(width)
        while drawn >= count:
            drawn = bits(width)
        return low + drawn
    return draw


def generate(
    cfg: VTAConfig, pick: Pick, length: int = 40, features: Feature = PUBLISHED, *, crowds: bool = False,
) -> RandomProgram:
    """A program whose every choice is made by `pick`."""
    return _Generator(cfg, pick, features).program(length, crowds=crowds)


class _Generator:
    def __init__(self, cfg: VTAConfig, pick: Pick, features: Feature) -> None:
        self.cfg, self.pick, self.features = cfg, pick, features & device_features(cfg)
        self.contexts = pick(1, 4)
        highest = DATA_BYTES // 4 // BASE_ALIGN_BYTES
        self.bases = {kind: BASE_ALIGN_BYTES * (pick(0, highest) if pick(0, 3) == 3 else 0) for kind in MEMORIES}
        self.table = [self._uop_word() for _ in range(UOP_WORDS)] * (UOP_TABLE // UOP_WORDS)
        self.uops: Ints = np.zeros(cfg.uop_depth, np.int64)  # what the UOP scratchpad holds
        self.data_end = UOP_TABLE_AT + UOP_TABLE * UOP_BYTES
        self.params = b""  # parameters of REQUANTs in DRAM, from params_at on
        self.params_in: list[int] = []  # accumulator elements that they have been loaded to
        if Feature.REQUANT in self.features:
            base = self.bases[MemType.ACC]
            self.params_at = base - (base - self.data_end) // cfg.acc_bytes * cfg.acc_bytes
            self.params = random_parameters(cfg, PARAMETER_SETS, pick(0, 2**32 - 1))
            self.data_end = self.params_at + len(self.params)
        give = self.choose((6, 6, 6, 2))  # one in so many pushes that nothing requires
        self.emitter = Emitter(cfg, self.data_end, spare_give=lambda: self.maybe(give), spare_take=lambda: self.maybe(3))

    def program(self, length: int, *, crowds: bool) -> RandomProgram:
        makers: list[Callable[[], None]] = [
            self._gemm, self._load_tile, self._store, self._alu, self._load_uops, self._load_acc, self._token_only,
        ]
        odds = [6, 5, 4, 5, 2, 3, 1]
        if self.params:
            makers.append(self._load_params)
            odds.append(1)
        if Feature.DWCONV in self.features:
            makers.append(self._dwconv)
            odds.append(3)
        if crowds:
            makers.append(self._crowd)
            odds.append(1)
        wheel = [maker for maker, weight in zip(makers, odds, strict=True) for _ in range(weight)]
        self._load_uops()
        for context in range(self.contexts):
            for kind in (MemType.INP, MemType.WGT):
                if not self.maybe(8):
                    self._prime(kind, context)
            if self.params and not self.maybe(4):
                self._load_params()
        for _ in range(self.pick(0, length)):
            self.choose(wheel)()
        words = self.emitter.finish()
        insn_addr = -(-self.data_end // BASE_ALIGN_BYTES) * BASE_ALIGN_BYTES
        table = b"".join(word.to_bytes(UOP_BYTES, "little") for word in self.table)
        dram = self._data().ljust(UOP_TABLE_AT, b"\0") + table
        if self.params:
            dram = dram.ljust(self.params_at, b"\0") + self.params
        dram = dram.ljust(insn_addr, b"\0") + to_bytes(words)
        bases = {kind.name.lower(): base for kind, base in self.bases.items()}
        return RandomProgram(config=self.cfg, dram=dram, insn_addr=insn_addr, insn_count=len(words), bases=bases)

    # Choices

    def choose(self, options: Sequence[T]) -> T:
        return options[self.pick(0, len(options) - 1)]

    def maybe(self, one_in: int) -> bool:
        return self.pick(0, one_in - 1) == one_in - 1

    def small(self, high: int) -> int:
        """Mostly a small number, sometimes any up to `high`."""
        return self.pick(0, high if self.maybe(4) else min(high, 4))

    def _data(self) -> bytes:
        numbers = np.random.default_rng(self.pick(0, 2**32 - 1))
        alphabet = self.choose((range(4), range(256), (0x00, 0x01, 0x7F, 0x80, 0xFF)))
        return numbers.choice(np.array(alphabet, np.uint8), DATA_BYTES).tobytes()

    def _uop_word(self) -> int:
        cfg = self.cfg
        limits = {"dst": cfg.acc_depth, "src": min(cfg.acc_depth, cfg.inp_depth), "wgt": cfg.wgt_depth}
        context = self.pick(0, self.contexts - 1)
        values = {}
        for name, depth in limits.items():
            share = max(1, depth // self.contexts)
            values[name] = min(depth - 1, context * share + self.small(share - 1))
        if self.maybe(16):  # legal where src is not used, or used for the larger of inp and acc
            values["src"] = (1 << cfg.src_depth_log2) - 1
        return encode_uop(cfg, **values)

    def _row(self) -> int:
        """Elements of a row: mostly few, sometimes enough for several of the longest bursts of a wide bus."""
        return 1 + (self.pick(0, 255) if self.maybe(12) else self.small(11))

    def _slice(self, depth: int) -> tuple[int, int]:
        """The part of a scratchpad that belongs to one context, or all of it."""
        if self.maybe(8):
            return 0, depth
        context, share = self.pick(0, self.contexts - 1), max(1, depth // self.contexts)
        low = min(context * share, depth - 1)
        return low, min(low + share, depth)

    # Instructions

    def _transfer(self, kind: MemType, *, pads: bool, first_byte: int, bytes_there: int) -> dict[str, int]:
        """Fields of a LOAD or STORE that stays in a slice of its scratchpad and in a range of DRAM."""
        memory = MEMORIES[kind]
        low, high = self._slice(memory.depth_in(self.cfg))
        size = memory.bytes_in(self.cfg)
        start = max(0, -(-(first_byte - self.bases[kind]) // size))
        available = (first_byte + bytes_there - self.bases[kind]) // size - start
        f = {"memory_type": int(kind), "x_size": 0 if self.maybe(10) else self._row(), "y_size": self.small(5)}
        if pads and self.maybe(3):
            limit = 15 if self.maybe(4) else 2
            f |= {name: self.pick(0, limit) for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")}
        if not f["x_size"]:  # nothing moves: every other field may be anything
            return f | {"sram_base": self.small(65535), "dram_base": self.small(2**32 - 1), "x_stride": self.small(65535)}
        f["x_size"] = min(f["x_size"], high - low, available)
        while f["x_size"] + f.get("x_pad_0", 0) + f.get("x_pad_1", 0) > high - low:
            del f["x_pad_0" if f.get("x_pad_0") else "x_pad_1"]
        across = f["x_size"] + f.get("x_pad_0", 0) + f.get("x_pad_1", 0)
        for name in ("y_pad_0", "y_pad_1", "y_size"):
            others = sum(f.get(other, 0) for other in ("y_pad_0", "y_pad_1", "y_size") if other != name)
            f[name] = max(0, min(f.get(name, 0), (high - low) // across - others))
        rows = f["y_pad_0"] + f["y_pad_1"] + f["y_size"]
        f["sram_base"] = low + self.small(high - rows * across - low)  # mostly where micro-ops look for it
        if not f["y_size"]:
            return f | {"dram_base": self.small(2**32 - 1), "x_stride": self.small(65535)}
        gaps = f["y_size"] - 1
        most = min(65535, (available - f["x_size"]) // gaps) if gaps else 65535
        f["x_stride"] = self.choose((min(f["x_size"], most), self.small(most)))
        f["dram_base"] = start + self.pick(0, available - f["x_size"] - gaps * f["x_stride"])
        return f

    def _load(self, kind: MemType) -> None:
        fields, op = self._transfer(kind, pads=True, first_byte=0, bytes_there=DATA_BYTES), Opcode.LOAD
        if kind is MemType.INP and Feature.PAD_VALUE in self.features and self.maybe(2):
            op = Opcode.PAD_LOAD
            fields["pad_value"] = self.choose((-128, 0, 127, self.pick(-128, 127)))
            fields["dram_base"] %= 1 << PAD_LOAD.width("dram_base")
        self.emitter.emit(op, fields, transfer_accesses(self.cfg, complete(op, fields), self.bases[kind]))

    def _prime(self, kind: MemType, context: int) -> None:
        """Fill the first elements of a context, where most micro-ops look for their operands: few products are then zero."""
        memory, base = MEMORIES[kind], self.bases[kind]
        size, depth = memory.bytes_in(self.cfg), memory.depth_in(self.cfg)
        share = max(1, depth // self.contexts)
        available = (DATA_BYTES - base) // size
        low = min(context * share, depth - 1)
        f = {"memory_type": int(kind), "y_size": 1, "x_size": min(8, share, available, depth - low), "sram_base": low}
        f["dram_base"] = self.pick(0, available - f["x_size"])
        self.emitter.emit(Opcode.LOAD, f, transfer_accesses(self.cfg, complete(Opcode.LOAD, f), base))

    def _load_tile(self) -> None:
        self._load(self.choose((MemType.INP, MemType.WGT)))

    def _load_acc(self) -> None:
        self._load(self.choose((MemType.ACC, MemType.ACC_8BIT)) if self.cfg.has_acc8 else MemType.ACC)

    def _load_uops(self) -> None:
        kind = MemType.UOP
        f = self._transfer(kind, pads=True, first_byte=UOP_TABLE_AT, bytes_there=UOP_TABLE * UOP_BYTES)
        insn = complete(Opcode.LOAD, f)
        self.emitter.emit(Opcode.LOAD, f, transfer_accesses(self.cfg, insn, self.bases[kind]))
        if not f["x_size"]:
            return
        across = insn["x_pad_0"] + f["x_size"] + insn["x_pad_1"]
        rows = np.zeros((insn["y_pad_0"] + f["y_size"] + insn["y_pad_1"], across), np.int64)
        for row in range(f["y_size"]):
            first = (self.bases[kind] - UOP_TABLE_AT) // UOP_BYTES + f["dram_base"] + row * f["x_stride"]
            at = insn["x_pad_0"]
            rows[insn["y_pad_0"] + row, at : at + f["x_size"]] = self.table[first : first + f["x_size"]]
        self.uops[f["sram_base"] : f["sram_base"] + rows.size] = rows.reshape(-1)

    def _store(self) -> None:
        kind = MemType.OUT
        fields = self._transfer(kind, pads=False, first_byte=0, bytes_there=DATA_BYTES)
        op = Opcode.STORE
        if Feature.REQUANT in self.features and self.maybe(2):
            op = Opcode.REQUANT
            fields = {name: value for name, value in fields.items() if "pad" not in name}
            words = REQUANT_WORDS
            if Feature.LOOKUP in self.features and self.maybe(3):
                fields["lookup"], words = 1, REQUANT_WORDS + self.cfg.table_elements
            if Feature.POOL in self.features and fields["x_size"] and fields["y_size"] and self.maybe(2):
                self._pool(fields)
            if not fields["x_size"]:
                fields["params"] = self.small(65535)
            elif self.params_in and not self.maybe(6):
                fields["params"] = min(self.choose(self.params_in), self.cfg.acc_depth - words)
            else:
                fields["params"] = self.small(self.cfg.acc_depth - words)
        self.emitter.emit(op, fields, transfer_accesses(self.cfg, complete(op, fields), self.bases[kind]))

    def _crowd(self) -> None:
        """STOREs one after another, of many elements each: of one row, or one a row."""
        available, wide = (DATA_BYTES - self.bases[MemType.OUT]) // self.cfg.out_bytes, self.maybe(2)
        least = _CROWD if self.maybe(2) else 1
        for _ in range(self.pick(2, 12)):
            stride = self.pick(1, 4)
            most = min(self.cfg.acc_depth, _CROWD, available // stride)
            count = self.pick(min(least, most), most)
            rows, columns = (1, count) if wide else (count, 1)
            f = {"memory_type": int(MemType.OUT), "sram_base": self.pick(0, self.cfg.acc_depth - count), "y_size": rows,
                 "x_size": columns, "x_stride": stride, "dram_base": self.pick(0, available - stride * count)}
            self.emitter.emit(Opcode.STORE, f, transfer_accesses(self.cfg, complete(Opcode.STORE, f), self.bases[MemType.OUT]))

    def _pool(self, fields: dict[str, int]) -> None:
        """Windows for a REQUANT, if what they read fits ACC."""
        pool = self.pick(0, 3)
        windows = {"pool": pool, "pool_step": self.pick(0, 1), "pool_above": self.pick(0, 1), "pool_left": self.pick(0, 1)}
        if not pool:
            windows |= {"pool_above": 0, "pool_left": 0}
        room = self.cfg.acc_depth - prod(pooled_extents(fields | windows))
        if room >= 0:
            fields |= windows | {"sram_base": min(fields["sram_base"], room)}

    def _load_params(self) -> None:
        """One of the sets of parameters, to anywhere in ACC."""
        kind, size = MemType.ACC, self.cfg.acc_bytes
        at = self.pick(0, self.cfg.acc_depth - REQUANT_WORDS)
        first = (self.params_at - self.bases[kind]) // size + REQUANT_WORDS * self.pick(0, PARAMETER_SETS - 1)
        f = {"memory_type": int(kind), "y_size": 1, "x_size": REQUANT_WORDS, "sram_base": at, "dram_base": first}
        self.params_in.append(at)
        self.emitter.emit(Opcode.LOAD, f, transfer_accesses(self.cfg, complete(Opcode.LOAD, f), self.bases[kind]))

    def _gemm(self) -> None:
        reset = int(self.maybe(4))
        used = {"dst": self.cfg.acc_depth}
        if not reset:
            used |= {"src": self.cfg.inp_depth, "wgt": self.cfg.wgt_depth}
        fields = {"reset": reset}
        if Feature.OVERWRITE in self.features:
            fields["overwrite"] = int(self.maybe(3))
        self._loops(Opcode.GEMM, fields, used)

    def _alu(self) -> None:
        op = self.choose(_ALU_OPS)
        fields = {"alu_opcode": int(op), "use_imm": self.pick(0, 1)}
        if fields["use_imm"]:
            most = 32767 if self.maybe(3) else 1 if self.maybe(5) else self.cfg.acc_bits
            fields["imm"] = self.pick(-most - (most == 32767), most)
        used = {"dst": self.cfg.acc_depth} | ({} if fields["use_imm"] else {"src": self.cfg.acc_depth})
        self._loops(Opcode.ALU, fields, used)

    def _loops(self, op: Opcode, fields: dict[str, int], used: dict[str, int]) -> None:
        """The two hardware loops of a GEMM or ALU instruction, with factors that keep every used index in range."""
        begin = self.small(self.cfg.uop_depth - 1) if self.maybe(3) else self.pick(0, min(self.cfg.uop_depth - 1, 16))
        end = min(begin + self.small(8), self.cfg.uop_depth)
        f = fields | {"uop_bgn": begin, "uop_end": end, "iter_out": self.small(6), "iter_in": self.small(9)}
        words = self.uops[begin:end]
        for place in UOP.place(self.cfg):
            name = place.field.name
            largest = max((place.read(int(word)) for word in words), default=0)
            if name in used and largest >= used[name]:
                f |= {"uop_end": begin}  # these micro-ops do not fit this use: an instruction without steps instead
                words = words[:0]
            room = used.get(name, 1) - 1 - largest
            for loop in ("out", "in"):
                field = next((p for p in FORMATS[op].place(self.cfg) if p.field.name == f"{name}_{loop}"), None)
                if field is None:
                    continue
                turns = f[f"iter_{loop}"] - 1
                free = name not in used or turns < 1 or not len(words)
                f[field.field.name] = self.small(field.high if free else min(field.high, room // turns))
                if not free:
                    room -= turns * f[field.field.name]
        self.emitter.emit(op, f, loop_accesses(self.cfg, complete(op, f), words))

    def _dwconv(self) -> None:
        """A window over tiles of a slice of INP, whose outputs stay in a slice of ACC."""
        cfg, (src, src_end), (dst, dst_end) = self.cfg, self._slice(self.cfg.inp_depth), self._slice(self.cfg.acc_depth)
        f = {"rows": 0 if self.maybe(10) else 1 + self.small(6), "columns": self.pick(0, 15) if self.maybe(3) else self.small(6)}
        f |= {"y_first": self.small(7) if self.maybe(2) else self.small(2), "x_first": self.small(4)}
        f |= {"y_step": self.small(3) if self.maybe(3) else 0, "x_step": self.small(3) if self.maybe(3) else 0}
        f |= {"wgt": self.pick(0, min(cfg.wgt_depth - 1, 3)), "overwrite": int(self.maybe(2))}
        places = {p.field.name: p for p in DWCONV.place(cfg)}
        outputs = [max(0, -(-(f[size] + more - f[first]) // (f[step] + 1))) for size, more, first, step in (
            ("rows", 0, "y_first", "y_step"), ("columns", 1, "x_first", "x_step"))]
        turns = {"src": (f["rows"], f["columns"] + 1), "dst": tuple(outputs)}
        for name, low, end in (("src", src, src_end), ("dst", dst, dst_end)):
            f[name] = low + self.small(min(3, end - low - 1))
            room = end - 1 - f[name]
            for factor, count in zip(("column", "row"), reversed(turns[name]), strict=True):
                most = places[f"{name}_{factor}"].high
                free = count < 2 or 0 in turns[name] or not f["rows"]
                f[f"{name}_{factor}"] = self.small(most if free else min(most, room // (count - 1)))
                room -= 0 if free else (count - 1) * f[f"{name}_{factor}"]
        self.emitter.emit(Opcode.DWCONV, f, window_accesses(complete(Opcode.DWCONV, f)))

    def _token_only(self) -> None:
        self.emitter.token_only(self.choose((Stage.LOAD, Stage.COMPUTE, Stage.STORE)))
