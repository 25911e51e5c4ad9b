"""Memory layout of an exported model: its constant data, the workspace of a run, and its range of the accelerator's memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from vtakit.compiler.codegen.memory_plan import LiveRange, needed_bytes, plan_offsets
from vtakit.compiler.graph.memory import ALIGN, aligned
from vtakit.hw.isa.codec import to_bytes
from vtakit.hw.isa.config import INSN_BYTES, UOP_BYTES, VTAConfig
from vtakit.hw.isa.insns import Feature
from vtakit.hw.isa.program import UOPS, BufferKind, Program, dram_alignment
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.target import Image
from vtakit.runtime.vta.memory import GRANULE_BYTES
from vtakit.runtime.vta.part import VtaPart

WORD_BYTES = 8  # of an element of the C array that holds the data


class Upload(NamedTuple):
    """`size` bytes from byte `source` of the data, which NAME_init copies to byte `to` of the model's accelerator memory."""

    to: int
    source: int
    size: int


@dataclass(frozen=True, slots=True)
class Launch:
    """A program in the accelerator's memory.

    insns     : address of its first instruction, from the start of the model's memory
    addresses : of each of its buffers, likewise
    """

    part: VtaPart
    insns: int
    addresses: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Device:
    """All launches of a model, in one range of the accelerator's memory.

    Programs are linked from address 0 on; the base registers add the address at which the range begins.
    """

    launches: tuple[Launch, ...]
    uploads: tuple[Upload, ...]
    size: int
    config: VTAConfig
    isa_version: tuple[int, int]
    features: Feature


@dataclass(frozen=True, slots=True)
class Host:
    """The workspace: the processor's memory that a run uses.

    between : offset in bytes of each value that one part writes for another, by the number of the value
    arenas  : offset in bytes of the arena of each part on the processor
    """

    between: Mapping[int, int]
    arenas: Mapping[CpuPart, int]
    size: int


@dataclass(frozen=True, slots=True)
class Layout:
    """All memory of an exported model.

    data   : parameters of the parts on the processor, then uploads to the accelerator; a multiple of `ALIGN` bytes
    params : offset in bytes of the parameters of each part on the processor
    """

    data: bytes
    params: Mapping[CpuPart, int]
    host: Host
    device: Device | None


def layout_of(image: Image) -> Layout:
    """Return the layout of a model."""
    data = bytearray()
    params = {}
    for part in image.parts_of(CpuPart):
        params[part] = len(data)
        _append(data, part.params.tobytes())
    device = _device(image.parts_of(VtaPart), data) if image.parts_of(VtaPart) else None
    return Layout(bytes(data) or bytes(ALIGN), params, _host(image), device)


def _append(data: bytearray, more: bytes) -> None:
    data += more
    data += bytes(aligned(len(data)) - len(data))


def _device(parts: tuple[VtaPart, ...], data: bytearray) -> Device:
    """Place programs and buffers in the order and with the gaps of `runtime.vta`, so that cycle counts are equal."""
    launches, uploads = [], []
    end = 0
    for part in parts:
        program = part.program
        align, addresses = dram_alignment(program.config), {}
        for name, size in _pieces(program):
            addresses[name] = -(-end // align) * align
            end = addresses[name] + -(-max(size, 1) // GRANULE_BYTES) * GRANULE_BYTES
        insns = addresses.pop("")
        contents = [
            (insns, to_bytes(program.relocated(addresses))),
            (addresses[UOPS], b"".join(uop.to_bytes(UOP_BYTES, "little") for uop in program.uops)),
            *((addresses[buffer.name], buffer.data) for buffer in program.buffers if buffer.data),
        ]
        for address, content in contents:
            if content:
                uploads.append(Upload(address, len(data), len(content)))
                _append(data, content)
        launches.append(Launch(part, insns, addresses))
    programs = [part.program for part in parts]
    features = Feature(0)
    for program in programs:
        features |= program.features
    version = max(program.isa_version for program in programs)
    return Device(tuple(launches), tuple(uploads), end, programs[0].config, version, features)


def _pieces(program: Program) -> list[tuple[str, int]]:
    """Return names and sizes in bytes: instructions (named ""), micro-ops, uploaded and scratch buffers, inputs and outputs."""
    loaded = [buffer.data is not None or buffer.kind is BufferKind.SCRATCH for buffer in program.buffers]
    order = sorted(zip(loaded, program.buffers, strict=True), key=lambda each: not each[0])
    sizes = [("", len(program.insns) * INSN_BYTES), (UOPS, len(program.uops) * UOP_BYTES)]
    return sizes + [(buffer.name, buffer.size_bytes) for _, buffer in order]


def _host(image: Image) -> Host:
    """Plan the workspace: values between parts, and arenas, with live ranges counted in parts."""
    first_between = len(image.inputs) + len(image.outputs)
    live: dict[int | CpuPart, LiveRange] = {}  # of a value, by its number, or of a part's arena
    for at, part in enumerate(image.parts):
        live |= {value: LiveRange(aligned(image.values[value].bytes), at, at) for value in part.writes if value >= first_between}
        live |= {value: live[value]._replace(last=at) for value in part.reads if value in live}
        if isinstance(part, CpuPart):
            live[part] = LiveRange(aligned(part.arena_bytes), at, at)
    ranges = list(live.values())
    offsets, size = plan_offsets(ranges, needed_bytes(ranges, len(image.parts)))
    places = dict(zip(live, offsets, strict=True))
    return Host(
        {key: place for key, place in places.items() if isinstance(key, int)},
        {key: place for key, place in places.items() if isinstance(key, CpuPart)}, max(size, ALIGN),
    )
