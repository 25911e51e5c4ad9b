"""Emulator of PTX: the text that a GPU would get, run warp by warp with its memory checked."""

from vtakit.sim.ptx.faults import KernelFault
from vtakit.sim.ptx.launch import Counters
from vtakit.sim.ptx.memory import DeviceMemory
from vtakit.sim.ptx.module import Module, load

__all__ = ["Counters", "DeviceMemory", "KernelFault", "Module", "load"]
