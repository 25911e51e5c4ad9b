"""Instruction fetch: the program is read ahead of the stages, and each instruction goes into its stage's queue."""
