"""Projects for AMD's Vivado: the accelerator as IP, and beside the processor of a Zynq. docs/zynq.md describes them."""
