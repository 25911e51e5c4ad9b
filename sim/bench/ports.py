"""Ports of a bench: pins by name, and streams as items of named integers, whether their payload is one vector or many pins."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from amaranth.hdl import Shape
from amaranth.lib import data

Item = Any  # an int, or a dict of the payload's fields


class Pin:
    """One pin of the top of the simulation that runs.

    cocotb's handles check and convert at every access, which took half the time of a bench. This reads and writes the simulator's
    objects behind them: no value has an X in Verilator.
    """

    settled: ClassVar[bool] = False  # all agents have driven this cycle: no pin may change

    __slots__ = ("_bits", "_name", "_put", "driven", "get")

    def __init__(self, handle: Any) -> None:
        self._name, self._bits = handle._name, len(handle)
        raw = handle._handle
        self.driven: int | None = None  # the value, once a bench has driven the pin
        self.get: Callable[[], int]  # the pin's value
        if self._bits < 32:
            self.get, self._put = raw.get_signal_val_long, raw.set_signal_val_int
        else:
            self.get, self._put = lambda: int(raw.get_signal_val_binstr(), 2), self._put_bits(raw)

    def set(self, value: int) -> None:
        """Drive the pin, unless it has the value."""
        if value != self.driven:
            assert 0 <= value < 1 << self._bits, f"{value} does not fit the {self._bits} bits of {self._name}"
            assert not Pin.settled, f"{self._name} changes after its cycle has settled"
            self.driven = value
            self._put(_DEPOSIT, value)

    def _put_bits(self, raw: Any) -> Callable[[int, int], None]:
        return lambda action, value: raw.set_signal_val_binstr(action, f"{value:0{self._bits}b}")


_DEPOSIT = 0  # cocotb's number of a plain write


class AlwaysReady:
    """In place of the `ready` that a stream lacks whose consumer never refuses."""

    def get(self) -> int:
        """Return 1."""
        return 1

    def set(self, value: int) -> None:
        """Refuse to drive it."""
        raise AssertionError("the stream is always ready: it has no pin 'ready'")


class Layout:
    """A struct's fields as plain integers; of any other shape, one number."""

    def __init__(self, shape: Any) -> None:
        self._places: dict[str, tuple[int, int]] = {}  # offset and mask
        self._signed: dict[str, int] = {}  # what a negative value is greater by
        if isinstance(shape, data.Layout):
            for name, field in shape:
                inner = Shape.cast(field.shape)
                self._places[str(name)] = (field.offset, (1 << inner.width) - 1)
                if inner.signed:
                    self._signed[str(name)] = 1 << inner.width

    def pack(self, item: Item) -> int:
        """The bits of an item; absent fields are zero."""
        if not self._places:
            return int(item)
        bits = 0
        for name, value in item.items():
            assert name in self._places, f"no field {name}"
            offset, mask = self._places[name]
            bits |= (value & mask) << offset
        return bits

    def unpack(self, bits: int) -> Item:
        """The fields of some bits."""
        if not self._places:
            return bits
        found = {name: bits >> offset & mask for name, (offset, mask) in self._places.items()}
        for name, above in self._signed.items():
            if found[name] >= above >> 1:
                found[name] -= above
        return found


class Pins:
    """The pins of the top whose names begin with a prefix."""

    every: ClassVar[dict[str, Pin | None]] = {}  # what this simulation's benches have asked for, by name; None is not there

    def __init__(self, dut: Any, prefix: str) -> None:
        self._dut, self._prefix = dut, prefix

    def find(self, name: str) -> Pin | None:
        """A pin; None if there is no such pin: a stream that is always ready has no `ready`."""
        name = self._prefix + name
        if name not in self.every:
            handle = getattr(self._dut, name, None)
            self.every[name] = None if handle is None else Pin(handle)
        return self.every[name]

    def pin(self, name: str) -> Pin:
        """A pin that must be there."""
        found = self.find(name)
        assert found is not None, f"the block has no pin {self._prefix}{name}"
        return found

    def get(self, name: str) -> int:
        """A pin's value."""
        return self.pin(name).get()

    def set(self, name: str, value: int) -> None:
        """Drive a pin, unless it has the value."""
        self.pin(name).set(value)

    def at(self, name: str) -> "Pins":
        """The pins of a member of the interface."""
        return Pins(self._dut, f"{self._prefix}{name}__")


class Port(Protocol):
    """A stream's pins."""

    valid: Pin
    ready: Pin | AlwaysReady

    def payload(self) -> Item:
        """Return the payload that the producer currently drives."""

    def offer(self, item: Item) -> None:
        """Drive the payload."""


class StreamPort:
    """A stream of Amaranth: valid, ready, and one vector."""

    def __init__(self, pins: Pins, shape: Any) -> None:
        self._layout, self._payload = Layout(shape), pins.find("payload")
        self.valid = pins.pin("valid")
        self.ready: Pin | AlwaysReady = pins.find("ready") or AlwaysReady()

    def payload(self) -> Item:
        """Return the payload that the producer currently drives."""
        return self._layout.unpack(self._payload.get() if self._payload else 0)

    def offer(self, item: Item) -> None:
        """Drive the payload."""
        bits = self._layout.pack(item)
        if self._payload:
            self._payload.set(bits)


class ChannelPort:
    """An AXI channel with a pin for each field.

    fields   the pins that make the payload, without the prefix
    constant pins that must have these values in every transfer
    """

    def __init__(self, pins: Pins, fields: tuple[str, ...], constant: Mapping[str, int] | None = None) -> None:
        self.valid = pins.pin("valid")
        self.ready: Pin | AlwaysReady = pins.pin("ready")
        self._fields = {name: pins.pin(name) for name in fields}
        self._constant = {name: (pins.pin(name), value) for name, value in (constant or {}).items()}

    def payload(self) -> Item:
        """Return the payload that the producer currently drives."""
        for name, (pin, want) in self._constant.items():
            assert pin.get() == want, f"{name} is {pin.get()} and must be {want}"
        return {name: pin.get() for name, pin in self._fields.items()}

    def offer(self, item: Item) -> None:
        """Drive the payload."""
        for name, pin in self._fields.items():
            pin.set(item.get(name, 0))
