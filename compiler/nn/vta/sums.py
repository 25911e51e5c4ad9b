"""Schedule of sums of products: tiles of the result, chunks of their reduction, digits of their weights."""

from dataclasses import replace

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import MOST_COPIES, Target
from vtakit.compiler.intrin.tensor_intrin import TensorIntrin
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.nn.vta.arguments import whole
from vtakit.compiler.nn.vta.blocking import choose
from vtakit.compiler.nn.vta.cuts import CHUNK, Cut, Work
from vtakit.compiler.nn.vta.digits import DigitSums, place_digits
from vtakit.compiler.nn.vta.layer import Layer
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Tensor


def chosen(target: Target, work: Work, threads: int) -> Cut:
    """The cut that should be fastest and leaves room for as many virtual threads.

    Raises VtaError for more threads than buffers can have copies, and if no part of the operator fits.
    """
    count, most = whole("threads", threads, 1), MOST_COPIES // target.copies
    if count > most:
        raise VtaError(f"threads is {count}, and with copies={target.copies} of each one's buffers there can be {most}")
    return choose(replace(target, copies=target.copies * count), work)


def schedule_products(
    s: Schedule, layer: Layer, work: Work, window: Tensor, weights: Tensor, cut: Cut | None, threads: int | None,
    products: Tensor | None = None, before: tuple[DigitSums, ...] = (), *, inside: bool = False,
) -> None:
    """Schedule sums of products and what follows them by a cut: tiles of the result, chunks of their reduction.

    products : the sums of products where those that the epilogue begins with are others
    before   : sums with higher digits of the weights, with which the products begin
    inside   : leave out products with pads

    Raises VtaError for what is no cut, and where there are fewer tiles than threads.
    """
    tail = layer.tail
    if cut is None and threads is None:
        cut, threads = layer.decide(layer.stage(s))
    elif cut is None:
        cut = chosen(layer.target, work, 1 if threads is None else threads)
    if not isinstance(cut, Cut):
        raise VtaError(f"{tail.name}: the cut is {cut!r:.40} and must be a Cut of vtakit.compiler.nn.vta.cuts")
    out, blocks, inner, _ = tail.tile(s, (cut.images, cut.out_blocks, cut.rows, cut.columns), 1 if threads is None else threads)
    products = tail.sums if products is None else products
    if products is not tail.sums:
        pooled = s[tail.sums].op
        assert isinstance(pooled, ComputeOp)
        s[tail.sums].reorder(*pooled.reduce_axis, *pooled.axis)
        s[products].set_scope("acc")
        s[products].compute_at(out, inner)
    place_digits(s, before, out, inner)
    at_once = bool(before) and all(getattr(cut, name) >= getattr(work, name) for name in CHUNK)
    if at_once:  # all digits read the one chunk
        s[window].set_scope("inp")
        s[window].compute_at(out, inner)
    for made_of, by in (*((digit.sums, digit.weights) for digit in before), (products, weights)):
        last = _reduce_in_chunks(s[made_of], tail.target.gemm_inside if inside else tail.target.gemm, cut)
        if not at_once:
            read = s[s.cache_read(window, "inp", [made_of])] if before else s[window]
            read.set_scope("inp")
            read.compute_at(s[made_of], last)
        loaded = s[s.cache_read(by, "wgt", [made_of])]
        if cut.keep:
            loaded.compute_at(out, blocks)
        else:
            loaded.compute_at(s[made_of], last)
    if before and not at_once:
        s[window].compute_inline()


def _reduce_in_chunks(sums: Stage, gemm: TensorIntrin, cut: Cut) -> IterVar:
    """Split a reduction into chunks that an intrinsic takes, and return the innermost loop over chunks."""
    assert isinstance(sums.op, ComputeOp)
    c, dy, dx, kk = sums.op.reduce_axis
    co, ci = sums.split(c, cut.in_blocks)
    dyo, dyi = sums.split(dy, cut.kernel_rows)
    dxo, dxi = sums.split(dx, cut.kernel_columns)
    *outer, b, k = sums.op.axis
    sums.reorder(co, dyo, dxo, ci, dyi, dxi, *outer, b, k, kk)
    sums.tensorize(b, gemm)
    return dxo
