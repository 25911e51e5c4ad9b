"""Bounded caches of compiled parts: one compilation for all who wait, and one budget of memory for a module."""

import threading
from concurrent.futures import Future

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import vtakit
from vtakit.compiler.frontend.errors import ModelError
from vtakit.runtime.stages import kept as kept_module
from vtakit.runtime.stages import part as part_module
from vtakit.runtime.stages.kept import Budget, Kept
from vtakit.runtime.stages.module import OpenModule

RNG = np.random.default_rng(28)


def some(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_what_is_kept_is_bounded_in_bytes_too():
    kept: Kept[int] = Kept(10, Budget(lambda value: value, 100))
    for value in (60, 30, 50, 20):
        assert kept.get(value, lambda value=value: value) == value
    assert kept.values() == [30, 50, 20]
    assert kept.get("large", lambda: 500) == 500
    assert kept.values() == [500], "the one that is used is kept"


def test_what_fails_is_made_anew_and_told_to_all_who_wait(monkeypatch):
    waits, go, errors = threading.Event(), threading.Event(), []

    class Watched(Future):
        def result(self, timeout=None):
            waits.set()  # who asks for the result has found that another thread makes it
            return super().result(timeout)
    monkeypatch.setattr(kept_module, "Future", Watched)
    kept: Kept[int] = Kept(4)
    with pytest.raises(ZeroDivisionError):
        kept.get("a", lambda: 1 // 0)
    assert kept.get("a", lambda: 7) == 7 == kept.find("a")
    assert len(kept) == 1
    begun = threading.Event()

    def slow():
        begun.set()
        go.wait(10)
        raise ModelError("no")

    def ask(make):
        with pytest.raises(ModelError) as caught:
            kept.get("b", make)
        errors.append(str(caught.value))
    first = threading.Thread(target=ask, args=(slow,))
    first.start()
    assert begun.wait(10)
    second = threading.Thread(target=ask, args=(lambda: pytest.fail("made twice"),))
    second.start()
    assert waits.wait(10)
    go.set()
    first.join(10)
    second.join(10)
    assert errors == ["no", "no"]


def test_caches_share_a_budget():
    """The least recently used value of all of them goes first."""
    budget: Budget[int] = Budget(lambda value: value, 100)
    first, second = Kept(10, budget), Kept(10, budget)

    def get(kept, value):
        assert kept.get(value, lambda: value) == value
    get(first, 40)
    get(second, 30)
    get(first, 20)
    assert first.find(40) == 40
    get(second, 25)
    assert (first.values(), second.values()) == ([20, 40], [25]), "30 was used least recently"
    get(second, 500)
    assert (first.values(), second.values()) == ([], [500])
    get(first, 1)
    assert (first.values(), second.values()) == ([1], [])


def large_parts() -> onnx.ModelProto:
    """Two products with large weights, the elements between them chosen by a run."""
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["a"]), helper.make_node("Compress", ["a", "chosen"], ["b"], axis=0),
        helper.make_node("MatMul", ["b", "u"], ["y"]),
    ]
    known = [numpy_helper.from_array(RNG.standard_normal((128, 128)).astype(np.float32), name) for name in "vu"]
    ports = [helper.make_tensor_value_info("x", T.FLOAT, ["n", 128]), helper.make_tensor_value_info("chosen", T.BOOL, ["n"]),
             helper.make_tensor_value_info("y", T.FLOAT, [None, None])]
    graph = helper.make_graph(nodes, "large", ports[:2], ports[2:], known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def run_large(module: OpenModule, size: int) -> None:
    """Run on `size` rows, of which one goes to the second part."""
    x, chosen = some(size, 128), np.arange(size) == size - 1
    v, u = (numpy_helper.to_array(each) for each in module.source.proto.graph.initializer)
    np.testing.assert_allclose(module.run({"x": x, "chosen": chosen})["y"], x[chosen] @ v @ u, rtol=1e-3, atol=1e-3)


def test_parts_share_one_budget(monkeypatch):
    """Room for three of about 64 KiB: the second part's one set, used by each run, and two sets of the first."""
    monkeypatch.setattr(part_module, "memory_bytes", lambda: 2 * 240_000)
    module = vtakit.compile(large_parts(), cache=False)
    for size in (3, 4, 5, 6):
        run_large(module, size)
    total = sum(part.weights_bytes + part.code_bytes + part.arena_bytes for each in module.modules for part in each.image.parts)
    assert 2 * 65536 < total <= 240_000
    assert list(module.sizes())[-1] == "b: float32[1, 128]"


def test_a_profile_of_parts_that_are_evicted_meanwhile(monkeypatch):
    """Room for one: each part goes before the other is timed, and the layers stay apart."""
    monkeypatch.setattr(part_module, "memory_bytes", lambda: 2)
    module = vtakit.compile(large_parts(), cache=False)
    run_large(module, 3)
    layers = module.profile({"x": some(3, 128), "chosen": np.array([True, False, True])}, repeat=1).layers
    assert len(module.modules) == 1
    assert len(layers) == 3, [timed.name for timed in layers]
