"""The compute stage: steps of GEMM and ALU instructions, their arithmetic, and the accumulator."""
