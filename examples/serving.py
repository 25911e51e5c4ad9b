"""Serve a model over HTTP: concurrent requests are put together into batches, and the queue is bounded.

    pip install fastapi uvicorn
    python examples/serving.py MODEL.onnx --port 8000         # POST /run with {"x": [[…], …]}, GET /health
    python examples/serving.py MODEL.onnx --load 200          # a load test within this process, and what it measured

One thread runs the model; requests wait in a queue. A batch is what waits when the thread is free, up to --batch samples; its
first request waits for others at most --wait milliseconds. A full queue answers 503, so that memory stays bounded. Batches are
padded to a power of two, so that few sizes are compiled, all of them before the first request.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import vtakit


class FullError(Exception):
    """More samples wait than the queue holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """Samples that wait for a run, and where their results go."""

    samples: dict[str, np.ndarray]
    result: "asyncio.Future[dict[str, np.ndarray]]"

    @property
    def size(self) -> int:
        """The number of samples."""
        return len(next(iter(self.samples.values())))

    @property
    def form(self) -> dict[str, Any]:
        """Shapes and types of one sample, which all samples of a batch share."""
        return {name: (array.shape[1:], array.dtype) for name, array in self.samples.items()}


class Batcher:
    """Puts requests together into batches.

    most, wait_ms : of a batch: samples, and milliseconds for which its first request waits for others
    queued        : most samples that wait; further requests are refused
    """

    def __init__(self, session: vtakit.InferenceSession, *, most: int = 8, wait_ms: float = 2.0, queued: int = 64) -> None:
        self.session, self.most, self.wait_s, self.queued = session, most, wait_ms / 1000, queued
        self.names = [each.name for each in session.get_outputs()]
        self.batches = self.samples = 0  # that have run
        self._waiting: list[Request] = []
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1)  # a run uses the processor's threads itself

    def warm(self) -> None:
        """Compile every size of a batch that there will be."""
        size = 1
        while size < 2 * self.most:
            count = min(size, self.most)
            self._padded({each.name: np.zeros((count, *each.shape[1:]), _kind(each)) for each in self.session.get_inputs()})
            size *= 2

    async def submit(self, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the results of samples. Raises FullError if too many wait, ValueError for more than a batch holds."""
        request = Request(samples, asyncio.get_running_loop().create_future())
        if request.size > self.most:
            raise ValueError(f"{request.size} samples in one request; at most {self.most}")
        if self._size() + request.size > self.queued:
            raise FullError
        self._waiting.append(request)
        self._arrived.set()
        return await request.result

    async def work(self) -> None:
        """Run batches until cancelled."""
        while True:
            self._arrived.clear()
            if not self._waiting:
                await self._arrived.wait()
            deadline = time.monotonic() + self.wait_s
            while self._size() < self.most and (left := deadline - time.monotonic()) > 0:
                self._arrived.clear()
                try:
                    await asyncio.wait_for(self._arrived.wait(), left)
                except TimeoutError:
                    break
            await self._answer(self._taken())

    def _size(self) -> int:
        """Return the number of samples that wait; requests whose clients have gone are dropped."""
        self._waiting = [each for each in self._waiting if not each.result.done()]
        return sum(each.size for each in self._waiting)

    def _taken(self) -> list[Request]:
        """Take a batch from the queue: requests like the first, as many as fit."""
        taken: list[Request] = []
        left = self.most if self._size() else 0
        for each in self._waiting:
            if each.form == self._waiting[0].form:
                if each.size > left:
                    break
                left -= each.size
                taken.append(each)
        self._waiting = [each for each in self._waiting if each not in taken]
        return taken

    async def _answer(self, taken: list[Request]) -> None:
        if not taken:
            return
        self.batches += 1
        self.samples += sum(each.size for each in taken)
        try:
            made = await asyncio.get_running_loop().run_in_executor(self._thread, self._run, taken)
        except Exception as error:  # the error is that of every request of the batch
            for each in taken:
                if not each.result.done():
                    each.result.set_exception(error)
            return
        at = 0
        for each in taken:
            if not each.result.done():  # its client may be gone
                each.result.set_result({name: made[name][at:at + each.size] for name in made})
            at += each.size

    def _run(self, taken: list[Request]) -> dict[str, np.ndarray]:
        return self._padded({name: np.concatenate([each.samples[name] for each in taken]) for name in taken[0].samples})

    def _padded(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run a batch, padded by zeros to a power of two."""
        count = len(next(iter(batch.values())))
        size = min(1 << (count - 1).bit_length(), self.most)
        padded = {name: np.pad(each, [(0, size - count), *[(0, 0)] * (each.ndim - 1)]) for name, each in batch.items()}
        made = dict(zip(self.names, self.session.run(None, padded), strict=True))
        return {name: array[:count] for name, array in made.items()}


def _kind(each: Any) -> np.dtype[Any]:
    word = each.type.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(word, word))


