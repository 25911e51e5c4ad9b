"""NVIDIA GPUs: launches become PTX through LLVM's NVPTX back end, and a cubin where an assembler is installed."""
