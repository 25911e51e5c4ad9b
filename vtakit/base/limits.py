"""Limits on what files may declare. A file beyond one is refused with a sentence that names the limit and the value.

Each is far above what a real model has, and low enough that reading a file of a stranger stays within 2 s and 1 GB
(tests/file_mutations.py). docs/files.md lists them.
"""

from vtakit.base.errors import VtakitError

MAX_RANK = 32  # dimensions of a tensor; NumPy has at most 64
MAX_NAME_CHARS = 1024  # of an input, output, node or file inside an archive
MAX_NESTING = 64  # levels of JSON
MAX_CALL_NESTING = 16  # ONNX functions that call functions, and branches within branches
MAX_BLOCK_NESTING = 4  # blocks of a PyTorch program, such as those without gradients, within blocks
MAX_NODES = 100_000  # of one model, those of functions as often as they are called; large models have 20,000
MAX_TENSOR_ELEMENTS = 1 << 40  # product of the sizes of a tensor; what a target counts may be less
MAX_DIM = (1 << 31) - 1  # of one dimension
MAX_CONFIG_BYTES = 1 << 20  # a JSON file of a configuration, or a key file
MAX_DRAM_BYTES = 1 << 28  # of the buffers of a program file that have no data in it, for the commands; Python takes more
MAX_JSON_BYTES = 1 << 26  # JSON inside another file
MAX_JSON_VALUES = 2_000_000  # of one text; one takes at most 200 bytes of memory and 1 µs
MAX_ONNX_BYTES = (1 << 31) - 1  # of the model file itself; protobuf reads no larger message
MAX_MEMBERS = 100_000  # files inside an archive
MAX_INFLATED_BYTES = 1 << 28  # that compression saves in one archive, or 16 times the archive's size if that is more
MAX_EXPANSION = 1100  # bytes that one compressed byte of an archive may become; deflate reaches 1,032


class LimitError(VtakitError, ValueError):
    """A file that declares more than a limit allows."""


def check_limit(value: int, limit: int, what: str, unit: str = "") -> None:
    """Raise LimitError if `value`, which the message calls `what`, is above `limit`."""
    if value > limit:
        raise LimitError(f"{what} is {value:,}{unit}; the limit is {limit:,} (docs/files.md)")


def check_name(name: str, what: str) -> None:
    """Raise LimitError for a name with too many characters."""
    if len(name) > MAX_NAME_CHARS:
        raise LimitError(f"{what} {name[:20]!r}… has {len(name):,} characters; the limit is {MAX_NAME_CHARS:,} (docs/files.md)")


def check_shape(shape: "tuple[int, ...] | list[int]", what: str) -> None:
    """Raise LimitError for a shape with too many dimensions, too large a one, or too many elements."""
    check_limit(len(shape), MAX_RANK, f"the rank of {what}")
    size = 1
    for dim in shape:
        check_limit(dim, MAX_DIM, f"a dimension of {what}")
        size *= dim
    check_limit(size, MAX_TENSOR_ELEMENTS, f"the number of elements of {what}")
