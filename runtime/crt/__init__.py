"""Models as C: source, header, weights and programs, with a small driver interface to the accelerator."""
