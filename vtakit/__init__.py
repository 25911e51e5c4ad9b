"""vtakit: an open hardware/software co-design kit for the VTA deep-learning accelerator.

Importing it is cheap: each public part is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vtakit import boards, compiler, hw, models, runtime, sim, te, tune
    from vtakit.compiler.frontend.own import register_operator
    from vtakit.compiler.lower import lower
    from vtakit.runtime.build import build
    from vtakit.runtime.cuda.arrays import device_array
    from vtakit.runtime.inference_session import InferenceSession, SessionOptions
    from vtakit.runtime.model import compile, decisions, load
    from vtakit.runtime.quantize import quantize
    from vtakit.runtime.stages.dims import dim
    from vtakit.runtime.targets import target, targets
    from vtakit.runtime.torch_backend.backend import torch_backend
    from vtakit.runtime.torch_backend.operator import torch_operator

__version__ = "0.1.0"

_PARTS = ("boards", "compiler", "hw", "models", "runtime", "sim", "te", "tune")
_NAMES = {  # a function or class, and the module that has it
    "build": "vtakit.runtime.build", "compile": "vtakit.runtime.model", "decisions": "vtakit.runtime.model",
    "InferenceSession": "vtakit.runtime.inference_session", "SessionOptions": "vtakit.runtime.inference_session",
    "device_array": "vtakit.runtime.cuda.arrays", "dim": "vtakit.runtime.stages.dims", "load": "vtakit.runtime.model",
    "lower": "vtakit.compiler.lower", "quantize": "vtakit.runtime.quantize", "register_operator": "vtakit.compiler.frontend.own",
    "target": "vtakit.runtime.targets", "targets": "vtakit.runtime.targets",
    "torch_backend": "vtakit.runtime.torch_backend.backend", "torch_operator": "vtakit.runtime.torch_backend.operator",
}

__all__ = [
    "InferenceSession", "SessionOptions", "__version__", "boards", "build", "compile", "compiler", "decisions", "device_array",
    "dim", "hw", "load", "lower", "models", "quantize", "register_operator", "runtime", "sim", "target", "targets", "te",
    "torch_backend", "torch_operator", "tune",
]


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"vtakit.{name}")
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'vtakit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
