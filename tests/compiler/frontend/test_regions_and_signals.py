"""Fourier transforms, regions of images, random numbers and other operators against NumPy, onnxruntime and ONNX's reference."""

from statistics import NormalDist

import numpy as np
import onnxruntime
import pytest
from model_support import model
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import vtakit
from vtakit import te
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.nn.numbers.random import _below, words

RNG = np.random.default_rng(29)
node = helper.make_node


def some(*shape, kind="f4"):
    return RNG.standard_normal(shape).astype(kind)


def ort(proto, given):
    return onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)


def reference(proto, given):
    return ReferenceEvaluator(proto).run(None, given)


def one(op, given, results, known=None, opset=20, **attributes):
    """A model of one node on inputs and constants, in the order in which they are given; results : (name, type, shape)."""
    names = [name or "" for name in {**given, **(known or {})}]
    return model([node(op, names, [name for name, _, _ in results], **attributes)],
                 [(name, each.dtype, each.shape) for name, each in given.items()], results, known, opset=opset)


def compare(proto, given, truth, tolerance=1e-5):
    found = vtakit.compile(proto).run(given)
    for got, want in zip(found.values(), truth(proto, given), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 12, 31, 64, 66, 100, 128, 210, 509, 1000, 1031, 2053, 4096])
@pytest.mark.parametrize("inverse", [0, 1])
def test_transforms_of_all_lengths(length, inverse):
    """Made of factors, primes by one product, long primes by convolution."""
    x = some(2, length, 2)
    proto = one("DFT", {"x": x}, [("y", "f4", x.shape)], inverse=inverse)
    got = vtakit.compile(proto).run({"x": x})["y"]
    whole = x[..., 0] + 1j * x[..., 1].astype("f8")
    want = np.fft.ifft(whole, axis=1) if inverse else np.fft.fft(whole, axis=1)
    error = got[..., 0] + 1j * got[..., 1] - want
    assert np.sqrt(np.mean(np.abs(error) ** 2) / np.mean(np.abs(want) ** 2)) < 1e-6


@pytest.mark.parametrize(("axis", "length"), [(1, None), (-2, None), (2, 7), (1, 4), (-3, 20)])
@pytest.mark.parametrize("kind", ["real", "complex", "onesided", "there", "f8"])
def test_transforms_along_any_axis(axis, length, kind):
    x = some(2, 6, 5, 2 if kind in ("complex", "f8") else 1, kind="f8" if kind == "f8" else "f4")
    counts = {"n": np.array(length)} if length else {}
    names = ["x", "n" if length else "", "a"]
    words = {"onesided": int(kind in ("onesided", "there"))}
    nodes = [node("DFT", names, ["f" if kind == "there" else "y"], **words)]
    if kind == "there":
        nodes.append(node("DFT", ["f", "m", "a"], ["y"], onesided=1, inverse=1))
        counts["m"] = np.array(length or x.shape[axis])
    proto = model(nodes, [("x", x.dtype, x.shape)], [("y", x.dtype, ["?"] * 4)], {**counts, "a": np.array(axis)}, opset=20)
    got = vtakit.compile(proto).run({"x": x})["y"]
    at = axis % 4
    if kind == "there":
        n = length or x.shape[at]
        cut = x.take(range(min(n, x.shape[at])), at)
        want = np.pad(cut, [(0, n - cut.shape[at] if each == at else 0) for each in range(4)])
    else:
        whole = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
        made = np.fft.rfft(x[..., 0], length, axis=at) if kind == "onesided" else np.fft.fft(whole, length, axis=at)
        want = np.stack([made.real, made.imag], -1)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-12 if kind == "f8" else 1e-5)


@pytest.mark.parametrize(("window", "length", "step", "onesided"), [(True, None, 3, 1), (True, 16, 5, 0), (False, 12, 4, 1),
                                                                    (False, 20, 7, 0)])
def test_transforms_of_parts_of_a_signal(window, length, step, onesided):
    x = some(2, 60, 1)
    known = {"step": np.array(step), **({"w": np.hanning(length or 16).astype("f4")} if window else {}),
             **({"n": np.array(length)} if length else {})}
    names = ["x", "step", "w" if window else "", "n" if length else ""]
    proto = model([node("STFT", names, ["y"], onesided=onesided)], [("x", "f4", x.shape)], [("y", "f4", ["?"] * 4)], known,
                  opset=17)
    compare(proto, {"x": x}, ort, 1e-4)


