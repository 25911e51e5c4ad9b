"""The commands of `vtakit`, one module each: `add_arguments` declares its arguments, `run` returns the exit status."""
