"""Export of a compiled model as C source, header, weights and programs, with a driver interface to the accelerator."""
