"""Parameters and buffers that are constants of compiled code, and how a change of one is noticed."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def is_weight(given: Any) -> bool:
    """Return whether an argument is a parameter or buffer of a module whose elements may become constants."""
    if not isinstance(given, torch.Tensor) or given.is_inference():  # whose changes PyTorch does not count
        return False
    return isinstance(given, torch.nn.Parameter) or hasattr(given, "_dynamo_static_input_type")


class Packed:
    """The state of the weights that code has as constants.

    PyTorch counts changes in place, by optimizers, `load_state_dict` and operators, and a new tensor has a new address, since
    the memory of the old one is held here. A change behind PyTorch's back, through `.data` or an array that shares memory, shows
    in the first, middle or last element.
    """

    def __init__(self, weights: "Mapping[int, torch.Tensor]") -> None:
        self._known = [(at, weight._version, weight.data_ptr(), *_samples(weight)) for at, weight in weights.items()]

    def changed(self, args: Sequence[Any]) -> tuple[int, ...]:
        """Return the positions of weights that are not as they were."""
        return tuple([
            at for at, version, address, read, numbers, elements in self._known
            if args[at]._version != version or args[at].data_ptr() != address
            or (read(numbers[0]), read(numbers[1]), read(numbers[2])) != elements
        ])


def _samples(weight: torch.Tensor) -> tuple[Any, tuple[int, int, int], tuple[int, int, int]]:
    """Return a function that reads the bits of an element, numbers of elements, and their bits now.

    The function holds the weight's memory, so that no tensor has the address while the state is compared.
    """
    held = weight.detach()
    if not held.numel() or held.layout is not torch.strided or held.element_size() not in _BITS or held.is_conj():
        return (lambda _, held=held: 0), (0, 0, 0), (0, 0, 0)
    read = held.view(_BITS[held.element_size()]).numpy().item  # in the order of rows, whatever the strides are
    numbers = (0, held.numel() // 2, held.numel() - 1)
    return read, numbers, (read(numbers[0]), read(numbers[1]), read(numbers[2]))
