"""Synthesis with open tools: what a core costs on a device, how fast it runs there, and which path is the slowest."""

from vtakit.boards.synth.devices import DEVICES, Device, find_device
from vtakit.boards.synth.report import Hop, Report, Usage

__all__ = ["DEVICES", "Device", "Hop", "Report", "Usage", "find_device"]
