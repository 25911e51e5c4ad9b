"""The record of a processor: what it refuses, who reads it, and that no rule has a number of its own for what a machine does."""

import ast
import json
import re
from pathlib import Path

import pytest

from vtakit.compiler.codegen.llvm.machine import Machine, MachineError, facts, load_machine
from vtakit.compiler.codegen.llvm.machines import BY_PROCESSOR, machine_of
from vtakit.compiler.codegen.llvm.target import PROCESSORS, Target
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.fusion import fuse
from vtakit.compiler.graph.lower import scheduled
from vtakit.compiler.nn.conv import blocked_transposed_cpu as transposed
from vtakit.compiler.nn.conv.winograd_forms import Conv3x3, best_tile, cut, direct_cycles, pairs_are_faster
from vtakit.compiler.nn.cpu.tiles import pixel_tile, pixel_tiles, step_cycles, stream_step_cycles

ROOT = Path(__file__).parents[3]
RULES = ("compiler/nn/**/*_cpu.py", "compiler/nn/cpu/*.py", "compiler/nn/gpu/[!m]*.py", "compiler/nn/conv/winograd_forms.py",
         "compiler/graph/fusion.py", "compiler/graph/lower.py", "compiler/graph/passes/*.py")

# Numbers of rules and passes, and why they are no facts about a machine.
BOUNDS = "bounds what is searched, or how long code gets"
FORM = "compares two forms of one computation, or belongs to how one is computed"
FORMAT = "belongs to how data lies, or to an operator's definition"
CONSTANTS = {
    "blocked_cpu": {"MOST_REPEATED": BOUNDS, "AHEADS": BOUNDS},
    "blocked_transposed_cpu": {"REPEATED": BOUNDS},
    "depthwise_cpu": {"ROWS": FORM, "CHANNELS": BOUNDS, "LONGEST": BOUNDS, "VECTORS": BOUNDS},
    "packed_bytes_cpu": {"MOST_PIXELS": BOUNDS, "LEAST_COLUMNS": BOUNDS, "MOST_COLUMNS": BOUNDS, "REPEATED": BOUNDS,
                         "MOST_REPEATED": BOUNDS, "SHARING_STEPS": FORM, "MOST_STEPS": FORMAT, "MOST_RUNS": BOUNDS},
    "winograd_cpu": {"AHEADS": BOUNDS},
    "products_cpu": {"FEW": FORM, "WORTH": FORM},
    "transposes_cpu": {"LEAST": FORM},
    "winograd_forms": {"MARGIN": FORM},
    "tiles": {"MOST_BLOCKS": BOUNDS, "HIGHEST": BOUNDS, "REST": FORM, "ALIKE": FORM},
    "flow": {"LARGEST": BOUNDS},
    "simple": {"WIDEST": BOUNDS, "FEW": FORM},
    "fusion": {"_MOST_COST": BOUNDS, "_CHEAP": FORM, "_FEW": FORM},
    "lower": {"_NAME_LENGTH": BOUNDS, "_MOST_LATELY": BOUNDS},
    "layout": {"BY_ELEMENT": FORM},
    "savings": {"PIXELS": FORM, "SHORT": FORM, "CELL": FORM},
    "half": {"_MOST_BLOCK": FORMAT, "_TOGETHER": FORMAT, "FEWEST_CHANNELS": FORM, "FEWEST_ROWS": FORM},
    "panels": {"PEEPHOLES": FORMAT, "MOST_ROWS": FORM, "WASTE": FORM},
    "packed_bytes": {"MOST_BYTE": FORMAT, "SHORT_SHIFT": FORMAT},
    "byte_panels_cpu": {"MOST_PANELS": BOUNDS},
    "as_images": {"_VOLUME": FORMAT, "_IMAGE": FORMAT, "_SIGNAL": FORMAT},
    "bit_serial": {"MOST_FEW": FORM, "_TOGETHER": FORMAT},
    "cse": {"_HASHED_BYTES": BOUNDS},
    "gpu.elements": {"THREADS": FORM, "REPEATS": BOUNDS},
    "gpu.grid": {"MOST_BLOCKS": FORMAT},
    "gpu.host_loops": {"MOST_STEPS": BOUNDS},
    "gpu.products": {"MOST_PARTS": BOUNDS, "WRITTEN": BOUNDS},
    "gpu.reductions": {"FEW_TERMS": FORM, "FEW_TAPS": FORM, "WRITTEN": BOUNDS, "EACH": FORM},
    "gpu.rows": {"SHORT": FORM, "EACH": FORM},
    "gpu.tiles": {"BLOCK_SIDES": BOUNDS, "THREAD_SIDES": BOUNDS, "MOST_THREADS": BOUNDS, "REST": FORM,
                  "OTHER_REGISTERS": FORM, "ACROSS": FORM, "VECTOR": FORM, "DEPTHS": BOUNDS},
    "gpu.tensor_cores": {"COPY_BYTES": FORMAT, "WARPS": FORMAT, "MOST_BYTES": FORMAT, "TALL": FORM, "TILES": BOUNDS,
                         "GROUP_TILES": BOUNDS},
    "gpu.transposes": {"SHORT": FORM, "LINES": FORM},
    "fold": {"MOST_GROWTH_BYTES": BOUNDS},
}


