"""Networks that are no classifiers, with the structure of those that are in use and few channels and pixels.

`build` makes one in float32 with random weights, `quantized` in int8.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import onnx

import vtakit
from vtakit.models.language import attention
from vtakit.models.net import Net, Tensor

Layers = Callable[[Net, Tensor], list[Tensor]]


class Structure(NamedTuple):
    """A network: its title, what adds its layers, and the shape of its input without the batch."""

    title: str
    layers: Layers
    shape: tuple[int, ...]



def unet(net: Net, x: Tensor) -> list[Tensor]:
    """Ronneberger et al., 2015, with pads: three levels down by pools, up by transposed convolutions, skips concatenated."""
    skips = []
    for level, width in enumerate((16, 32, 64)):
        x = _twice(net, x, width, f"down{level}")
        skips.append(x)
        x = net.max_pool(x, 2, stride=2, name=f"down{level}.pool")
    x = _twice(net, x, 128, "bottom")
    for level in (2, 1, 0):
        width = skips[level].data.shape[1]
        x = net.conv_transpose(x, width, 2, stride=2, pad=0, bias=True, name=f"up{level}.grow")
        x = _twice(net, net.concat(skips[level], x, name=f"up{level}.join"), width, f"up{level}")
    return [net.conv(x, 4, 1, bias=True, name="classes")]


def yolo(net: Net, x: Tensor) -> list[Tensor]:
    """YOLOv5's parts: SiLU, CSP blocks, SPPF, a path up and one down with nearest resizing, three heads with sigmoids."""
    x = _silu(net, x, 16, 3, "stem", stride=2)
    levels = []
    for level, width in enumerate((32, 64, 128)):
        x = _csp(net, _silu(net, x, width, 3, f"stage{level}", stride=2), width, f"stage{level}.csp")
        levels.append(x)
    levels[-1] = _sppf(net, x, 128, "sppf")
    up = _silu(net, levels[2], 64, 1, "lateral2")
    middle = _csp(net, net.concat(net.resize(up, 2, name="up2"), levels[1], name="join1"), 64, "top1", shortcut=False)
    low = _silu(net, middle, 32, 1, "lateral1")
    fine = _csp(net, net.concat(net.resize(low, 2, name="up1"), levels[0], name="join0"), 32, "top0", shortcut=False)
    down = net.concat(_silu(net, fine, 32, 3, "down0", stride=2), low, name="join2")
    middle = _csp(net, down, 64, "bottom1", shortcut=False)
    down = net.concat(_silu(net, middle, 64, 3, "down1", stride=2), up, name="join3")
    coarse = _csp(net, down, 128, "bottom2", shortcut=False)
    return [net.sigmoid(net.conv(each, 3 * (5 + 4), 1, bias=True, name=f"head{at}"), name=f"head{at}.sigmoid")
            for at, each in enumerate((fine, middle, coarse))]


def deeplab(net: Net, x: Tensor) -> list[Tensor]:
    """Chen et al., 2017: a residual network with a dilated last stage, pools of dilation 6, 12 and 18 and of the image."""
    x = _relu(net, x, 16, 3, "stem", stride=2)
    for stage, (width, stride, dilation) in enumerate(((32, 2, 1), (64, 2, 1), (64, 1, 2))):
        y = _relu(net, x, width, 3, f"stage{stage}.first", stride=stride, dilation=dilation)
        y = net.batch_norm(net.conv(y, width, 3, dilation=dilation, name=f"stage{stage}.second"), name=f"stage{stage}.norm")
        short = x if y.data.shape == x.data.shape else net.batch_norm(
            net.conv(x, width, 1, stride=stride, name=f"stage{stage}.short"), name=f"stage{stage}.short.norm")
        x = net.relu(net.add(y, short, name=f"stage{stage}.add"), name=f"stage{stage}.relu")
    parts = [_relu(net, x, 32, 1, "aspp1")]
    parts += [_relu(net, x, 32, 3, f"aspp{dilation}", dilation=dilation) for dilation in (6, 12, 18)]
    whole = net.relu(net.conv(net.global_average_pool(x, name="pool"), 32, 1, bias=True, name="pool.conv"), name="pool.relu")
    parts.append(net.bilinear(whole, x.data.shape[2], name="pool.resize"))
    x = _relu(net, net.concat(*parts, name="aspp"), 64, 1, "project")
    return [net.bilinear(net.conv(_relu(net, x, 64, 3, "last"), 5, 1, bias=True, name="classes"), 8, name="grown")]


def edsr(net: Net, x: Tensor) -> list[Tensor]:
    """Lim et al., 2017: residual blocks without normalization, a long residual, twice pixels from channels."""
    first = x = net.conv(x, 32, 3, bias=True, name="head")
    for at in range(3):
        y = net.relu(net.conv(x, 32, 3, bias=True, name=f"block{at}.conv1"), name=f"block{at}.relu")
        x = net.add(net.conv(y, 32, 3, bias=True, name=f"block{at}.conv2"), x, name=f"block{at}.add")
    x = net.add(net.conv(x, 32, 3, bias=True, name="body"), first, name="long")
    for at in range(2):
        x = net.depth_to_space(net.conv(x, 128, 3, bias=True, name=f"up{at}"), 2, name=f"up{at}.shuffle")
    return [net.conv(x, 3, 3, bias=True, name="tail")]


