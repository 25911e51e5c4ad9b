"""NVIDIA GPUs: device arrays, streams, functions and models that run through NVIDIA's own Python bindings. Target "cuda"."""
