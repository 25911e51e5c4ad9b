"""The one call of every simulator: a program and DRAM in, the same `Result` out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from inspect import Parameter, signature
from operator import index
from pathlib import Path
from typing import Any, Protocol, SupportsBytes

import numpy as np
import numpy.typing as npt

from vtakit.base.errors import VtakitError, needs, one_of
from vtakit.base.reading import check_memory
from vtakit.hw.isa.config import VTAConfig, load_config
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.insns import Feature
from vtakit.hw.isa.program import Program
from vtakit.sim.trace import Trace

_COPIES = 3  # of DRAM: the simulator's, the result's, and the buffers in it
ConfigLike = VTAConfig | str | Path | Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of a run.

    dram      all of DRAM afterwards; empty where a device was asked for cycles alone, and so is `acc`
    acc       int32 [acc_depth, batch, block]: the whole accumulator
    counters  bytes by memory, micro-op steps by GEMM and ALU, instructions; cycles where the device has them
    buffers   contents of the program's buffers by name; empty after `run_image`, and where a device was asked for cycles alone
    trace     what each stage did in every cycle, if the device was asked for it
    """

    dram: bytes = field(repr=False)
    acc: npt.NDArray[np.int32] = field(repr=False)
    counters: dict[str, int]
    buffers: dict[str, bytes] = field(default_factory=dict, repr=False)
    trace: Trace | None = field(default=None, repr=False)


class Device(Protocol):
    """Interface of a simulator's module.

    OPTIONS   the names of the options that `simulate` takes
    """

    OPTIONS: tuple[str, ...]

    def features(self, cfg: VTAConfig) -> Feature:
        """The abilities beyond the smallest device that it has."""

    def simulate(self, cfg: VTAConfig, dram: bytearray, insn_addr: int, insn_count: int, **options: Any) -> Result:
        """Run the instructions at a byte address; `dram` is the simulator's to change."""


DEVICES = {"fsim": "vtakit.sim.fsim", "cycle": "vtakit.sim.cycle", "rtl": "vtakit.sim.rtl"}


def run_image(
    dram: bytes | bytearray | memoryview,
    insn_addr: int,
    insn_count: int,
    config: ConfigLike = "default",
    device: str = "fsim",
    **options: Any,
) -> Result:
    """Run the `insn_count` instructions at byte `insn_addr` of a DRAM image; the image given is not changed.

    config   a VTAConfig, a name, a mapping of LOG_… keys or the path of a JSON file of them
    device   "fsim"; "rtl", the hardware in Verilator; or "cycle", which has the hardware's cycles and fsim's results
    options  of the device: see `vtakit.sim.fsim.simulate`, `vtakit.sim.cycle.simulate` and `vtakit.sim.rtl.surroundings`

    Raises `ProgramFault` for whatever the instruction set forbids, `VtakitError` for a wrong argument.
    """
    module = find_device(device)
    check_options(device, module.OPTIONS, options)
    return module.simulate(
        load_config(config), bytearray(as_bytes("dram", dram)),
        integer("insn_addr", insn_addr), integer("insn_count", insn_count), **options,
    )


def keywords(function: Callable[..., object]) -> tuple[str, ...]:
    """The names of a function's keyword-only parameters."""
    return tuple([name for name, p in signature(function).parameters.items() if p.kind is Parameter.KEYWORD_ONLY])


def check_options(device: str, known: Sequence[str], options: Mapping[str, object]) -> None:
    """Refuse options that a device does not know."""
    for name in options:
        if name not in known:
            raise VtakitError(f"device {device!r} has no option {name!r}; {one_of(known, name)}")


def integer(name: str, value: Any) -> int:
    """An argument as a Python integer, whatever integer type it has."""
    try:
        return index(value)
    except TypeError:
        raise VtakitError(f"{name} must be an integer, not {value!r:.40}") from None


def as_bytes(name: str, value: object) -> bytes:
    """An argument as bytes: of an array, those in C order."""
    if isinstance(value, np.ndarray):
        if not value.dtype.hasobject:
            return value.tobytes()
    elif isinstance(value, bytes | bytearray | memoryview) or hasattr(value, "__bytes__"):  # not bytes(4), which is four zeros
        return bytes(value)
    kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    raise VtakitError(f"{name} must be bytes or an array, not {kind}")


def named(what: str, buffers: object) -> dict[str, Any]:
    """Buffers by name, as an argument; None are none."""
    if buffers is None:
        return {}
    if not isinstance(buffers, Mapping) or not all(isinstance(name, str) for name in buffers):
        raise VtakitError(f"{what} must be a mapping of buffers' names, not {buffers!r:.40}")
    return dict(buffers)


def device_kind(name: object, known: Iterable[str]) -> str | None:
    """Return the kind of a device: its name, or what stands before the first colon, if that is known; else None."""
    kinds = [*known]
    if not isinstance(name, str):
        return None
    return next((kind for kind in (name, name.partition(":")[0]) if kind in kinds), None)


def unknown_device(name: object, known: Iterable[str]) -> str:
    """Return the sentence for a device that does not exist."""
    return f"unknown device {name!r:.80}; {one_of(known, str(name))}"


def find_device(name: str) -> Device:
    """The simulator called `name`."""
    if not isinstance(name, str) or name not in DEVICES:
        raise VtakitError(unknown_device(name, DEVICES))
    with needs(f"device {name!r}", "sim"):
        module: Device = import_module(DEVICES[name])
    return module


def run(
    program: Program,
    buffers: Mapping[str, SupportsBytes | bytes | npt.NDArray[Any]] | None = None,
    config: ConfigLike | None = None,
    device: str = "fsim",
    **options: Any,
) -> Result:
    """Link a program, fill its buffers by name, run it and return their contents too.

    buffers  bytes or arrays (taken as their bytes in C order); absent ones keep the program's data or zeros
    config   the device's configuration; the program is refused if it was made for another

    Raises `ProgramError` if an input buffer is missing, too long or unknown, or if there is too little memory, and what
    `run_image` raises.
    """
    if not isinstance(program, Program):
        raise ProgramError(f"run takes a Program (vtakit.hw.isa.file.load reads one), not {type(program).__name__}")
    cfg = program.config if config is None else load_config(config)
    module = find_device(device)
    program.require(cfg, features=module.features(cfg))
    check_options(device, module.OPTIONS, options)
    contents = {
        program.buffer(name).name: as_bytes(f"the contents of buffer {name!r}", value)
        for name, value in named("buffers", buffers).items()
    }
    missing = [b.name for b in program.buffers if b.kind == "input" and b.data is None and b.name not in contents]
    if missing:
        raise ProgramError(f"input buffer {missing[0]!r} ({program.buffer(missing[0]).size_bytes} bytes) is not given")
    image = program.link(contents)
    try:
        check_memory(_COPIES * len(image.dram))
    except MemoryError:
        raise ProgramError(f"simulating the program takes {_COPIES} times its {len(image.dram)} bytes of DRAM, more than this "
                           "machine has") from None
    result = module.simulate(program.config, image.dram, image.insn_addr, image.insn_count, **options)
    found = {
        buffer.name: result.dram[image.addresses[buffer.name] : image.addresses[buffer.name] + buffer.size_bytes]
        for buffer in program.buffers if result.dram
    }
    return replace(result, buffers=found)
