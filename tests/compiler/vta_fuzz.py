"""Random operators for the accelerator: shapes, configurations and epilogues, against NumPy.

    python tests/compiler/vta_fuzz.py [--seeds FIRST COUNT]
"""

import argparse
from collections.abc import Iterable
from typing import Any

import numpy as np
from support import SHAPES
from vta_support import BITS, build, execute, values, wrap

from vtakit import te
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.pool import Pool2d
from vtakit.compiler.nn.vta.transposed import TransposedConv2d
from vtakit.hw.isa.config import NAMED, VTAConfig

NAMED_SEEDS = 100_000
CONFIGS = [*NAMED.values()]


def random_config(rng: np.random.Generator) -> VTAConfig:
    """Any legal configuration whose elements have at most 256 values: every width, every depth that the fields allow."""
    while True:
        inp_width, wgt_width, acc_width, batch, block = SHAPES[rng.integers(len(SHAPES))]
        if batch + block <= 8 and block <= 4:
            break
    uop, acc, inp = (int(rng.integers(low, high)) for low, high in ((2, 14), (1, 12), (1, 13)))
    wgt = int(rng.integers(1, min(13, 32 - acc - max(acc, inp)) + 1))
    return VTAConfig(
        log_inp_width=inp_width, log_wgt_width=wgt_width, log_acc_width=acc_width, log_batch=batch, log_block=block,
        log_uop_buff_size=uop + 2, log_inp_buff_size=inp + batch + block + inp_width - 3,
        log_wgt_buff_size=wgt + 2 * block + wgt_width - 3, log_acc_buff_size=acc + batch + block + acc_width - 3,
    )


