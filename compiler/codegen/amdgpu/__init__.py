"""Launches as code objects of AMD's GPUs, through LLVM: the same lowering as for NVIDIA's, with other special instructions."""
