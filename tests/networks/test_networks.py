"""Random networks on every target; and what draws, orders and shrinks them."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from quantized_support import onnxruntime_of

import vtakit
from networks import tool
from networks.accelerators import accelerator
from networks.checks import Check, CheckFloats, Difference, Tally
from networks.draw import draw
from networks.emit import model_of
from networks.orders import ORDERS, ordered
from networks.recipe import INPUT, Recipe
from networks.shrink import shrunk
from vtakit.compiler.graph import memory
from vtakit.runtime.vta.part import VtaPart

LONG = next(seed for seed in range(500) if (found := draw(seed)).layers > 15 and found.order == "drawn")


WITHOUT_SUMS = (0, 12, 21, 28)  # nothing is the accelerator's: no sums, or in 0 no scale that its published device multiplies by


@pytest.mark.parametrize("seed", range(30))
def test_random_networks_are_equal_on_every_target(seed):
    assert bool(Check()(draw(seed)).launches) is (seed not in WITHOUT_SUMS)


@pytest.mark.parametrize("seed", [9000000, 9000001, 9000002, 9000004, 9000005, 9000007])
def test_random_networks_with_products_of_computed_matrices(seed):
    """The devices of other seeds have no MUL, or accumulators too small for their factors."""
    assert Check()(draw(seed)).launches


@pytest.mark.parametrize("seed", range(5000, 5005))
def test_random_networks_are_equal_on_the_rtl(seed):
    assert Check("tiny", "rtl")(draw(seed)).launches


@pytest.mark.parametrize("seed", range(6000, 6012))
def test_random_networks_in_floating_point(seed):
    CheckFloats()(draw(seed))


@pytest.mark.parametrize("seed", [700009, 700014, 700016, 700020])
def test_random_networks_that_are_quantized_here(seed):
    """By `vtakit.quantize`, with scales of its own choice: the bytes of onnxruntime here and on the accelerator."""
    recipe = draw(seed)
    rng, given = np.random.default_rng(seed), recipe.inputs(real=True)
    samples = {name: np.concatenate([array, (rng.standard_normal((3, *array.shape[1:])) * array.std()).astype(np.float32)])
               for name, array in given.items()}
    proto = vtakit.quantize(model_of(recipe, real=True), samples, evaluation=given).model
    names = [output.name for output in proto.graph.output]
    on_cpu = vtakit.compile(proto, threads=1).run(given)
    module = vtakit.compile(proto, accelerator(seed), threads=1)
    assert module.image.parts_of(VtaPart)
    on_vta = module.run(given)
    for name, want in zip(names, onnxruntime_of(proto).run(names, given), strict=True):
        np.testing.assert_array_equal(on_cpu[name], want)
        np.testing.assert_array_equal(on_vta[name], want)


@pytest.mark.parametrize("check", [Check(), CheckFloats()])
def test_a_value_that_is_overwritten_too_early_is_noticed(check, monkeypatch):
    """Live ranges on the CPU that end before the last reader."""
    whole = memory.LiveRange
    monkeypatch.setattr(memory, "LiveRange", lambda size, first, last: whole(size, first, max(first, last - 1)))

    def check_long() -> None:
        for recipe in map(draw, range(30)):
            if recipe.exact and recipe.layers > 8:
                check(recipe)
    with pytest.raises(Difference, match=r"^the CPU and onnxruntime"):
        check_long()


def test_what_is_drawn():
    """Every kind of layer, branches, joins, values read at a distance and given beside, in models that ONNX accepts."""
    ops: Counter[str] = Counter()
    shapes: Counter[str] = Counter()
    for seed in range(300):
        recipe = draw(seed)
        onnx.checker.check_model(model_of(recipe), full_check=True)
        assert 1 <= recipe.layers <= 30
        readers = Counter(value for step in recipe.steps for value in set(step.needs))
        given = {value for value, _ in recipe.outputs}
        ops.update(step.op for step in recipe.steps)
        shapes.update({
            "branch": max(readers.values()) > 1, "join": any(len(set(step.needs)) > 1 for step in recipe.steps),
            "far": any(at - value > 5 for at, step in enumerate(recipe.steps) for value in step.needs),
            "outputs": len(recipe.outputs) > 1, "inputs": sum(step.op == INPUT for step in recipe.steps) > 1,
            "given and read": any(readers[value] for value in given), "batch": recipe.steps[0].shape[0] > 1,
            "long": recipe.layers > 20, recipe.order: True, "exact" if recipe.exact else "any scales": True})
    assert min(ops.values()) >= 2
    assert len(ops) == 27
    assert min(shapes.values()) >= 10, shapes


@pytest.mark.parametrize("order", sorted(set(ORDERS) - {"random layers"}))
def test_orders_are_topological(order):
    nodes = list(model_of(draw(LONG)).graph.node)
    made = ordered(nodes, order, np.random.default_rng(3))
    assert sorted(map(id, made)) == sorted(map(id, nodes))
    assert order == "drawn" or list(map(id, made)) != list(map(id, nodes))
    there: set[str] = set()
    makers = {name for node in nodes for name in node.output}
    for node in made:
        assert set(node.input) & makers <= there
        there |= set(node.output)


def test_a_smaller_network_has_the_same_fault():
    """A fault that needs a residual beside a concatenation: what is left has both and little else."""
    def faulty(recipe: Recipe) -> bool:
        model_of(recipe)
        return any(step.skip is not None for step in recipe.steps) and any(step.op == "Concat" for step in recipe.steps)
    recipe = next(found for found in map(draw, range(1000)) if found.layers > 12 and faulty(found))
    small = shrunk(recipe, faulty)
    assert faulty(small)
    assert small.layers <= 3
    assert "Concat" in str(small)


def test_the_command_prints_a_difference_with_what_repeats_it(monkeypatch, capsys):
    class Wrong(Check):
        def __call__(self, recipe: Recipe) -> None:
            raise Difference("one and another", "y0 is 1, want 2")
    monkeypatch.setattr("networks.tool.Check", Wrong)
    args = tool.parser().parse_args(["--seed", "12", "--count", "1", "--config", "tiny"])
    failure = tool.one(args, 12)
    assert isinstance(failure, tool.Failure)
    assert "one and another: y0 is 1, want 2" in failure.text
    assert "shrunk from" in failure.text
    assert "replay: python tests/network_fuzz.py --seed 12 --count 1 --config tiny" in failure.text


@pytest.mark.parametrize(("words", "message"), [
    (["--count", "0"], "--count is 0 and must be from 1"), (["--config", "tini"], "--config tini: known configurations are"),
])
def test_wrong_arguments_are_told(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        tool.main(words)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_an_interrupt_tells_what_was_compared(monkeypatch, capsys):
    def interrupted(args: object) -> Iterator[tuple[int, Tally, list[tool.Failure]]]:
        yield 10, Tally(10, 7, 12), []
        raise KeyboardInterrupt
    monkeypatch.setattr(tool, "_results", interrupted)
    assert tool.main(["--count", "50"]) == 130
    assert "seeds 0 to 49, interrupted" in (said := capsys.readouterr().out)
    assert "10 networks without a difference, 7 of them equal to onnxruntime, 12 launches" in said
