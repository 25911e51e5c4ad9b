"""C string constants and comments from arbitrary text."""


def c_string(text: str) -> str:
    """Return a C string constant; characters beyond printable ASCII become octal escapes of their UTF-8 bytes."""
    plain = {"\\": "\\\\", '"': '\\"', "?": "\\?"}
    parts = [plain.get(c, c) if c.isascii() and c.isprintable() else _octal(c) for c in text]
    return f'"{"".join(parts)}"'


def _octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in character.encode(errors="replace"))


def comment(text: str) -> str:
    """Return text for the inside of a C comment: without delimiters of comments and without control characters."""
    return "".join(c if c.isprintable() else "?" for c in text).replace("*/", "* /").replace("/*", "/ *").rstrip("\\")
