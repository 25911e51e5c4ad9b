"""Ports of a bench: pins by name, and streams as items of named integers, whether their payload is one vector or many pins."""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from amaranth.hdl import Shape
from amaranth.lib import data

Item = Any  # an int, or a dict of the payload's fields


class Layout:
    """A struct's fields as plain integers; of any other shape, one number."""

    def __init__(self, shape: Any) -> None:
        self._places: dict[str, tuple[int, int, bool]] = {}
        if isinstance(shape, data.Layout):
            for name, field in shape:
                inner = Shape.cast(field.shape)
                self._places[str(name)] = (field.offset, inner.width, inner.signed)

    def pack(self, item: Item) -> int:
        """The bits of an item; absent fields are zero."""
        if not self._places:
            return int(item)
        unknown = item.keys() - self._places.keys()
        assert not unknown, f"no fields {unknown}"
        return sum((value & ((1 << self._places[name][1]) - 1)) << self._places[name][0] for name, value in item.items())

    def unpack(self, bits: int) -> Item:
        """The fields of some bits."""
        if not self._places:
            return bits
        found = {}
        for name, (offset, width, signed) in self._places.items():
            value = bits >> offset & ((1 << width) - 1)
            found[name] = value - (1 << width) if signed and value >> (width - 1) else value
        return found


class Pins:
    """The pins of the top whose names begin with a prefix."""

    driven: ClassVar[dict[int, tuple[Any, int]]] = {}  # handles that a test of this simulation has driven, with their values

    def __init__(self, dut: Any, prefix: str) -> None:
        self._dut, self._prefix = dut, prefix
        self._handles: dict[str, Any] = {}

    def find(self, name: str) -> Any:
        """A pin's handle; None if there is no such pin: a stream that is always ready has no `ready`."""
        if name not in self._handles:
            self._handles[name] = getattr(self._dut, self._prefix + name, None)
        return self._handles[name]

    def get(self, name: str) -> int:
        """A pin's value."""
        handle = self.find(name)
        assert handle is not None, f"the block has no pin {self._prefix}{name}"
        return int(handle.value)

    def set(self, name: str, value: int) -> None:
        """Drive a pin, unless it has the value."""
        handle = self.find(name)
        assert handle is not None, f"the block has no pin {self._prefix}{name}"
        if self.driven.get(id(handle)) != (handle, value):
            self.driven[id(handle)] = handle, value
            handle.value = value

    def at(self, name: str) -> "Pins":
        """The pins of a member of the interface."""
        return Pins(self._dut, f"{self._prefix}{name}__")


class Port(Protocol):
    """A stream's pins."""

    def get(self, name: str) -> int:
        """`valid` or `ready`."""

    def set(self, name: str, value: int) -> None:
        """Drive `valid` or `ready`."""

    def payload(self) -> Item:
        """Return the payload that the producer currently drives."""

    def offer(self, item: Item) -> None:
        """Drive the payload."""


class StreamPort:
    """A stream of Amaranth: valid, ready, and one vector."""

    def __init__(self, pins: Pins, shape: Any) -> None:
        self._pins, self._layout = pins, Layout(shape)
        self._always = pins.find("ready") is None

    def get(self, name: str) -> int:
        """`valid` or `ready`."""
        return 1 if name == "ready" and self._always else self._pins.get(name)

    def set(self, name: str, value: int) -> None:
        """Drive `valid` or `ready`."""
        self._pins.set(name, value)

    def payload(self) -> Item:
        """Return the payload that the producer currently drives."""
        return self._layout.unpack(self._pins.get("payload"))

    def offer(self, item: Item) -> None:
        """Drive the payload."""
        self._pins.set("payload", self._layout.pack(item))


class ChannelPort:
    """An AXI channel with a pin for each field.

    fields   the pins that make the payload, without the prefix
    constant pins that must have these values in every transfer
    """

    def __init__(self, pins: Pins, fields: tuple[str, ...], constant: Mapping[str, int] | None = None) -> None:
        self._pins, self._fields, self._constant = pins, fields, dict(constant or {})

    def get(self, name: str) -> int:
        """`valid` or `ready`."""
        return self._pins.get(name)

    def set(self, name: str, value: int) -> None:
        """Drive `valid` or `ready`."""
        self._pins.set(name, value)

    def payload(self) -> Item:
        """Return the payload that the producer currently drives."""
        for name, want in self._constant.items():
            assert self._pins.get(name) == want, f"{name} is {self._pins.get(name)} and must be {want}"
        return {name: self._pins.get(name) for name in self._fields}

    def offer(self, item: Item) -> None:
        """Drive the payload."""
        for name in self._fields:
            self._pins.set(name, item.get(name, 0))
