"""What tests of operators share: running one by its default schedule, and what onnxruntime makes of the same node."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

import vtakit
from vtakit import te
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.nn.conv.blocked import blocked_vectors
from vtakit.compiler.nn.cpu.flow import Flow
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.operators import find

OPSET = 20


def rng(seed: int = 0) -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(seed)


def floats(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """Normally distributed numbers."""
    return np.asarray(rng(seed).standard_normal(shape), dtype)


def integers(low: int, high: int, shape: tuple[int, ...], dtype: str = "int32", seed: int = 0) -> np.ndarray:
    """Integers from low to high - 1."""
    return rng(seed).integers(low, high, shape, dtype=dtype)


def placeholders(arrays: tuple[np.ndarray | None, ...]) -> list[Any]:
    """An input for each array; None stays."""
    return [None if a is None else te.placeholder(a.shape, str(a.dtype), f"in{at}") for at, a in enumerate(arrays)]


def empty(tensor: te.Tensor) -> np.ndarray:
    """Room for a result, filled with what is not the result."""
    return np.full([extent.value for extent in tensor.shape], 77, str(tensor.dtype))


def run_group(
    inputs: list[np.ndarray], tensors: list[te.Tensor], outputs: list[te.Tensor], how: str = "default",
) -> list[np.ndarray]:
    """The outputs of a group of operators: by the default schedule, without one ("plain"), or by the interpreter."""
    s = te.create_schedule([out.op for out in outputs]) if how == "plain" else schedule(outputs)
    results = [empty(out) for out in outputs]
    there = Flow.of(s.outputs).ops  # an operator need not read all that it is given
    read = [at for at, tensor in enumerate(tensors) if tensor.op in there]
    args, arrays = [*[tensors[at] for at in read], *outputs], [*[inputs[at] for at in read], *results]
    if how == "interpreter":
        interpret(lower(s, args), arrays)
    else:
        vtakit.build(s, args)(*arrays)
    return results


def run(name: str, *arrays: np.ndarray | None, how: str = "default", **attributes: Any) -> Any:
    """The result of an operator, or the tuple of its results."""
    tensors = placeholders(arrays)
    made = find(name).define(*tensors, **attributes)
    outputs = [*made] if isinstance(made, tuple) else [made]
    given = [a for a in arrays if a is not None]
    results = run_group(given, [t for t in tensors if t is not None], outputs, how)
    return tuple(results) if isinstance(made, tuple) else results[0]


def onnx_run(op: str, *arrays: np.ndarray | None, outputs: int = 1, opset: int = OPSET, **attributes: Any) -> Any:
    """What onnxruntime computes for a node."""
    names = ["" if a is None else f"in{at}" for at, a in enumerate(arrays)]
    results = [f"out{at}" for at in range(outputs)]
    node = helper.make_node(op, names, results, **attributes)
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
              for name, a in zip(names, arrays, strict=True) if a is not None]
    graph = helper.make_graph([node], "one", inputs, [onnx.ValueInfoProto(name=name) for name in results])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = session.run(None, {name: a for name, a in zip(names, arrays, strict=True) if a is not None})
    return found[0] if outputs == 1 else tuple(found)


def check(got: Any, want: Any, *, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    """Same shapes and types, and the same numbers but for rounding; integers and bools exactly."""
    pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
    for a, b in pairs:
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(a, b)


def blocks(x: np.ndarray, v: int) -> np.ndarray:
    """Data with channels in blocks; what fills up the last one is not a number, which nothing may read."""
    found = blocked_vectors(x, v, 1)
    if x.shape[1] % v:
        found[:, -1, ..., x.shape[1] % v:] = np.nan
    return found


def channels(x: np.ndarray, count: int) -> np.ndarray:
    """The channels of data in blocks one after another, as NumPy sees it."""
    return np.moveaxis(x, -1, 2).reshape(x.shape[0], -1, *x.shape[2:-1])[:, :count]
