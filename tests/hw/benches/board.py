"""The blocks under test of one configuration, side by side in one model, and what the benches need to know of it."""

from dataclasses import replace
from functools import cache

import cocotb
from amaranth.lib import wiring

from vtakit.hw.compute.acc_memory import AccMemory
from vtakit.hw.compute.acc_writer import AccWriter
from vtakit.hw.compute.alu import Alu
from vtakit.hw.compute.arithmetic import Arithmetic
from vtakit.hw.compute.mac_array import MacArray
from vtakit.hw.compute.steps import StepGenerator
from vtakit.hw.compute.window import Window
from vtakit.hw.control.counters import Counters
from vtakit.hw.control.supervisor import Supervisor
from vtakit.hw.fetch.decoder import Decoder
from vtakit.hw.fetch.fetch import Fetch
from vtakit.hw.isa.config import NAMED, VTAConfig
from vtakit.hw.isa.insns import MEMORIES, MemType, Stage
from vtakit.hw.issue.issue import Issue
from vtakit.hw.issue.retire import Retire
from vtakit.hw.issue.token_queue import TokenQueue
from vtakit.hw.load.port import LoadPort
from vtakit.hw.load.writer import LoadWriter
from vtakit.hw.memory.bursts import BurstGenerator
from vtakit.hw.memory.read_buffer import ReadBuffer
from vtakit.hw.memory.read_master import ReadMaster
from vtakit.hw.memory.scratchpad import Scratchpad
from vtakit.hw.memory.write_master import WriteMaster
from vtakit.hw.params import CoreParams
from vtakit.hw.pipeline import HeadFIFO, Queue, Slice
from vtakit.hw.store.port import StorePort
from vtakit.hw.store.requantizer import Requantizer
from vtakit.hw.timing import Target, target

SCRATCHPADS = {
    "scratchpad": {"element_bits": 24, "depth_log2": 4, "readers": 2, "registered": False},
    "scratchpad_lanes": {"element_bits": 8, "depth_log2": 5, "lanes": 4},
    "scratchpad_slices": {"element_bits": 32, "depth_log2": 3, "slices": 4},
}
TOKENS = 5  # depth of the token queue under test
READERS = 3
QUEUE = 5  # depth of the queue under test
# An output element of several beats of 64 bits, of 8 lanes each; with the requantizer, whatever the model's configuration.
PARTS = VTAConfig(
    log_batch=2, log_block=2, log_uop_buff_size=7, log_inp_buff_size=9, log_wgt_buff_size=8, log_acc_buff_size=11,
)
PARTS_LANES = 8
WINDOWED = replace(PARTS, log_block=4, log_inp_width=1, log_batch=1, log_wgt_buff_size=13)  # 3 x 5 taps of 2 bits
SHARED = {"gemm_passes": 2, "mul_passes": 2, "acc_copies": 1}  # of a small core
ISSUES = {"issue_load": (Stage.LOAD, 1), "issue_compute": (Stage.COMPUTE, 2)}  # stage and units


def load_targets(params: CoreParams) -> list[Target]:
    """Elements of every memory type, narrower and wider than the bus."""
    cfg = params.cfg
    kinds = [MemType.ACC, *([MemType.ACC_8BIT] if cfg.has_acc8 else [])]
    whole = [Target(kind=kind, element_bytes=MEMORIES[kind].bytes_in(cfg), lanes=1, depth=cfg.acc_depth) for kind in kinds]
    return [target(params, kind) for kind in (MemType.INP, MemType.WGT, MemType.UOP)] + whole


def board(params: CoreParams) -> dict[str, wiring.Component]:
    """Every block by the name of its bench."""
    cfg = params.cfg
    return {
        "token_queue": TokenQueue(TOKENS),
        **{name: Scratchpad(**shape) for name, shape in SCRATCHPADS.items()},
        "mac_array": MacArray(cfg), "mac_array_mixed": MacArray(cfg, dsp_products=cfg.products // 3),
        "window": Window(WINDOWED), "alu": Alu(cfg),
        "alu_shared": Alu(cfg, mul_passes=SHARED["mul_passes"]), "steps": StepGenerator(cfg),
        "steps_windows": StepGenerator(cfg, windows=True), "arithmetic": Arithmetic(cfg),
        "arithmetic_windows": Arithmetic(cfg, windows=True), "arithmetic_shared": Arithmetic(cfg, windows=True, **SHARED),
        "decoder_plain": Decoder(replace(params, windows=False, pools=False)),
        "bursts": BurstGenerator(params), "read_buffer": ReadBuffer(params), "read_master": ReadMaster(params, READERS),
        "write_master": WriteMaster(params), "load_writer": LoadWriter(params, load_targets(params)),
        "load_port": LoadPort(params, load_targets(params)), "acc_writer": AccWriter(params), "store_port": StorePort(params),
        "store_port_parts": StorePort(replace(params, cfg=PARTS)), "requantizer": Requantizer(PARTS, PARTS_LANES, 3),
        "decoder": Decoder(params), "fetch": Fetch(params), "retire": Retire(2),
        "pipeline_slice": Slice(16), "pipeline_queue": Queue(16, QUEUE),
        "pipeline_head": HeadFIFO(width=16, depth=QUEUE), "acc_memory": AccMemory(cfg),
        "acc_memory_one": AccMemory(cfg, copies=1), "counters": Counters(),
        "counters_total": Counters(stages=False),
        "supervisor": Supervisor(), **{name: Issue(cfg, stage, units) for name, (stage, units) in ISSUES.items()},
    }


def params_of(config: str, bus_bits: int) -> CoreParams:
    """Small buffers and few bursts in flight, so that benches meet their ends."""
    return CoreParams(cfg=NAMED[config], bus_bits=bus_bits, outstanding=4, burst_beats=8, buffer_beats=32)


@cache
def params() -> CoreParams:
    """Those of the model that runs: only inside a simulation."""
    return params_of(str(cocotb.plusargs["config"]), int(cocotb.plusargs["bus_bits"]))


@cache
def blocks() -> dict[str, wiring.Component]:
    """The blocks of the model that runs."""
    return board(params())
