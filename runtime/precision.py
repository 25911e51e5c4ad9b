"""Precisions other than float32 for a CPU: which there are, what each means for a target, and what a module says of it."""

from vtakit.compiler.codegen.llvm import amx
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.ir.dtypes import FLOAT32

PRECISIONS = ("float32", "bfloat16", "float16")
_PANELS = ("dense_panels", "lstm_panels")
_PRODUCTS = (*_PANELS, "gemm", "matmul", "lstm", "gru", "rnn")
_CONVOLUTIONS = ("conv", "conv_blocked", "depthwise_blocked", "conv_winograd", "conv_transpose", "conv_transpose_blocked")


def check_precision(precision: str, *, on_accelerator: bool) -> None:
    """Raise CodegenError for a precision that there is not."""
    if precision not in PRECISIONS:
        raise CodegenError(f"precision {precision!r}: give one of {', '.join(map(repr, PRECISIONS))}")
    if on_accelerator and precision != PRECISIONS[0]:
        raise CodegenError(f"precision {precision!r} is for a CPU; the accelerator computes in integers")


def narrows_convolutions(precision: str, target: Target) -> bool:
    """Whether a target computes convolutions in the precision: bfloat16 by tile registers; elsewhere float32 is as fast or faster."""
    return precision == "bfloat16" and amx.has(target, "gemm_bf16")


def told(precision: str, target: Target, graph: Graph) -> str:
    """What a module's graph says first: a line that begins with "#" of another precision than float32, else ""."""
    if precision == PRECISIONS[0]:
        return ""
    products = [node for node in graph.nodes if node.op in _PRODUCTS]
    stored = sum(node.op in _PANELS and node.reads[1].type.dtype is not FLOAT32 for node in products)
    left = sum(node.op in _CONVOLUTIONS for node in graph.nodes)
    weights = f"weights of {stored} of {len(products)} products in {precision}, sums in float32"
    if not narrows_convolutions(precision, target):
        return f"# {weights}; {left} convolutions in float32, which 16 bits would not make faster on this target\n"
    done = sum(node.op in ("conv_packed", "depthwise_packed") and node.outputs[0].type.dtype is FLOAT32 for node in graph.nodes)
    more = f"; {weights}" if products else ""
    return (f"# {done} of {done + left} convolutions and products in {precision}, sums in float32, by tile registers "
            f"(amx-bf16){more}\n")
