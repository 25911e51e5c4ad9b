"""The load stage, and the path of every LOAD from DRAM to a scratchpad, which the compute stage has too."""
