"""Attention and rotary places, as onnxruntime's optimizers and model builders write them.

What a mask leaves out gets `mask_filter_value` added to its score (-10,000 if not given), as onnxruntime does it on CPUs; what is
to come, in causal attention, the least number.
"""

import numpy as np

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.frontend.onnx.operators.microsoft.quantized import DOMAIN
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.ir import Value


def _least(value: Value) -> float:
    kind = value.type.dtype
    if kind.code == "bfloat":
        return -float.fromhex("0x1.fep127")
    return float(np.finfo(numpy_dtype(kind)).min)


def heads(n: OnnxNode, x: Value, count: int) -> Value:
    """[B, S, H] as [B, heads, S, H / heads]."""
    batch, length, width = x.type.shape
    if not count or width % count:
        raise n.unsupported(f"of {count} heads and a width of {width}")
    return n.apply("transpose", n.apply("reshape", x, shape=(batch, length, count, width // count)), perm=(0, 2, 1, 3))


def joined(n: OnnxNode, x: Value) -> Value:
    """The inverse of `heads`."""
    batch, count, length, width = x.type.shape
    return n.apply("reshape", n.apply("transpose", x, perm=(0, 2, 1, 3)), shape=(batch, length, count * width))


def part(n: OnnxNode, x: Value, axis: int, start: int, end: int) -> Value:
    return n.apply("slice", x, starts=(start,), ends=(end,), axes=(axis,))


def attended(
    n: OnnxNode, q: Value, k: Value, v: Value, *, scale: float, bias: Value | None, causal: bool, window: int = -1,
    softcap: float = 0.0,
) -> Value:
    """``softmax(q @ k.T * scale + bias) @ v`` of [B, heads, S, width].

    window : how many places up to its own a query attends to, if it is causal; -1 for all
    """
    scores = n.apply("matmul", q, n.apply("transpose", k, perm=(0, 1, 3, 2)))
    scores = n.apply("mul", scores, n.like(scale, scores))
    if softcap:
        scores = n.apply("mul", n.apply("tanh", n.apply("mul", scores, n.like(1 / softcap, scores))), n.like(softcap, scores))
    if bias is not None:
        scores = n.apply("add", scores, bias)
    if causal:
        rows, columns = scores.type.shape[-2:]
        own = np.arange(rows)[:, None] + columns - rows
        off = np.arange(columns)[None] > own
        if window > 0:
            off |= np.arange(columns)[None] <= own - window
        scores = n.apply("where", n.value(off), n.like(_least(scores), scores), scores)
    return n.apply("matmul", n.apply("softmax", scores, axis=-1), v)


def _masked(n: OnnxNode, at: int, batch: int, rows: int, columns: int, like: Value) -> Value | None:
    """A mask as numbers to add to scores [batch, heads, rows, columns]; None if the operand is not given.

    [batch] or [2 * batch]                     : where keys end, and where they begin
    [batch, columns] or [batch, rows, columns] : 1 for what counts
    """
    if not n.has(at):
        return None
    shape, mask = n.shape(at), n[at]
    if shape in ((batch,), (2 * batch,)):
        places = n.value(np.arange(columns, dtype=np.int32).reshape(1, columns))
        ends = n.apply("reshape", n.apply("cast", part(n, mask, 0, 0, batch), to="int32"), shape=(batch, 1))
        kept = n.apply("less", places, ends)
        if shape == (2 * batch,):
            starts = n.apply("reshape", n.apply("cast", part(n, mask, 0, batch, 2 * batch), to="int32"), shape=(batch, 1))
            kept = n.apply("and", kept, n.apply("greater_or_equal", places, starts))
        kept = n.apply("reshape", kept, shape=(batch, 1, 1, columns))
    elif shape in ((batch, columns), (batch, rows, columns)):
        kept = n.apply("cast", mask, to="bool")
        kept = n.apply("reshape", kept, shape=(batch, 1, *((1, columns) if len(shape) == 2 else shape[1:])))
    else:
        raise n.unsupported(f"with a mask of the shape {list(shape)} for {batch} sequences of {columns} keys")
    filled = n.attr("mask_filter_value", -10000.0)
    return n.apply("where", kept, n.like(0, like), n.like(filled, like))


def _sum(n: OnnxNode, *values: Value | None) -> Value | None:
    given = [value for value in values if value is not None]
    total = given[0] if given else None
    for value in given[1:]:
        assert total is not None
        total = n.apply("add", total, value)
    return total


def _self_attention(n: OnnxNode, x: Value, *, mask: int, past: int, bias: int | None) -> list[Value | None]:
    """Attention of a sequence to itself, and the keys and values, of queries, keys and values [B, S, 3 H] in one.

    mask, past, bias : numbers of optional operands
    """
    n.reads("num_heads", "scale", "mask_filter_value", "unidirectional", "qkv_hidden_sizes", do_rotary=0, rotary_embedding_dim=0,
            past_present_share_buffer=0)
    count = int(n.required("num_heads"))
    batch, rows, width = x.type.shape
    sizes = n.attr("qkv_hidden_sizes") or (width // 3,) * 3
    ends = np.cumsum((0, *sizes)).tolist()
    q, k, v = (heads(n, part(n, x, 2, ends[at], ends[at + 1]), count) for at in range(3))
    if n.has(past):
        shape = n.shape(past)[1:]
        old = [n.apply("reshape", part(n, n[past], 0, at, at + 1), shape=shape) for at in range(2)]
        k, v = (n.apply("concat", each, new, axis=2) for each, new in zip(old, (k, v), strict=True))
    scale = n.attr("scale", 0.0) or (sizes[0] // count) ** -0.5
    extra = _sum(n, _masked(n, mask, batch, rows, k.type.shape[2], q), n.maybe(bias) if bias is not None else None)
    y = joined(n, attended(n, q, k, v, scale=scale, bias=extra, causal=bool(n.attr("unidirectional", 0))))
    if len(n.outputs) < 2 or not n.outputs[1]:
        return [y]
    return [y, n.apply("concat", *[n.apply("reshape", each, shape=(1, *each.type.shape)) for each in (k, v)], axis=0)]


@converts("Attention", domain=DOMAIN)
def attention(n: OnnxNode) -> list[Value | None]:
    x = n.apply("matmul", n[0], n[1])
    if n.has(2):
        x = n.apply("add", x, n[2])
    return _self_attention(n, x, mask=3, past=4, bias=5)


@converts("QAttention", domain=DOMAIN)
def quantized_attention(n: OnnxNode) -> list[Value | None]:
    """Attention whose operand and weights are integers.

    input, weight, bias, input_scale, weight_scale, mask, the two zero points, past
    """
    whole = n.apply("matmul_integer", n[0], n[1], n.maybe(6), n.maybe(7))
    x = n.apply("mul", n.apply("cast", whole, to=str(n.dtype(3))), n.apply("mul", n[3], n[4]))
    return _self_attention(n, n.apply("add", x, n[2]), mask=5, past=8, bias=None)


@converts("MultiHeadAttention", domain=DOMAIN)
def multi_head(n: OnnxNode) -> list[Value | None]:
    """query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value.

    query may hold all three, key the last two.
    """
    n.reads("num_heads", "scale", "mask_filter_value", "unidirectional")
    count = int(n.required("num_heads"))
    bias = n.maybe(3)

    def packed(x: Value, parts: int) -> list[Value]:
        batch, length, _, _, width = x.type.shape
        turned = n.apply("transpose", x, perm=(3, 0, 2, 1, 4))
        return [n.apply("reshape", part(n, turned, 0, at, at + 1), shape=(batch, count, length, width)) for at in range(parts)]
    if n.ndim(0) == 5:
        q, k, v = packed(n[0], 3)
    else:
        width = n.shape(0)[2]
        other = n.shape(2)[2] if n.has(2) and n.ndim(2) == 3 else width
        ends = (0, width, 2 * width, 2 * width + other)

        def moved(x: Value, at: int) -> Value:
            if len(x.type.shape) == 4:
                return x
            return heads(n, x if bias is None else n.apply("add", x, part(n, bias, 0, ends[at], ends[at + 1])), count)
        q = moved(n[0], 0)
        k, v = packed(n[1], 2) if n.ndim(1) == 5 else (moved(n[1], 1), moved(n[2], 2))
    if n.has(6):
        k, v = (n.apply("concat", n[at], new, axis=2) for at, new in ((6, k), (7, v)))
    batch, _, rows, width = q.type.shape
    extra = _sum(n, _masked(n, 4, batch, rows, k.type.shape[2], q), n.maybe(5))
    scale = n.attr("scale", 0.0) or width**-0.5
    y = attended(n, q, k, v, scale=scale, bias=extra, causal=bool(n.attr("unidirectional", 0)))
    return [joined(n, y), k, v]


def _turned(n: OnnxNode, x: Value, c: Value, s: Value, interleaved: bool) -> Value:
    """[B, heads, S, width] turned by angles whose cosines and sines broadcast to [B, heads, S, part / 2]."""
    *lead, width = x.type.shape
    half = c.type.shape[-1]
    whole = x if 2 * half == width else part(n, x, 3, 0, 2 * half)
    if interleaved:
        pairs = n.apply("reshape", whole, shape=(*lead, half, 2))
        a, b = (n.apply("reshape", part(n, pairs, 4, at, at + 1), shape=(*lead, half)) for at in range(2))
    else:
        a, b = part(n, whole, 3, 0, half), part(n, whole, 3, half, 2 * half)
    first = n.apply("sub", n.apply("mul", a, c), n.apply("mul", b, s))
    second = n.apply("add", n.apply("mul", b, c), n.apply("mul", a, s))
    if interleaved:
        made = [n.apply("reshape", each, shape=(*lead, half, 1)) for each in (first, second)]
        found = n.apply("reshape", n.apply("concat", *made, axis=4), shape=(*lead, 2 * half))
    else:
        found = n.apply("concat", first, second, axis=3)
    return found if 2 * half == width else n.apply("concat", found, part(n, x, 3, 2 * half, width), axis=3)


@converts("RotaryEmbedding", domain=DOMAIN)
def rotary(n: OnnxNode) -> Value:
    """x [B, S, H] or [B, heads, S, width], position_ids [1] (of the first) or [B, S], cosines and sines [places, width / 2]."""
    n.reads("num_heads", "interleaved", rotary_embedding_dim=(0, 2 * n.shape(2)[1]), is_packed_batching=0, scale=1.0)
    flat = n.ndim(0) == 3
    count = int(n.attr("num_heads", 0))
    if flat and not count:
        count = n.shape(0)[2] // (2 * n.shape(2)[1])
    x = heads(n, n[0], count) if flat else n[0]
    batch, _, length, _ = x.type.shape
    places = n[1]
    if places.type.size == 1 and batch * length > 1:
        after = np.arange(length, dtype=np.int64).reshape(1, length)
        places = n.apply("add", n.apply("reshape", places, shape=(1, 1)), n.value(after))
    tables = []
    for at in (2, 3):
        rows = n.apply("gather", n[at], places, axis=0)
        tables.append(n.apply("reshape", rows, shape=(rows.type.shape[0], 1, *rows.type.shape[1:])))
    y = _turned(n, x, tables[0], tables[1], interleaved=bool(n.attr("interleaved", 0)))
    return joined(n, y) if flat else y


@converts("GroupQueryAttention", domain=DOMAIN)
def group_query(n: OnnxNode) -> list[Value | None]:
    """Causal attention with fewer heads of keys and values, and rotary places; sequences are as long as their tensors say.

    query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos_cache, sin_cache. The last sequence's length is
    that of the past and the new keys, so that `seqlens_k`, which says so, is not read.
    """
    n.reads(
        "num_heads", "kv_num_heads", "scale", "softcap", "do_rotary", "rotary_interleaved", "local_window_size", causal=1,
        kv_cache_bit_width=0, k_quant_type="NONE", v_quant_type="NONE", smooth_softmax=(-1, 0), qk_output=0,
        sliding_window_cache=0, qk_norm_epsilon=n.attr("qk_norm_epsilon"),  # of norms whose operands are refused below
    )
    q_heads, kv_heads = int(n.required("num_heads")), int(n.required("kv_num_heads"))
    unread = [at for at in range(9, len(n)) if n.has(at)]
    if unread or not n.has(1):
        raise n.unsupported(f"with its operand {unread[0]}" if unread else "of queries, keys and values in one")
    q, k, v = heads(n, n[0], q_heads), heads(n, n[1], kv_heads), heads(n, n[2], kv_heads)
    batch, _, length, width = q.type.shape
    old = n.shape(3)[2] if n.has(3) else 0
    if old and batch > 1:
        raise n.unsupported("of several sequences with kept keys, which may be of different lengths")
    total = int(n.constant(6).reshape(-1)[0]) if n.has(6) else old + length
    if total != old + length:
        raise n.unsupported(f"of {total} keys where {old} are kept and {length} are new")
    if n.attr("do_rotary", 0):
        tables = [n.apply("reshape", part(n, n[at], 0, old, old + length), shape=(1, 1, length, n.shape(at)[1])) for at in (7, 8)]
        pairs = bool(n.attr("rotary_interleaved", 0))
        q, k = (_turned(n, each, tables[0], tables[1], interleaved=pairs) for each in (q, k))
    if old:
        k, v = (n.apply("concat", n[at], new, axis=2) for at, new in ((3, k), (4, v)))
    shared = q_heads // kv_heads

    def repeated(x: Value) -> Value:
        if shared == 1:
            return x
        apart = n.apply("reshape", x, shape=(batch, kv_heads, 1, total, width))
        each = n.apply("expand", apart, shape=(batch, kv_heads, shared, total, width))
        return n.apply("reshape", each, shape=(batch, q_heads, total, width))
    scale = n.attr("scale", 0.0) or width**-0.5
    y = attended(n, q, repeated(k), repeated(v), scale=scale, bias=None, causal=True, window=int(n.attr("local_window_size", -1)),
                 softcap=float(n.attr("softcap", 0.0)))
    return [joined(n, y), k, v]
