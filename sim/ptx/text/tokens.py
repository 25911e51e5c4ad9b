"""Tokens of PTX."""

import re
from dataclasses import dataclass

from vtakit.base.errors import VtakitError

_TOKEN = re.compile(r"""
    (?P<space>[ \t\r\n]+)
  | (?P<undefined>//[ \t]*implicit-def:[ \t]*(?P<register>[%$\w]+)[^\n]*)
  | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<string>"[^"]*")
  | (?P<bits>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16})
  | (?P<decimal>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<integer>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|[0-9]+U?)
  | (?P<word>[A-Za-z_$%.](?:::|[\w$.%])*)
  | (?P<mark>[{}()\[\],;:@!|<>=+*-])
""", re.VERBOSE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    line: int


def tokens(text: str) -> list[Token]:
    """Split a text into its tokens; comments and spaces are left out."""
    found = []
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise VtakitError(f"PTX line {line}: {text[at : at + 20].splitlines()[0]!r} is no token of PTX")
        kind = str(match.lastgroup)
        if kind == "register":
            kind = "undefined"
        if kind == "undefined":
            found.append(Token("undefined", match["register"], line))
        elif kind not in ("space", "comment"):
            found.append(Token(kind, match.group(), line))
        line += match.group().count("\n")
        at = match.end()
    return found
