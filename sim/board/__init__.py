"""Boards in Verilator: the chips around the FPGA, and the library of what is in it."""
