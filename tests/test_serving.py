"""The example of a server: batches of concurrent requests give each its own results; what does not fit is refused."""

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import module

import vtakit
from vtakit.base.errors import VtakitError

serving = module("serving")
WEIGHTS = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def session() -> vtakit.InferenceSession:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])], "served",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])], [numpy_helper.from_array(WEIGHTS, "w")])
    return vtakit.InferenceSession(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))


def samples(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 5)).astype(np.float32)


def wanted(x: np.ndarray) -> np.ndarray:
    return np.maximum(x @ WEIGHTS, 0)


async def gathered(batcher: Any, arrays: list[np.ndarray]) -> list[Any]:
    worker = asyncio.create_task(batcher.work())
    found = await asyncio.gather(*[batcher.submit({"x": each}) for each in arrays], return_exceptions=True)
    worker.cancel()
    return found


def sizes_of_batches(batcher: Any) -> list[int]:
    """Note the number of samples of each batch that runs from now on."""
    found: list[int] = []
    run = batcher._run
    batcher._run = lambda taken: found.append(sum(each.size for each in taken)) or run(taken)
    return found


def test_concurrent_requests_share_batches_and_get_their_own_results(session):
    batcher = serving.Batcher(session, most=8, wait_ms=20)
    batcher.warm()
    sizes = sizes_of_batches(batcher)
    given = [samples(1 + at % 3, at) for at in range(20)]
    for got, x in zip(asyncio.run(gathered(batcher, given)), given, strict=True):
        np.testing.assert_allclose(got["y"], wanted(x), rtol=1e-5, atol=1e-6)
    assert max(sizes) > 3
    assert max(sizes) <= 8
    assert (batcher.batches, batcher.samples) == (len(sizes), sum(sizes)) == (len(sizes), sum(len(x) for x in given))


def test_a_full_queue_and_too_many_samples_are_refused(session):
    batcher = serving.Batcher(session, most=4, queued=6)
    found = asyncio.run(gathered(batcher, [samples(2, at) for at in range(5)]))
    assert [type(each).__name__ for each in found] == ["dict", "dict", "dict", "FullError", "FullError"]
    assert str(asyncio.run(gathered(batcher, [samples(5, 0)]))[0]) == "5 samples in one request; at most 4"


def test_an_error_of_a_run_is_that_of_its_requests(session):
    batcher = serving.Batcher(session, most=4)
    bad, _ = asyncio.run(gathered(batcher, [np.zeros((2, 4), np.float32), np.zeros((1, 4), np.float32)]))
    assert isinstance(bad, VtakitError)


def test_requests_of_several_widths_and_types_run_apart_and_the_worker_goes_on(session):
    batcher = serving.Batcher(session, most=8, wait_ms=20)
    widths = [samples(1, 0), np.zeros((1, 4), np.float32), samples(2, 1), samples(1, 2).astype(float), samples(1, 3)]

    async def requests() -> list[Any]:
        found = await gathered(batcher, widths)
        return [*found, *await gathered(batcher, [samples(3, 4)])]

    found = asyncio.run(asyncio.wait_for(requests(), 60))
    for at, x in ((0, widths[0]), (2, widths[2]), (4, widths[4]), (5, samples(3, 4))):
        np.testing.assert_allclose(found[at]["y"], wanted(x), rtol=1e-5, atol=1e-6)
    assert all(isinstance(found[at], VtakitError) for at in (1, 3))


def test_an_error_while_a_batch_is_put_together_is_that_of_its_requests(session, monkeypatch):
    batcher = serving.Batcher(session)
    monkeypatch.setattr(serving, "np", SimpleNamespace(concatenate=lambda arrays: 1 / 0))
    found = asyncio.run(asyncio.wait_for(gathered(batcher, [samples(1, 0), samples(2, 1)]), 60))
    assert [type(each) for each in found] == [ZeroDivisionError] * 2


def test_requests_of_clients_that_have_gone_do_not_run_and_take_no_place(session):
    batcher = serving.Batcher(session, most=4, queued=4)
    sizes = sizes_of_batches(batcher)

    async def requests() -> Any:
        gone = [asyncio.create_task(batcher.submit({"x": samples(2, at)})) for at in range(2)]
        await asyncio.sleep(0)
        for each in gone:
            each.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
        return await gathered(batcher, [samples(3, 7)])

    (got,) = asyncio.run(asyncio.wait_for(requests(), 60))
    np.testing.assert_allclose(got["y"], wanted(samples(3, 7)), rtol=1e-5, atol=1e-6)
    assert sizes == [3]


def test_the_load_test_prints_what_it_measured(session, tmp_path, monkeypatch, capsys):
    onnx.save(session._proto, tmp_path / "net.onnx")
    monkeypatch.setattr(sys, "argv", ["serving.py", str(tmp_path / "net.onnx"), "--load", "32"])
    assert serving.main() == 0
    one, many = capsys.readouterr().out.splitlines()
    assert one.startswith("1 clients: ")
    assert one.endswith(" 1.0 samples a batch")
    assert float(many.rpartition(", ")[2].partition(" ")[0]) > 2


@pytest.mark.filterwarnings("ignore")
def test_the_application_answers_over_http(session):
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    from fastapi.testclient import TestClient

    x = samples(3, 7)
    with TestClient(serving.application(serving.Batcher(session, most=4))) as client:
        answer = client.post("/run", json={"x": x.tolist()})
        assert answer.status_code == 200
        np.testing.assert_allclose(np.array(answer.json()["y"]), wanted(x), rtol=1e-5, atol=1e-6)
        for given, words in (
            ({"z": []}, "give the inputs x, not z"), ({"x": [[1, 2]]}, "got [1, 2]"),
            ({"x": samples(5, 0).tolist()}, "at most 4"), ({"x": [["a"] * 5]}, "could not convert"),
        ):
            refused = client.post("/run", json=given)
            assert refused.status_code == 422
            assert words in refused.json()["detail"]
        assert client.get("/health").json() == {"batches": 1, "samples": 3}
