"""Networks as typed graphs of the operators of `vtakit.compiler.nn`, the passes over them, and their way to loops."""
