"""Devices, modules, the executor and the command line."""
