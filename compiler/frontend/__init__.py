"""Models of other programs, read as graphs."""
