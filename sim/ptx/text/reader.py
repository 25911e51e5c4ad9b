"""Tokens, names and operands of PTX text, one after another."""

from vtakit.base.errors import VtakitError
from vtakit.sim.ptx.text.syntax import Address, Float, Integer, Name, Not, Operand, Pair, Vector
from vtakit.sim.ptx.text.tokens import Token, tokens

END = Token("end", "", 0)


class Reader:
    """A place in a text, and the names that inner braces declare there."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._lines = text.splitlines()
        self._at = 0
        self._scopes: list[dict[str, str]] = []
        self._fresh = 0

    def _peek(self, ahead: int = 0) -> Token:
        return self._tokens[self._at + ahead] if self._at + ahead < len(self._tokens) else END

    def _next(self) -> Token:
        token = self._peek()
        if token is END:
            raise VtakitError("the PTX text ends within a statement")
        self._at += 1
        return token

    def _have(self, text: str) -> bool:
        if self._peek().text != text or self._peek().kind in ("string", "end"):
            return False
        self._at += 1
        return True

    def _want(self, text: str) -> None:
        token = self._next()
        if token.text != text:
            raise self._error(token, f"{text!r} is expected, and the text has {token.text!r}")

    def _error(self, token: Token, why: str) -> VtakitError:
        line = self._lines[token.line - 1].strip() if 0 < token.line <= len(self._lines) else ""
        return VtakitError(f"PTX line {token.line}: {why}: {line}")

    def _integer(self) -> int:
        negative = self._have("-")
        token = self._next()
        if token.kind != "integer":
            raise self._error(token, f"{token.text!r} is no integer")
        value = int(token.text.rstrip("U"),
                    0) if token.text[:1] == "0" and token.text[1:2] in "xXbB" else int(token.text.rstrip("U"))
        return -value if negative else value

    # Names

    def _new(self, name: str) -> str:
        """Give a declared name its own name in the kernel: one inside inner braces is apart from others of its name."""
        if len(self._scopes) == 1:
            return name
        self._fresh += 1
        self._scopes[-1][name] = f"{name}#{self._fresh}"
        return self._scopes[-1][name]

    def _labels(self) -> None:
        """Name the labels of the braces that begin here: a branch may come before its label."""
        depth, ahead = 1, 0
        while depth and self._peek(ahead) is not END:
            token = self._peek(ahead)
            depth += (token.text == "{") - (token.text == "}")
            if depth == 1 and token.kind == "word" and self._peek(ahead + 1).text == ":" and self._peek(ahead - 1).text in (";",
                                                                                                                            "{",
                                                                                                                            "}"):
                self._new(token.text)
            ahead += 1

    def _known(self, name: str) -> str:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return name

    # Operands

    def _list(self, opening: str, closing: str) -> Vector:
        self._want(opening)
        parts: list[Operand] = []
        while not self._have(closing):
            parts.append(self._operand())
            self._have(",")
        return Vector(tuple(parts))

    def _operand(self) -> Operand:
        token = self._peek()
        if token.text == "{":
            found: Operand = self._list("{", "}")
        elif token.text == "[":
            found = self._address()
        elif self._have("!"):
            found = Not(self._operand())
        elif token.kind in ("integer",) or token.text == "-":
            if token.text == "-" and self._peek(1).kind in ("bits", "decimal"):
                self._next()
                number = float(self._next().text)
                found = Float(0, 0, -number)
            else:
                found = Integer(self._integer())
        elif token.kind == "bits":
            digits = self._next().text[2:]
            found = Float(int(digits, 16), 4 * len(digits))
        elif token.kind == "decimal":
            found = Float(0, 0, float(self._next().text))
        elif token.kind == "word":
            found = self._named()
        else:
            raise self._error(token, f"{token.text!r} is no operand")
        if self._have("|"):
            return Pair(found, self._operand())
        return found

    def _named(self) -> Operand:
        name = self._next().text
        if name == "generic" and self._have("("):
            found = self._named()
            self._want(")")
            return found
        offset = 0
        while self._peek().text == "+":
            self._next()
            offset += self._integer()
        return Name(self._known(name), offset)

    def _address(self) -> Address:
        self._want("[")
        base = self._operand()
        offset = 0
        while self._peek().text in ("+", "-"):
            negative = self._next().text == "-"
            value = self._integer()
            offset += -value if negative else value
        if isinstance(base, Name):
            base, offset = Name(base.name), offset + base.offset
        more = []
        while self._have(","):
            more.append(self._operand())
        self._want("]")
        return Address(base, offset, tuple(more))