def numbers(path: Path) -> set[str]:
    """Return the names that a module gives to numbers, tuples of numbers and what is computed of numbers alone."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        inner = {type(each) for each in ast.walk(node.value)}
        texts = any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in ast.walk(node.value))
        if ast.Constant in inner and not texts and not inner & {ast.Dict, ast.Attribute, ast.Subscript}:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return found


def stem(path: Path) -> str:
    """Return what `CONSTANTS` calls a file."""
    return f"gpu.{path.stem}" if path.parent.name == "gpu" else path.stem


def test_numbers_of_rules_and_passes_are_no_facts_about_a_machine():
    """A number that is one goes into `Machine`; any other is listed here with its reason."""
    files = {path for pattern in RULES for path in ROOT.glob(pattern)}
    assert len(files) > 25
    known = {name: {*reasons} for name, reasons in CONSTANTS.items()}
    assert {stem(path): found for path in files if (found := numbers(path))} == known


def test_every_field_is_read_by_a_rule_a_pass_or_an_estimate():
    record = ROOT / "compiler/codegen/llvm/machine.py"
    text = "\n".join(path.read_text() for path in (ROOT / "compiler").rglob("*.py") if path != record)
    own = record.read_text().partition("def __post_init__")[2]
    unread = [fact.name for fact in facts() if not re.search(rf"\.{fact.name}\b", text + own)]
    assert unread == []


@pytest.mark.parametrize("fact", [*facts()], ids=lambda fact: fact.name)
def test_a_field_out_of_range_is_refused(fact):
    for wrong in (fact.low - 1, fact.high * 2, True, None, "4", float("nan"), *([1.5] if isinstance(fact.default, int) else [])):
        with pytest.raises(MachineError, match=f"a machine's {fact.name} is .* and must be a"):
            Machine(**{fact.name: wrong})
    assert fact.low <= fact.default <= fact.high
    assert fact.unit
    assert fact.meaning


def test_a_record_is_stated_by_a_mapping_or_a_file(tmp_path):
    base = Machine(l1_bytes=48 << 10)
    assert load_machine({"l2_bytes": 1 << 20}, base) == Machine(l1_bytes=48 << 10, l2_bytes=1 << 20)
    assert load_machine(base, Machine()) is base
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"tasks": 8}))
    assert load_machine(path, base) == load_machine(str(path), base) == Machine(l1_bytes=48 << 10, tasks=8)
    assert base.changed(base.to_dict()) == base
    for text, why in (("[1]", "has no object of fields"), ("{", "cannot read"), ('{"l4_bytes": 1}', "has no field 'l4_bytes'")):
        path.write_text(text)
        with pytest.raises(MachineError, match=why):
            load_machine(path, base)
    with pytest.raises(MachineError, match="has no field 'l2'; "):
        load_machine({"l2": 1}, base)
    with pytest.raises(MachineError, match="not int"):
        load_machine(3, base)


def test_processors_are_llvms_and_a_stated_record_goes_before_theirs():
    assert BY_PROCESSOR.keys() <= {name for names in PROCESSORS.values() for name in names}
    named, stated = Target("x86_64-unknown-linux-gnu", "znver4"), Machine(tasks=9)
    assert (machine_of(named).vector_bytes, machine_of(named).fmas_per_cycle) == (64, 1)
    assert machine_of(Target("x86_64-unknown-linux-gnu", "znver4", machine=stated)) is stated


def test_estimates_follow_the_record():
    machine, conv = Machine(l1_bytes=48 << 10, l2_bytes=2 << 20), Conv3x3(1, 512, 512, 7, 7)
    assert step_cycles(machine, 14, 2) == 14.5
    assert step_cycles(machine.changed({"fmas_per_cycle": 1}), 14, 2) == 28.5
    assert step_cycles(machine.changed({"fma_latency_cycles": 20}), 14, 2) == 20.5
    assert step_cycles(machine.changed({"loads_per_cycle": 1.0}), 14, 2) == 16.5
    assert stream_step_cycles(machine, 14, 2) == 14.5 + 14 * 0.25 + 2 * 1.4
    assert pixel_tile(machine, 56, 4) == pixel_tile(Machine(**machine.to_dict()), 56, 4) == (14, 2)
    assert pixel_tile(machine.changed({"vector_registers": 16}), 56, 4) == (6, 2)
    assert best_tile(conv, machine) == 2
    assert best_tile(conv, machine.changed({"transform_cycles": 500.0})) == 0
    assert best_tile(conv, machine.changed({"l3_bytes": 1 << 20, "memory_bytes_per_cycle": 0.5})) == 0
    assert direct_cycles(conv, machine.changed({"overlap": 1.0})) < direct_cycles(conv, machine)
    assert cut(14, 14, 36, 64, 4, machine) != cut(14, 14, 36, 64, 4, machine.changed({"l2_bytes": 64 << 10}))
    layer = Conv3x3(1, 128, 128, 28, 28)
    assert [pairs_are_faster(layer, machine.changed({"bf16_speedup": times})) for times in (2.0, 8.0)] == [False, True]


def test_of_tiles_with_equal_cycles_the_one_with_fewer_loads_is_taken():
    """On a processor whose multiply-adds take longer than its loads, a wide tile is as fast as a high one and reads less."""
    machine = Machine(fmas_per_cycle=1)
    assert {(28, 1), (14, 2)} <= {*pixel_tiles(machine, 56, 4)}
    assert 2 * step_cycles(machine, 14, 2) * 2 == 2 * 2 * step_cycles(machine, 28, 1)
    assert pixel_tile(machine, 56, 4) == (14, 2)


def test_tiles_of_transposed_convolutions_follow_the_caches():
    cells, weights = (8, 8), 512 * 256 * 16 * 4
    near = transposed.tile_of(cells, 16, 64, weights, Machine(l2_bytes=16 << 20))
    far = transposed.tile_of(cells, 16, 64, weights, Machine(l2_bytes=4 << 10, l3_bytes_per_cycle=1.0))
    assert near != far


def decisions(machine: Machine) -> dict[str, object]:
    """Return the decisions of a convolution in blocks and a depthwise one, alone or in one kernel, on a machine."""
    b = Builder("net")
    x = b.input("x", (1, 4, 28, 28, 16), "float32")
    first = b.one("conv_blocked", x, b.input("w", (8, 4, 3, 3, 16, 16), "float32"), attrs={"pads": (1,) * 4})
    alone = b.one("depthwise_blocked", b.one("relu", first), b.input("v", (8, 3, 3, 16), "float32"), attrs={"pads": (1,) * 4})
    last = b.one("relu", b.one("conv_blocked", b.one("relu", alone), b.input("u", (8, 8, 1, 1, 16, 16), "float32")))
    graph = b.finish([("y", last)])
    target = CpuKernels(Target("x86_64-unknown-linux-gnu", "x86-64-v4", machine=machine))
    groups = fuse(graph, machine)
    found: dict[str, object] = {"groups": [group.name for group in groups]}
    for at, group in enumerate(groups):
        found |= {f"{at} {name}": made.chosen for name, made in scheduled(group, target).decisions.made.items()}
    return found


BASE = {"l1_bytes": 48 << 10, "l2_bytes": 1 << 20}


def test_equal_records_make_equal_decisions():
    assert decisions(Machine(**BASE)) == decisions(machine_of(Target("x86_64-unknown-linux-gnu")).changed(
        Machine(**BASE).to_dict()))


@pytest.mark.parametrize(("changed", "decided"), [
    ({"l1_bytes": 1 << 10, "l2_bytes": 8 << 10}, ("0 sums.order",)),  # nothing stays
    ({"separable_bytes": 1 << 16}, ("groups",)),
    ({"l2_bytes": 16 << 10}, ("0 sums.order",)),
    ({"prefetch_bytes": 512}, ("0 sums.ahead",)),
    ({"vector_registers": 16}, ("0 sums.tile",)),
    ({"tasks": 28}, ("0 sums.panel",)),
    ({"parallel_macs": 1 << 40, "parallel_bytes": 1 << 40}, ("0 kernel.threads",)),
])
def test_other_records_make_other_decisions(changed, decided):
    before, after = decisions(Machine(**BASE)), decisions(Machine(**BASE | changed))
    assert {name for name in decided if before[name] != after[name]} == {*decided}
