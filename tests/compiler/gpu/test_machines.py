"""The record of a GPU, and what rules and estimates make of it."""

import re
from pathlib import Path

import pytest

from vtakit.compiler.codegen.record import MachineError, facts_of
from vtakit.compiler.nn.gpu.machine import A100, BY_ARCH, MACHINES, GpuMachine, machine_of_arch, machine_of_device
from vtakit.compiler.nn.gpu.tiles import Product, best_parts, best_tile, depths, product_tiles, tile_cycles

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("fact", [*facts_of(GpuMachine)], ids=lambda fact: fact.name)
def test_a_field_out_of_range_is_refused(fact):
    for wrong in (fact.low - 1, fact.high * 2, True, "4"):
        with pytest.raises(MachineError, match=f"a GPU's {fact.name} is .* and must be a"):
            GpuMachine(**{fact.name: wrong})
    assert fact.low <= fact.default <= fact.high
    assert fact.unit
    assert fact.meaning


def test_every_field_is_read_by_a_rule_or_an_estimate():
    record = ROOT / "compiler/nn/gpu/machine.py"
    text = "\n".join(path.read_text() for path in (ROOT / "compiler").rglob("*.py") if path != record)
    own = record.read_text().partition("def limits")[2].partition("A100 = ")[0]
    unread = {fact.name for fact in facts_of(GpuMachine) if not re.search(rf"\.{fact.name}\b", text + own)}
    assert unread <= {"shared_bytes_opt_in"}  # for tensor cores


def test_records_by_architecture_and_device():
    assert machine_of_arch("sm_80") is A100
    assert machine_of_arch("sm_90a") is MACHINES["h100"]
    assert machine_of_arch("sm_87") == machine_of_arch("sm_86")
    assert machine_of_device("NVIDIA H200", "sm_90") is MACHINES["h200"]
    assert machine_of_device("NVIDIA GeForce RTX 4090", "sm_89").sms == 128
    assert machine_of_device("some other", "sm_90") is MACHINES["h100"]
    for wrong in ("sm_75", "gfx942", "sm_"):
        with pytest.raises(MachineError, match="no architecture of GPUs that has a record"):
            machine_of_arch(wrong)
    assert set(BY_ARCH.values()) <= set(MACHINES)


def test_blocks_of_an_sm_follow_its_memory_registers_and_threads():
    assert A100.blocks_at_once(1024, 0, 32) == 2
    assert A100.blocks_at_once(256, 0, 255) == 1
    assert A100.blocks_at_once(64, 48 << 10, 32) == 3
    assert A100.blocks_at_once(32, 0, 16) == 32


@pytest.mark.parametrize("name", MACHINES)
def test_tiles_fit_the_machine(name):
    machine = MACHINES[name]
    for product in (Product(1, 512, 512, 512, 4), Product(12, 37, 131, 64, 4), Product(4, 16, 49, 512, 2, True, 7)):
        tiles = product_tiles(machine, product)
        assert best_tile(machine, product) in tiles
        for tile in tiles:
            across, down = tile.threads
            assert 32 <= across * down <= machine.threads_per_block
            assert (across * tile.thread_columns, down * tile.thread_rows) == (tile.columns, tile.rows)
            assert not product.whole or not product.rows % tile.rows
            for depth in depths(machine, product, tile, 2):
                assert depth == 4 or 2 * depth * (tile.rows + tile.columns) * product.element_bytes <= machine.shared_bytes


def test_estimates_follow_the_record():
    large, small = Product(1, 4096, 4096, 4096, 4), Product(1, 512, 49, 4608, 4)
    big = best_tile(A100, large)
    assert big.rows * big.columns >= 64 * 64
    assert best_parts(A100, large, [1, 2, 4, 8]) == 1
    assert best_parts(A100, small, [1, 2, 4, 8]) > 1  # too few tiles for all SMs
    assert best_parts(A100.changed({"sms": 1}), small, [1, 2, 4, 8]) == 1
    assert best_parts(A100.changed({"launch_us": 900.0}), small, [1, 2, 4, 8]) == 1
    assert tile_cycles(A100.changed({"fma_lanes": 8}), large, big) > tile_cycles(A100, large, big)
    assert tile_cycles(A100.changed({"memory_gb_per_s": 1.0}), large, big) > tile_cycles(A100, large, big)
    assert tile_cycles(A100.changed({"memory_gb_per_s": 20.0, "l2_bytes": 1 << 20}), large, big) > tile_cycles(
        A100.changed({"memory_gb_per_s": 20.0, "l2_bytes": 1 << 30}), large, big)
    whole, across = Product(1, 64, 784, 576, 4, line=28), Product(1, 64, 784, 576, 4, line=27)
    assert tile_cycles(A100, whole, best_tile(A100, whole)) < tile_cycles(A100, across, best_tile(A100, whole))
