"""The executor's functions: one text, which Python runs as it is and numba compiles.

Registers are int64: bits of the register's width, zero above. `lanes` names the `n` lanes that run an instruction.
"""
