"""Programs for the accelerator: from a lowered function to instructions.

`compile_for(function, target)` is the whole way; `vtakit.compiler.codegen.vta.compile` reads top to bottom.
"""
