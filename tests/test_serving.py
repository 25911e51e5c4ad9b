"""The example of a server: batches of concurrent requests give each its own results; what does not fit is refused."""

import asyncio
import sys
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


def test_concurrent_requests_share_batches_and_get_their_own_results(session):
    batcher = serving.Batcher(session, most=8, wait_ms=20)
    batcher.warm()
    given = [samples(1 + at % 3, at) for at in range(20)]
    for got, x in zip(asyncio.run(gathered(batcher, given)), given, strict=True):
        np.testing.assert_allclose(got["y"], wanted(x), rtol=1e-5, atol=1e-6)
    assert max(batcher.batches) > 3
    assert max(batcher.batches) <= 8
    assert sum(batcher.batches) == sum(len(x) for x in given)


def test_a_full_queue_and_too_many_samples_are_refused(session):
    batcher = serving.Batcher(session, most=4, queued=6)
    found = asyncio.run(gathered(batcher, [samples(2, at) for at in range(5)]))
    assert [type(each).__name__ for each in found] == ["dict", "dict", "dict", "FullError", "FullError"]
    assert str(asyncio.run(gathered(batcher, [samples(5, 0)]))[0]) == "5 samples in one request; at most 4"


def test_an_error_of_a_run_is_that_of_its_requests(session):
    batcher = serving.Batcher(session, most=4)
    bad, _ = asyncio.run(gathered(batcher, [np.zeros((2, 4), np.float32), np.zeros((1, 4), np.float32)]))
    assert isinstance(bad, VtakitError)


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
