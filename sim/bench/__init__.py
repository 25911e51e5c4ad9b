"""Test benches in cocotb: blocks and the whole core in Verilator, driven from Python with stalls on every stream."""