def vit(net: Net, x: Tensor, *, patch: int = 8, width: int = 192, heads: int = 3, blocks: int = 2) -> list[Tensor]:
    """Dosovitskiy et al., 2021, ViT-tiny (Touvron et al., 2021): pre-norm blocks, as PyTorch exports them; no class token."""
    x = net.conv(x, width, patch, stride=patch, pad=0, bias=True, name="patches")
    tokens = x.data.shape[2] * x.data.shape[3]
    x = net.transpose(net.reshape(x, (width, tokens), name="flat"), (0, 2, 1), name="tokens")
    x = net.add(x, net.first_rows(tokens, width, tokens, name="places"), name="placed")
    for number in range(blocks):
        x = _vit_block(net, x, heads, f"block{number}")
    x = net.layer_norm(x, name="norm")
    pooled = net.global_average_pool(net.transpose(x, (0, 2, 1), name="last"), name="pool")
    return [net.dense(net.flatten(pooled, name="vector"), 10, name="classes")]


def _vit_block(net: Net, x: Tensor, heads: int, name: str) -> Tensor:
    width = x.data.shape[2]
    joined = attention(net, net.layer_norm(x, name=f"{name}.norm1"), heads, name)
    x = net.add(net.dense(joined, width, name=f"{name}.output"), x, name=f"{name}.residual1")
    normal = net.layer_norm(x, name=f"{name}.norm2")
    wide = net.gelu(net.dense(normal, 4 * width, name=f"{name}.wide"), name=f"{name}.gelu")
    return net.add(net.dense(wide, width, name=f"{name}.narrow"), x, name=f"{name}.residual2")


def _twice(net: Net, x: Tensor, width: int, name: str) -> Tensor:
    return _relu(net, _relu(net, x, width, 3, f"{name}.conv1"), width, 3, f"{name}.conv2")


def _relu(net: Net, x: Tensor, width: int, kernel: int, name: str, *, stride: int = 1, dilation: int = 1) -> Tensor:
    x = net.conv(x, width, kernel, stride=stride, dilation=dilation, name=name)
    return net.relu(net.batch_norm(x, name=f"{name}.norm"), name=f"{name}.relu")


def _silu(net: Net, x: Tensor, width: int, kernel: int, name: str, *, stride: int = 1) -> Tensor:
    x = net.batch_norm(net.conv(x, width, kernel, stride=stride, name=name), name=f"{name}.norm")
    return net.mul(x, net.sigmoid(x, name=f"{name}.sigmoid"), name=f"{name}.silu")


def _csp(net: Net, x: Tensor, width: int, name: str, *, shortcut: bool = True) -> Tensor:
    """Two branches of half the channels, one with a bottleneck, concatenated."""
    y = _silu(net, x, width // 2, 1, f"{name}.one")
    z = _silu(net, _silu(net, y, width // 2, 1, f"{name}.narrow"), width // 2, 3, f"{name}.wide")
    y = net.add(z, y, name=f"{name}.add") if shortcut else z
    joined = net.concat(y, _silu(net, x, width // 2, 1, f"{name}.two"), name=f"{name}.join")
    return _silu(net, joined, width, 1, f"{name}.last")


def _sppf(net: Net, x: Tensor, width: int, name: str) -> Tensor:
    """Three max pools of 5 x 5, one after another, all concatenated."""
    parts = [_silu(net, x, width // 2, 1, f"{name}.first")]
    for at in range(3):
        parts.append(net.max_pool(parts[-1], 5, stride=1, pad=2, name=f"{name}.pool{at}"))
    return _silu(net, net.concat(*parts, name=f"{name}.join"), width, 1, f"{name}.last")


def tcn(net: Net, x: Tensor) -> list[Tensor]:
    """Bai et al., 2018: residual blocks of dilated convolutions of a signal."""
    x = _relu(net, x, 32, 3, "stem")
    for at in range(3):
        y = _relu(net, x, 32, 3, f"block{at}.first", dilation=2 << at)
        y = net.batch_norm(net.conv(y, 32, 3, dilation=2 << at, name=f"block{at}.second"), name=f"block{at}.norm")
        x = net.relu(net.add(y, x, name=f"block{at}.add"), name=f"block{at}.relu")
    return [net.conv(x, 10, 1, bias=True, name="classes")]


NETWORKS = {
    "unet": Structure("U-Net", unet, (3, 96, 96)),
    "yolo": Structure("detector as YOLOv5", yolo, (3, 96, 96)),
    "deeplab": Structure("DeepLab v3", deeplab, (3, 128, 128)),
    "edsr": Structure("EDSR, four times the size", edsr, (3, 48, 48)),
    "vit": Structure("ViT-tiny, two of its blocks", vit, (3, 64, 64)),
    "tcn": Structure("temporal convolutions", tcn, (16, 256)),
}


def samples(name: str, count: int = 2, seed: int = 1) -> np.ndarray:
    """Inputs with coarse and fine parts."""
    (channels, *sizes), rng = NETWORKS[name].shape, np.random.default_rng(seed)
    coarse = rng.standard_normal((count, channels, *[size // 8 for size in sizes]), np.float32)
    for axis in range(2, coarse.ndim):
        coarse = coarse.repeat(8, axis)
    return coarse + rng.standard_normal(coarse.shape, np.float32) / 2


def build(name: str, seed: int = 0) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A network in float32, and its outputs for `samples` of the seed."""
    net = Net(name, np.random.default_rng(seed))
    outputs = NETWORKS[name].layers(net, net.input("image", samples(name, 2, seed)))
    return net.model(outputs), {each.name: each.data for each in outputs}


def quantized(name: str, seed: int = 0) -> onnx.ModelProto:
    """The same in int8."""
    given = {"image": samples(name, 2, seed)}
    return vtakit.quantize(build(name, seed)[0], given, evaluation=given).model
