"""`torch.compile(model, backend="vtakit")`: PyTorch's modules on compiled code. It needs torch; nothing here loads it before use.

`backend` takes a graph from PyTorch, `sizes` keeps its code for each set of sizes, `weights` decides which tensors are constants,
`parts` splits a graph around what cannot be compiled, and `code` runs compiled code on tensors.
"""
