"""The list of TensorFlow Lite's operators in the documentation, made from the converters."""

import textwrap

from vtakit.compiler.frontend.tflite.operators import CONVERTERS

_WIDTH = 120


def operator_text() -> str:
    """The list as Markdown."""
    words = ", ".join(f"`{name}`" for name in sorted(CONVERTERS))
    return f"**Read** ({len(CONVERTERS)}):\n{textwrap.fill(words, _WIDTH)}.\n"
