"""Networks of `gpu_suite.py`: results against those of the processor, and time of one run as one CUDA graph."""

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from gpu_bench import Suite

import vtakit
from vtakit import models

NETWORKS = ("dqn", "lstm", "bert_mini", "dcgan", "mobilenet_v1", "mobilenet_v2", "resnet18")


def networks(suite: Suite) -> None:
    """Compile, run and time each network, batch 1, float32."""
    for name in NETWORKS:
        suite.case(f"network {name}", partial(_network, suite, name))


def _network(suite: Suite, name: str) -> str:
    begin = time.monotonic()
    model, given = models.build(name), models.inputs(name)
    module = vtakit.compile(model, suite.target, cache=False)
    compiled = time.monotonic() - begin
    part: Any = module.image.parts[0]
    if suite.dry:
        return f"{part.launches} launches, compiled in {compiled:.0f} s"
    found = module.run(given)
    want = vtakit.compile(model, "llvm", cache=False).run(given)
    error = max(float(np.abs(found[key] - want[key]).max() / max(np.abs(want[key]).max(), 1e-9)) for key in want)
    assert error < 1e-3, f"off by {error:.2g} of the largest result"
    engine: Any = module.engine(part.kind)
    resident = engine.resident(part)
    said = suite.measured_graph(f"network {name}", resident.device, resident.graph, _peer(suite, name), error)
    layers = sorted(module.profile(given, repeat=3).layers, key=lambda each: -each.seconds)[:4]
    slow = "; ".join(f"{'+'.join(each.layer.ops)} {each.seconds * 1e6:.0f} us" for each in layers)
    return f"{part.launches} launches, compiled in {compiled:.0f} s, {said}; slowest: {slow}"


def _peer(suite: Suite, name: str) -> Callable[[], Any] | None:
    """The same network in torchvision, where it is there: eager, in a CUDA graph."""
    if suite.torch is None or name not in ("resnet18", "mobilenet_v2"):
        return None
    try:
        torchvision = import_module("torchvision")
    except ImportError:
        return None
    network = getattr(torchvision.models, name)().eval().cuda()
    x = suite.torch.zeros(1, 3, 224, 224, device="cuda")

    def run() -> Any:
        with suite.torch.no_grad():
            return network(x)
    return run
