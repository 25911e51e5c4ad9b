"""The VTA accelerator: its instruction set (`hw.isa`, standard library only) and its RTL in Amaranth."""
