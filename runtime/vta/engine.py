"""Programs of a compiled model, on a device."""

from contextlib import ExitStack
from typing import Any, ClassVar

import numpy as np

from vtakit.compiler.codegen.vta.target import Target
from vtakit.hw.values import pack, unpack
from vtakit.runtime.report.report import Report
from vtakit.runtime.report.sections import layers_of
from vtakit.runtime.target import Engine, Image, Opening, Values
from vtakit.runtime.timed import Timed
from vtakit.runtime.vta.driver import Driver, connect
from vtakit.runtime.vta.loaded import LaunchResult
from vtakit.runtime.vta.part import VtaPart
from vtakit.runtime.vta.registry import options_of
from vtakit.runtime.vta.session import Session, needed_bytes

DEFAULT_DEVICE = "fsim"


class VtaEngine(Engine):
    """The parts of a model that are programs of an accelerator, on one device, with their constants in its memory.

    The device is opened by the first run and kept until `close`, or until something goes wrong: the next run then opens it anew.

    device : its name; one that simulates memory and core has the target's, but for the options that are given
    """

    exclusive: ClassVar[bool] = True

    def __init__(self, image: Image, opening: Opening, target: Target) -> None:
        given = opening.device or DEFAULT_DEVICE
        self._given = given if isinstance(given, Driver) else None
        self._parts = image.parts_of(VtaPart)
        if isinstance(given, Driver):
            self.device = given.device.name
            for part in self._parts:
                part.program.require(given.config, version=given.device.version, features=given.device.features)
        else:
            self.device = given
        self._simulated = target.simulated
        self._name, self._timeout_s, self._options = image.name, opening.timeout_s, dict(opening.options)
        self._driver: Driver | None = None
        self._sessions: dict[VtaPart, Session] = {}
        self._counters: dict[VtaPart, dict[str, int]] = {}

    @property
    def counters(self) -> tuple[dict[str, int], ...]:
        """Counters of the last run of each part; cycles where the device has them."""
        return tuple(self._counters.values())

    def run(self, part: VtaPart, values: Values) -> None:
        """Run a part.

        Raises DeviceTimeout if the device has not finished in time, DeviceMemoryError if the model does not fit its memory,
        and whatever else the device raises.
        """
        try:
            if self._driver is None:
                self._driver = self._opened()
                for each in self._parts:
                    self._sessions[each] = Session(each.program, self._driver)
            self._counters[part] = self._run(self._sessions[part], part, values).counters
        except BaseException:
            self.close()
            raise

    def _run(self, session: Session, part: VtaPart, values: Values) -> LaunchResult:
        bits = part.program.config.inp_bits
        given = {name: pack(values[at][0], bits).tobytes() for name, at in zip(part.inputs, part.reads, strict=True)}
        result = session.run(given, self._timeout_s)
        for name, at in zip(part.outputs, part.writes, strict=True):
            array, _ = values[at]
            data = session.buffers[name].read(array.size * bits // 8)
            array[...] = unpack(np.frombuffer(data, np.uint8), bits).reshape(array.shape)
        return result

    def profile(self, part: VtaPart, values: Values, repeat: int) -> tuple[tuple[Timed, ...], Report]:
        """Run a part once; return a report of the cycles, multiplications and bytes of each of its layers.

        A device that can is opened anew with a trace, so that each layer has its own cycles.
        """
        with ExitStack() as stack:
            driver = self._opened(trace=True)
            if self._given is None:
                stack.enter_context(driver)
            session = Session(part.program, driver)
            stack.callback(session.close)
            result = self._run(session, part, values)
        macs = {each.name: layer.macs for each, layer in zip(part.program.parts, part.layers, strict=True)}
        layers = layers_of(
            self._name, part.program, result.counters, result.trace, bus_bytes=result.bus_bytes, macs=macs)
        return (), Report(self.device, tuple(layers), result.trace)

    def close(self) -> None:
        """Let go of the device; a later run opens it again."""
        sessions, self._sessions = self._sessions, {}
        driver, self._driver = self._driver, None
        for session in sessions.values():
            session.close()
        if driver is not None and self._given is None:
            driver.close()

    def _opened(self, **more: Any) -> Driver:
        if self._given is not None:
            return self._given
        known, programs = options_of(self.device), [part.program for part in self._parts]
        more |= self._simulated
        options = {name: value for name, value in more.items() if name in known} | self._options
        if "memory_bytes" in known:
            options = {"memory_bytes": needed_bytes(programs)} | options
        return connect(self.device, programs[0].config, **options)
