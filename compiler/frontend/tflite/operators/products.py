"""Products of matrices, and Fourier transforms."""

from vtakit.compiler.frontend.tflite.nodes import TfliteNode, converts
from vtakit.compiler.graph.ir import Value


@converts("FULLY_CONNECTED")
def fully_connected(n: TfliteNode) -> None:
    o = n.options("FullyConnectedOptions")
    if o.WeightsFormat():
        n.unsupported("with shuffled weights")
    x, weight, shape = n.value(0), n.value(1, (1, 0)), n.shape(0)
    depth, filters = weight.type.shape
    y = n.apply("matmul", n.reshape(x, (x.type.size // depth if depth else 0, depth)), weight)
    if n.has(2):
        y = n.apply("add", y, n.reshape(n.value(2), (1, filters)))
    if not o.KeepNumDims():
        n.put(y, activation=o.FusedActivationFunction())
        return
    n.put(n.reshape(y, (*shape[:-1], filters)), activation=o.FusedActivationFunction())


@converts("BATCH_MATMUL")
def batch_matmul(n: TfliteNode) -> None:
    o = n.options("BatchMatMulOptions")
    n.put(n.apply("matmul", _matrix(n, 0, bool(o.AdjX())), _matrix(n, 1, bool(o.AdjY()))))


def _matrix(n: TfliteNode, at: int, swapped: bool) -> Value:
    """An operand, its last two dimensions swapped."""
    ndim = n.ndim(at)
    if ndim < 2:
        n.unsupported(f"of {ndim} dimensions")
    lead = tuple(range(ndim - 2))
    return n.value(at, (*lead, ndim - 1, ndim - 2) if swapped else None)


@converts("RFFT2D")
def rfft2d(n: TfliteNode) -> None:
    """The transform of real signals along the last two dimensions, cut or filled up to the lengths of operand 1."""
    x, lengths = n.value(0), n.ints(1)
    y = n.apply("dft", n.reshape(x, (*x.type.shape, 1)), axis=len(x.type.shape) - 1, length=lengths[1], onesided=True)
    if lengths[0] != 1 or x.type.shape[-2] != 1:
        y = n.apply("dft", y, axis=len(x.type.shape) - 2, length=lengths[0])
    n.put_complex(*[n.reshape(each, y.type.shape[:-1]) for each in n.all("split", y, axis=len(x.type.shape), sizes=(1, 1))])


@converts("REAL", "IMAG", "COMPLEX_ABS")
def parts(n: TfliteNode) -> None:
    found = n.complex(0)
    if found is None:
        n.unsupported(f"of {n.tensor(0).type_name}")
    real, imaginary = found
    if n.op == "COMPLEX_ABS":
        n.put(n.apply("sqrt", n.apply("add", n.apply("mul", real, real), n.apply("mul", imaginary, imaginary))))
    else:
        n.put(real if n.op == "REAL" else imaginary)
