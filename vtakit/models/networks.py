"""The networks by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vtakit.base.errors import VtakitError, one_of
from vtakit.models.language import LENGTH, STEPS, TOKENS, WORDS, bert_mini, language_model
from vtakit.models.net import Net, Tensor
from vtakit.models.numeric import Array
from vtakit.models.vision import dcgan, dqn, mobilenet_v1, mobilenet_v2, resnet18, resnet50

if TYPE_CHECKING:
    import onnx

_SMALLEST = 32  # of an image's sides: all strides of a network for images together
_STATISTICS = (  # arrays of a model that nobody trains
    "running_mean", "running_var", "shape", "direction", "low", "high", "start", "end", "axis", "root", "one", "half", "factor",
    "scales")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network.

    title    : for people
    input    : the name of the input
    sample   : (rng, batch, size) -> values that the input may have
    layers   : adds the layers to a `Net`; what it returns is the output
    images   : how many samples batch statistics are taken over
    size     : pixels of a side that the network was published with
    resizable: whether other sizes do
    """

    title: str
    input: str
    sample: Callable[[np.random.Generator, int, int], Array]
    layers: Callable[[Net, Tensor], Tensor]
    images: int = 2
    size: int = 224
    resizable: bool = True


def _images(rng: np.random.Generator, batch: int, size: int) -> Array:
    """Images with mean 0 and variance 1 that have coarse and fine parts, as those of the world have."""
    made = np.zeros((batch, 3, size, size), np.float32)
    for cell in (32, 8, 1):
        cells = -(-size // cell)
        made += rng.standard_normal((batch, 3, cells, cells), np.float32).repeat(cell, 2).repeat(cell, 3)[:, :, :size, :size]
    return made / np.float32(np.sqrt(3))


def _frames(rng: np.random.Generator, batch: int, size: int) -> Array:
    return rng.random((batch, 4, size, size), np.float32)


def _noise(rng: np.random.Generator, batch: int, _: int) -> Array:
    return rng.standard_normal((batch, 100), np.float32)


def _words(rng: np.random.Generator, batch: int, _: int) -> Array:
    return rng.integers(0, WORDS, (batch, STEPS), np.int64)


def _tokens(rng: np.random.Generator, batch: int, _: int) -> Array:
    return rng.integers(0, TOKENS, (batch, LENGTH), np.int64)


NETWORKS = {
    "resnet18": Network(title="ResNet-18", input="image", sample=_images, layers=resnet18),
    "resnet50": Network(title="ResNet-50", input="image", sample=_images, layers=resnet50),
    "mobilenet_v1": Network(title="MobileNet v1", input="image", sample=_images, layers=mobilenet_v1),
    "mobilenet_v2": Network(title="MobileNet v2", input="image", sample=_images, layers=mobilenet_v2),
    "dqn": Network(title="DQN", input="frames", sample=_frames, layers=dqn, size=84, resizable=False),
    "dcgan": Network(
        title="generator of DCGAN", input="noise", sample=_noise, layers=dcgan, images=8, size=0, resizable=False,
    ),
    "lstm": Network(
        title="LSTM language model", input="words", sample=_words, layers=language_model, images=1, size=0, resizable=False,
    ),
    "bert_mini": Network(
        title="BERT-Mini", input="tokens", sample=_tokens, layers=bert_mini, images=1, size=0, resizable=False,
    ),
}


def find(name: str) -> Network:
    """The network of a name. Raises VtakitError with the nearest for an unknown one."""
    if name not in NETWORKS:
        raise VtakitError(f"{name!r} is no network of vtakit.models; {one_of(NETWORKS, name)}")
    return NETWORKS[name]


def build(name: str, *, size: int | None = None, seed: int = 0) -> "onnx.ModelProto":
    """A network as an ONNX model with a symbolic batch, weights He-initialised by `seed`.

    size : pixels of a side of the images; the published one by default. The weights do not depend on it: batch normalizations
           have the statistics of random images of the published size

    Raises VtakitError for an unknown network, or a size that it does not have.
    """
    network = find(name)
    wanted = _size(name, network, size)
    net = Net(name, np.random.default_rng(seed))
    x = net.input(network.input, network.sample(net.rng, network.images, network.size))
    return net.model(network.layers(net, x), (*x.data.shape[1:-2], wanted, wanted) if network.resizable else None)


def inputs(name: str, batch: int = 1, *, size: int | None = None, seed: int = 1) -> dict[str, Array]:
    """Random inputs of a network, by name. Raises VtakitError as `build` does."""
    network = find(name)
    if batch < 1:
        raise VtakitError(f"inputs({name!r}, batch={batch}): a batch has at least 1 element")
    return {network.input: network.sample(np.random.default_rng(seed), batch, _size(name, network, size))}


def parameter_count(model: "onnx.ModelProto") -> int:
    """The numbers of a model that `build` made that training would change."""
    found = {tensor.name: int(np.prod(tensor.dims)) for tensor in model.graph.initializer}
    return sum(count for word, count in found.items() if word.rpartition(".")[2] not in _STATISTICS)


def _size(name: str, network: Network, size: int | None) -> int:
    if size is None or size == network.size:
        return network.size
    if not network.resizable:
        raise VtakitError(f"network {name!r} has inputs of one size only: leave size out")
    if size < _SMALLEST:
        raise VtakitError(f"network {name!r} takes images of {_SMALLEST} pixels a side or more, not {size}")
    return size
