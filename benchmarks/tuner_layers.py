"""Small layers whose spaces `tuner_truth.py` measures."""

from collections.abc import Callable
from typing import Any

from vtakit.compiler.graph.ir import Value

Net = Any  # tests/compiler/integer_nets.py

# Layers of the kinds that networks have, small enough that every candidate can be run.
LAYERS: dict[str, Callable[[Net], Value]] = {
    "conv3x3 5x5 32-32": lambda n: n.conv(n.input(1, 32, 5, 5), 32),
    "conv3x3 7x7 32-16": lambda n: n.conv(n.input(1, 32, 7, 7), 16),
    "conv3x3 9x9 16-32": lambda n: n.conv(n.input(1, 16, 9, 9), 32),
    "conv3x3 3x3 64-32": lambda n: n.conv(n.input(1, 64, 3, 3), 32),
    "conv3x3 3x3 96-32": lambda n: n.conv(n.input(1, 96, 3, 3), 32),
    "conv3x3 wide 3x14 32-16": lambda n: n.conv(n.input(1, 32, 3, 14), 16),
    "conv3x3/2 9x9 32-32": lambda n: n.conv(n.input(1, 32, 9, 9), 32, stride=2),
    "conv3x3 dilated 5x5 32-32": lambda n: n.conv(n.input(1, 32, 5, 5), 32, dilation=2),
    "conv5x5 5x5 32-16": lambda n: n.conv(n.input(1, 32, 5, 5), 16, 5),
    "conv1x1 7x7 64-64": lambda n: n.conv(n.input(1, 64, 7, 7), 64, 1),
    "conv1x1 13x13 32-32": lambda n: n.conv(n.input(1, 32, 13, 13), 32, 1),
    "conv1x1/2 14x14 32-64": lambda n: n.conv(n.input(1, 32, 14, 14), 64, 1, 2),
    "conv3x3+skip 5x5 32-32": lambda n: n.conv(n.input(1, 32, 5, 5), 32, skip=n.input(1, 32, 5, 5, name="y")),
    "conv1x1+skip 7x7 96-32": lambda n: n.conv(n.input(1, 96, 7, 7), 32, 1, skip=n.input(1, 32, 7, 7, name="y")),
    "deconv4x4/2 5x5 32-16": lambda n: n.deconv(n.input(1, 32, 5, 5), 16),
    "depthwise3x3 28x28 64": lambda n: n.conv(n.input(1, 64, 28, 28), 64, groups=64),
    "depthwise3x3/2 28x28 96": lambda n: n.conv(n.input(1, 96, 28, 28), 96, 3, 2, groups=96),
    "depthwise3x3 14x14 128": lambda n: n.conv(n.input(1, 128, 14, 14), 128, groups=128),
    "dense 256-256": lambda n: n.dense(n.input(1, 256), 256),
    "dense 384-128": lambda n: n.dense(n.input(1, 384), 128),
}
