"""The kinds of device by name."""

from importlib import import_module
from types import ModuleType
from typing import Any

from vtakit.base.errors import VtakitError, needs
from vtakit.hw.isa.config import load_config
from vtakit.runtime.vta.device import Device
from vtakit.sim.api import ConfigLike, check_options, unknown_device

# Modules with a function `open_device(config, **options) -> Device`, and the names of those as `OPTIONS`.
DEVICES = {"fsim": "vtakit.runtime.vta.fsim", "cycle": "vtakit.runtime.vta.cycle", "rtl": "vtakit.runtime.vta.rtl"}


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
    device: Device = module.open_device(load_config(config), **options)
    return device


def _find(name: str) -> ModuleType:
    if not isinstance(name, str) or name not in DEVICES:
        raise VtakitError(unknown_device(name, DEVICES))
    with needs(f"device {name!r}", "sim"):
        return import_module(DEVICES[name])
