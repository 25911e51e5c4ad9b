"""The loop IR: what every later stage of the compiler reads and writes.

Expressions (`vtakit.compiler.ir.expr`) and statements (`vtakit.compiler.ir.stmt`) are values: nothing changes one after
it is made, and a pass returns a new one. It depends on nothing but the standard library.
"""
