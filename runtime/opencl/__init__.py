"""Kernels in OpenCL C on any OpenCL device, through pyopencl: target "opencl"."""
