"""Models whose sizes, values or control flow a run decides: compiled parts, and steps between them."""
