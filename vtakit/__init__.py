"""vtakit: an open hardware/software co-design kit for the VTA deep-learning accelerator.

Importing it is cheap: each public part is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vtakit import boards, compiler, hw, models, runtime, sim, te, tune
    from vtakit.compiler.lower import lower
    from vtakit.runtime.build import build
    from vtakit.runtime.cuda.arrays import device_array
    from vtakit.runtime.model import compile, decisions, load
    from vtakit.runtime.quantize import quantize
    from vtakit.runtime.stages.dims import dim
    from vtakit.runtime.targets import target, targets

__version__ = "0.1.0"

_PARTS = ("boards", "compiler", "hw", "models", "runtime", "sim", "te", "tune")
_NAMES = {  # a function or class, and the module that has it
    "build": "vtakit.runtime.build", "compile": "vtakit.runtime.model", "decisions": "vtakit.runtime.model",
    "device_array": "vtakit.runtime.cuda.arrays", "dim": "vtakit.runtime.stages.dims", "load": "vtakit.runtime.model",
    "lower": "vtakit.compiler.lower", "quantize": "vtakit.runtime.quantize",
    "target": "vtakit.runtime.targets", "targets": "vtakit.runtime.targets",
}

__all__ = [
    "__version__", "boards", "build", "compile", "compiler", "decisions", "device_array", "dim", "hw", "load", "lower", "models",
    "quantize", "runtime", "sim", "target", "targets", "te", "tune",
]


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"vtakit.{name}")
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'vtakit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