def conv_reference(conv: Conv2d, data: np.ndarray, weights: np.ndarray, given: dict[Any, np.ndarray]) -> np.ndarray:
    """The exact result of a convolution with its epilogue, in its layout: taps one by one."""
    cfg = conv.target.config
    n, _, h, w, b, k = data.shape
    outs, ins, kh, kw = weights.shape[:4]
    rows, columns, groups = conv.out_height, conv.out_width, conv.groups
    above, below, left, right = conv.pad
    padded = np.zeros((n, groups, ins, h + above + below, w + left + right, b, k), np.int64)
    padded[:, :, :, above:above + h, left:left + w] = data.reshape(n, groups, ins, h, w, b, k)
    grouped = weights.reshape(groups, outs // groups, ins, kh, kw, k, k)
    sums = np.zeros((n, groups, outs // groups, rows, columns, b, k), np.int64)
    for dy in range(kh):
        for dx in range(kw):
            y, x = dy * conv.dilation[0], dx * conv.dilation[1]
            part = padded[..., y:y + (rows - 1) * conv.stride[0] + 1:conv.stride[0],
                          x:x + (columns - 1) * conv.stride[1] + 1:conv.stride[1], :, :]
            sums += np.einsum("ngcyxbk,gocjk->ngoyxbj", part, grouped[..., dy, dx, :, :])
    return finish(conv.epilogue, sums.reshape(n, outs, rows, columns, b, k), given, cfg)


def finish(epilogue: Epilogue, x: np.ndarray, given: dict[Any, np.ndarray], cfg: VTAConfig) -> np.ndarray:
    """What an epilogue makes of accumulators [images, blocks, rows, columns, batch, block]; each step wraps."""
    def vector(of: Any) -> Any:
        if not isinstance(of, te.Tensor):
            return of
        return given[of][None, :, None, None] if of.ndim == 3 else given[of]
    bits = cfg.acc_bits
    x = wrap(x, bits)
    if epilogue.bias is not None:
        x = wrap(x + vector(epilogue.bias), bits)
    if epilogue.scale is not None:
        x = wrap(x * vector(epilogue.scale), bits)
    if epilogue.shift is not None:
        x = x >> vector(epilogue.shift)
    if epilogue.add is not None:
        x = wrap(x + given[epilogue.add], bits)
    if epilogue.low is not None:
        x = np.maximum(x, epilogue.low)
    if epilogue.high is not None:
        x = np.minimum(x, epilogue.high)
    return wrap(x, cfg.out_bits)


def random_epilogue(rng: np.random.Generator, target: Target, blocks: int, shape: tuple[int, ...]) -> Epilogue:
    """Any part of an epilogue may be there."""
    acc = target.dtype("acc")

    def vector(name: str) -> Any:
        return te.placeholder((blocks, *target.element("acc")), acc, name=name)

    def some() -> bool:
        return bool(rng.random() < 0.4)
    return Epilogue(
        bias=vector("bias") if some() else None,
        scale=vector("scale") if some() else int(rng.integers(1, 99)) if some() else None,
        shift=vector("shift") if some() else int(rng.integers(0, target.config.acc_bits)) if some() else None,
        add=te.placeholder(shape, target.dtype("out"), name="added") if some() and target.config.has_acc8 else None,
        low=int(rng.integers(-9, 2)) if some() else None, high=int(rng.integers(2, 9)) if some() else None,
    )


def random_conv(rng: np.random.Generator, target: Target) -> Conv2d:
    """A convolution of up to a few thousand steps."""
    batch, block = target.element("inp")

    def pick(*choices: int) -> int:
        return int(rng.choice(choices))
    kernel = pick(1, 1, 2, 3, 3, 5), pick(1, 1, 2, 3, 3, 5)
    stride, dilation = (pick(1, 1, 2, 3), pick(1, 1, 2, 3)), (pick(1, 1, 1, 2), pick(1, 1, 1, 2))
    pad = pick(0, 0, 1, 2), pick(0, 1, 2), pick(0, 0, 1, 2, 17), pick(0, 1, 2)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    height = int(rng.integers(max(1, reach[0] - pad[0] - pad[1]), reach[0] + 9))
    width = int(rng.integers(max(1, reach[1] - pad[2] - pad[3]), reach[1] + 9))
    groups, ins, outs, images = pick(1, 1, 1, 2, 3), pick(1, 1, 2, 3), pick(1, 2, 3), pick(1, 1, 2, 3)
    data = te.placeholder((images, groups * ins, height, width, batch, block), target.dtype("inp"), name="data")
    weights = te.placeholder((groups * outs, ins, *kernel, block, block), target.dtype("wgt"), name="weights")
    conv = Conv2d(target=target, data=data, weights=weights, stride=stride, dilation=dilation, pad=pad, groups=groups)
    shape = (images, groups * outs, conv.out_height, conv.out_width, batch, block)
    return Conv2d(target=target, data=data, weights=weights, stride=stride, dilation=dilation, pad=pad, groups=groups,
                  epilogue=random_epilogue(rng, target, groups * outs, shape))


def random_pool(rng: np.random.Generator, target: Target) -> Pool2d:
    """A pooling, or an operator on each value."""
    kernel = int(rng.choice([1, 2, 3])), int(rng.choice([1, 1, 2, 3]))
    stride = int(rng.choice([1, 2])), int(rng.choice([1, 2, 3]))
    if rng.random() < 0.3:
        kernel = (1, 1)
    pad = tuple(int(rng.integers(0, kernel[side // 2])) for side in range(4))
    height, width = (int(rng.integers(size, size + 8)) for size in kernel)
    batch, block = target.element("acc")
    images, blocks = int(rng.choice([1, 1, 2])), int(rng.choice([1, 2, 3]))
    data = te.placeholder((images, blocks, height, width, batch, block), target.dtype("out"), name="data")
    fields = {"target": target, "data": data, "kernel": kernel, "stride": stride, "pad": pad,
              "kind": str(rng.choice(["max", "sum"]))}
    plain = Pool2d(**fields)
    shape = (images, blocks, plain.out_height, plain.out_width, batch, block)
    return Pool2d(**fields, epilogue=random_epilogue(rng, target, blocks, shape))


def pool_reference(pool: Pool2d, given: dict[Any, np.ndarray]) -> np.ndarray:
    """The exact result of a pooling, window by window."""
    data, (above, _, left, _) = given[pool.data], pool.pad
    found = np.zeros((*data.shape[:2], pool.out_height, pool.out_width, *data.shape[4:]), np.int64)
    for y in range(pool.out_height):
        for x in range(pool.out_width):
            top, side = y * pool.stride[0] - above, x * pool.stride[1] - left
            part = data[:, :, max(top, 0):top + pool.kernel[0], max(side, 0):side + pool.kernel[1]]
            found[:, :, y, x] = part.max(axis=(2, 3)) if pool.kind == "max" else part.sum(axis=(2, 3))
    return finish(pool.epilogue, found, given, pool.target.config)


def random_transposed(rng: np.random.Generator, target: Target) -> TransposedConv2d:
    """A transposed convolution."""
    batch, block = target.element("inp")
    stride = int(rng.choice([1, 2, 2, 3])), int(rng.choice([1, 2, 3]))
    taps = int(rng.choice([1, 2, 3])), int(rng.choice([1, 2]))
    images, ins, outs = int(rng.choice([1, 1, 2])), int(rng.choice([1, 2])), int(rng.choice([1, 2, 3]))
    height, width = (int(size) for size in rng.integers(1, 6, 2))
    rows, columns = (int(rng.integers(1, size + 3)) * step for size, step in zip((height, width), stride, strict=True))
    data = te.placeholder((images, ins, height, width, batch, block), target.dtype("inp"), name="data")
    weights = te.placeholder((outs, ins, *stride, *taps, block, block), target.dtype("wgt"), name="weights")
    shape = (images, outs, rows // stride[0], stride[0], columns // stride[1], stride[1], batch, block)
    return TransposedConv2d(
        target=target, data=data, weights=weights, rows=rows, columns=columns,
        pad=(int(rng.integers(0, 4)), int(rng.integers(0, 4))), epilogue=random_epilogue(rng, target, outs, shape),
    )


def transposed_reference(conv: TransposedConv2d, given: dict[Any, np.ndarray]) -> np.ndarray:
    """The exact result of a transposed convolution: every input value added to what it meets."""
    data, weights, cfg = given[conv.data], given[conv.weights], conv.target.config
    images, _, height, width, b, k = data.shape
    outs, _, down, across, *taps = weights.shape[:6]
    size = [(count + tap) * step + more for count, tap, step, more in zip(
        (height, width), taps, (down, across), (conv.rows + conv.pad[0], conv.columns + conv.pad[1]), strict=True)]
    sums = np.zeros((images, outs, *size, b, k), np.int64)
    for py, px, ty, tx in np.ndindex(down, across, *taps):
        y, x = py + down * (taps[0] - 1 - ty), px + across * (taps[1] - 1 - tx)
        part = np.einsum("ncyxbk,ocjk->noyxbj", data, weights[:, :, py, px, ty, tx])
        sums[:, :, y:y + height * down:down, x:x + width * across:across] += part
    cut = sums[:, :, conv.pad[0]:conv.pad[0] + conv.rows, conv.pad[1]:conv.pad[1] + conv.columns]
    flat = {t: x.reshape(cut.shape) if t.ndim == 8 and t is not conv.weights else x for t, x in given.items()}
    return finish(conv.epilogue, cut, flat, cfg)


def data_for(rng: np.random.Generator, inputs: Iterable[Any]) -> dict[Any, np.ndarray]:
    """Values of every input; shifts are counts of bits."""
    return {t: values(rng, t, 0, BITS[str(t.dtype)] - 1) if t.name == "shift" else values(rng, t) for t in inputs}


def check(seed: int) -> str:
    """One random operator, in a named configuration or, from `NAMED_SEEDS` on, in any. Returns what it was.

    Raises AssertionError where it is not NumPy's.
    """
    rng = np.random.default_rng(seed)
    config = CONFIGS[seed % len(CONFIGS)] if seed < NAMED_SEEDS else random_config(rng)
    target = Target(config, copies=int(rng.choice([1, 2, 2, 3])))
    kinds = [random_conv, random_conv, random_transposed, *([random_pool] * target.config.has_acc8)]
    layer: Any = kinds[seed // len(CONFIGS) % len(kinds)](rng, target)
    schedule = te.create_schedule(layer.result.op)
    try:
        layer.schedule(schedule)
    except VtaError as error:
        if "fit" in str(error):
            return f"seed {seed}: {type(layer).__name__} does not fit: {error}"
        raise
    program = build(schedule, [*layer.inputs, layer.result], target)
    given = data_for(rng, layer.inputs)
    if isinstance(layer, Conv2d):
        want = conv_reference(layer, given[layer.data], given[layer.weights], given)
    else:
        want = pool_reference(layer, given) if isinstance(layer, Pool2d) else transposed_reference(layer, given)
    for order in ("program", "eager", "lazy", *range(20)) if seed % 10 == 0 else ("program", seed):
        got = execute(program, given, layer.result, order=order).reshape(want.shape)
        assert np.array_equal(got, want), f"seed {seed}, order {order}: {int((got != want).sum())} of {want.size} values differ"
    return f"seed {seed}: {type(layer).__name__}, {len(program.insns)} instructions"


def main() -> None:
    """Run a range of seeds and print those that fail."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 100), metavar=("FIRST", "COUNT"))
    first, count = parser.parse_args().seeds
    failed, refused = [], []
    for seed in range(first, first + count):
        try:
            text = check(seed)
            if "does not fit" in text:
                refused.append(text)
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:3000]}", flush=True)
    print(*refused, f"{count} seeds from {first}, {len(refused)} do not fit, failed: {failed}", sep="\n")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
