"""Options of the backend, checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vtakit.base.errors import VtakitError, one_of
from vtakit.runtime.module import InputError, check_threads, whole
from vtakit.runtime.source import Options
from vtakit.runtime.target import Target, TargetError
from vtakit.runtime.targets import find_target

WEIGHTS = ("auto", "packed", "passed")
_DEFAULTS: dict[str, Any] = {
    "target": "llvm", "threads": None, "precision": "float32", "winograd": True, "integer": True, "weights": "auto",
    "specializations": 16,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of `torch.compile(backend="vtakit", options={…})`.

    target          : that code is made for, a processor of this machine
    threads         : of a run; None for OpenMP's number
    compilation     : options of every compilation
    weights         : "packed", constants of the code, which is made anew when one changes; "passed", inputs like others; "auto",
                      packed until one changes, then that one is passed
    specializations : most sets of sizes of one graph whose code is kept
    """

    target: Target
    threads: int | None = None
    compilation: Options = field(default_factory=Options)
    weights: str = "auto"
    specializations: int = 16


def settings(options: Mapping[str, Any] | None) -> Settings:
    """Return the settings of options; those left out have their default. Raises VtakitError for a wrong one."""
    given = dict(options or {})
    for name in given:
        if name not in _DEFAULTS:
            raise InputError(f"options={{{name!r}: …}}: there is no such option; {one_of(_DEFAULTS, str(name))}")
    said = {**_DEFAULTS, **given}
    target = find_target(said["target"])
    if target.processor is not target:
        raise TargetError(f"options={{'target': {target.name!r}}}: graphs of torch.compile run on a processor, target 'llvm'; "
                          "compile the exported and quantized program for the accelerator")
    if target.misfit:
        raise TargetError(f"options={{'target': {target.name!r}}}: {target.misfit}")
    if said["weights"] not in WEIGHTS:
        raise InputError(f"options={{'weights': {said['weights']!r}}}: {one_of(WEIGHTS, str(said['weights']))}")
    count = whole(said["specializations"], f"options={{'specializations': {said['specializations']!r}}}: give a whole number")
    if count < 1:
        raise InputError(f"options={{'specializations': {count}}}: at least 1 is kept")
    for flag in ("winograd", "integer"):
        if not isinstance(said[flag], bool):
            raise InputError(f"options={{{flag!r}: {said[flag]!r}}}: give True or False")
    compilation = Options(integer=said["integer"], winograd=said["winograd"], precision=said["precision"])
    target.check_options(compilation)
    try:
        ready = target.ready("torch.compile")
    except VtakitError as error:
        raise TargetError(f"options={{'target': {target.name!r}}}: {error}") from None
    return Settings(
        target=ready, threads=check_threads(said["threads"]), compilation=compilation, weights=said["weights"],
        specializations=count,
    )
