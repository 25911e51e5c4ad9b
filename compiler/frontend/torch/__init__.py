"""PyTorch programs as graphs."""
