"""Machine code through LLVM.

`vtakit.compiler.codegen.llvm.compile.compile_for` is the way in. Its input is the low form: no blocks, buffers of one dimension,
vectors as `Ramp` and `Broadcast`, loops that are serial or parallel. LLVM's text is written by this package's own typed
builder, because a malformed module ends the process: LLVM checks with assertions.
"""
