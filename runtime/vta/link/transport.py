"""Interface of what carries the link's bytes."""

from typing import Protocol


class Transport(Protocol):
    """A line of bytes to a board: a serial port, or the pins of a simulated board.

    All times are the line's own: of the wall clock, or simulated, so that a slow simulation causes no retries. Each method
    returns within about the time that it is given, and raises `DeviceError` if the line is gone.
    """

    def send(self, data: bytes) -> None:
        """Hand bytes over; they may leave later."""

    def receive(self, most: int, timeout_s: float) -> bytes:
        """Return 1 to `most` bytes as soon as there are any, or none after `timeout_s`."""

    def pause(self, seconds: float) -> None:
        """Let time pass."""

    def clock(self) -> float:
        """The time in seconds."""

    def close(self) -> None:
        """Let go of the line."""
