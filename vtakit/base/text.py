"""Text for people: control characters made visible, and nouns in the number of what they count."""


def printable(text: str) -> str:
    """Return `text` with every control and formatting character but newline and tab as an escape, such as ``\\x1b``.

    A name from a file can then neither move the cursor, recolour or retitle a terminal, nor reverse the direction of the text
    beside it.
    """
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join([char if char in "\n\t" or char.isprintable() else _escape(char) for char in text])


def one_line(text: str) -> str:
    """Return `printable` text with newlines and tabs as escapes too: a name cannot pass for a line of ours."""
    return text if text.isprintable() else "".join([char if char.isprintable() else _escape(char) for char in text])


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: ``1 launch``, ``2 launches``. `nouns` is the plural, by default `noun` with an s."""
    return f"{count} {noun if count == 1 else nouns or f'{noun}s'}"


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
