"""The operators that onnxruntime's optimizers write into models of floats are onnxruntime's."""

import numpy as np
import onnx
import onnxruntime
import pytest
from model_support import model, network
from onnx import helper, numpy_helper
from support import raises

import vtakit
from vtakit.compiler.frontend.errors import ModelError, UnsupportedError
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.frontend.onnx.tidied import OrderWarning

DOMAIN = "com.microsoft"
RNG = np.random.default_rng(17)


def some(*shape):
    return RNG.standard_normal(shape).astype("f4")


def agrees(op, operands, attributes=None, outputs=1, fixed=(), tolerance=2e-5):
    """Compare a node with onnxruntime's; operands are arrays or None, `fixed` the numbers of those that are constants."""
    names = [f"x{at}" if each is not None else "" for at, each in enumerate(operands)]
    given = {name: each for at, (name, each) in enumerate(zip(names, operands, strict=True)) if name and at not in fixed}
    known = {names[at]: operands[at] for at in fixed}
    kept = outputs if isinstance(outputs, list) else [f"y{at}" for at in range(outputs)]
    node = helper.make_node(op, names, kept, domain=DOMAIN, **(attributes or {}))
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
             for name, each in given.items()]
    tensors = [numpy_helper.from_array(each, name) for name, each in known.items()]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]

    def proto(shapes):
        results = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes.items()]
        return helper.make_model(helper.make_graph([node], "net", infos, results, tensors), ir_version=9, opset_imports=opsets)
    asked = [name for name in kept if name]
    run = onnxruntime.InferenceSession(proto(dict.fromkeys(asked)).SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = dict(zip(asked, run.run(None, given), strict=True))
    found = vtakit.compile(proto({name: each.shape for name, each in wanted.items()})).run(given)
    for name, want in wanted.items():
        assert (found[name].dtype, found[name].shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(found[name], want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "numbers"), [
    ("Relu", ()), ("LeakyRelu", (0.2,)), ("Clip", (-0.5, 1.5)), ("Sigmoid", ()), ("Tanh", ()), ("HardSigmoid", (0.3, 0.4)),
])
@pytest.mark.parametrize("added", [False, True])
def test_a_convolution_with_an_activation(name, numbers, added):
    operands = [some(2, 4, 9, 8), some(6, 2, 3, 3), some(6), some(2, 6, 5, 4) if added else None]
    words = {"activation": name, "group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    if numbers:
        words["activation_params"] = list(numbers)
    agrees("FusedConv", operands if added else operands[:3], words)


@pytest.mark.parametrize(("turned", "alpha"), [
    ({}, 1.0), ({"transA": 1}, 0.5), ({"transB": 1}, 2.0), ({"transA": 1, "transB": 1}, -1.5),
])
def test_products_with_transposed_operands(turned, alpha):
    a, b = some(2, 3, 5, 4), some(3, 4, 6)
    a = a.swapaxes(2, 3).copy() if "transA" in turned else a
    b = b.swapaxes(1, 2).copy() if "transB" in turned else b
    agrees("FusedMatMul", [a, b], {"alpha": alpha, **turned})
    gemm = [some(4, 5) if "transA" in turned else some(5, 4), some(6, 4) if "transB" in turned else some(4, 6), some(6)]
    agrees("FusedGemm", gemm, {"alpha": alpha, "beta": 0.5, "activation": "LeakyRelu", "activation_alpha": 0.1, **turned})


@pytest.mark.parametrize("turned", [{"transBatchA": 1}, {"transBatchB": 1}, {"transBatchA": 1, "transB": 1}])
def test_products_whose_batch_comes_second(turned):
    a = some(5, 3, 4) if "transBatchA" in turned else some(3, 5, 4)
    b = some(4, 3, 6) if "transBatchB" in turned else some(3, 6, 4) if "transB" in turned else some(3, 4, 6)
    agrees("FusedMatMul", [a, b], turned)


@pytest.mark.parametrize(("op", "operands", "words"), [
    ("Gelu", 1, {}), ("QuickGelu", 1, {}), ("QuickGelu", 1, {"alpha": 1.0}), ("FastGelu", 1, {}), ("FastGelu", 2, {}),
    ("BiasGelu", 2, {}),
])
def test_gelu(op, operands, words):
    agrees(op, [some(3, 5, 8), some(8)][:operands], words, tolerance=2e-4 if "Fast" in op else 2e-5)


@pytest.mark.parametrize("given", [3, 4, 5])
def test_a_norm_of_a_sum(given):
    operands = [some(2, 5, 8), some(2, 5, 8), some(8), some(8), some(8)]
    agrees("SkipLayerNormalization", operands[:given], {"epsilon": 1e-5}, ["y", "", "", "s"])
    agrees("SkipSimplifiedLayerNormalization", operands[:min(given, 4)], {"epsilon": 1e-5}, ["y", "", "", "s"])


@pytest.mark.parametrize(("kinds", "mask"), [(True, True), (True, False), (False, False)])
def test_embeddings(kinds, mask):
    words, places, sorts = some(30, 16), some(12, 16), some(2, 16)
    tokens = RNG.integers(0, 30, (3, 7)).astype("i4")
    kind = RNG.integers(0, 2, (3, 7)).astype("i4") if kinds else None
    kept = (np.arange(7) < np.array([[7], [3], [5]])).astype("i4") if mask else None
    names = ["t", "k" if kinds else "", "w", "p", "s" if kinds else "", "g", "b", "m" if mask else ""]
    node = helper.make_node("EmbedLayerNormalization", names, ["y", "n", "e"], domain=DOMAIN, epsilon=1e-6)
    constants = {"w": words, "p": places, "g": some(16), "b": some(16)} | ({"s": sorts} if kinds else {})
    given = {"t": tokens} | ({"k": kind} if kinds else {}) | ({"m": kept} if mask else {})
    proto = model([node], [(name, each.dtype, each.shape) for name, each in given.items()],
                  [("y", "f4", [3, 7, 16]), ("n", "i4", [3]), ("e", "f4", [3, 7, 16])], constants, domains=[DOMAIN])
    wanted = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)
    for got, want in zip(vtakit.compile(proto).run(given).values(), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


MASKS = {
    "none": None, "lengths": np.array([6, 4], "i4"), "ends and starts": np.array([6, 5, 0, 2], "i4"),
    "keys": (np.arange(6) < np.array([[6], [3]])).astype("i4"),
    "each": np.stack([np.tri(6, dtype="i4"), np.ones((6, 6), "i4")]),
}


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", MASKS)
def test_self_attention(mask, causal):
    words = {"num_heads": 4, "unidirectional": causal}
    agrees("Attention", [some(2, 6, 16), some(16, 48), some(48), MASKS[mask]], words, fixed=[1, 2])
    agrees("Attention", [some(2, 6, 16), some(16, 40), some(40)], {**words, "qkv_hidden_sizes": [16, 16, 8], "scale": 0.3},
           fixed=[1, 2])


def test_self_attention_goes_on():
    words = {"num_heads": 4, "unidirectional": 1}
    agrees("Attention", [some(2, 3, 16), some(16, 48), some(48), None, some(2, 2, 4, 5, 4)], words, 2, fixed=[1, 2])


@pytest.mark.parametrize("causal", [0, 1])
def test_quantized_attention(causal):
    x, w = RNG.integers(0, 256, (2, 6, 16)).astype("u1"), RNG.integers(-128, 128, (16, 48)).astype("i1")
    operands = [x, w, some(48), np.float32(0.02), np.float32(0.01), MASKS["keys"], np.uint8(120), np.int8(3)]
    words = {"num_heads": 4, "unidirectional": causal}
    agrees("QAttention", [np.asarray(each) for each in operands], words, fixed=[1, 2, 3, 4, 6, 7])


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("given", ["plain", "bias", "mask", "added", "kept"])
def test_attention_of_several_heads(given, causal):
    length = 6 if causal else 9
    operands = [some(2, 6, 16), some(2, length, 16), some(2, length, 16), None, None, None, None, None]
    if given == "bias":
        operands[3] = some(48)
    if given == "mask":
        operands[4] = (np.arange(length) < np.array([[length], [3]])).astype("i4")
    if given == "added":
        operands[5] = some(2, 4, 6, length)
    if given == "kept":
        operands[6:] = some(2, 4, 5, 4), some(2, 4, 5, 4)
    while operands[-1] is None:
        operands.pop()
    agrees("MultiHeadAttention", operands, {"num_heads": 4, "unidirectional": causal}, 3 if given == "kept" else 1)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("flat", [False, True])
def test_rotary_places(flat, interleaved):
    x = some(2, 5, 32) if flat else some(2, 4, 5, 8)
    places = RNG.integers(0, 20, (2, 5))
    angles = RNG.uniform(0, 3, (20, 4))
    tables = [np.cos(angles).astype("f4"), np.sin(angles).astype("f4")]
    words = {"interleaved": interleaved, **({"num_heads": 4} if flat else {})}
    agrees("RotaryEmbedding", [x, places, *tables], words)
    agrees("RotaryEmbedding", [x, np.array([3]), *tables], words)


@pytest.mark.parametrize(("heads", "rotary", "kept", "window"), [
    (4, 0, 0, -1), (2, 1, 0, -1), (1, 1, 3, -1), (2, 0, 0, 2), (2, 1, 4, 3),
])
def test_attention_with_fewer_heads_of_keys(heads, rotary, kept, window):
    batch, length, width = (1, 1, 16) if kept else (2, 6, 16)
    angles = RNG.uniform(0, 3, (32, width // 2))
    operands = [some(batch, length, 4 * width), some(batch, length, heads * width), some(batch, length, heads * width),
                some(batch, heads, kept, width), some(batch, heads, kept, width), np.full(batch, kept + length - 1, "i4"),
                np.array(kept + length, "i4"), np.cos(angles).astype("f4"), np.sin(angles).astype("f4")]
    words = {"num_heads": 4, "kv_num_heads": heads, "do_rotary": rotary, "local_window_size": window}
    if not rotary:
        operands = operands[:7]
    agrees("GroupQueryAttention", operands, words, 3, fixed=[6])


@pytest.mark.parametrize("signed", [False, True])
def test_products_of_numbers_quantized_when_it_runs(signed):
    kind, low = ("i1", -128) if signed else ("u1", 0)
    w = RNG.integers(low, low + 256, (16, 5)).astype(kind)
    operands = [some(3, 16), w, np.array([0.02], "f4"), np.array([low + 120], kind), some(5)]
    agrees("DynamicQuantizeMatMul", operands, fixed=[1, 2, 3, 4])
    x = RNG.integers(0, 256, (3, 16)).astype("u1")
    agrees("MatMulIntegerToFloat", [x, w, np.array([0.03], "f4"), RNG.uniform(0.01, 0.02, 5).astype("f4"), np.array([7], "u1"),
                                    np.full(5, low + 3, kind), some(5)], fixed=[1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zero", ["none", "packed", "floats"])
def test_weights_in_blocks(bits, zero):
    rows, columns, size = 12, 70, 16
    blocks = -(-columns // size)
    packed = RNG.integers(0, 256, (rows, blocks, size * bits // 8)).astype("u1")
    operands = [some(3, columns), packed, RNG.uniform(0.01, 0.1, rows * blocks).astype("f4")]
    if zero == "packed":
        operands.append(RNG.integers(0, 256, rows * -(-blocks * bits // 8)).astype("u1"))
    if zero == "floats":
        if bits == 8:
            pytest.skip("onnxruntime takes none for 8 bits")
        operands.append(RNG.uniform(5, 9, rows * blocks).astype("f4"))
    words = {"K": columns, "N": rows, "bits": bits, "block_size": size}
    agrees("MatMulNBits", operands, words, fixed=[*range(1, len(operands))], tolerance=1e-3)


def test_pools_with_channels_last():
    x = RNG.integers(-128, 128, (2, 9, 8, 5)).astype("i1")
    node = helper.make_node("NhwcMaxPool", ["x"], ["y"], domain=DOMAIN, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    proto = model([node], [("x", "i1", x.shape)], [("y", "i1", [2, 5, 4, 5])], domains=[DOMAIN])
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_array_equal(vtakit.compile(proto).run({"x": x})["y"], want)


def shuffled():
    """The network of the tests, its last node first."""
    proto = network()
    nodes = [*proto.graph.node]
    del proto.graph.node[:]
    proto.graph.node.extend([nodes[-1], *nodes[:-1]])
    return proto


def test_nodes_out_of_order_are_sorted_with_a_warning():
    x = some(1, 3, 16, 16)
    wanted = vtakit.compile(network()).run({"x": x})["y"]
    proto = shuffled()
    before = proto.SerializeToString()
    message = "the nodes of the model 'net' are not in the order in which they can run \\('softmax' comes before what it reads\\)"
    with pytest.warns(OrderWarning, match=message):
        module = vtakit.compile(proto)
    np.testing.assert_array_equal(module.run({"x": x})["y"], wanted)
    assert proto.SerializeToString() == before  # the caller's model stays as it is


def test_a_cycle_is_no_order():
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    with pytest.raises(ModelError, match="topologically sorted"):
        import_model(model(nodes, [("x", "f4", [2])], [("b", "f4", [2])]))


@pytest.mark.parametrize("op", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_norms_that_an_optimizer_calls_onnx_own(op):
    x, scale = some(3, 8), some(8)
    node = helper.make_node(op, ["x", "s"], ["y"], axis=-1, epsilon=1e-5)
    proto = model([node], [("x", "f4", [3, 8])], [("y", "f4", [3, 8])], {"s": scale}, opset=13)
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_allclose(vtakit.compile(proto).run({"x": x})["y"], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("op", "operands", "words", "message"), [
    ("FusedConv", [some(1, 1, 4, 4), some(1, 1, 3, 3)], {"activation": "Magic", "kernel_shape": [3, 3]},
     "FusedConv with the activation 'Magic'"),
    ("Attention", [some(1, 2, 4), some(4, 12), some(12)], {"num_heads": 3}, "Attention of 3 heads and a width of 4"),
    ("Attention", [some(1, 2, 4), some(4, 12), some(12)], {"num_heads": 2, "do_rotary": 1}, "Attention with do_rotary=1"),
    ("MatMulNBits", [some(1, 4)] * 3, {"K": 4, "N": 4, "bits": 3, "block_size": 16}, "MatMulNBits of 3 bits"),
])
def test_what_is_not_read_is_told(op, operands, words, message):
    names = [f"x{at}" for at in range(len(operands))]
    node = helper.make_node(op, names, ["y"], "node", domain=DOMAIN, **words)
    proto = model([node], [(name, each.dtype, each.shape) for name, each in zip(names, operands, strict=True)],
                  [("y", "f4", ["?"])], domains=[DOMAIN])
    with raises(UnsupportedError, f"model 'net' needs what vtakit does not support: {message} (1 node: 'node')"):
        import_model(proto)


@pytest.mark.parametrize(("op", "words"), [
    *[("GroupQueryAttention", {word: value}) for word, value in (
        ("smooth_softmax", 1), ("v_quant_type", "PER_TENSOR"), ("k_quant_type", "PER_TENSOR"), ("kv_cache_bit_width", 8),
        ("qk_output", 1), ("causal", 0), ("sliding_window_cache", 1))],
    *[("RotaryEmbedding", {word: value}) for word, value in (
        ("scale", 2.0), ("rotary_embedding_dim", 4), ("is_packed_batching", 1))],
    ("Attention", {"past_present_share_buffer": 1}), ("MultiHeadAttention", {"magic": 3}),
    ("FusedMatMul", {"activation": "Relu"}),
    ("QLinearAveragePool", {"channels_last": 1}), ("EmbedLayerNormalization", {"mask_index_type": 2}),
    ("MatMulNBits", {"weight_prepacked": 1}), ("SkipLayerNormalization", {"axis": 1}),
])
def test_attributes_that_are_not_read_are_told(op, words):
    """Each changes what a node means."""
    ((word, value),) = words.items()
    heads = {"num_heads": 2, "kv_num_heads": 2} if op == "GroupQueryAttention" else {"num_heads": 2} if "Attention" in op else {}
    x, names = some(1, 8, 8), [f"x{at}" for at in range(4)]
    node = helper.make_node(op, names, ["y"], "node", domain=DOMAIN, **heads, **words)
    proto = model([node], [(name, x.dtype, x.shape) for name in names], [("y", "f4", ["?"])], domains=[DOMAIN])
    with raises(UnsupportedError, f"model 'net' needs what vtakit does not support: {op} with {word}={value!r} (1 node: 'node')"):
        import_model(proto)


def test_attributes_without_effect_are_taken():
    """onnxruntime's defaults of what is not read, written out."""
    x, angles = some(2, 5, 32), RNG.uniform(0, 3, (20, 4))
    tables = [np.cos(angles).astype("f4"), np.sin(angles).astype("f4")]
    agrees("RotaryEmbedding", [x, RNG.integers(0, 20, (2, 5)), *tables],
           {"num_heads": 4, "scale": 1.0, "rotary_embedding_dim": 0, "is_packed_batching": 0})
    operands = [some(2, 6, 32), some(2, 6, 16), some(2, 6, 16), None, None, np.full(2, 5, "i4"), np.array(6, "i4")]
    agrees("GroupQueryAttention", operands, {"num_heads": 4, "kv_num_heads": 2, "smooth_softmax": -1, "qk_output": 0,
                                             "k_quant_type": "NONE", "v_quant_type": "NONE"}, 3, fixed=[6])
