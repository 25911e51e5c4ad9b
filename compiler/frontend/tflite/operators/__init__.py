"""Converters of TensorFlow Lite's operators, by family."""

from vtakit.compiler.frontend.tflite.nodes import CONVERTERS
from vtakit.compiler.frontend.tflite.operators import elements, images, moves, numbers, products, reductions

__all__ = ["CONVERTERS", "FAMILIES"]

FAMILIES = (elements, images, moves, numbers, products, reductions)
