"""Half precision on a CPU: float16 and bfloat16, what a target computes in them, and how a module reports it."""

from functools import partial

from vtakit.compiler.codegen.llvm.kernels import amx
from vtakit.compiler.codegen.llvm.machines import machine_of
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.passes.half import Pays, pairs_pay
from vtakit.compiler.ir.dtypes import FLOAT32

_PANELS = ("dense_panels", "lstm_panels")
_PRODUCTS = (*_PANELS, "gemm", "matmul", "lstm", "gru", "rnn")
_NARROW = ("conv_packed", "depthwise_packed")
_CONVOLUTIONS = ("conv", "conv_blocked", "depthwise_blocked", "conv_winograd", "conv_transpose", "conv_transpose_blocked")


def narrowed(precision: str, target: Target, *, winograd: bool = True) -> Pays | None:
    """Return a predicate of the convolutions that a target computes in the precision; None if it computes none.

    With AMX tiles: all convolutions in bfloat16. With AVX512-BF16: those that are estimated faster. Else none.
    """
    if precision != "bfloat16":
        return None
    if amx.has(target, "gemm_bf16"):
        return lambda _: True
    return partial(pairs_pay, machine=machine_of(target), winograd=winograd) if target.has("avx512bf16") else None


def said_of(precision: str, target: Target, graph: Graph) -> str:
    """Return what a graph computes in another precision than float32, one line; "" in float32."""
    if precision == "float32":
        return ""
    done = sum(node.op in _NARROW and node.outputs[0].type.dtype is FLOAT32 for node in graph.nodes)
    left = sum(node.op in _CONVOLUTIONS for node in graph.nodes)
    products = [node for node in graph.nodes if node.op in _PRODUCTS]
    stored = sum(node.op in _PANELS and node.reads[1].type.dtype is not FLOAT32 for node in products)
    said = [f"weights of {stored} of {len(products)} products in {precision}, sums in float32"] if products else []
    tiles = amx.has(target, "gemm_bf16")
    if done or (tiles and precision == "bfloat16"):
        way = "tile registers (amx-bf16)" if tiles else "vdpbf16ps (avx512bf16)"
        said.insert(0, f"{done} of {done + left} convolutions and products in {precision}, sums in float32, by {way}")
    elif left or not products:
        said.append(f"{left} convolutions in float32, which is no slower here")
    return "; ".join(said)
