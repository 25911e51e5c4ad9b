"""The kinds of device by name."""

from importlib import import_module
from types import ModuleType
from typing import Any

from vtakit.base.errors import VtakitError, needs
from vtakit.hw.isa.config import load_config
from vtakit.runtime.vta.device import Device
from vtakit.sim.api import ConfigLike, check_options, device_kind, unknown_device

# Modules with a function `open_device(config, **options) -> Device`, and the names of those as `OPTIONS`. Where there may be
# several of a kind, `PLACE` is an example of the place that its name ends in, as in "board:/dev/ttyUSB0", the function takes
# (config, name, place, **options), and `check_place(name, place)` raises early, before minutes of compiling, if nothing is there.
DEVICES = {
    "fsim": "vtakit.runtime.vta.fsim", "cycle": "vtakit.runtime.vta.cycle", "rtl": "vtakit.runtime.vta.rtl",
    "sim": "vtakit.runtime.vta.board", "board": "vtakit.runtime.vta.link.board",
    "uio": "vtakit.runtime.vta.mapped.uio_device", "pynq": "vtakit.runtime.vta.mapped.pynq_device",
    "original": "vtakit.runtime.vta.mapped.original_device",
}
_EXTRAS = {"board": "board"}  # that bring what a device needs; "sim" for the others


def options_of(name: str) -> tuple[str, ...]:
    """The names of the options that the device called `name` takes.

    Raises `VtakitError` for an unknown name, or a device whose requirements are not installed.
    """
    options: tuple[str, ...] = _find(name).OPTIONS
    return options


def open_device(name: str, config: ConfigLike, **options: Any) -> Device:
    """The device called `name`, with this configuration.

    Raises `VtakitError` for an unknown name or option, and what the device raises.
    """
    module = _find(name)
    check_options(name, module.OPTIONS, options)
    placed = [name, name.partition(":")[2]] if hasattr(module, "PLACE") else []
    device: Device = module.open_device(load_config(config), *placed, **options)
    return device


def _find(name: str) -> ModuleType:
    kind = device_kind(name, DEVICES)
    if kind is None:
        raise VtakitError(unknown_device(name, DEVICES))
    with needs(f"device {name!r}", _EXTRAS.get(kind, "sim")):
        module = import_module(DEVICES[kind])
    example = getattr(module, "PLACE", "")
    if example and name in (kind, f"{kind}:"):
        raise VtakitError(f"device {name!r} needs the place of the board behind a colon: {kind}:{example}")
    if example:
        module.check_place(name, name.partition(":")[2])
    elif name != kind:
        raise VtakitError(f"there is one device {kind!r} only, and {name!r} names a place: give {kind!r}")
    return module
