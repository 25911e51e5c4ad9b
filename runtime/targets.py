"""Targets by name."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from vtakit.base.errors import one_of
from vtakit.runtime.target import Opening, Target, TargetError
from vtakit.sim.api import device_kind, unknown_device

_OURS = {"llvm": ("vtakit.runtime.cpu.target", "Cpu"), "vta": ("vtakit.runtime.vta.target", "Vta"),
         "cuda": ("vtakit.runtime.cuda.target", "Cuda"), "opencl": ("vtakit.runtime.opencl.target", "OpenCl")}
_OTHERS: dict[str, type[Target]] = {}


def register(target: type[Target]) -> type[Target]:
    """Add a target; a decorator of its class. Raises TargetError if there is one of that name."""
    if target.name in targets():
        raise TargetError(f"there is a target {target.name!r} already")
    _OTHERS[target.name] = target
    return target


def unregister(target: type[Target]) -> None:
    """Forget what `register` added."""
    _OTHERS.pop(target.name, None)


def targets() -> tuple[str, ...]:
    """Return the names of all targets: what `vtakit.compile(…, target)` and --target take."""
    return (*_OURS, *_OTHERS)


def target(name: str, **options: Any) -> Target:
    """Return a target by its name.

    ::

        vtakit.target("vta", config="blk8")
        vtakit.target("llvm", triple="aarch64-linux-gnu", cpu="neoverse-n1")

    Raises TargetError for an unknown name or option, and what the target raises for a wrong option.
    """
    if not isinstance(name, str):
        raise _unknown(name)
    cls = find_class(name)
    for option in options:
        if option not in cls.options:
            having = [other.name for other in _classes() if option in other.options]
            cure = f"it is one of target {' and '.join(map(repr, having))}" if having else one_of(cls.options, option)
            raise TargetError(f"target {name!r} has no option {option!r}; {cure}")
    return cls.make(**options)


def find_target(given: object, **options: Any) -> Target:
    """Return the target that a caller means: a name, a target, or the description of one for its code generator.

    options : of the target; those that are None are not given
    """
    own = {name: value for name, value in options.items() if value is not None}
    if isinstance(given, str):
        return target(given, **own)
    if isinstance(given, Target) and not own:
        return given
    for cls in _classes():
        found = cls.adopt(given, **own)
        if found is not None:
            return found
    if isinstance(given, Target):
        raise TargetError(f"{min(own)} goes with the name of a target, and a target was given")
    raise _unknown(given)


def check_opening(given: Target, opening: Opening) -> None:
    """Raise VtakitError for a device that a target does not have, or an option that the device does not have."""
    device, known = opening.device, " or ".join(given.devices)
    if isinstance(device, str) and device_kind(device, given.devices) is None:
        having = [cls.name for cls in _classes() if device_kind(device, cls.devices) is not None]
        if having:
            raise TargetError(f"device {device!r} runs models for target {having[0]!r} (--target {having[0]}); this one is for "
                              f"{given.name!r}, which runs on {known}")
        raise TargetError(unknown_device(device, [name for cls in _classes() for name in cls.devices]))
    if not (device is None or isinstance(device, str) or given.is_device(device)):
        raise TargetError(f"{device!r:.40} is no device of target {given.name!r}, which runs on {known}")
    given.check_opening(opening)


def find_class(name: str) -> type[Target]:
    """Return the class of a target. Raises TargetError for an unknown name."""
    if name in _OTHERS:
        return _OTHERS[name]
    if name not in _OURS:
        raise _unknown(name)
    module, cls = _OURS[name]
    found: type[Target] = getattr(import_module(module), cls)
    return found


def _classes() -> Iterator[type[Target]]:
    for name in targets():
        yield find_class(name)


def _unknown(given: object) -> TargetError:
    return TargetError(f"unknown target {given!r:.80}; {one_of(targets(), given if isinstance(given, str) else '')}")
