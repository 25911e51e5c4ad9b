"""PyTorch programs among models."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtakit.base.errors import VtakitError, needs
from vtakit.base.reading import read_bytes
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.onnx.importer import word
from vtakit.compiler.frontend.torch.archive import read_archive
from vtakit.compiler.frontend.torch.program import checked_program
from vtakit.compiler.frontend.torch.quiet import quiet

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
    data = read_bytes(path, "program file", error=ModelError)
    with needs(f"a {SUFFIX} file", "torch"):
        if find_spec("torch") is None:
            raise ModuleNotFoundError(name="torch")
    with _refusing(path):
        contents = read_archive(data)
        checked = checked_program(contents.program)
    with needs(f"a {SUFFIX} file", "torch"):  # whose import takes seconds: after all that it is not needed for
        from torch._export.serde import schema, serialize
    with _refusing(path), quiet():
        program = serialize._dict_to_dataclass(schema.ExportedProgram, checked)
        return serialize.ExportedProgramDeserializer().deserialize(program, dict(contents.weights()), dict(contents.constants()))


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Raise a ModelError that names the file for whatever goes wrong inside."""
    try:
        yield
    except VtakitError as error:
        raise ModelError(f"{str(path)!r} is refused: {error}") from None
    except Exception as error:  # PyTorch raises many kinds for a damaged file
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise ModelError(f"{str(path)!r} is no program of torch.export, or a damaged one: {why}") from None
