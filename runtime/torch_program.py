"""PyTorch programs among models."""

import io
import logging
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.onnx.importer import word
from vtakit.hw.isa.errors import needs
from vtakit.hw.isa.file import read_bytes

if TYPE_CHECKING:
    import torch

SUFFIX = ".pt2"  # of torch.export.save


def named_program(model: Any) -> "tuple[torch.export.ExportedProgram, str] | None":
    """The PyTorch program that a model is, or that the file of that path holds, and its name; None of another model.

    Raises ModelError for a damaged file, and for a module that is not exported.
    """
    if isinstance(model, str | Path) and Path(model).suffix == SUFFIX:
        return _loaded(Path(model)), word(Path(model).stem)
    torch: Any = sys.modules.get("torch")  # who has an object of PyTorch's has loaded it
    if torch is None:
        return None
    if isinstance(model, torch.nn.Module):
        raise ModelError(f"{type(model).__name__} is a PyTorch module: give torch.export.export(module.eval(), inputs)")
    return (model, "program") if isinstance(model, torch.export.ExportedProgram) else None


def _loaded(path: Path) -> "torch.export.ExportedProgram":
    data = read_bytes(path, "program file")
    with needs(f"a {SUFFIX} file", "torch"):
        import torch
    log = logging.getLogger(torch.export.__name__)
    told = log.disabled
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch about itself
            log.disabled = True  # it tells of a damaged file beside raising
            return torch.export.load(io.BytesIO(data))
    except Exception as error:  # PyTorch raises many kinds for a damaged file
        why = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ModelError(f"{str(path)!r} is no program of torch.export, or a damaged one: {why}") from None
    finally:
        log.disabled = told
