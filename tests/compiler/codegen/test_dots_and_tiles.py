"""Calls of dot products and of sums in tile registers that do not fit: what is wrong is said, and what would work."""

import re

import pytest
from codegen_cases import LEVELS, buffer

from vtakit.compiler.codegen.llvm.compile import compile_for
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import effect

A, B, C = buffer("A", 4096, kind="uint8"), buffer("B", 4096, kind="int8"), buffer("C", 4096, kind="int32")
SUMS = buffer("S", 1024, kind="int32", scope="amx.tile")
N = ir.Var("n", size=True)
POINTERS = (A.access_ptr("r"), B.access_ptr("r"))
W = buffer("W", 4096, kind="uint32")
BITS = W.access_ptr("r"), W.access_ptr("r"), C.access_ptr("rw")
HELD = SUMS.access_ptr("rw")


@pytest.mark.parametrize(("call", "says"), [
    (effect("dot_u8s8s32", *POINTERS, C.access_ptr("rw"), 16, 1), "dot_u8s8s32 takes a, b, c, n, steps, ldb"),
    (effect("dot_u8s8s32", *POINTERS, C.access_ptr("rw"), 0, 1, 64), "n and steps are constants of at least 1"),
    (effect("dot_bf16", *POINTERS, C.access_ptr("rw"), 16, N, 64), "n and steps are constants of at least 1"),
    (effect("dot_bits", "bipolar", *BITS, 16, 1, 2, 1, 64), "dot_bits takes encoding, a, b for each word of a digit, c, n"),
    (effect("dot_bits", "ternary", *BITS, 16, 1, 2, 1, 64, 64), "dot_bits takes encoding, a, b for each word of a digit, c, n"),
    (effect("dot_bits", "binary", *BITS, 16, 1, 2, 1, 64, 64), "the encodings are unipolar, bipolar, ternary, signed"),
    (effect("dot_bits", "bipolar", *BITS, 16, N, 2, 1, 64, 64), "n to digits are constants of at least 1"),
    (effect("dot_bits", "bipolar", *BITS, 16, 1, 9, 1, 64, 64), "planes and digits at most 8"),
    (effect("pack_bits", A.access_ptr("r"), W.access_ptr("w"), 32, 2), "pack_bits takes x, w, channels, planes, zero"),
    (effect("pack_bits", A.access_ptr("r"), W.access_ptr("w"), 33, 2, 0), "constants, 1 to 32 channels, 1 to 8 planes"),
    (effect("pack_bits", A.access_ptr("r"), W.access_ptr("w"), N, 2, 0), "constants, 1 to 32 channels, 1 to 8 planes"),
    (effect("pack_bits", A.access_ptr("r"), W.access_ptr("w"), 32, 2, 256), "and 0 to 255"),
    (effect("tiles_zero", HELD, 1, 16, 16), "has 4 arguments: tiles_zero takes c, runs, m, n, steps"),
    (effect("tiles_zero", HELD, 1, N, 16, 16), "the counts of tiles_zero must be constants of at least 1"),
    (effect("tiles_zero", C.access_ptr("rw"), 1, 16, 16, 16), "must be in a buffer of the scope amx.tile"),
    (effect("tiles_zero", SUMS.access_ptr("rw", offset=8), 1, 16, 16, 16), "at a constant place: unroll the loop over runs"),
    (effect("tiles_zero", SUMS.access_ptr("rw", offset=N), 1, 16, 16, 16), "at a constant place: unroll the loop over runs"),
    (effect("tiles_zero", HELD, 2, 32, 32, 16), "2 runs of 32 x 32 sums by 16 steps do not fit the tile registers"),
    (effect("tiles_u8s8s32", *POINTERS, HELD, 2, 16, 32, 17, 64, 128), "by 17 steps do not fit the tile registers"),
    (effect("tiles_store", HELD, C.access_ptr("w"), 1, 16, 16), "tiles_store takes c, d, runs, m, n, steps, ldd"),
])
def test_what_does_not_fit(call, says):
    body = st.Allocate(SUMS, st.Evaluate(call))
    with pytest.raises(CodegenError, match=re.escape(says)):
        compile_for(st.Function("wrong", (A, B, C, W, N), body), LEVELS["amx"])
