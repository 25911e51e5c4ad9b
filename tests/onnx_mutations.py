"""Random mutations of valid ONNX files; `file_mutations` runs them.

A mutation changes bytes of a small model, drops, repeats or swaps pieces of it, or changes one of its numbers, names or types.
"""

import collections
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper


def models() -> list[bytes]:
    """Small models of many operators, attributes and types."""
    node = helper.make_node
    rng = np.random.default_rng(0)

    def made(nodes: list[onnx.NodeProto], outputs: list[tuple[str, int]], **constants: Any) -> bytes:
        x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 4, 6, 6])
        ports = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs]
        for port in ports:
            port.type.tensor_type.shape.SetInParent()
            port.type.tensor_type.ClearField("shape")
        tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
        graph = helper.make_graph(nodes, "net", [x], ports, tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(model)
        for port, known in zip(model.graph.output, inferred.graph.output, strict=True):
            port.CopyFrom(known)
            port.type.tensor_type.shape.SetInParent()
        return bytes(model.SerializeToString())
    some = (rng.standard_normal((8, 4, 3, 3)) / 4).astype("f4")
    floats, whole = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    return [
        made([node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["y"])], [("y", floats)],
             w=some, b=some[:, 0, 0, 0].copy()),
        made([node("Softmax", ["x"], ["y"], axis=1)], [("y", floats)]),
        made([node("Concat", ["x", "w"], ["c"], axis=0), node("Slice", ["c", "s", "e"], ["y"])], [("y", floats)],
             w=some[:1, :, :1, :1].repeat(6, 2).repeat(6, 3), s=np.array([0, 1]), e=np.array([1, 3])),
        made([node("Flatten", ["x"], ["f"]), node("MatMul", ["f", "w"], ["y"])], [("y", floats)], w=some.reshape(-1, 2)[:144]),
        made([
            node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", ["c"], ["r"]),
            node("BatchNormalization", ["r", "b", "b", "b", "v"], ["n"]), node("MaxPool", ["n"], ["p"], kernel_shape=[2, 2]),
            node("Flatten", ["p"], ["f"]), node("Gemm", ["f", "g"], ["h"], transB=1), node("Softmax", ["h"], ["y"]),
        ], [("y", floats)], w=some, b=some[:, 0, 0, 0].copy(), v=np.ones(8, "f4"), g=some.reshape(36, 8)[:5].copy()),
        made([
            node("Slice", ["x", "s0", "s1", "s2", "s3"], ["s"]), node("Concat", ["s", "s"], ["c"], axis=2),
            node("Resize", ["c", "", "k"], ["r"], mode="linear"), node("ReduceMean", ["r"], ["m"], axes=[2, 3]),
            node("TopK", ["r", "one"], ["t", "i"], axis=-1), node("Transpose", ["m"], ["y"], perm=[1, 0, 2, 3]),
        ], [("y", floats), ("i", whole)], s0=np.array([1]), s1=np.array([100]), s2=np.array([3]), s3=np.array([2]),
            k=np.array([1, 1, 2, 1.5], "f4"), one=np.array([1])),
        made([
            node("QuantizeLinear", ["x", "q", "z"], ["a"]), node("DequantizeLinear", ["a", "q", "z"], ["d"]),
            node("Reshape", ["d", "to"], ["e"]), node("LayerNormalization", ["e", "sc"], ["l"], axis=-1),
            node("MatMul", ["l", "mm"], ["o"]), node("Gather", ["o", "ix"], ["u"], axis=1), node("Pad", ["u", "pd"], ["y"]),
        ], [("y", floats)], q=np.float32(0.1), z=np.uint8(100), to=np.array([0, 4, -1]), sc=np.ones(36, "f4"),
            mm=some.reshape(36, 8), ix=np.array([0, 3, 1]), pd=np.array([0, 0, 1, 0, 0, 1])),
        _with_functions(),
    ]


