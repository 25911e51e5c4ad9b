"""The host's side: registers on an AXI4-Lite bus, start and stop, and the counters that say where cycles went."""
