"""From the syntax tree to the program that the executor runs: arrays of operations, operands and constants."""
