"""Counters of runs in several threads."""

import threading

import numpy as np
import onnx
from onnx import helper

import vtakit
from vtakit.runtime.module import Module
from vtakit.runtime.stages.source import Compiled
from vtakit.runtime.stages.watch import Counting


class Device:
    """An engine whose one counter is the first element of the last run's input."""

    exclusive = True
    counters: tuple[dict[str, int], ...] = ()

    def run(self, part, values) -> None:
        self.counters = ({"first": int(values[0][0][0])},)


class Interrupted(Module):
    """A module whose first run is followed by one of another thread as soon as that may run."""

    other: threading.Thread | None = None

    def run(self, inputs=None):
        made = super().run(inputs)
        if self.other is None:
            self.other = threading.Thread(target=super().run, args=({"x": np.full(4, 7, np.float32)},))
            self.other.start()
            self.other.join(0.2)
        return made


def test_counters_are_those_of_the_threads_own_run():
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "neg", infos[:1], infos[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    module, device = Interrupted(vtakit.compile(proto, cache=False).image), Device()
    module._steps, module._engines, module._exclusive = [(None, device)], (device,), True
    counting = Counting()
    counting.begin()
    counting.part(Compiled(b"", module), {"x": np.full(4, 3, np.float32)})
    assert counting.last() == [{"first": 3}]
    assert module.other is not None
    module.other.join(10)
    assert device.counters == ({"first": 7},), "the other one ran too"
