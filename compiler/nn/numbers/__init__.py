"""Quantized numbers: operators on integers with a scale and a zero point, and fixed-point factors."""
