"""A function in low "gpu" form as launches of kernels and steps of the host, for every code generator of GPUs."""

from vtakit.compiler.codegen.gpu.launches import Launch, Program, Shared, split
from vtakit.compiler.codegen.gpu.steps import Bind, Check, Choose, Repeat, Run, Step

__all__ = ["Bind", "Check", "Choose", "Launch", "Program", "Repeat", "Run", "Shared", "Step", "split"]
