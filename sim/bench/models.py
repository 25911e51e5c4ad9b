"""Plain Python models of blocks: what each must do, without time."""

from collections.abc import Iterator, Mapping

from vtakit.hw.isa.codec import decode_uop
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import AluOp, Opcode
from vtakit.hw.params import CoreParams
from vtakit.hw.values import Ints, wrap
from vtakit.sim.plain import ALU

Row = Mapping[str, int]


def loop_steps(cfg: VTAConfig, op: Opcode, f: Mapping[str, int], uops: list[int]) -> Iterator[dict[str, int]]:
    """The steps of a GEMM or ALU instruction: the nested loops of the ISA; `fault` where a used index leaves its scratchpad."""
    uses = {"dst": cfg.acc_depth}
    if op is Opcode.GEMM and not f["reset"]:
        uses |= {"src": cfg.inp_depth, "wgt": cfg.wgt_depth}
    if op is Opcode.ALU and not f["use_imm"]:
        uses |= {"src": cfg.acc_depth}
    for o in range(f["iter_out"]):
        for i in range(f["iter_in"]):
            for u in range(f["uop_bgn"], f["uop_end"]):
                uop = decode_uop(cfg, uops[u])
                at = {name: value + o * f.get(f"{name}_out", 0) + i * f.get(f"{name}_in", 0) for name, value in uop.items()}
                last = (o, i, u) == (f["iter_out"] - 1, f["iter_in"] - 1, f["uop_end"] - 1)
                yield at | {"fault": int(any(at[name] >= depth for name, depth in uses.items())), "last": int(last)}


def window_steps(cfg: VTAConfig, f: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The steps of a DWCONV, with what its window needs to know; `fault` where a used index leaves its scratchpad."""
    for y in range(f["rows"]):
        for x in range(f["columns"] + 1):
            i, off_row = divmod(y - f["y_first"], f["y_step"] + 1)
            j, off_column = divmod(x - f["x_first"], f["x_step"] + 1)
            emits = int(i >= 0 and j >= 0 and not off_row and not off_column)
            at = {"src": f["src"] + y * f["src_row"] + x * f["src_column"], "wgt": f["wgt"],
                  "dst": f["dst"] + i * f["dst_row"] + j * f["dst_column"] if emits else 0}
            fault = at["src"] >= cfg.inp_depth or at["wgt"] >= cfg.wgt_depth or at["dst"] >= cfg.acc_depth
            yield at | {
                "window": 1, "emits": emits, "first": int(not y and not x), "column": x, "row": min(y, cfg.window[0] - 1),
                "fault": int(fault), "last": int((y, x) == (f["rows"] - 1, f["columns"])),
            }


def step_result(cfg: VTAConfig, step: Mapping[str, int], acc: Ints, inp: Ints, wgt: Ints) -> Ints:
    """Return the new value of acc[dst] after one step: [batch, block], wrapped."""
    dst = acc[step["dst"]]
    if not step["is_alu"]:
        before = dst * 0 if step["overwrite"] else dst
        return dst * 0 if step["reset"] else wrap(before + inp[step["src"]] @ wgt[step["wgt"]].T, cfg.acc_bits)
    second = dst * 0 + step["imm"] if step["use_imm"] else acc[step["src"]]
    return wrap(ALU[AluOp(step["alu_opcode"])](dst, second, cfg.acc_bits), cfg.acc_bits)


def row_beats(params: CoreParams, piece: Row) -> list[list[int]]:
    """For each row of a piece of DRAM, the addresses of the beats that hold its bytes."""
    size, found = params.bus_bytes, []
    for row in range(piece["count"] if piece["row_bytes"] else 0):
        first = piece["address"] + row * piece["pitch_bytes"]
        found.append(list(range(first // size * size, first + piece["row_bytes"], size)))
    return found


def loaded_elements(f: Row, element_bytes: int, dram: bytes, base: int) -> list[tuple[int, bytes]]:
    """Return the elements that a LOAD, or a PAD_LOAD, writes, in order: (index, the element's bytes as they lie in DRAM)."""
    found: list[tuple[int, bytes]] = []
    if not f["x_size"]:
        return found
    at, across = f["sram_base"], f["x_pad_0"] + f["x_size"] + f["x_pad_1"]
    pad = bytes([f.get("pad_byte", 0)]) * element_bytes
    for row in range(-f["y_pad_0"], f["y_size"] + f["y_pad_1"]):
        for column in range(across):
            x = column - f["x_pad_0"]
            value = pad
            if 0 <= row < f["y_size"] and 0 <= x < f["x_size"]:
                address = base + (f["dram_base"] + row * f["x_stride"] + x) * element_bytes
                value = dram[address : address + element_bytes]
            found.append((at, value))
            at += 1
    return found
