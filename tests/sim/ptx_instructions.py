"""Single instructions of PTX on many operands, one thread for each: what the tests compare with NumPy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from vtakit.sim.ptx import DeviceMemory, load

Array = np.ndarray[Any, Any]
REGISTERS = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}


def kernel(lines: Sequence[str], inputs: Sequence[Array], results: Sequence[Any], version: str = "8.6",
           target: str = "sm_90a") -> str:
    """PTX whose thread i loads %a0, %a1 … from element i of the inputs, runs the lines and stores %d0, %d1 …"""
    text = [f".version {version}", f".target {target}", ".address_size 64", ".visible .entry k("]
    arrays = [*inputs, *(np.zeros(0, each) for each in results)]
    text.append(",\n".join(f".param .u64 p{number}" for number in range(len(arrays))) + "\n) {")
    text.append(".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<40>; .reg .b64 %x<8>; .reg .b64 %rd<4>; .reg .b32 %t<4>;")
    for number, array in enumerate(inputs):
        text.append(f".reg .{REGISTERS[array.itemsize]} %a{number};")
    for number, kind in enumerate(results):
        text.append(f".reg .{REGISTERS[np.dtype(kind).itemsize]} %d{number};")
    text.append("mov.u32 %t0, %ctaid.x; mov.u32 %t1, %tid.x; mov.u32 %t2, %ntid.x; mad.lo.u32 %t3, %t0, %t2, %t1;")
    for number, array in enumerate(inputs):
        bits = 8 * array.itemsize
        text.append(f"ld.param.u64 %rd0, [p{number}]; mad.wide.u32 %rd0, %t3, {array.itemsize}, %rd0; "
                    f"ld.global.b{bits} %a{number}, [%rd0];")
    text += lines
    for number, kind in enumerate(results, len(inputs)):
        size = np.dtype(kind).itemsize
        text.append(f"ld.param.u64 %rd0, [p{number}]; mad.wide.u32 %rd0, %t3, {size}, %rd0; "
                    f"st.global.b{8 * size} [%rd0], %d{number - len(inputs)};")
    return "\n".join([*text, "ret;", "}"])


def run(lines: Sequence[str] | str, inputs: Sequence[Array], results: Sequence[Any], **options: Any) -> list[Array]:
    """Run lines for each element of the inputs; returns the results."""
    lines = [lines] if isinstance(lines, str) else lines
    count = len(inputs[0])
    assert count % 32 == 0
    memory = DeviceMemory()
    places = [memory.put(array) for array in inputs]
    outputs = [memory.allocate(count * np.dtype(each).itemsize) for each in results]
    load(kernel(lines, inputs, results)).launch("k", (count // 32,), (32,), [*places, *outputs], memory, **options)
    return [memory.read(at, count, each) for at, each in zip(outputs, results, strict=True)]


def integers(bits: int, seed: int, count: int = 256) -> Array:
    """Unsigned integers: edges first, then random ones of all magnitudes."""
    edges = [0, 1, 2, 3, (1 << bits) - 1, (1 << bits) - 2, 1 << (bits - 1), (1 << (bits - 1)) - 1, (1 << (bits - 1)) + 1, 5,
             bits, bits - 1]
    rng = np.random.default_rng(seed)
    values = [int(rng.integers(0, 1 << 62)) * 4 + int(rng.integers(0, 4)) >> int(rng.integers(0, 64)) for _ in range(count)]
    found = [(edges[i % len(edges)] if rng.random() < 0.35 else value) % (1 << bits) for i, value in enumerate(values)]
    rng.shuffle(found)
    return np.array(found, f"u{bits // 8}")


def floats(bits: int, seed: int, count: int = 256) -> Array:
    """Bits of float32 or float64: signed zeros, subnormal numbers, infinities, NaN, and random patterns and magnitudes."""
    kind = np.dtype(f"f{bits // 8}")
    info = np.finfo(kind)
    edges = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, info.tiny, -info.tiny, info.smallest_subnormal, info.max,
                      -info.max,
                      1 + info.eps, 0.5, 2.0, -1.5, 3.0, 255.5, -128.5, 2.0**31, 2.0**32, 2.0**63, -2.0**31, 0.49999997], kind)
    rng = np.random.default_rng(seed)
    found = np.where(rng.random(count) < 0.5, rng.standard_normal(count) * 10.0 ** rng.integers(-6, 6, count), 0).astype(kind)
    patterns = rng.integers(0, 1 << 63, count, dtype=np.uint64).astype(f"u{bits // 8}")
    patterns[::2] = found[::2].view(patterns.dtype)
    pick = rng.random(count) < 0.35
    patterns[pick] = rng.choice(edges, int(pick.sum())).view(patterns.dtype)
    return patterns


def signed(array: Array) -> list[int]:
    return [int(each) for each in array.view(f"i{array.itemsize}")]


def unsigned(array: Array) -> list[int]:
    return [int(each) for each in array]
