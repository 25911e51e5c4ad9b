"""Text of others as C strings and comments."""


def c_string(text: str) -> str:
    """Return a C string constant: what is not plain ASCII as octal bytes of UTF-8."""
    plain = {"\\": "\\\\", '"': '\\"', "?": "\\?"}
    parts = [plain.get(c, c) if c.isascii() and c.isprintable() else _octal(c) for c in text]
    return f'"{"".join(parts)}"'


def _octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in character.encode(errors="replace"))


def comment(text: str) -> str:
    """Return text that a C comment can hold: no end of it, no control characters."""
    return "".join(c if c.isprintable() else "?" for c in text).replace("*/", "* /").replace("/*", "/ *").rstrip("\\")
