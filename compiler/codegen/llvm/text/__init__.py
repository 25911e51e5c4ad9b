"""LLVM's text: types, operands, and the instructions of functions and modules."""
