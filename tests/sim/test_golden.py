"""The original's programs: DRAM, accumulator and counters as its models gave them, on both paths, in several interleavings."""

import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.insns import MEMORIES, MemType
from vtakit.sim import run_image
from vtakit.sim.checker import check_image
from vtakit.sim.decode import Decoded
from vtakit.sim.program import program_bytes

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
CONFIGS = ("default", "b2x16", "blk8", "w4")
PROGRAMS = {"default": 225, "b2x16": 450, "blk8": 450, "w4": 450}
ORDERS = ("program", "eager", "lazy", 1, 2)  # in all of which the compiled path runs each program


class Golden(NamedTuple):
    """One program with its results."""

    number: int
    kind: int
    dram: bytes
    insn_addr: int
    insn_count: int
    want_dram: bytes
    want_acc_crc32: int
    want_counters: dict[str, int]


@cache
def arrays(config: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / f"{config}.npz") as file:
        return {name: file[name] for name in file.files}


def programs(config: str) -> Iterator[Golden]:
    z = arrays(config)
    offsets = {key: np.concatenate([[0], np.cumsum(z[f"{key}_len"])]) for key in ("overlay", "diff")}

    def changed(image: bytes, key: str, number: int) -> bytes:
        data = bytearray(image)
        for i in np.flatnonzero(z[f"{key}_prog"] == number):
            run = z[f"{key}_data"][offsets[key][i] : offsets[key][i + 1]].tobytes()
            data[z[f"{key}_addr"][i] : z[f"{key}_addr"][i] + len(run)] = run
        return bytes(data)

    for number, count in enumerate(z["n_insn"]):
        before = changed(z["image"].tobytes(), "overlay", number)
        yield Golden(
            number, int(z["kind"][number]), before, int(z["insn_addr"]), int(count), changed(before, "diff", number),
            int(z["acc_crc32"][number]), dict(zip(z["profile_keys"].tolist(), z["profile"][number].tolist(), strict=True)),
        )


def acc8_bytes(config: str, golden: Golden) -> int:
    """Bytes that the program's ACC_8BIT loads move; the original counts four times as many."""
    d = Decoded(NAMED[config], bytes(program_bytes(golden.dram, golden.insn_addr, golden.insn_count)))
    elements = (d["x_size"] * d["y_size"])[d.of_memory(MemType.ACC_8BIT)].sum()
    return int(elements) * MEMORIES[MemType.ACC_8BIT].bytes_in(NAMED[config])


@pytest.mark.parametrize("config", CONFIGS)
def test_the_files_hold_the_named_configuration_and_all_kinds(config):
    z = arrays(config)
    assert list(NAMED[config].to_dict().values()) == z["config"].tolist()
    assert np.bincount(z["kind"]).tolist() == [PROGRAMS[config] // 3] * 3


@pytest.mark.parametrize("path", [pytest.param("plain", marks=pytest.mark.slow), "compiled"])
@pytest.mark.parametrize("config", CONFIGS)
def test_every_program_gives_the_originals_results(config, path):
    """The plain definition, four times as slow, runs each program in its own order and in one of the others in turn."""
    count = 0
    for golden in programs(config):
        want = golden.want_counters | {}
        want["acc_load_nbytes"] -= 3 * acc8_bytes(config, golden)
        for order in ORDERS if path == "compiled" else (ORDERS[0], ORDERS[1 + golden.number % 4]):
            where = f"{config} program {golden.number} kind {golden.kind} order {order}"
            result = run_image(golden.dram, golden.insn_addr, golden.insn_count, config, path=path, order=order)
            assert result.dram == golden.want_dram, where
            assert zlib.crc32(result.acc.astype("<i4").tobytes()) == golden.want_acc_crc32, where
            assert {name: result.counters[name] for name in want} == want, where
        count += 1
    assert count == PROGRAMS[config]


@pytest.mark.parametrize("config", CONFIGS)
def test_the_static_checker_passes_every_program(config):
    for golden in programs(config):
        assert check_image(golden.dram, golden.insn_addr, golden.insn_count, config) == [], f"{config} program {golden.number}"
