"""Operands and attributes that operators do not take: one sentence each."""

import pytest
from support import raises

from vtakit import te
from vtakit.compiler.nn.operators import OPERATORS, Kind, OperatorError, find

F32, I32, BOOL = te.placeholder((2, 3), name="x"), te.placeholder((2, 3), "int32", "n"), te.placeholder((2, 3), "bool", "c")
IMAGE, KERNEL = te.placeholder((1, 4, 8, 8), name="image"), te.placeholder((6, 4, 3, 3), name="kernel")
SEQUENCE, VECTOR = te.placeholder((5, 2, 4), name="sequence"), te.placeholder((4,), name="vector")

WRONG = [
    ("add", (F32, I32), {}, "add: operands have types float32, int32: convert them to one with cast"),
    ("add", (F32, VECTOR), {}, "add: shapes (2, 3) and (4,) do not broadcast"),
    ("and", (F32, F32), {}, "and takes bool, got float32"),
    ("add", (BOOL, BOOL), {}, "add takes numbers, got bool"),
    ("exp", (I32,), {}, "exp takes floating-point numbers, got int32: convert them with cast"),
    ("cast", (F32,), {"to": "float32x4"}, "cast: float32x4 is no type of a tensor's elements"),
    ("gelu", (F32,), {"approximate": "fast"}, "gelu: approximate='fast': give 'none' or 'tanh'"),
    ("where", (F32, F32, F32), {}, "where takes a condition of bool, got float32"),
    ("clip", (F32, F32), {}, "clip: a bound has shape (2, 3): give one number"),
    ("reshape", (F32,), {"shape": (4, 2)}, "reshape: 6 elements of shape (2, 3) do not fill shape (4, 2)"),
    ("transpose", (F32,), {"perm": (0, 0)}, "transpose: [0, 0] is no order of the 2 dimensions"),
    ("concat", (F32, IMAGE), {"axis": 0}, "concat along axis 0: shapes (2, 3) and (1, 4, 8, 8) differ elsewhere"),
    ("split", (F32,), {"axis": 1, "sizes": (1, 1)}, "split: sizes [1, 1] do not add up to the 3 of axis 1"),
    ("slice", (F32,), {"starts": (0,), "ends": (2,), "steps": (0,)},
     "slice: starts [0], ends [2], axes [0] and steps [0]: give one of each for every axis, each axis once, and no step of 0"),
    ("pad", (VECTOR,), {"pads": (0, 0), "mode": "circular"},
     "pad: pads [0, 0] of mode 'circular': give two for each of 1 dimensions, and the mode constant, reflect, edge or wrap"),
    ("pad", (F32,), {"pads": (-3, 0, 0, 0)}, "pad: pads [-3, 0, 0, 0] leave less than nothing of shape (2, 3)"),
    ("reduce_sum", (F32,), {"axes": (2,)}, "reduce_sum: axis 2 of a tensor of 2 dimensions: give -2 to 1"),
    ("reduce_sum", (F32,), {"axes": (1, -1)}, "reduce_sum: axes [1, -1] name one twice"),
    ("argmax", (te.placeholder((2, 0)),), {"axis": 1}, "argmax: axis 1 of shape (2, 0) has no elements"),
    ("matmul", (F32, F32), {}, "matmul: rows of 3 in (2, 3) and columns of 2 in (2, 3) do not match"),
    ("matmul", (te.placeholder(()), F32), {}, "matmul: shapes () and (2, 3): a product of matrices takes no scalar, use mul"),
    ("gemm", (F32, VECTOR), {}, "gemm: shapes (2, 3) and (4,): give two matrices"),
    ("conv", (IMAGE, KERNEL), {"groups": 2},
     "conv: data of 4 channels and weights (6, 4, 3, 3) do not make 2 groups"),
    ("conv", (IMAGE, KERNEL), {"dilations": (4, 1)},
     "conv: a window of 3 with dilation 4 does not fit spatial dimension 0 of 8 with pads 0 and 0"),
    ("conv", (IMAGE, KERNEL), {"strides": (0, 1)}, "conv: strides [0, 1]: give 2 numbers, each at least 1"),
    ("conv", (IMAGE, F32), {}, "conv: data (1, 4, 8, 8) and weights (2, 3): each has two dimensions, then the spatial ones"),
    ("conv_transpose", (IMAGE, KERNEL), {}, "conv_transpose: data of 4 channels and weights (6, 4, 3, 3) do not make 1 groups"),
    ("max_pool", (IMAGE,), {"kernel_shape": (9, 9)},
     "max_pool: a window of 9 with dilation 1 does not fit spatial dimension 0 of 8 with pads 0 and 0"),
    ("max_pool", (F32,), {"kernel_shape": ()}, "max_pool takes data [N, C, D...], got shape (2, 3)"),
    ("gather", (F32, F32), {}, "gather takes indices of integers, got float32"),
    ("gather", (te.placeholder((0, 3)), I32), {}, "gather: axis 0 of shape (0, 3) has no elements to take"),
    ("top_k", (F32,), {"k": 4}, "top_k: 4 elements of the 3 along axis -1: give 0 to 3"),
    ("scatter_elements", (F32, I32, F32), {"reduction": "last"},
     "scatter_elements: reduction='last': give one of none, add, mul, max, min"),
    ("quantize_linear", (F32, VECTOR), {},
     "quantize_linear: a parameter of (4,) is neither one number nor the 3 of axis 1"),
    ("quantize_linear", (F32, te.placeholder(())), {"dtype": "int32"},
     "quantize_linear gives integers of 2, 4, 8 or 16 bits and floats of 4 or 8, not int32"),
    ("dequantize_linear", (F32, te.placeholder(())), {},
     "dequantize_linear takes integers, and floats of 8 or 4 bits, got float32"),
    ("batch_norm", (IMAGE, VECTOR, VECTOR, VECTOR, F32), {},
     "batch_norm: var of (2, 3) has not one number for each channel of (1, 4, 8, 8)"),
    ("layer_norm", (F32, VECTOR), {}, "layer_norm: shapes (2, 3) and (4,) do not broadcast"),
    ("resize", (F32,), {"sizes": (4, 6), "mode": "lanczos"}, "resize: mode='lanczos': give one of nearest, linear, cubic"),
    ("einsum", (F32, F32), {"equation": "ij,jk->ik"}, "einsum 'ij,jk->ik': axis 'j' is 3 in one operand and 2 in another"),
    ("einsum", (F32,), {"equation": "ij,jk"}, "einsum 'ij,jk' has 2 operands, but 1 tensors are given"),
    ("lstm", (SEQUENCE, SEQUENCE, SEQUENCE), {"direction": "both"},
     "lstm: direction='both': give forward, reverse or bidirectional"),
    ("rnn", (SEQUENCE, SEQUENCE, SEQUENCE), {},
     "rnn (forward): data (5, 2, 4), weights (5, 2, 4) and (5, 2, 4): give [T, B, I], [1, 1 * H, I] and [1, 1 * H, H]"),
    ("nll_loss", (F32, VECTOR), {}, "nll_loss: targets float32(4,) of scores (2, 3): give integers of shape (2,)"),
    ("relu", (te.placeholder((te.var("n"), 3), name="s"),), {},
     "tensor s: float32[n, 3] has a size that is not known: operators take tensors of fixed shapes"),
]


@pytest.mark.parametrize(("name", "operands", "attributes", "message"), WRONG)
def test_one_sentence(name, operands, attributes, message):
    with raises(OperatorError, message):
        find(name).define(*operands, **attributes)


def test_an_unknown_operator_is_met_with_the_nearest_name():
    with pytest.raises(OperatorError) as caught:
        find("sofmax")
    assert str(caught.value).startswith("'sofmax' is no operator: did you mean 'softmax'? Known: abs, acos, ")


def test_the_table_says_what_a_graph_must_know():
    assert find("conv").attributes == ("strides", "pads", "dilations", "groups", "fill")
    assert (find("conv").kind, find("add").kind, find("reduce_sum").kind) == (Kind.ANCHOR, Kind.INJECTIVE, Kind.REDUCTION)
    assert find("softmax").kind is Kind.OPAQUE
    ours = [each for each in OPERATORS.values() if each.define.__module__.startswith("vtakit.")]  # other tests register theirs
    assert [each.name for each in ours if not (each.define.__doc__ or "").strip()] == []
