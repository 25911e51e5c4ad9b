"""Random models with open sizes, shapes that data decide, branches, loops, scans and sequences, beside onnxruntime."""

import numpy as np
import onnxruntime
import pytest
from random_open_models import random_model

import vtakit

SEEDS = 12


def session(proto):
    """Return a session that takes the model as it is written."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(proto.SerializeToString(), options)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_models_agree_with_onnxruntime_before_and_after_a_file(seed, tmp_path):
    proto, sets = random_model(seed)
    module = vtakit.compile(proto, shapes=opened(sets[0]), cache=False)
    truth = session(proto)
    compare(module, truth, sets)
    path = tmp_path / "net.vtak"
    module.save(path)
    loaded = vtakit.load(path)
    compare(loaded, truth, sets)
    assert len(loaded.modules) == len(loaded.source.stored), "its runs take the code in the file"


def compare(module, truth, sets):
    """Compare results of a module with those of onnxruntime."""
    for inputs in sets:
        try:
            wanted = truth.run(None, inputs)
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail:  # a Pad of a value without elements, which it does not take
            continue
        made = module.run(inputs)
        for want, (name, got) in zip(wanted, made.items(), strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype), name
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=name)


def opened(inputs):
    return {name: tuple(vtakit.dim(f"{name}{at}") for at in range(array.ndim)) for name, array in inputs.items()}


def test_the_random_models_have_every_kind_of_stage():
    """Or the tests above would say little."""
    ops = set()
    for seed in range(SEEDS):
        graphs = [random_model(seed)[0].graph]
        while graphs:
            for node in graphs.pop().node:
                ops.add(node.op_type)
                graphs += [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    assert ops >= {"If", "Loop", "Scan", "NonZero", "Compress", "Range", "Tile", "SplitToSequence", "Slice", "TopK"}
