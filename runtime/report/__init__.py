"""Reports of the cycles, the multiplications and the bytes of programs: `Report` is a table, JSON, or a plot of `Layer`s."""

from vtakit.runtime.report.layer import Layer
from vtakit.runtime.report.report import Report

__all__ = ["Layer", "Report"]
