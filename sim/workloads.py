"""Programs made by hand, without the compiler: a blocked 2-D convolution for any configuration and shape.

The work is cut twice. A *tile* is a part of the result that stays in the ACC scratchpad until it is stored. A *chunk* is a
part of a tile's reduction: its inputs and weights are loaded together and one GEMM instruction multiplies them. ACC is cut
into one slice a context, each for a tile; INP and WGT likewise, each for a chunk. Contexts take turns, and tokens keep a slice
from being filled before its last reader is done, so loads, arithmetic and stores of different contexts overlap.

A matrix product [rows, inner] x [inner, columns] is the convolution `Conv2d(height=1, width=rows, in_channels=inner,
out_channels=columns, kernel=1, stride=1, pad=0)`, with cfg.batch row blocks as images.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, product
from math import prod
from typing import NamedTuple

from vtakit.hw.isa.codec import encode, encode_uop
from vtakit.hw.isa.config import INSN_BYTES, VTAConfig
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.insns import REQUANT_WORDS, AluOp, MemType
from vtakit.hw.isa.program import UOPS, Buffer, BufferKind, Program, Relocation
from vtakit.sim.blocking import BUS_BYTES, START_CYCLES, even_sizes, part_count, parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2d:
    """A 2-D convolution with a square kernel, requantized: shifted right by `shift` bits, then clipped to the output's range.

    height, width, kernel, stride   in pixels
    pad                             pixels of zeros on every side
    requant                         instead, each output channel by its own parameters; needs REQUANT and OVERWRITE

    Raises `ProgramError` if a size is out of range or the kernel is larger than the padded image.
    """

    height: int
    width: int
    in_channels: int
    out_channels: int
    kernel: int
    stride: int
    pad: int
    shift: int = 8
    requant: bool = False

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            least = 0 if name in ("pad", "shift", "requant") else 1
            if value < least:
                raise ProgramError(f"convolution: {name} is {value} and must be at least {least}")
        height, width = self.height + 2 * self.pad, self.width + 2 * self.pad
        if self.kernel > min(height, width):
            raise ProgramError(f"convolution: kernel {self.kernel} is larger than the padded image, {height} x {width} pixels")

    @property
    def out_height(self) -> int:
        """Rows of the result."""
        return (self.height + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def out_width(self) -> int:
        """Columns of the result."""
        return (self.width + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def macs(self) -> int:
        """Multiplications for one image, those with padding included."""
        return self.out_height * self.out_width * self.out_channels * self.in_channels * self.kernel**2


class _Box(NamedTuple):
    """A part of the work: a range of every loop, channels in blocks. The first three make a tile, the others a chunk of it.

    A tile is rows of full width or a part of one row. A chunk is channels with their whole kernels, whole rows of one
    channel's kernel or a part of one such row, so that its weights for one output channel block lie together in DRAM.
    """

    co: range
    rows: range
    columns: range
    ci: range
    kernel_rows: range
    kernel_columns: range

    @property
    def area(self) -> int:
        """ACC elements of one output channel block."""
        return len(self.rows) * len(self.columns)

    @property
    def run(self) -> int:
        """WGT elements of one output channel block."""
        return len(self.ci) * len(self.kernel_rows) * len(self.kernel_columns)

    def pixels(self, shape: Conv2d) -> tuple[range, range]:
        """The rows and columns that are read, rows between the taps of a 1x1 kernel left out; outside the image is padding."""
        axes = (self.rows, self.kernel_rows), (self.columns, self.kernel_columns)
        starts, ends = ([out[at] * shape.stride + taps[at] - shape.pad for out, taps in axes] for at in (0, -1))
        skip = shape.stride if shape.kernel == 1 and not shape.pad else 1
        return range(starts[0], ends[0] + 1, skip), range(starts[1], ends[1] + 1)

    def image_pixels(self, shape: Conv2d) -> tuple[range, range]:
        """The rows and columns of the image that are read."""
        y, x = self.pixels(shape)
        return range(max(y.start, 0), min(y.stop, shape.height), y.step), range(max(x.start, 0), min(x.stop, shape.width))


def _whole(cfg: VTAConfig, shape: Conv2d) -> _Box:
    co, ci = (-(-channels // cfg.block) for channels in (shape.out_channels, shape.in_channels))
    return _Box._make(map(range, (co, shape.out_height, shape.out_width, ci, shape.kernel, shape.kernel)))


def _choose_cut(cfg: VTAConfig, shape: Conv2d, contexts: int) -> _Box:
    """The first box of the cut that fits the slices and should take least time, with the loads and stores that nothing hides."""
    smallest = min(cfg.inp_depth, cfg.wgt_depth, cfg.acc_depth)
    if not 1 <= contexts <= smallest:
        raise ProgramError(f"contexts is {contexts} and must be from 1 to {smallest}, the elements of the smallest scratchpad")
    if shape.requant and not cfg.has_requant:
        raise ProgramError("convolution: requant needs 32-bit accumulators and outputs of at most 8 bits")
    words, passes = (REQUANT_WORDS, 0) if shape.requant else (0, 4)  # ACC elements and ALU or reset steps beyond the tile's own
    if cfg.acc_depth // contexts <= words:
        room = f"parameters and a value of {contexts} contexts need {(words + 1) * contexts} accumulator elements"
        raise ProgramError(f"convolution: {room}, and there are {cfg.acc_depth}")
    whole, one, side = _whole(cfg, shape), range(1), range(shape.kernel)
    areas = [(one, range(n)) for n in even_sizes(whole.columns)] + [(range(n), whole.columns) for n in even_sizes(whole.rows)]
    runs = [(one, one, range(n)) for n in even_sizes(side)] + [(one, range(n), side) for n in even_sizes(side)]
    runs += [(range(n), side, side) for n in even_sizes(whole.ci)]

    def inputs(cut: _Box) -> int:
        return len(cut.ci) * prod(map(len, cut.pixels(shape)))

    def fits(cut: _Box) -> bool:
        return (len(cut.co) * (cut.area + words) <= cfg.acc_depth // contexts and inputs(cut) <= cfg.inp_depth // contexts
                and len(cut.co) * cut.run <= min(cfg.wgt_depth // contexts, cfg.uop_depth))  # a micro-op for each weight

    def cycles(cut: _Box) -> int:
        counts = [part_count(loop, part) for loop, part in zip(whole, cut, strict=True)]
        chunks = prod(counts[3:])  # of one tile
        stay = contexts % chunks == 0  # weights stay in their slice from tile to tile if a chunk meets the same context in each
        weights, outputs = len(cut.co) * cut.run * cfg.wgt_bytes // BUS_BYTES, len(cut.co) * cut.area
        data = inputs(cut) * cfg.inp_bytes // BUS_BYTES + (2 + len(cut.ci)) * INSN_BYTES // BUS_BYTES
        steps, loads = outputs * cut.run, data + START_CYCLES + weights * (not stay)
        ends = (contexts * counts[0] if stay else 1) * weights + data + outputs * cfg.out_bytes // BUS_BYTES  # nothing hides them
        return prod(counts[:3]) * (chunks * (max(steps, loads) + loads // 8) + passes * outputs) + ends

    cuts = (_Box(co, *area, *run) for co, area, run in product(map(range, even_sizes(whole.co)), areas, runs))
    return min(filter(fits, cuts), key=cycles)


def _tiles(cfg: VTAConfig, shape: Conv2d, contexts: int) -> Iterator[tuple[_Box, list[_Box]]]:
    """Every tile with its chunks, less those that meet only padding."""
    whole, cut = _whole(cfg, shape), _choose_cut(cfg, shape, contexts)
    cuts = [parts(loop, len(part)) for loop, part in zip(whole, cut, strict=True)]
    for tile in product(*cuts[:3]):
        chunks = (_Box._make((*tile, *chunk)) for chunk in product(*cuts[3:]))
        yield _Box._make((*tile, *whole[3:])), [chunk for chunk in chunks if all(chunk.image_pixels(shape))]


class _Writer:
    """A convolution's instructions as they are written; micro-ops are loaded when the scratchpad does not hold them."""

    def __init__(self, cfg: VTAConfig, shape: Conv2d, contexts: int) -> None:
        self.cfg, self.shape, self.whole = cfg, shape, _whole(cfg, shape)
        self.insns: list[int] = []
        self.relocations: list[Relocation] = []
        self.kernels: dict[tuple[int, ...], int] = {}  # micro-ops -> the first one's number in the program
        self._resident: dict[tuple[int, ...], int] = {}  # and in the scratchpad
        self._weights: list[tuple[range, ...]] = [()] * contexts  # the ranges of the weights in each context's slice
        self._parameters: list[range] = [range(0)] * contexts  # the output channels whose parameters end its slice of ACC

    def insn(self, op: str, symbol: str = "", /, **fields: int) -> None:
        """Any instruction; the dram_base of one with a symbol counts from that buffer."""
        if symbol:
            self.relocations.append(Relocation(len(self.insns), symbol))
        self.insns.append(encode(self.cfg, op, **fields))

    def kernel(self, *words: int) -> dict[str, int]:
        """The fields uop_bgn and uop_end of micro-ops, loaded first if need be; a full scratchpad is filled anew."""
        if words not in self._resident:
            first = self.kernels.setdefault(words, sum(map(len, self.kernels)))
            if sum(map(len, self._resident)) + len(words) > self.cfg.uop_depth:
                self._resident.clear()
            at = self._resident[words] = sum(map(len, self._resident))
            self.insn("load", UOPS, memory_type=MemType.UOP, sram_base=at, dram_base=first, y_size=1, x_size=len(words))
        return {"uop_bgn": self._resident[words], "uop_end": self._resident[words] + len(words)}

    def on_tile(self, op: str, tile: _Box, acc: int, **fields: int) -> None:
        """A GEMM or ALU instruction with one step for each ACC element of a tile."""
        kernel = self.kernel(encode_uop(self.cfg, dst=acc))
        self.insn(op, **kernel, iter_out=1, iter_in=len(tile.co) * tile.area, dst_in=1, **fields)

    def load_parameters(self, tile: _Box, context: int, *, wait: bool) -> bool:
        """Load the parameters of a tile's channels, unless the context holds them; whether it did, and so did `wait`."""
        if self._parameters[context] == tile.co:
            return False
        self._parameters[context] = tile.co
        self.insn("load", "parameters", memory_type=MemType.ACC, sram_base=self.parameters_at(tile, context),
                  dram_base=REQUANT_WORDS * tile.co[0], y_size=1, x_size=REQUANT_WORDS * len(tile.co), pop_next=wait)
        return True

    def parameters_at(self, tile: _Box, context: int) -> int:
        """The first ACC element of a tile's parameters."""
        return (context + 1) * (self.cfg.acc_depth // len(self._weights)) - REQUANT_WORDS * len(tile.co)

    def add_chunk(self, box: _Box, acc: int, context: int, *, wait: bool, free: bool, first: bool, **tokens: int) -> None:
        """Load a chunk (its weights only if the context does not hold them) and add it to its tile with one GEMM.

        Before it, `wait` for the last reader of the context's slices; after it, `free` them for another chunk. The `first` of its
        tile begins with a GEMM that overwrites. `tokens` are its tile's: pop_next before the first step, push_next after all.
        """
        shape, side, whole, contexts = self.shape, self.shape.kernel, self.whole, len(self._weights)
        inp, wgt = context * (self.cfg.inp_depth // contexts), context * (self.cfg.wgt_depth // contexts)
        weights = box.co, box.ci, box.kernel_rows, box.kernel_columns
        if self._weights[context] != weights:
            self._weights[context] = weights
            weight = ((box.co[0] * len(whole.ci) + box.ci[0]) * side + box.kernel_rows[0]) * side + box.kernel_columns[0]
            self.insn("load", "weights", memory_type=MemType.WGT, sram_base=wgt, dram_base=weight,
                      y_size=len(box.co), x_size=box.run, x_stride=whole.run, pop_next=wait)
            wait = False
        (y, x), (rows, columns) = box.pixels(shape), box.image_pixels(shape)
        for number, ci in enumerate(box.ci):
            self.insn("load", "data", memory_type=MemType.INP, sram_base=inp + number * len(y) * len(x),
                      dram_base=(ci * shape.height + rows[0]) * shape.width + columns[0],
                      y_size=len(rows), x_size=len(columns), x_stride=rows.step * shape.width,
                      y_pad_0=rows[0] - y[0], y_pad_1=y[-1] - rows[-1], x_pad_0=columns[0] - x[0], x_pad_1=x[-1] - columns[-1],
                      pop_next=wait and number == 0, push_next=ci == box.ci[-1])
        taps = product(range(len(box.ci)), range(len(box.kernel_rows)), range(len(box.kernel_columns)))
        kernel = self.kernel(*(  # output channels innermost, so that neighbouring micro-ops add to different ACC elements
            encode_uop(self.cfg, acc + co * box.area, inp + (ci * len(y) + ky) * len(x) + kx, wgt + co * box.run + tap)
            for tap, (ci, ky, kx) in enumerate(taps) for co in range(len(box.co))
        ))
        down, across = len(box.rows) > 1, len(box.columns) > 1  # steps of a loop that runs once might not fit their fields
        src_out, src_in = down * shape.stride // y.step * len(x), across * shape.stride
        loops = {"iter_out": len(box.rows), "dst_out": down * len(box.columns), "src_out": src_out, "iter_in": len(box.columns),
                 "dst_in": across, "src_in": src_in}
        before = {"pop_prev": 1, "pop_next": tokens.get("pop_next", 0)}
        after = {"push_prev": free, "push_next": tokens.get("push_next", 0)}
        if first:  # the first tap of all output channels
            middle = kernel["uop_bgn"] + len(box.co)
            if middle == kernel["uop_end"]:
                self.insn("gemm", **kernel, **loops, **before, **after, overwrite=1)
                return
            self.insn("gemm", uop_bgn=kernel["uop_bgn"], uop_end=middle, **loops, **before, overwrite=1)
            kernel, before = {"uop_bgn": middle, "uop_end": kernel["uop_end"]}, {}
        self.insn("gemm", **kernel, **loops, **before, **after)


def conv2d_program(cfg: VTAConfig, shape: Conv2d, contexts: int = 2) -> Program:
    """A convolution of cfg.batch images that keeps `contexts` tiles and chunks in the scratchpads at once.

    data      INPUT   inp_bits  [in blocks, height, width, batch, block]
    weights   INPUT   wgt_bits  [out blocks, in blocks, kernel, kernel, block of outputs, block of inputs]
    parameters INPUT  int32     [out blocks, 3, batch, block], the words of `hw.isa.codec.encode_requant`; only with `requant`
    result    OUTPUT  out_bits  [out blocks, out_height, out_width, batch, block]

    Raises `ProgramError` if a scratchpad has fewer elements than there are contexts, and `EncodingError` naming the field if
    a size leaves its instruction field: pads end at 15, row pitches (width and in blocks x kernel x kernel) at 65535.
    """
    tiles = list(_tiles(cfg, shape, contexts))
    writer = _Writer(cfg, shape, contexts)
    chunk_count, chunks_done = sum(len(chunks) for _, chunks in tiles), 0
    largest = (1 << (cfg.out_bits - 1)) - 1
    for number, (tile, chunks) in enumerate(tiles):
        acc = number % contexts * (cfg.acc_depth // contexts)
        context, reuse = number % contexts, number >= contexts
        if shape.requant:
            reuse = not writer.load_parameters(tile, context, wait=reuse) and reuse
        if not shape.requant or not chunks:
            writer.on_tile("gemm", tile, acc, reset=1, pop_next=reuse, push_next=shape.requant)
        for at, chunk in enumerate(chunks, chunks_done):
            tokens: dict[str, int] = {}
            if shape.requant:
                tokens = {"pop_next": reuse and chunk is chunks[0], "push_next": chunk is chunks[-1]}
            writer.add_chunk(chunk, acc, at % contexts, wait=at >= contexts, free=at + contexts < chunk_count,
                             first=shape.requant and chunk is chunks[0], **tokens)
        chunks_done += len(chunks)
        for alu, imm in () if shape.requant else ((AluOp.SHR, shape.shift), (AluOp.MAX, -largest - 1), (AluOp.MIN, largest)):
            writer.on_tile("alu", tile, acc, alu_opcode=alu, use_imm=1, imm=imm, push_next=alu is AluOp.MIN)
        for at, co in enumerate(tile.co):
            scale = {"params": writer.parameters_at(tile, context) + REQUANT_WORDS * at} if shape.requant else {}
            op = "requant" if shape.requant else "store"
            writer.insn(op, "result", memory_type=MemType.OUT, sram_base=acc + at * tile.area,
                        dram_base=(co * shape.out_height + tile.rows[0]) * shape.out_width + tile.columns[0],
                        y_size=len(tile.rows), x_size=len(tile.columns), x_stride=shape.out_width, **scale,
                        pop_prev=co == tile.co[0], push_prev=co == tile.co[-1] and number + contexts < len(tiles))
    writer.insn("finish")
    parameters = Buffer(name="parameters", size_bytes=len(writer.whole.co) * REQUANT_WORDS * cfg.acc_bytes)
    buffers = (
        Buffer(name="data", size_bytes=len(writer.whole.ci) * shape.height * shape.width * cfg.inp_bytes),
        Buffer(name="weights", size_bytes=len(writer.whole.co) * writer.whole.run * cfg.wgt_bytes),
        *([parameters] if shape.requant else []),
        Buffer(name="result", size_bytes=len(writer.whole.co) * writer.whole.area * cfg.out_bytes, kind=BufferKind.OUTPUT),
    )
    return Program(config=cfg, insns=tuple(writer.insns), uops=tuple(chain.from_iterable(writer.kernels)), buffers=buffers,
                   relocations=tuple(writer.relocations))
