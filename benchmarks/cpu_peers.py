"""What compiled models are compared with: onnxruntime and OpenVINO, on one machine's processor and as many threads as ours.

All threads look for work for a while before they sleep, which is the fastest for each; onnxruntime's not beyond the end of a
run, into another's turn. float32 is computed in float32: OpenVINO would take bfloat16 where the processor has it, which it is
only told to do where ours is told so too.
"""

import copy
import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import onnx

Given = Mapping[str, np.ndarray]
Run = Callable[[], Any]


class Peer(NamedTuple):
    """Another runtime.

    prepare : makes of a model, inputs, a number of threads and a type to compute in a run that returns the outputs in their order
    bound   : makes of a model, its input and an array for its output a run on one thread that looks at neither again
    """

    name: str
    package: str
    prepare: Callable[[onnx.ModelProto, Given, int, str], Run]
    bound: Callable[[onnx.ModelProto, np.ndarray, np.ndarray], Run]
    kinds: tuple[str, ...] = ("float32", "int8")

    @property
    def is_there(self) -> bool:
        return importlib.util.find_spec(self.package) is not None

    @property
    def version(self) -> str:
        return version(self.package)


def _session(model: onnx.ModelProto, threads: int) -> Any:
    """Of onnxruntime."""
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.force_spinning_stop", "1")  # at the end of a run
    return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _onnxruntime(model: onnx.ModelProto, given: Given, threads: int, kind: str) -> Run:
    assert kind in ("float32", "int8"), f"the type is the model's, not {kind}"
    session = _session(model, threads)
    return lambda: session.run(None, dict(given))


def _onnxruntime_bound(model: onnx.ModelProto, x: np.ndarray, out: np.ndarray) -> Run:
    session = _session(model, 1)
    binding = session.io_binding()
    binding.bind_cpu_input(model.graph.input[0].name, x)
    binding.bind_output(model.graph.output[0].name, "cpu", 0, out.dtype, out.shape, out.ctypes.data)
    return lambda: session.run_with_iobinding(binding)


def _compiled(model: onnx.ModelProto, threads: int, kind: str = "float32") -> Any:
    """By OpenVINO."""
    hint = "bf16" if kind == "bfloat16" else "f32"
    core = importlib.import_module("openvino").Core()
    return core.compile_model(core.read_model(model.SerializeToString()), "CPU", {
        "INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
    })


def _openvino(model: onnx.ModelProto, given: Given, threads: int, kind: str) -> Run:
    compiled = _compiled(model, threads, kind)
    request, outputs = compiled.create_infer_request(), compiled.outputs

    def run() -> list[np.ndarray]:
        made = request.infer(dict(given), share_inputs=True)
        return [made[output] for output in outputs]
    return run


def _openvino_bound(model: onnx.ModelProto, x: np.ndarray, out: np.ndarray) -> Run:
    tensor = importlib.import_module("openvino").Tensor
    request = _compiled(model, 1).create_infer_request()
    request.set_input_tensor(tensor(x, shared_memory=True))
    request.set_output_tensor(tensor(out, shared_memory=True))
    return lambda: request.infer()


PEERS = (
    Peer("onnxruntime", "onnxruntime", _onnxruntime, _onnxruntime_bound),
    Peer("OpenVINO", "openvino", _openvino, _openvino_bound, ("float32", "int8", "bfloat16")),
)


def found(*, install: bool) -> tuple[Peer, ...]:
    """The peers that are there; `install` fetches the others from PyPI, else it is said how to."""
    missing = [peer.package for peer in PEERS if not peer.is_there]
    if missing and install:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *missing], check=True)
        importlib.invalidate_caches()
    elif missing:
        print(f"left out: {' and '.join(missing)}; for a comparison with them: pip install {' '.join(missing)}, or --install")
    return tuple([peer for peer in PEERS if peer.is_there])


def of_batch(model: onnx.ModelProto, batch: int) -> onnx.ModelProto:
    """The model with a constant first dimension, of which all runtimes can make the most."""
    fixed = copy.deepcopy(model)
    for port in (*fixed.graph.input, *fixed.graph.output):
        for dim in port.type.tensor_type.shape.dim[:1]:
            if dim.dim_param:
                dim.dim_value = batch
    return fixed