def arrays_of(session: vtakit.InferenceSession, given: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the samples of a request as arrays. Raises ValueError for other names, shapes or numbers of samples."""
    inputs = session.get_inputs()
    if {each.name for each in inputs} != given.keys():
        raise ValueError(f"give the inputs {', '.join(each.name for each in inputs)}, not {', '.join(given) or 'none'}")
    found = {each.name: np.asarray(given[each.name], _kind(each)) for each in inputs}
    for each in inputs:
        array = found[each.name]
        if array.ndim != len(each.shape) or list(array.shape[1:]) != each.shape[1:] or not len(array):
            raise ValueError(f"input {each.name!r} has the shape {each.shape}; got {list(array.shape)}")
    if len({len(array) for array in found.values()}) != 1:
        raise ValueError("the inputs have different numbers of samples")
    return found


def application(batcher: Batcher) -> Any:
    """Return the HTTP application."""
    from fastapi import FastAPI, HTTPException

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        worker = asyncio.create_task(batcher.work())
        yield
        worker.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.post("/run")
    async def run(given: dict[str, Any]) -> dict[str, Any]:
        try:
            made = await batcher.submit(arrays_of(batcher.session, given))
        except FullError:
            raise HTTPException(503, "too many samples wait; try again", {"Retry-After": "1"}) from None
        except (ValueError, TypeError) as error:
            raise HTTPException(422, str(error)) from None
        return {name: array.tolist() for name, array in made.items()}

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"batches": batcher.batches, "samples": batcher.samples}

    return app


async def load_test(batcher: Batcher, requests: int, clients: int) -> None:
    """Send requests of one sample each from concurrent clients, without HTTP, and print rate, latency and sizes of batches."""
    rng = np.random.default_rng(0)
    sample = {each.name: rng.standard_normal((1, *each.shape[1:])).astype(_kind(each)) for each in batcher.session.get_inputs()}
    seconds: list[float] = []
    worker = asyncio.create_task(batcher.work())

    async def client(count: int) -> None:
        for _ in range(count):
            begin = time.perf_counter()
            await batcher.submit(sample)
            seconds.append(time.perf_counter() - begin)

    begin = time.perf_counter()
    await asyncio.gather(*[client(requests // clients) for _ in range(clients)])
    rate = len(seconds) / (time.perf_counter() - begin)
    worker.cancel()
    p50, p99 = (sorted(seconds)[int(len(seconds) * share)] * 1e3 for share in (0.5, 0.99))
    print(f"{clients} clients: {rate:.0f} requests a second, latency {p50:.1f} ms (99 %: {p99:.1f} ms), "
          f"{batcher.samples / batcher.batches:.1f} samples a batch")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--batch", type=int, default=8, metavar="N")
    parser.add_argument("--wait", type=float, default=2.0, metavar="MS")
    parser.add_argument("--queue", type=int, default=64, metavar="N")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="send so many requests, with 1 and 16 clients")
    args = parser.parse_args()
    session = vtakit.InferenceSession(args.model)
    for clients in (1, 16) if args.load else (0,):
        batcher = Batcher(session, most=args.batch, wait_ms=args.wait, queued=args.queue)
        batcher.warm()
        if clients:
            asyncio.run(load_test(batcher, args.load, clients))
        else:
            import uvicorn

            uvicorn.run(application(batcher), port=args.port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
