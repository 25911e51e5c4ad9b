"""Operators as tensor expressions, with schedules that need no tuning.

A room has the operators of a family. Beside a definition stands its schedule for a CPU, in a file of the same name and `_cpu`:
conv/blocked.py and conv/blocked_cpu.py. `cpu` has what these schedules share, and `cpu.schedule` the table from tags of
definitions to schedules. In `vta` each operator of the accelerator is one class, with definition and schedule.
"""