@pytest.mark.parametrize(("bins", "length", "rate", "low", "high"), [(8, 64, 8000, 0.0, 4000.0), (20, 512, 16000, 20.0, 7600.0),
                                                                     (5, 30, 44100, 500.0, 9e3)])
def test_triangles_between_mel_frequencies(bins, length, rate, low, high):
    known = {"b": np.array(bins), "l": np.array(length), "r": np.array(rate), "f": np.float32(low), "g": np.float32(high)}
    proto = model([node("MelWeightMatrix", [*known], ["m"]), node("MatMul", ["x", "m"], ["y"])],
                  [("x", "f4", [2, length // 2 + 1])], [("y", "f4", [2, bins])], known, opset=17)
    compare(proto, {"x": some(2, length // 2 + 1)}, ort)


@pytest.mark.parametrize(("ratio", "mode"), [(0, "avg"), (2, "avg"), (0, "max"), (3, "max")])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
def test_regions_between_pixels(ratio, mode, coordinates):
    x = some(2, 3, 11, 14)
    corners = RNG.uniform(-3, 30, (6, 2)).astype("f4")
    rois = np.concatenate([corners, corners + RNG.uniform(0, 25, (6, 2)).astype("f4")], 1)
    given = {"x": x, "r": rois, "b": RNG.integers(0, 2, 6)}
    proto = one("RoiAlign", given, [("y", "f4", [6, 3, 3, 4])], opset=16, output_height=3, output_width=4, sampling_ratio=ratio,
                spatial_scale=0.5, mode=mode, coordinate_transformation_mode=coordinates)
    compare(proto, given, ort if mode == "avg" else reference, 1e-4)


def run_with_some_not_finite(proto, given, name, rows):
    """Results of rows of an operand beside ones with NaN and infinities are what they are without those."""
    module = vtakit.compile(proto)
    want = module.run(given)["y"]
    odd = [at for at in range(len(given[name])) if at not in rows]
    for number in (np.nan, np.inf, -np.inf, 3e38):
        for column in range(given[name][0].size + 1):
            x = given[name].copy()
            flat = x.reshape(len(x), -1)
            for at in odd:
                flat[at, column if column < flat.shape[1] else slice(None)] = number
            np.testing.assert_array_equal(module.run({**given, name: x})["y"][rows], want[rows])


@pytest.mark.parametrize(("ratio", "mode"), [(0, "avg"), (2, "avg"), (0, "max"), (3, "max")])
def test_regions_that_are_nowhere(ratio, mode):
    corners = RNG.uniform(0, 8, (4, 2)).astype("f4")
    given = {"x": some(2, 3, 11, 14), "r": np.concatenate([corners, corners + 5], 1), "b": RNG.integers(0, 2, 4)}
    proto = one("RoiAlign", given, [("y", "f4", [4, 3, 3, 4])], opset=16, output_height=3, output_width=4, sampling_ratio=ratio,
                mode=mode)
    run_with_some_not_finite(proto, given, "r", [0, 3])


def test_the_greatest_of_regions_that_are_nowhere():
    rois = np.stack([[i % 2, *RNG.integers(0, 5, 2), *RNG.integers(5, 11, 2)] for i in range(4)]).astype("f4")
    given = {"x": some(2, 3, 11, 14), "r": rois}
    proto = one("MaxRoiPool", given, [("y", "f4", [4, 3, 3, 4])], opset=16, pooled_shape=[3, 4])
    run_with_some_not_finite(proto, given, "r", [0, 3])


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_places_that_are_nowhere(mode, padding):
    given = {"x": some(3, 2, 5, 6), "g": RNG.uniform(-1, 1, (3, 1, 2, 2)).astype("f4")}
    proto = one("GridSample", given, [("y", "f4", [3, 2, 1, 2])], mode=mode, padding_mode=padding)
    run_with_some_not_finite(proto, given, "g", [0, 2])


def test_pixels_moved_nowhere():
    given = {"x": some(3, 2, 5, 6), "w": some(2, 2, 1, 1), "o": some(3, 2, 5, 6)}
    proto = one("DeformConv", given, [("y", "f4", [3, 2, 5, 6])], opset=19)
    run_with_some_not_finite(proto, given, "o", [0, 2])


def test_the_greatest_of_regions():
    rois = np.stack([[i % 2, *RNG.integers(-2, 10, 2), *RNG.integers(8, 40, 2)] for i in range(8)]).astype("f4")
    given = {"x": some(2, 3, 11, 14), "r": rois}
    proto = one("MaxRoiPool", given, [("y", "f4", [8, 3, 3, 4])], opset=16, pooled_shape=[3, 4], spatial_scale=0.5)
    compare(proto, given, ort)


@pytest.mark.parametrize(("groups", "offsets", "mask", "words"), [
    (1, 1, False, {}), (2, 1, True, {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
    (1, 2, True, {"dilations": [2, 1], "pads": [2, 0, 2, 1]}), (4, 4, False, {"pads": [0, 1, 1, 0]}),
])
def test_convolutions_of_moved_pixels(groups, offsets, mask, words):
    x, w = some(2, 4, 7, 8), some(8, 4 // groups, 3, 2)
    pads, strides, dilations = words.get("pads", [0] * 4), words.get("strides", [1, 1]), words.get("dilations", [1, 1])
    out = [(size + pads[at] + pads[at + 2] - dilations[at] * (w.shape[2 + at] - 1) - 1) // strides[at] + 1
           for at, size in enumerate((7, 8))]
    given = {"x": x, "w": w, "o": some(2, offsets * 12, *out), "b": some(8)}
    if mask:
        given["m"] = RNG.random((2, offsets * 6, *out)).astype("f4")
    proto = one("DeformConv", given, [("y", "f4", [2, 8, *out])], opset=19, group=groups, offset_group=offsets, **words)
    compare(proto, given, reference, 1e-4)


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 5, 5), (2, 2, 9, 9), (16, 16)])
def test_determinants(shape, kind):
    x = some(*shape, kind=kind)
    x[..., 0, 0] = 0  # the first pivot must be looked for
    proto = one("Det", {"x": x}, [("y", kind, shape[:-2])])
    size = np.linalg.norm(x.astype("f8"), axis=-1).prod(-1)  # the determinant is not above it (Hadamard)
    error = np.abs(vtakit.compile(proto).run({"x": x})["y"] - np.linalg.det(x.astype("f8")))
    assert (error <= shape[-1] * np.finfo(kind).eps * size).all()
    x[..., -1, :] = 0
    assert not vtakit.compile(proto).run({"x": x})["y"].any()


@pytest.mark.parametrize(("shape", "words"), [
    ((2, 3, 8, 9), {"kernel_shape": [2, 3], "strides": [2, 3]}),
    ((1, 2, 9), {"kernel_shape": [3], "strides": [2], "pads": [0, 0]}),
    ((1, 1, 6, 6), {"kernel_shape": [2, 2], "strides": [2, 2]}),
])
def test_places_of_the_greatest_are_filled_again(shape, words):
    x = some(*shape)
    nodes = [node("MaxPool", ["x"], ["p", "i"], **words), node("MaxUnpool", ["p", "i"], ["y"], **words)]
    compare(model(nodes, [("x", "f4", shape)], [("y", "f4", ["?"] * len(shape))], opset=17), {"x": x}, ort)


@pytest.mark.parametrize(("shape", "words", "wanted"), [
    ((2, 3, 8, 9), {"kernel_shape": [2, 3], "strides": [2, 3]}, (2, 3, 8, 9)),
    ((1, 1, 4, 6), {"kernel_shape": [2, 2], "strides": [2, 2]}, (1, 1, 5, 8)),
    ((1, 2, 9), {"kernel_shape": [3], "strides": [3]}, (1, 2, 11)),
])
def test_places_of_the_greatest_are_filled_in_a_greater_result(shape, words, wanted):
    """Places are those of the result without `output_shape`, as in ONNX's reference; in onnxruntime those of `wanted`."""
    x = some(*shape)
    nodes = [node("MaxPool", ["x"], ["p", "i"], **words), node("MaxUnpool", ["p", "i", "s"], ["y"], **words)]
    proto = model(nodes, [("x", "f4", shape)], [("y", "f4", wanted)], {"s": np.array(wanted)}, opset=17)
    compare(proto, {"x": x}, reference)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [-2, 1, -1])
def test_updates_of_a_cache(mode, axis):
    cache, update = some(3, 6, 7, 5), some(3, 6, 7, 5).take(range(3), axis)
    given = {"c": cache, "u": update, "p": np.array([0, 1, 2] if mode == "linear" else [0, 3, 5])}
    compare(one("TensorScatter", given, [("y", "f4", cache.shape)], opset=24, mode=mode, axis=axis), given, reference)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("low", "high", "skip"), [(1, 1, 0), (1, 2, 0), (2, 2, 3), (1, 3, 2), (3, 3, 1)])
def test_runs_of_numbers(mode, low, high, skip):
    pool = [1, 2, 3, 1, 2, 3, 1, 2, 2, 1, 1, 3, 3, 2, 1]
    words = {"ngram_counts": [0, 3, 9], "ngram_indexes": [6, 0, 1, 2, 4, 3, 5, 7],
             "weights": [0.5, 2.0, 1.0, 3.0, 1.5, 0.25, 4.0, 1.0], "pool_int64s": pool,
             "min_gram_length": low, "max_gram_length": high, "max_skip_count": skip, "mode": mode}
    for shape in ((4, 11), (9,)):
        given = {"x": RNG.integers(1, 4, shape)}
        compare(one("TfIdfVectorizer", given, [("y", "f4", [*shape[:-1], 8])], opset=17, **words), given, ort)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("outside", [0, 1])
def test_images_made_smaller_through_a_filter(mode, coordinates, outside):
    x = some(1, 2, 13, 12)
    proto = model(
        [node("Resize", ["x", "", "", "s"], ["y"], mode=mode, antialias=1, coordinate_transformation_mode=coordinates,
              exclude_outside=outside)],
        [("x", "f4", x.shape)], [("y", "f4", [1, 2, 5, 7])], {"s": np.array([1, 2, 5, 7])}, opset=19)
    compare(proto, {"x": x}, reference, 1e-4)


def test_batch_statistics_in_training():
    x = some(3, 4, 5, 6)
    given = {"x": x, "s": some(4), "b": some(4), "m": some(4), "v": RNG.random(4).astype("f4")}
    proto = one("BatchNormalization", given, [("y", "f4", x.shape), ("rm", "f4", [4]), ("rv", "f4", [4])], opset=15,
                training_mode=1, momentum=0.8)
    compare(proto, given, reference, 1e-4)


def philox(counter, key):
    """Philox4x32-10 as its paper writes it."""
    for _ in range(10):
        (high0, low0), (high1, low1) = divmod(0xD2511F53 * counter[0], 2**32), divmod(0xCD9E8D57 * counter[2], 2**32)
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return counter


def test_the_generator_has_the_words_of_its_paper():
    """Known answers of Philox4x32-10 that its authors publish."""
    full, digits = 2**32 - 1, [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox([full] * 4, [full] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert philox(digits, [0xA4093822, 0x299F31D0]) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def test_the_generator_is_that_of_its_paper():
    """Random counters and seeds of 64 bits."""
    def at(counter, seed):
        place = te.placeholder((1,), "uint64", "c")
        outs = [te.compute((1,), lambda i, part=part: words(place(i), seed)[part]) for part in range(4)]
        function = lower(te.create_schedule([out.op for out in outs]), [place, *outs], "words")
        arrays = [np.zeros(1, "u8") for _ in outs]
        interpret(function, [np.array([counter], "u8"), *arrays])
        return [int(each[0]) for each in arrays]
    assert at(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    draws = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, *map(int, RNG.integers(0, 2**64, 5, np.uint64))]
    for counter in draws:
        for seed in draws[::2]:
            assert at(counter, seed) == philox([counter % 2**32, counter >> 32, 0, 0], [seed % 2**32, seed >> 32])


def drawn(op, shape=(200, 300), kind=TensorProto.FLOAT, **words):
    graph = helper.make_graph([node(op, [], ["y"], "drawn", shape=shape, dtype=kind, **words)], "net", [],
                              [helper.make_tensor_value_info("y", kind, shape)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return vtakit.compile(proto).run({})["y"]


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_uniform_numbers(kind):
    y = drawn("RandomUniform", kind=kind, seed=3.0, low=-2.0, high=4.0).astype("f8")
    assert -2 <= y.min() < -1.99 < 3.99 < y.max() <= 4
    counts = np.histogram(y, 60, (-2, 4))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 110  # chi squared of 59 degrees: 1 of 10,000 seeds is beyond
    assert np.abs(np.corrcoef(y[:-1].ravel(), y[1:].ravel())[0, 1]) < 0.02


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_normal_numbers(kind):
    y = drawn("RandomNormal", kind=kind, seed=4.0, mean=1.0, scale=2.0).ravel().astype("f8")
    z = np.sort((y - 1) / 2)
    assert abs(z.mean()) < 0.02
    assert abs(z.std() - 1) < 0.02
    cdf = np.array([NormalDist().cdf(e) for e in z[::50]])
    places = (np.arange(0, len(z), 50) + 0.5) / len(z)
    assert np.abs(cdf - places).max() < 1.95 / len(z) ** 0.5  # Kolmogorov: 1 of 1,000 is beyond


def test_seeds_decide():
    first, again, other = (drawn("RandomUniform", seed=seed) for seed in (1.0, 1.0, 2.0))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.99
    nodes = [node("RandomNormalLike", ["x"], [name], name) for name in ("a", "b")]
    module = vtakit.compile(model(nodes, [("x", "f4", [50])], [("a", "f4", [50]), ("b", "f4", [50])]))
    x = np.zeros(50, "f4")
    found, later = module.run({"x": x}), module.run({"x": x})
    np.testing.assert_array_equal(found["a"], later["a"])  # without a seed, too
    assert (found["a"] != found["b"]).all()


def test_classes_as_often_as_their_probabilities_say():
    odds = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.0, 0.2, 0.1]])
    with np.errstate(divide="ignore"):
        x = np.log(odds).astype("f4") + 1
    proto = one("Multinomial", {"x": x}, [("y", "i8", [2, 8000])], opset=17, sample_size=8000, dtype=TensorProto.INT64, seed=5.0)
    y = vtakit.compile(proto).run({"x": x})["y"]
    for row, wanted in zip(y, odds, strict=True):
        assert np.abs(np.bincount(row, minlength=4) / 8000 - wanted).max() < 0.02
        assert not (np.bincount(row, minlength=4)[wanted == 0]).any()


@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
def test_bernoulli(kind):
    p = np.repeat(np.array([0.0, 0.2, 0.9, 1.0], kind)[:, None], 50_000, 1)
    y = vtakit.compile(one("Bernoulli", {"p": p}, [("y", kind, p.shape)], opset=22, seed=1.0)).run({"p": p})["y"].astype("f8")
    assert np.abs(y.mean(1) - p[:, 0]).max() < 0.02
    assert not y[0].any()
    assert y[3].all()


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-2.0, 4.0), (1.0, 1.5), (-1.0, 0.0), (-3.0, -1.0), (1000.0, 1001.0)])
def test_uniform_numbers_stay_below_their_end(kind, low, high):
    """Where a type has few numbers many are rounded to the end, or below the start, a number of each type here."""
    y = drawn("RandomUniform", (200, 1000), kind, seed=6.0, low=low, high=high).astype("f8")
    assert low <= y.min() <= y.max() < high or (kind == TensorProto.BFLOAT16 and low == 1000)


@pytest.mark.parametrize(("name", "kind"), [("float16", np.float16), ("float32", np.float32), ("float64", np.float64)])
def test_numbers_below_others(name, kind):
    tiny, least = np.finfo(kind).tiny, np.finfo(kind).smallest_subnormal
    few = np.array([1, 2, 0.5, 3, 0, -1, -0.5, tiny, least, -tiny], kind)
    for x in [*few, *RNG.standard_normal(50).astype(kind)]:
        assert _below(float(x), dtype(name)) == float(np.nextafter(x, kind(-np.inf)))
    assert _below(0.1, dtype("bfloat16")) == float.fromhex("0x1.98p-4")


def test_a_cut_transform_is_products_alone():
    """A transform of 4,096 elements is no product with a matrix of 4,096 rows."""
    x = some(1, 4096, 1)
    graph = import_model(one("DFT", {"x": x}, [("y", "f4", [1, 4096, 2])]))
    assert sum(each.op == "matmul" for each in graph.nodes) == 2
    assert max(array.size for array in graph.constants.values()) < 50_000
