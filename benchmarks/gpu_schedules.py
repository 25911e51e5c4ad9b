"""Schedules that `gpu_suite.py` measures: written by hand, a few parameters each."""

from typing import Any

from vtakit import te

BX, BY, TX, TY = (te.thread_axis(tag) for tag in ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"))



def vector_add(n: Any, dtype: str = "float32", threads: int = 256, lanes: int = 1) -> Any:
    a, b = (te.placeholder((n,), dtype, name=name) for name in "AB")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    elements(s, c, threads, lanes)
    return s, [a, b, c]


def elements(s: Any, tensor: Any, threads: int = 256, lanes: int = 1) -> None:
    """Each thread computes `lanes` elements in a row."""
    axes = tensor.op.axis
    fused = axes[0] if len(axes) == 1 else s[tensor].fuse(*axes)
    if lanes > 1:
        fused, inner = s[tensor].split(fused, lanes)
        s[tensor].vectorize(inner)
    outer, inner = s[tensor].split(fused, threads)
    s[tensor].bind(outer, BX)
    s[tensor].bind(inner, TX)


def gemm(
    n: int, kind: str, into: str, tile: int, deep: int, threads: int, *, vector: int = 4, pad: int = 0, double: bool = False,
) -> Any:
    a, b = (te.placeholder((n, n), kind, name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k].astype(into) * b[k, j].astype(into), axis=k), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    sums: Any = local.op
    caches: list[Any] = [s.cache_read(tensor, "shared", [local]) for tensor in (a, b)]
    by, bx, yi, xi = s[c].tile(*c.op.axis, tile, tile)
    ty, yi = s[c].split(yi, nparts=threads)
    xo, xi = s[c].split(xi, 4)
    xo, tx = s[c].split(xo, threads)
    s[c].reorder(by, bx, xo, ty, tx, yi, xi)
    for axis, thread in ((by, BY), (bx, BX), (xo, te.thread_axis("vthread")), (ty, TY), (tx, TX)):
        s[c].bind(axis, thread)
    s[c].vectorize(xi)
    s[local].compute_at(s[c], tx)
    ko, ki = s[local].split(sums.reduce_axis[0], deep)
    s[local].reorder(ko, ki, *sums.axis)
    s[local].unroll(ki)
    for cache in caches:
        s[cache].compute_at(s[local], ko)
        if pad:
            s[cache].storage_align(cache.op.axis[0], 32, pad)
        if double:
            s[cache].double_buffer()
        fused = s[cache].fuse(*cache.op.axis)
        fused, lanes = s[cache].split(fused, vector)
        rest, inner = s[cache].split(fused, threads)
        _, outer = s[cache].split(rest, threads)
        s[cache].bind(outer, TY)
        s[cache].bind(inner, TX)
        if vector > 1:
            s[cache].vectorize(lanes)
    return s, [a, b, c]


def naive_gemm(n: int) -> Any:
    a, b = (te.placeholder((n, n), name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    by, bx, ty, tx = s[c].tile(*c.op.axis, 8, 32)
    for axis, thread in ((by, BY), (bx, BX), (ty, TY), (tx, TX)):
        s[c].bind(axis, thread)
    return s, [a, b, c]


def row_sums(rows: int, columns: int, threads: int, dtype: str = "float32") -> Any:
    a, k = te.placeholder((rows, columns), dtype, name="A"), te.reduce_axis((0, columns), name="k")
    b = te.compute((rows,), lambda i: te.sum(a[i, k].astype("float32"), axis=k), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(k, threads)
    s[b].bind(b.op.axis[0], BX)
    s[b].bind(inner, TX)
    return s, [a, b]


def softmax(rows: int, columns: int, threads: int = 256) -> Any:
    a = te.placeholder((rows, columns), name="A")
    k, m = te.reduce_axis((0, columns), name="k"), te.reduce_axis((0, columns), name="m")
    most = te.compute((rows,), lambda i: te.max(a[i, k], axis=k), name="most")
    power = te.compute((rows, columns), lambda i, j: te.exp(a[i, j] - most[i]), name="power")
    total = te.compute((rows,), lambda i: te.sum(power[i, m], axis=m), name="total")
    out = te.compute((rows, columns), lambda i, j: power[i, j] / total[i], name="out")
    s = te.create_schedule(out.op)
    _, inner = s[out].split(out.op.axis[1], threads)
    s[out].bind(out.op.axis[0], BX)
    s[out].bind(inner, TX)
    for stage, scope in ((total, "shared"), (power, "shared"), (most, "shared")):
        s[stage].set_scope(scope)
        s[stage].compute_at(s[out], out.op.axis[0])
    s[power].bind(s[power].split(power.op.axis[1], threads)[1], TX)
    for stage, axis in ((total, m), (most, k)):
        s[stage].bind(s[stage].split(axis, threads)[1], TX)
    return s, [a, out]
