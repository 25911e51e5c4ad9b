"""The FPGA's content around the core: memory arbiter, host's registers, self-test, clock."""
