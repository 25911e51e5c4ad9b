"""What the driver's tests share: devices of the tiny configuration, and a convolution with its NumPy result."""

from dataclasses import dataclass

import numpy as np

from vtakit.hw.isa.asm import asm_program
from vtakit.hw.isa.config import NAMED, VTAConfig
from vtakit.hw.isa.program import Program
from vtakit.hw.values import Ints
from vtakit.runtime.vta import Driver, connect
from vtakit.sim.conv2d_data import conv2d_reference, pack_conv2d_inputs, unpack_conv2d_result
from vtakit.sim.workloads import Conv2d, conv2d_program

TINY = NAMED["tiny"]
MEMORY_BYTES = 1 << 16
# y = x + 3 on one accumulator element of four int32, stored as int8
ADD = asm_program("""\
.config tiny
.buffer x input 16
.buffer y output 4
.uop dst=0 src=0 wgt=0
load.uop dram_base=@uops y_size=1 x_size=1 x_stride=1
load.acc dram_base=@x y_size=1 x_size=1 x_stride=1
alu.add use_imm imm=3 uop_end=1 iter_out=1 iter_in=1 push_next
store.out dram_base=@y y_size=1 x_size=1 x_stride=1 pop_prev
finish
""")


def tiny(device: str, **options: object) -> Driver:
    return connect(device, TINY, memory_bytes=MEMORY_BYTES, **options)


@dataclass
class Work:
    """A convolution of random values: its program, inputs and exact result."""

    program: Program
    inputs: dict[str, bytes]
    cfg: VTAConfig
    shape: Conv2d
    result: Ints

    def values(self, result: bytes) -> Ints:
        return unpack_conv2d_result(self.cfg, self.shape, result)


def convolution(seed: int, cfg: VTAConfig = TINY) -> Work:
    rng = np.random.default_rng(seed)
    kernel = int(rng.integers(1, 4))
    shape = Conv2d(
        height=int(rng.integers(3, 7)), width=int(rng.integers(3, 7)), in_channels=int(rng.integers(1, 9)),
        out_channels=int(rng.integers(1, 9)), kernel=kernel, stride=int(rng.integers(1, 3)), pad=int(rng.integers(0, kernel)),
        shift=4,
    )
    half = 1 << cfg.inp_bits - 1, 1 << cfg.wgt_bits - 1
    data = rng.integers(-half[0], half[0], (cfg.batch, shape.in_channels, shape.height, shape.width))
    weights = rng.integers(-half[1], half[1], (shape.out_channels, shape.in_channels, kernel, kernel))
    return Work(
        conv2d_program(cfg, shape), pack_conv2d_inputs(cfg, shape, data, weights), cfg, shape,
        conv2d_reference(cfg, shape, data, weights),
    )

# A program of one product, and what a device may have measured of it.
PRODUCT = asm_program("""\
.config tiny
.buffer x input 4
.buffer w input 16
.buffer y output 4
.uop dst=0 src=0 wgt=0
load.uop dram_base=@uops y_size=1 x_size=1 x_stride=1
load.inp dram_base=@x y_size=1 x_size=1 x_stride=1
load.wgt dram_base=@w y_size=1 x_size=1 x_stride=1 push_next
gemm uop_end=1 iter_out=1 iter_in=1 pop_prev push_next
store.out dram_base=@y y_size=1 x_size=1 x_stride=1 pop_prev
finish
""")
COUNTERS = {
    "cycles": 200, "read_beats": 16, "write_beats": 1,
    "load_busy": 10, "load_wait_prev": 0, "load_wait_next": 0, "load_wait_memory": 90, "load_idle": 100,
    "compute_busy": 20, "compute_wait_prev": 100, "compute_wait_next": 0, "compute_wait_memory": 40, "compute_idle": 40,
    "store_busy": 2, "store_wait_prev": 138, "store_wait_next": 0, "store_wait_memory": 40, "store_idle": 20,
}
