"""Code generators: a function in low form becomes a target's machine code."""
