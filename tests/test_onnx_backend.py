"""A sample of ONNX's own backend tests; `python tests/onnx_backend.py` runs all of them."""

import io
import unittest
from types import SimpleNamespace

import pytest
from onnx.backend.test import BackendTest, runner
from onnx_backend import PASSED, UNSUPPORTED, WRONG, Outcome, cases, outcome, page

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.frontend.errors import ModelError
from vtakit.runtime import onnx_backend
from vtakit.runtime.cpu.function import CheckError

SAMPLE = (
    "abs", "add_bcast", "add_uint8", "and_bcast4v3d", "argmax_keepdims_example_select_last_index",
    "averagepool_2d_ceil", "averagepool_2d_pads_count_include_pad", "basic_conv_with_padding", "batchnorm_example",
    "clip_default_min", "constantofshape_int_shape_zero", "conv_with_autopad_same", "convtranspose_output_shape",
    "cumsum_2d_axis_1", "depthtospace_crd_mode_example", "dequantizelinear_axis", "dropout_default_mask",
    "dynamicquantizelinear", "einsum_batch_matmul", "expand_dim_changed", "gather_2d_indices",
    "gather_elements_negative_indices", "gathernd_example_int32_batch_dim1", "gelu_tanh_1", "gemm_all_attributes",
    "globalaveragepool", "gridsample_bilinear", "group_normalization_example", "less_equal_bcast", "logsoftmax_axis_1",
    "lstm_with_peepholes", "matmul_bcast", "matmulinteger", "maxpool_2d_dilations",
    "maxpool_with_argmax_2d_precomputed_strides", "mod_mixed_sign_int8", "mvn", "onehot_negative_indices",
    "pow_types_float32_int64", "qlinearconv", "quantizelinear_axis", "reduce_l2_keep_dims_random",
    "reduce_sum_empty_set", "resize_upsample_sizes_nearest", "reversesequence_batch", "scatternd_add",
    "sce_mean_log_prob", "simple_rnn_with_initial_bias", "slice_neg_steps", "softmax_large_number",
    "split_variable_parts_2d_opset18", "top_k_negative_axis", "tril_out_neg", "unsqueeze_negative_axes",
    "where_long_example",
)


@pytest.fixture(scope="module")
def all_cases():
    return {case.name.removeprefix("test_"): case for case in cases([f"test_{name}" for name in SAMPLE])}


@pytest.mark.parametrize("name", SAMPLE)
def test_the_result_is_onnx_own(all_cases, name):
    found = outcome(all_cases[name])
    assert found.state == PASSED, found.why


def by_onnx():
    """Run the tests that ONNX's runner loads."""
    tests = BackendTest(onnx_backend, __name__).test_cases["OnnxBackendNodeModelTest"]
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(tests)
    return unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)


def test_the_backend_registers_with_onnxs_own_runner(all_cases, monkeypatch):
    """As other runtimes register theirs; a test fails there that has another result."""
    some = [all_cases[name] for name in ("abs", "add_bcast", "slice_neg_steps", "top_k_negative_axis")]
    monkeypatch.setattr(runner, "load_model_tests", lambda kind: some if kind == "node" else [])
    result = by_onnx()
    assert (result.testsRun - len(result.skipped), result.failures, result.errors) == (4, [], [])


@pytest.mark.parametrize("error", [CheckError("a store out of bounds"), CodegenError("no such instruction"), ModelError("no")])
@pytest.mark.parametrize("when", ["compile", "run"])
def test_an_error_is_no_refusal(all_cases, monkeypatch, error, when):
    """Only a model that needs what vtakit does not support is refused; errors of compiler and code are failures."""
    def fail(*args, **options):
        raise error

    made = SimpleNamespace(run=fail)
    monkeypatch.setattr(onnx_backend, "compile", fail if when == "compile" else lambda *args, **options: made)
    found = outcome(all_cases["abs"])
    assert (found.state, str(error) in found.why[0]) == (WRONG, True)
    monkeypatch.setattr(runner, "load_model_tests", lambda kind: [all_cases["abs"]] if kind == "node" else [])
    result = by_onnx()
    assert (len(result.failures) + len(result.errors)) == 1


def test_what_is_not_supported_is_refused():
    for name, words in (("test_regex_full_match_basic", "RegexFullMatch"), ("test_equal_string", "element type string"),
                        ("test_ai_onnx_ml_array_feature_extractor", "")):
        for case in cases([name]):
            found = outcome(case)
            assert (found.state, words in " ".join(found.why)) == (UNSUPPORTED if words else PASSED, True), found


def test_the_page_counts_the_tests_and_says_what_they_need():
    why = "Cast where input 3 ('x') of node 'n' has element type string; vtakit has float32"
    lacking = [Outcome("test_b", UNSUPPORTED, ("Unique",)), Outcome("test_c", UNSUPPORTED, ("Unique", why))]
    text = page([Outcome("test_a", PASSED), *lacking])
    assert "Of the 3 node tests" in text
    assert "1 pass, 2 are refused" in text
    assert "| Unique | 2 |" in text
    assert "| Cast where an input has element type string | 1 |" in text
    assert "**Unique**:\nb, c\n" in text
