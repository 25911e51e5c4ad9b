"""Simulators of one program on one accelerator: `run_image` takes raw DRAM, `run` a `Program`."""

from vtakit.sim.api import Result, run, run_image

__all__ = ["Result", "run", "run_image"]
