"""Programs on an accelerator, simulated or on a board: `connect` gives a driver, which allocates, copies, loads and launches."""

from vtakit.runtime.vta.driver import Driver, connect
from vtakit.runtime.vta.errors import DeviceMemoryError, DeviceTimeout, ProgramStopped
from vtakit.sim.faults import DeviceError

__all__ = ["DeviceError", "DeviceMemoryError", "DeviceTimeout", "Driver", "ProgramStopped", "connect"]
