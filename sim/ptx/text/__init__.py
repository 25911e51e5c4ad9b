"""PTX as text: syntax tree and parser."""