def _with_functions() -> bytes:
    """A model whose functions call functions, with attributes that are given on, and a branch."""
    node, opsets = helper.make_node, [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    slope = node("LeakyRelu", ["a"], ["b"])
    slope.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    twice = [node("One", ["a"], ["h"], domain="own", slope=0.5), node("One", ["h"], ["b"], domain="own", slope=0.25)]
    functions = [
        helper.make_function("own", "One", ["a"], ["b"], [slope], opsets, ["slope"]),
        helper.make_function("own", "Two", ["a"], ["b"], twice, opsets),
        helper.make_function("own", "Four", ["a"], ["b"], [node("Two", ["a"], ["h"], domain="own"),
                                                           node("Two", ["h"], ["b"], domain="own")], opsets),
    ]
    branches = [helper.make_graph([node("Two", ["f"], ["z"], domain="own")], "then", [],
                                  [helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None)]) for _ in range(2)]
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 4, 6, 6]) for name in "xy")
    graph = helper.make_graph(
        [node("Four", ["x"], ["f"], domain="own"), node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])],
        "net", [x], [y], [numpy_helper.from_array(np.array(True), "c")])
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions).SerializeToString())


def _fields(message: Any) -> Iterator[tuple[Any, Any, int | None]]:
    """Each number, text or byte string in a message: the message that has it, its field, and its place in a repeated one."""
    for field, value in message.ListFields():
        several = isinstance(value, collections.abc.Sequence) and not isinstance(value, str | bytes)
        for at, one in enumerate(value) if several else [(None, value)]:
            if hasattr(one, "ListFields"):
                yield from _fields(one)
            else:
                yield message, field, at


def _some_number(rng: random.Random, old: int) -> int:
    near = [old + 1, old - 1, -old, old * 1000]
    return rng.choice([0, 1, -1, 2, *near, 1 << 20, 1 << 31, -(1 << 31), 1 << 62, rng.randrange(50)])


def _of_a_field(rng: random.Random, data: bytes) -> bytes:
    """With one number, name or text of the model changed."""
    model = onnx.ModelProto.FromString(data)
    message, field, at = rng.choice([*_fields(model)])
    old = getattr(message, field.name) if at is None else getattr(message, field.name)[at]
    new: Any
    match old:
        case bool() | int():
            new = _some_number(rng, int(old))
        case float():
            new = rng.choice([0.0, -1.0, float("nan"), float("inf"), old * 1e30])
        case str():
            words = [getattr(m, f.name) if n is None else getattr(m, f.name)[n] for m, f, n in _fields(model)]
            new = rng.choice([word for word in words if isinstance(word, str)] + ["", "?", "Relu", "Concat", "x"])
        case _:
            cut = bytearray(old)
            if cut and rng.random() < 0.7:
                cut[rng.randrange(len(cut))] = rng.randrange(256)
            else:
                del cut[len(cut) // 2:]
            new = bytes(cut)
    try:
        if at is None:
            setattr(message, field.name, new)
        else:
            getattr(message, field.name)[at] = new
    except (TypeError, ValueError):  # a number that the field cannot hold
        return data
    return bytes(model.SerializeToString())


def _of_a_list(rng: random.Random, data: bytes) -> bytes:
    """With a node, tensor or attribute gone, twice, or in another's place."""
    model = onnx.ModelProto.FromString(data)
    nodes = model.graph.node
    attributes = [node.attribute for node in nodes if node.attribute]
    inner = [model.functions, *[function.node for function in model.functions]] if model.functions else []
    items: Any = rng.choice([nodes, model.graph.initializer, model.graph.input, model.graph.output, *attributes, *inner])
    if not items:
        return data
    one, other = rng.randrange(len(items)), rng.randrange(len(items))
    match rng.randrange(3):
        case 0:
            del items[one]
        case 1:
            items.add().CopyFrom(items[one])
        case _:
            kept = type(items[one])()
            kept.CopyFrom(items[one])
            items[one].CopyFrom(items[other])
            items[other].CopyFrom(kept)
    return bytes(model.SerializeToString())


def _of_bytes(rng: random.Random, data: bytes) -> bytes:
    """With some bytes changed, cut out or put in twice."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(found))
        match rng.randrange(4):
            case 0 | 1:
                found[at] = rng.randrange(256)
            case 2:
                del found[at:at + rng.randint(1, 8)]
            case _:
                found[at:at] = found[at:at + rng.randint(1, 8)]
    return bytes(found)


MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (_of_a_field, _of_a_field, _of_a_list, _of_bytes)


def mutation(seed: int, known: list[bytes]) -> bytes:
    """A model with one to three mutations."""
    rng = random.Random(seed)
    data = rng.choice(known)
    for _ in range(rng.choice((1, 1, 2, 3))):
        try:
            data = rng.choice(MUTATIONS)(rng, data)
        except DecodeError:  # what was changed before is no model any more, which a file may be
            break
    return data
