"""Accelerators whose registers and memory are mapped into this process, on a Zynq or its like. docs/zynq.md describes them."""
