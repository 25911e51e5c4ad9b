"""Devices, modules, the executor, the driver and the command line; `create` makes a module of a graph and its code."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vtakit.runtime.graph_module import create as create


def __getattr__(name: str) -> Any:
    if name == "create":  # loaded when it is first used
        return import_module("vtakit.runtime.graph_module").create
    raise AttributeError(f"module 'vtakit.runtime' has no attribute {name!r}")
