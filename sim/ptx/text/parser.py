"""Parser of PTX text, as LLVM's NVPTX back end and inline assembly write it."""

import struct
from collections.abc import Callable

from vtakit.sim.ptx.text.reader import END, Reader
from vtakit.sim.ptx.text.syntax import Defined, Float, Instruction, Integer, Kernel, Label, Name, Operand, Text, Variable
from vtakit.sim.ptx.text.tokens import Token

_LINKAGE = (".visible", ".extern", ".weak", ".common")
_SPACES = (".global", ".shared", ".const", ".local", ".param")
_WORDS_OF_LINE = (".loc", ".file")


def type_bytes(name: str) -> int:
    """Size of a value of a type such as ``.b32`` in bytes; a predicate's is 1."""
    digits = name.lstrip(".busf")
    return int(digits) // 8 if digits.isdigit() else 1


def parse(text: str) -> Text:
    """Parse a module."""
    return _Parser(text).module()


class _Parser(Reader):
    # Modules

    def module(self) -> Text:
        found = Text()
        while self._peek() is not END:
            token = self._peek()
            if token.text == ".version":
                self._next()
                found.version = self._next().text
            elif token.text == ".target":
                found.target = " ".join(each.text for each in self._rest_of_line()[1:])
            elif token.text == ".address_size":
                if [each.text for each in self._rest_of_line()][1:] != ["64"]:
                    raise self._error(token, "addresses must have 64 bits")
            elif token.text in _WORDS_OF_LINE:
                self._rest_of_line()
            elif not self._have(";"):
                self._declared(found)
        return found

    def _rest_of_line(self) -> list[Token]:
        line = self._peek().line
        found = []
        while self._peek().line == line:
            found.append(self._next())
        return found

    def _declared(self, found: Text) -> None:
        external = False
        while self._peek().text in _LINKAGE:
            external |= self._next().text == ".extern"
        token = self._peek()
        if token.text in (".entry", ".func"):
            kernel = self._kernel()
            if kernel is not None:
                found.kernels[kernel.name] = kernel
        elif token.text in _SPACES:
            found.variables += self._variables(external, lambda name: name)
            self._want(";")
        else:
            raise self._error(token, f"{token.text!r} begins no declaration that the emulator knows")

    def _kernel(self) -> Kernel | None:
        entry = self._next().text == ".entry"
        results = self._params() if not entry and self._peek().text == "(" else []
        name = self._next()
        kernel = Kernel(name=name.text, entry=entry, line=name.line, params=results)
        if self._peek().text == "(":
            kernel.params = results + self._params()
        while self._peek().text not in ("{", ";"):
            word = self._next()
            values: list[int] = []
            while self._peek().kind == "integer":
                values.append(self._integer())
                if not self._have(","):
                    break
            kernel.limits[word.text.lstrip(".")] = tuple(values)
        if self._have(";"):
            return None
        self._want("{")
        self._scopes = [{}]
        self._body(kernel)
        return kernel

    def _params(self) -> list[Variable]:
        self._want("(")
        found: list[Variable] = []
        while not self._have(")"):
            found += self._variables(False, lambda name: name)
            self._have(",")
        return found

    # Variables

    def _variables(self, external: bool, place: Callable[[str], str]) -> list[Variable]:
        """Read declarations up to the mark behind them; `place` gives a variable the name that it has in the module."""
        space = self._next().text.lstrip(".")
        align, kind, count = 0, "", 1
        while True:
            word = self._next()
            if word.text == ".align":
                align = self._integer()
            elif word.text == ".ptr":
                while self._peek().text.startswith("."):
                    if self._next().text == ".align":
                        self._integer()
            elif word.text in (".v2", ".v4"):
                count = int(word.text[2:])
            elif word.text.startswith("."):
                kind = word.text
            else:
                break
        found = []
        while True:
            size = type_bytes(kind) * count
            elements, unknown = 1, False
            while self._have("["):
                if self._have("]"):
                    unknown = True
                    continue
                elements *= self._integer()
                self._want("]")
            name = place(word.text)
            total = 0 if unknown and space != "param" else elements * size
            data, symbols = self._initial(type_bytes(kind), total) if self._have("=") else (None, ())
            if unknown and data is not None:
                total = len(data)
            found.append(Variable(name=name, space=space, size=total, align=align or size, data=data, symbols=symbols,
                                  external=external or (unknown and space == "shared")))
            if space == "param" or not self._have(","):
                return found
            word = self._next()

    def _initial(self, width: int, total: int) -> tuple[bytes, tuple[tuple[int, Name], ...]]:
        data, symbols = bytearray(), []
        depth = 0
        while True:
            if self._have("{"):
                depth += 1
            elif self._have("}"):
                depth -= 1
            elif not self._have(","):
                value = self._operand()
                if isinstance(value, Name):
                    symbols.append((len(data), value))
                    data += bytes(width)
                elif isinstance(value, Float):
                    bits = value.pattern if value.bits else struct.unpack("<Q", struct.pack("<d", value.value))[0]
                    data += bits.to_bytes(8, "little")[:width]
                else:
                    assert isinstance(value, Integer)
                    data += (value.value % (1 << 8 * width)).to_bytes(width, "little")
            if not depth:
                return bytes(data) + bytes(max(0, total - len(data))), tuple(symbols)

    # Bodies

    def _body(self, kernel: Kernel) -> None:
        while self._scopes:
            token = self._peek()
            if token.kind == "undefined":
                self._next()
                kernel.body.append(Defined(self._known(token.text), token.line))
            elif self._have("{"):
                self._scopes.append({})
                self._labels()
            elif self._have("}"):
                self._scopes.pop()
            elif token.text == ".reg":
                self._registers(kernel)
            elif token.text in _WORDS_OF_LINE:
                self._rest_of_line()
            elif token.text == ".pragma":
                while not self._have(";"):
                    self._next()
            elif token.text in _SPACES or token.text in _LINKAGE:
                while self._peek().text in _LINKAGE:
                    self._next()
                kernel.variables += self._variables(False, self._new)
                self._want(";")
            elif self._peek(1).text == ":" and token.kind == "word":
                self._next()
                self._next()
                if self._peek().text == ".branchtargets":
                    self._next()
                    labels = [self._next().text]
                    while self._have(","):
                        labels.append(self._next().text)
                    self._want(";")
                    kernel.targets[token.text] = tuple(labels)
                else:
                    kernel.body.append(Label(self._known(token.text), token.line))
            elif not self._have(";"):
                kernel.body.append(self._instruction())

    def _registers(self, kernel: Kernel) -> None:
        self._next()
        kind = self._next().text.lstrip(".")
        while True:
            name = self._next().text
            if self._have("<"):
                for number in range(self._integer()):
                    kernel.registers[self._new(f"{name}{number}")] = kind
                self._want(">")
            else:
                kernel.registers[self._new(name)] = kind
            if not self._have(","):
                break
        self._want(";")

    def _instruction(self) -> Instruction:
        guard, negated = "", False
        if self._have("@"):
            negated = self._have("!")
            guard = self._known(self._next().text)
        name = self._next()
        if name.kind != "word":
            raise self._error(name, f"{name.text!r} begins no instruction")
        operands: list[Operand] = []
        while not self._have(";"):
            if self._peek().text == "(":
                operands.append(self._list("(", ")"))
            else:
                operands.append(self._operand())
            if self._peek().text != ";":
                self._want(",")
        return Instruction(name.text, tuple(operands), name.line, self._lines[name.line - 1].strip(), guard, negated)
