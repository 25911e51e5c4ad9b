"""The record of a GPU: all that schedule rules and estimates assume of it, and what the verifier holds kernels to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vtakit.base.errors import one_of
from vtakit.compiler.codegen.record import KIB, MIB, MachineError, Record, fact
from vtakit.compiler.lower import Limits

WARP = 32  # threads that run together, as shuffles and all-reduces count them


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMachine(Record):
    """A GPU. Defaults are those of compute capability 8.0 and an A100 (SXM4, 40 GB), the least that is named here.

    Sources: CUDA C++ Programming Guide 13.0, "Compute Capabilities", for limits of a block and an SM; NVIDIA's A100 (2020), H100
    (2022) and Ada (2022) whitepapers, and data sheets of the H200 (2024), B200 (2025) and RTX 5090 (2025) for the others.
    Raises MachineError for a value out of range.
    """

    what: ClassVar[str] = "a GPU"

    sms: int = fact(108, "SMs", 1, 4096, "streaming multiprocessors")
    threads_per_sm: int = fact(2048, "threads", 32, 8192, "threads that an SM holds at one time")
    blocks_per_sm: int = fact(32, "blocks", 1, 256, "blocks that an SM holds at one time")
    threads_per_block: int = fact(1024, "threads", 32, 4096, "most threads of a block")
    block_depth: int = fact(64, "threads", 1, 4096, "most threads of a block along z")
    registers_per_sm: int = fact(64 * KIB, "registers", KIB, MIB, "registers of 32 bits of an SM")
    registers_per_thread: int = fact(255, "registers", 16, 1024, "most registers of a thread")
    shared_bytes: int = fact(
        48 * KIB, "bytes", KIB, MIB, "shared memory of a block without the driver's permission for more: what rules may use")
    shared_bytes_opt_in: int = fact(163 * KIB, "bytes", KIB, MIB, "shared memory of a block with that permission")
    shared_bytes_per_sm: int = fact(164 * KIB, "bytes", KIB, MIB, "shared memory of an SM")
    vector_bytes: int = fact(16, "bytes", 4, 64, "widest access of one thread")
    fma_lanes: int = fact(64, "multiply-adds a cycle", 8, 1024, "float32 multiply-adds that begin in a cycle on an SM")
    shared_bytes_per_cycle: int = fact(128, "bytes a cycle", 16, 1024, "rate of an SM's shared memory")
    l2_bytes: int = fact(40 * MIB, "bytes", 32 * KIB, 1024 * MIB, "size of the L2 cache")
    l2_bytes_per_cycle: float = fact(
        48.0, "bytes a cycle", 0.5, 1024, "rate of L2 for one SM while all read: 5120 bytes a cycle for all of an A100")
    memory_gb_per_s: float = fact(1555.0, "GB/s", 1, 100_000, "rate of the memory")
    clock_ghz: float = fact(1.41, "GHz", 0.1, 10, "boost clock of the SMs")
    launch_us: float = fact(1.3, "us", 0, 1000, "time from one kernel of a graph to the next")
    barrier_cycles: float = fact(30.0, "cycles", 0, 10_000, "time that a block's barrier takes beside waiting")
    latency_cycles: float = fact(500.0, "cycles", 1, 10_000, "latency of the memory")
    tensor_cores: int = fact(
        0, "of 0, 1, 2", 0, 2, "instructions of tensor cores that code is made of: none, mma.sync, or wgmma too; a target sets "
        "it that makes code of them (`vtakit.compiler.nn.gpu.tensor_cores.instructions_of`)")

    @property
    def limits(self) -> Limits:
        """Limits that the verifier checks."""
        most = self.threads_per_block
        return Limits(
            threads=most, thread_extents={"threadIdx.x": most, "threadIdx.y": most, "threadIdx.z": min(self.block_depth, most)},
            vector_bytes=self.vector_bytes,
            scope_bytes={"shared": self.shared_bytes_opt_in if self.tensor_cores else self.shared_bytes})

    @property
    def memory_bytes_per_cycle(self) -> float:
        """Bytes that the memory gives in a cycle of an SM, all SMs together."""
        return self.memory_gb_per_s / self.clock_ghz

    def threads_pay(self, macs: int, moved_bytes: int) -> bool:
        """Return True: no kernel has parallel loops of a processor, which could be serial instead."""
        return True

    def separable_pays(self, moved_bytes: int) -> bool:
        """Return False: blocks of channels, which that fusion is about, are a processor's layout."""
        return False

    def blocks_at_once(self, threads: int, shared_bytes: int, registers: int) -> int:
        """Return the blocks that an SM holds at one time; registers : of a thread."""
        room = [self.blocks_per_sm, self.threads_per_sm // max(threads, 1),
                self.registers_per_sm // max(threads * min(registers, self.registers_per_thread), 1)]
        if shared_bytes:
            room.append(self.shared_bytes_per_sm // shared_bytes)
        return max(min(room), 1)


A100 = GpuMachine()
_SM_90 = {"shared_bytes_opt_in": 227 * KIB, "shared_bytes_per_sm": 228 * KIB, "fma_lanes": 128}
_SM_8X = {"threads_per_sm": 1536, "blocks_per_sm": 24, "shared_bytes_opt_in": 99 * KIB, "shared_bytes_per_sm": 100 * KIB,
          "fma_lanes": 128}
# By the names of devices, in lower case.
MACHINES: Mapping[str, GpuMachine] = {
    "a100": A100,
    "rtx 3090": A100.changed(_SM_8X | {
        "blocks_per_sm": 16, "sms": 82, "l2_bytes": 6 * MIB, "memory_gb_per_s": 936.0, "clock_ghz": 1.695}),
    "rtx 4090": A100.changed(_SM_8X | {"sms": 128, "l2_bytes": 72 * MIB, "memory_gb_per_s": 1008.0, "clock_ghz": 2.52}),
    "h100": A100.changed(_SM_90 | {"sms": 132, "l2_bytes": 50 * MIB, "memory_gb_per_s": 3350.0, "clock_ghz": 1.83}),
    "h200": A100.changed(_SM_90 | {"sms": 132, "l2_bytes": 50 * MIB, "memory_gb_per_s": 4800.0, "clock_ghz": 1.83}),
    "b200": A100.changed(_SM_90 | {"sms": 148, "l2_bytes": 126 * MIB, "memory_gb_per_s": 8000.0, "clock_ghz": 1.85}),
    "rtx 5090": A100.changed(_SM_8X | {"sms": 170, "l2_bytes": 96 * MIB, "memory_gb_per_s": 1792.0, "clock_ghz": 2.407}),
    # The least that any device of OpenCL 3.0 for graphics, WebGPU ("Limits": maxComputeInvocationsPerWorkgroup,
    # maxComputeWorkgroupStorageSize) and Metal has.
    "portable": A100.changed({"sms": 16, "threads_per_block": 256, "block_depth": 64, "shared_bytes": 16 * KIB,
                              "shared_bytes_opt_in": 16 * KIB, "shared_bytes_per_sm": 32 * KIB, "memory_gb_per_s": 200.0}),
}
BY_ARCH: Mapping[int, str] = {80: "a100", 86: "rtx 3090", 89: "rtx 4090", 90: "h100", 100: "b200", 103: "b200", 120: "rtx 5090"}


def machine_of_arch(arch: str) -> GpuMachine:
    """Return the record for an architecture such as "sm_80" or "sm_90a": that of its best known device.

    An unknown one has the record of the next lower. Raises MachineError for text that names none, or one before sm_80.
    """
    digits = arch.removeprefix("sm_").rstrip("af")
    known = [number for number in BY_ARCH if digits.isdecimal() and number <= int(digits)]
    if not arch.startswith("sm_") or not known:
        names = [f"sm_{number}" for number in BY_ARCH]
        raise MachineError(f"{arch!r:.40} is no architecture of GPUs that has a record: {one_of(names, arch)}")
    return MACHINES[BY_ARCH[max(known)]]


def machine_of_device(name: str, arch: str) -> GpuMachine:
    """Return the record of a device by the name that its driver gives, such as "NVIDIA H200"; else that of its architecture."""
    words = name.lower()
    return next((MACHINES[known] for known in MACHINES if known in words), None) or machine_of_arch(arch)
