"""A model's launches as raw images of the device's memory, for any simulator."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from vtakit.base.writing import make_folder, write_bytes
from vtakit.hw.values import pack
from vtakit.runtime.target import Image
from vtakit.runtime.vta.part import VtaPart


def write_images(image: Image, folder: str | Path, values: Sequence[npt.NDArray[Any]] | None = None) -> int:
    """Write ``NNN.bin`` and ``NNN.json`` for each launch; returns how many there are.

    values : arrays of all the model's values; without, what programs read is zero

    The JSON has config, insn_addr and insn_count; and each buffer's address and size in bytes, and kind.
    """
    to = make_folder(folder)
    parts = image.parts_of(VtaPart)
    for number, part in enumerate(parts):
        given = {} if values is None else {
            name: pack(values[at], part.program.config.inp_bits).tobytes()
            for name, at in zip(part.inputs, part.reads, strict=True)}
        linked = part.program.link(given)
        about = {
            "config": part.program.config.to_dict(), "insn_addr": linked.insn_addr, "insn_count": linked.insn_count,
            "buffers": {
                b.name: {"address": linked.addresses[b.name], "size_bytes": b.size_bytes, "kind": b.kind.value}
                for b in part.program.buffers
            },
        }
        write_bytes(to / f"{number:03}.bin", linked.dram, "a DRAM image")
        write_bytes(to / f"{number:03}.json", (json.dumps(about, indent=2) + "\n").encode(), "what is known of a DRAM image")
    return len(parts)
