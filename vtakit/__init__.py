"""vtakit: an open hardware/software co-design kit for the VTA deep-learning accelerator.

Importing it is cheap: each public part is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vtakit import boards, compiler, hw, runtime, sim, te

__version__ = "0.1.0"

_PARTS = ("boards", "compiler", "hw", "runtime", "sim", "te")

__all__ = ["__version__", "boards", "compiler", "hw", "runtime", "sim", "te"]


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"vtakit.{name}")
    raise AttributeError(f"module 'vtakit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
