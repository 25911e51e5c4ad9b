"""FPGA boards: platforms, memory controllers, host links and bitstream builds."""
