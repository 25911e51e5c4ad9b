"""Convolutional networks for images: ResNets, MobileNets, the DQN of the Atari games, the generator of DCGAN."""

from vtakit.models.net import Net, Tensor

CLASSES = 1000  # of ImageNet
ACTIONS = 18  # of an Atari console


def resnet18(net: Net, x: Tensor) -> Tensor:
    return _resnet(net, x, (2, 2, 2, 2), bottleneck=False)


def resnet50(net: Net, x: Tensor) -> Tensor:
    return _resnet(net, x, (3, 4, 6, 3), bottleneck=True)


def mobilenet_v1(net: Net, x: Tensor) -> Tensor:
    """Howard et al., 2017: table 1, width 1."""
    x = _normed(net, x, 32, 3, "conv0", stride=2)
    outputs = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
    for number, channels in enumerate(outputs, 1):
        stride = 2 if number in (2, 4, 6, 12) else 1
        x = _normed(net, x, x.data.shape[1], 3, f"conv{number}.depthwise", stride=stride, groups=x.data.shape[1])
        x = _normed(net, x, channels, 1, f"conv{number}.pointwise")
    return _classified(net, x)


def mobilenet_v2(net: Net, x: Tensor) -> Tensor:
    """Sandler et al., 2018: table 2, width 1."""
    x = _normed(net, x, 32, 3, "conv0", stride=2, six=True)
    groups = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    number = 0
    for expansion, channels, repeats, first in groups:
        for at in range(repeats):
            number += 1
            x = _inverted_residual(net, x, channels, expansion, f"block{number}", stride=first if at == 0 else 1)
    return _classified(net, _normed(net, x, 1280, 1, "last", six=True))


def dqn(net: Net, x: Tensor) -> Tensor:
    """Mnih et al., Nature 2015: four frames to the value of each action."""
    for number, (channels, kernel, stride) in enumerate(((32, 8, 4), (64, 4, 2), (64, 3, 1)), 1):
        x = net.conv(x, channels, kernel, stride=stride, pad=0, bias=True, name=f"conv{number}")
        x = net.relu(x, name=f"relu{number}")
    x = net.relu(net.dense(net.flatten(x, name="flatten"), 512, name="fc1"), name="relu4")
    return net.dense(x, ACTIONS, name="fc2")


def dcgan(net: Net, x: Tensor) -> Tensor:
    """Radford et al., 2016, figure 1, with kernels of 4 as is usual since: 100 numbers to an image of 64x64 pixels."""
    x = net.reshape(net.dense(x, 1024 * 4 * 4, name="project"), (1024, 4, 4), name="reshape")
    x = net.relu(net.batch_norm(x, name="bn0"), name="relu0")
    for number, channels in enumerate((512, 256, 128), 1):
        x = net.conv_transpose(x, channels, 4, stride=2, pad=1, name=f"deconv{number}")
        x = net.relu(net.batch_norm(x, name=f"bn{number}"), name=f"relu{number}")
    return net.tanh(net.conv_transpose(x, 3, 4, stride=2, pad=1, bias=True, name="deconv4"), name="tanh")


def _resnet(net: Net, x: Tensor, blocks: tuple[int, ...], *, bottleneck: bool) -> Tensor:
    """He et al., 2016, table 1; a block with a stride has it in its 3x3 convolution, as torchvision does."""
    x = net.relu(net.batch_norm(net.conv(x, 64, 7, stride=2, name="conv1"), name="bn1"), name="relu")
    x = net.max_pool(x, 3, stride=2, pad=1, name="maxpool")
    for stage, count in enumerate(blocks, 1):
        for at in range(count):
            stride = 2 if stage > 1 and at == 0 else 1
            x = _residual(net, x, 64 << stage - 1, f"layer{stage}.{at}", stride, bottleneck=bottleneck)
    return _classified(net, x)


def _residual(net: Net, x: Tensor, channels: int, name: str, stride: int, *, bottleneck: bool) -> Tensor:
    outputs = 4 * channels if bottleneck else channels
    basic = ((channels, 3, stride), (channels, 3, 1))
    steps = ((channels, 1, 1), (channels, 3, stride), (outputs, 1, 1)) if bottleneck else basic
    y = x
    for number, (width, kernel, step) in enumerate(steps, 1):
        y = net.conv(y, width, kernel, stride=step, name=f"{name}.conv{number}")
        y = net.batch_norm(y, name=f"{name}.bn{number}")
        if number < len(steps):
            y = net.relu(y, name=f"{name}.relu{number}")
    if stride > 1 or x.data.shape[1] != outputs:
        x = net.conv(x, outputs, 1, stride=stride, name=f"{name}.downsample.0")
        x = net.batch_norm(x, name=f"{name}.downsample.1")
    return net.relu(net.add(y, x, name=f"{name}.add"), name=f"{name}.relu")


def _inverted_residual(net: Net, x: Tensor, channels: int, expansion: int, name: str, *, stride: int) -> Tensor:
    inputs = x.data.shape[1]
    y = x if expansion == 1 else _normed(net, x, inputs * expansion, 1, f"{name}.expand", six=True)
    y = _normed(net, y, inputs * expansion, 3, f"{name}.depthwise", stride=stride, groups=inputs * expansion, six=True)
    y = net.batch_norm(net.conv(y, channels, 1, name=f"{name}.project"), name=f"{name}.project.bn")
    return net.add(y, x, name=f"{name}.add") if stride == 1 and inputs == channels else y


def _normed(
    net: Net, x: Tensor, channels: int, kernel: int, name: str, *, stride: int = 1, groups: int = 1, six: bool = False
) -> Tensor:
    """A convolution, batch normalization, and a ReLU."""
    x = net.batch_norm(net.conv(x, channels, kernel, stride=stride, groups=groups, name=name), name=f"{name}.bn")
    return net.relu6(x, name=f"{name}.relu") if six else net.relu(x, name=f"{name}.relu")


def _classified(net: Net, x: Tensor) -> Tensor:
    x = net.flatten(net.global_average_pool(x, name="avgpool"), name="flatten")
    return net.dense(x, CLASSES, name="fc")
