"""Parts of a network that a quantizer makes int8, and the operators that it takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Shapes = Mapping[str, tuple[int, ...]]

ANCHORS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
MOVES = (
    "MaxPool", "GlobalMaxPool", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Concat", "Resize", "Pad", "Slice",
    "Identity", "Dropout", "DepthToSpace", "SpaceToDepth",
)
FUNCTIONS = (  # of each element; of int8 numbers, tables of 256 entries
    "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Gelu", "Erf", "Elu", "Selu", "Celu", "LeakyRelu", "Softplus", "Softsign",
    "Mish", "Swish", "Exp", "Abs", "Neg", "Sqrt", "Pow", "Relu", "Clip", "Add", "Sub", "Mul", "Div",
)
COORDINATES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")


@dataclass(frozen=True, slots=True)
class Residual:
    """A sum that a layer ends in.

    anchor : the number of the node whose sums they are     acc : the layer's other operand     skip : the residual
    """

    anchor: int
    acc: str
    skip: str


@dataclass(slots=True)
class Plan:
    """Parts of a network that become int8.

    values    : the activations that do, in order
    whole     : the nodes, by number, that compute on int8 alone
    anchors   : those of them with weights
    ends      : the value that a layer ends in, by the number of its first node
    residuals : sums that are part of a layer, by the number of their node
    same      : of each value, one that has the same scale
    made      : which values are made of int8, so that all that read them read the quantized form
    bits      : of a weight, by the number of its anchor
    highest   : its greatest integer, where that is less than the bits hold, by the same number
    activations : their bits
    symmetric : the zero points of activations are all 0
    zeros     : zero points, by the root of values with one scale
    left      : why a node stays in floating point, by its number
    tables    : nodes that compute a table of 256 entries, by number
    powers    : all scales are powers of two, and a layer's weights have one, so that a requantization is one shift
    """

    values: dict[str, None] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)
    anchors: list[int] = field(default_factory=list)
    ends: dict[int, str] = field(default_factory=dict)
    residuals: dict[int, Residual] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    bits: dict[int, int] = field(default_factory=dict)
    highest: dict[int, int] = field(default_factory=dict)
    activations: int = 8
    powers: bool = False
    symmetric: bool = False
    zeros: dict[str, int] = field(default_factory=dict)
    left: dict[int, str] = field(default_factory=dict)
    tables: set[int] = field(default_factory=set)

    @property
    def observed(self) -> tuple[str, ...]:
        """The values whose range is asked for: those that become int8, or do if a residual does not fit its layer."""
        return (*self.values, *[each.acc for each in self.residuals.values()])

    def root(self, name: str) -> str:
        """The one of the values with one scale that stands for all."""
        while (up := self.same.get(name, name)) != name:
            name = up
        return name

    def join(self, name: str, other: str) -> None:
        """Give two values one scale."""
        self.same[self.root(name)] = self.root(other)
