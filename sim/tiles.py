"""The inner tile product of the compiled simulator, as vector code that LLVM turns into the CPU's dot-product instruction.

A weight tile is kept as int16 pairs `[in // 2][out][in % 2]`, so that one vector holds two inputs' weights for every output
and the sum of the two products is what pmaddwd, vpdpwssd or smlal pairs compute.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

VECTOR_BLOCKS = (4, 8, 16, 32, 64)  # the sizes for which `multiply_tile` has code


@intrinsic(prefer_literal=True)
def _tile(typing_context: Any, acc: Any, inp: Any, wgt: Any, block: Any) -> Any:
    """acc[o] += sum over i of inp[i] * wgt[i // 2][o][i % 2], wrapping in 32 bits; addresses, and a literal block."""
    lanes = block.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i16, i32 = ir.IntType(16), ir.IntType(32)
        sums, pairs, products = ir.VectorType(i32, lanes), ir.VectorType(i16, 2 * lanes), ir.VectorType(i32, 2 * lanes)
        even, odd = (ir.Constant(sums, list(range(first, 2 * lanes, 2))) for first in (0, 1))
        broadcast, undefined = ir.Constant(sums, [0] * lanes), ir.Constant(sums, ir.Undefined)
        acc_at = builder.inttoptr(args[0], sums.as_pointer())
        inp_at = builder.inttoptr(args[1], i32.as_pointer())
        wgt_at = builder.inttoptr(args[2], pairs.as_pointer())
        total = builder.load(acc_at, align=4)
        for pair in range(lanes // 2):
            at = [ir.Constant(i32, pair)]
            both = builder.load(builder.gep(inp_at, at), align=2)
            lane0 = builder.insert_element(undefined, both, ir.Constant(i32, 0))
            inputs = builder.bitcast(builder.shuffle_vector(lane0, undefined, broadcast), pairs)
            weights = builder.load(builder.gep(wgt_at, at), align=2)
            product = builder.mul(builder.sext(inputs, products), builder.sext(weights, products))
            first = builder.shuffle_vector(product, product, even)
            total = builder.add(total, builder.add(first, builder.shuffle_vector(product, product, odd)))
        builder.store(total, acc_at, align=4)
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, types.uintp, block), codegen


@njit(error_model="numpy")
def multiply_tile(acc: Any, inp: Any, wgt: Any, batch: int, block: int) -> None:
    """One element each at three addresses: acc += inp x transpose(wgt), wrapping in 32 bits; block is one of VECTOR_BLOCKS."""
    for row in range(batch):
        sums, values = np.uintp(acc + 4 * block * row), np.uintp(inp + 2 * block * row)
        if block == 16:
            _tile(sums, values, np.uintp(wgt), 16)
        elif block == 8:
            _tile(sums, values, np.uintp(wgt), 8)
        elif block == 32:
            _tile(sums, values, np.uintp(wgt), 32)
        elif block == 4:
            _tile(sums, values, np.uintp(wgt), 4)
        else:
            _tile(sums, values, np.uintp(wgt), 64)


@njit(error_model="numpy")
def multiply_any(acc: Any, inp: Any, wgt: Any, batch: int, block: int) -> None:
    """Add the product of one GEMM step for a block of any size, on slices of the scratchpads that hold one element each."""
    for row in range(batch):
        for out in range(block):
            total = np.int64(0)
            for at in range(block):
                weight = wgt[(at >> 1) * 2 * block + min(block, 2) * out + (at & 1)]
                total += np.int64(inp[row * block + at]) * np.int64(weight)
            acc[row * block + out] += np.int32(total)
