"""Writing LLVM's text: each instruction checks the types of its operands as it is made.

A module that LLVM's own checks would refuse ends the process, so nothing may reach LLVM that is not well typed. That each
value is made before it is used follows from how statements nest; LLVM's verifier looks again before anything else does.
"""

from collections.abc import Callable, Sequence

from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.declarations import Declarations
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant, lane_constants
from vtakit.compiler.codegen.llvm.text.setups import Setups, Slot


class Block:
    """A basic block being written."""

    __slots__ = ("label", "lines")

    def __init__(self, label: str) -> None:
        self.label = label
        self.lines: list[str | Phi | Slot] = []


class Phi:
    """A phi whose incoming values are added as their blocks are written."""

    __slots__ = ("incoming", "value")

    def __init__(self, value: Value) -> None:
        self.value = value
        self.incoming: list[tuple[Value, str]] = []

    def add(self, value: Value, block: Block) -> None:
        assert value.type == self.value.type, f"phi of {self.value} cannot take {value}"
        self.incoming.append((value, block.label))

    def __str__(self) -> str:
        pairs = ", ".join(f"[ {value.ref}, %{label} ]" for value, label in self.incoming)
        return f"{self.value.ref} = phi {self.value.type} {pairs}"


_INT_OPS = {"add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "and", "or", "xor", "shl", "lshr", "ashr"}
_FLOAT_OPS = {"fadd", "fsub", "fmul", "fdiv", "frem"}
_CASTS = {  # operation -> (from integers?, to integers?, how widths compare)
    "trunc": (True, True, -1), "zext": (True, True, 1), "sext": (True, True, 1),
    "fptrunc": (False, False, -1), "fpext": (False, False, 1),
    "fptosi": (False, True, 0), "fptoui": (False, True, 0), "sitofp": (True, False, 0), "uitofp": (True, False, 0),
}


class Builder:
    """One function being written. `at` is the block that instructions go to."""

    def __init__(self, header: str, declare: Declarations) -> None:
        self.header, self.declare = header, declare
        self.entry = self.at = Block("entry")
        self.blocks = [self.entry]
        self.allocas: list[str] = []
        self.count = 0
        self.setups = Setups()
        self.at.lines.append(self.setups.entry)

    def text(self) -> str:
        """Return the text of the finished function."""
        self.setups.finish()
        body = []
        for block in self.blocks:
            body.append(f"{block.label}:")
            if block is self.entry:
                body += [f"  {line}" for line in self.allocas]
            for line in block.lines:
                body += [f"  {each}" for each in (line.lines if isinstance(line, Slot) else [line])]
        return "\n".join((f"{self.header} {{", *body, "}"))

    def here(self) -> tuple[Block, int]:
        """Return the position of the next instruction, for `undisturbed`."""
        return self.at, len(self.at.lines)

    def undisturbed(self, since: tuple[Block, int]) -> bool:
        """Return whether only values were computed since `here` was called: no jump, no store, no call."""
        block, lines = since
        return block is self.at and all(isinstance(line, str) and line.startswith("%") and " call " not in line
                                        for line in block.lines[lines:])

    def _value(self, type_: str, text: str) -> Value:
        self.count += 1
        ref = f"%v{self.count}"
        self.at.lines.append(f"{ref} = {text}")
        return Value(ref, type_)

    # Blocks.

    def block(self, hint: str) -> Block:
        """A new block, not yet placed."""
        self.count += 1
        return Block(f"{hint}.{self.count}")

    def place(self, block: Block) -> None:
        """Go on in the block, which comes next in the text."""
        self.blocks.append(block)
        self.at = block

    def jump(self, to: Block) -> None:
        self.at.lines.append(f"br label %{to.label}")

    def branch(self, condition: Value, then: Block, otherwise: Block, *, likely: bool | None = None, loop: str = "") -> None:
        assert condition.type == "i1", condition
        notes = ("" if likely is None else ", !prof !1" if likely else ", !prof !2") + (f", !llvm.loop {loop}" if loop else "")
        self.at.lines.append(f"br i1 {condition.ref}, label %{then.label}, label %{otherwise.label}{notes}")

    def loop_begins(self) -> None:
        """Mark the start of a loop that ends at `loop_ends`: setups of `prepare` may be hoisted to this place."""
        self.at.lines.append(self.setups.begin())

    def loop_ends(self) -> None:
        self.setups.end()

    def prepare(self, line: str, undo: str) -> None:
        """Have `line`, a call whose effect a call of another function ends, done before what follows; `undo` on returning."""
        self.at.lines.append(self.setups.want(line, undo))

    def ret(self, value: Value | None = None) -> None:
        self.at.lines.append(self.setups.leave())
        self.at.lines.append("ret void" if value is None else f"ret {value}")

    def phi(self, type_: str) -> Phi:
        self.count += 1
        phi = Phi(Value(f"%v{self.count}", type_))
        self.at.lines.append(phi)
        return phi

    def repeat(
        self, hint: str, first: Value, end: Value, by: int, carried: Sequence[Value],
        make: Callable[[Value, list[Value]], list[Value]],
    ) -> list[Value]:
        """``for p in range(first, end, by): carried = make(p, carried)``; gives the last ones. `by` divides the length."""
        before, body, after = self.at, self.block(hint), self.block("done")
        self.branch(self.icmp("slt", first, end), body, after)
        self.place(body)
        p, phis = self.phi("i64"), [self.phi(value.type) for value in carried]
        found = make(p.value, [phi.value for phi in phis])
        following, latch = self.op("add", p.value, int_constant("i64", by), "nuw nsw"), self.at
        self.branch(self.icmp("slt", following, end), body, after)
        p.add(first, before)
        p.add(following, latch)
        self.place(after)
        finals = [self.phi(value.type) for value in carried]
        for phi, final, start, last in zip(phis, finals, carried, found, strict=True):
            for one in (phi, final):
                one.add(start, before)
                one.add(last, latch)
        return [final.value for final in finals]

    # Arithmetic.

    def op(self, name: str, a: Value, b: Value, flags: str = "") -> Value:
        """An instruction of two operands of one type."""
        fits = ty.is_int(a.type) if name in _INT_OPS else name in _FLOAT_OPS and ty.is_float(a.type)
        assert fits, f"{name} of {a} and {b}"
        assert a.type == b.type, f"{name} of {a} and {b}"
        return self._value(a.type, f"{name} {flags}{' ' if flags else ''}{a}, {b.ref}")

    def fneg(self, a: Value) -> Value:
        assert ty.is_float(a.type), a
        return self._value(a.type, f"fneg {a}")

    def icmp(self, test: str, a: Value, b: Value) -> Value:
        fits = a.type == b.type and (ty.is_int(a.type) or a.type == "ptr")
        assert fits, f"icmp of {a} and {b}"
        return self._value(ty.like("i1", a.type), f"icmp {test} {a}, {b.ref}")

    def fcmp(self, test: str, a: Value, b: Value) -> Value:
        fits = a.type == b.type and ty.is_float(a.type)
        assert fits, f"fcmp of {a} and {b}"
        return self._value(ty.like("i1", a.type), f"fcmp {test} {a}, {b.ref}")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        fits = a.type == b.type and condition.type in ("i1", ty.like("i1", a.type))
        assert fits, f"select of {condition}, {a}, {b}"
        return self._value(a.type, f"select {condition}, {a}, {b}")

    def convert(self, name: str, a: Value, to: str) -> Value:
        """A conversion of each lane; nothing if the type is that already."""
        if a.type == to:
            return a
        from_int, to_int, wider = _CASTS[name]
        fits = ty.is_int(a.type) == from_int and ty.is_int(to) == to_int and ty.split(a.type)[1] == ty.split(to)[1]
        fits = fits and (wider == 0 or (ty.bits(to) - ty.bits(a.type)) * wider > 0)
        assert fits, f"{name} of {a} to {to}"
        return self._value(to, f"{name} {a} to {to}")

    def bitcast(self, a: Value, to: str) -> Value:
        """Return the bits of a value as another type."""
        if a.type == to:
            return a
        assert ty.bits(a.type) * (ty.split(a.type)[1] or 1) == ty.bits(to) * (ty.split(to)[1] or 1), f"bitcast of {a} to {to}"
        return self._value(to, f"bitcast {a} to {to}")

    def freeze(self, a: Value) -> Value:
        """Some value where LLVM's is undefined, the same wherever it is used: what follows stays defined."""
        return self._value(a.type, f"freeze {a}")

    # Vectors.

    def splat(self, a: Value, lanes: int) -> Value:
        """The scalar in each of `lanes` lanes."""
        to = ty.vector(a.type, lanes)
        assert not ty.split(a.type)[1], a
        if not a.ref.startswith("%"):
            return Value(f"splat ({a})", to)
        first = self._value(to, f"insertelement {to} poison, {a}, i32 0")
        return self._value(to, f"shufflevector {first}, {to} poison, <{lanes} x i32> zeroinitializer")

    def extract(self, a: Value, lane: int) -> Value:
        assert 0 <= lane < ty.split(a.type)[1], f"lane {lane} of {a}"
        return self._value(ty.scalar(a.type), f"extractelement {a}, i32 {lane}")

    def insert(self, into: Value, a: Value, lane: int) -> Value:
        fits = ty.scalar(into.type) == a.type and 0 <= lane < ty.split(into.type)[1]
        assert fits, f"{a} into lane {lane} of {into}"
        return self._value(into.type, f"insertelement {into}, {a}, i32 {lane}")

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        """The given lanes of `a` and `b` taken as one vector."""
        scalar, count = ty.split(a.type)
        fits = a.type == b.type and count > 0 and all(0 <= lane < 2 * count for lane in lanes)
        assert fits, f"shuffle of {a}, {b} by {lanes}"
        return self._value(ty.vector(scalar, len(lanes)), f"shufflevector {a}, {b}, {lane_constants('i32', lanes)}")

    def joined(self, parts: Sequence[Value]) -> Value:
        """Vectors of one type as one, the first in front; their number is a power of two."""
        found = [*parts]
        while len(found) > 1:
            found = [self.shuffle(a, b, range(2 * ty.split(a.type)[1])) for a, b in zip(found[::2], found[1::2], strict=True)]
        return found[0]

    def per_lane(self, make: Callable[..., Value], *args: Value) -> Value:
        """A scalar operation applied to each lane, one after another."""
        lanes = ty.split(args[0].type)[1]
        if not lanes:
            return make(*args)
        found: Value | None = None
        for lane in range(lanes):
            one = make(*(self.extract(arg, lane) for arg in args))
            found = self.insert(found or Value("poison", ty.vector(one.type, lanes)), one, lane)
        assert found is not None
        return found

    # Memory.

    def alloca(self, type_: str, align: int, count: int = 1) -> Value:
        """Memory of the function's frame, made on entry."""
        self.count += 1
        self.allocas.append(f"%v{self.count} = alloca {type_}, i64 {count}, align {align}")
        return Value(f"%v{self.count}", "ptr")

    def address(self, base: Value, type_: str, index: Value) -> Value:
        """The address of an element; a vector of addresses for a vector of indices."""
        fits = base.type == "ptr" and ty.is_int(index.type)
        assert fits, f"element {index} of {base}"
        return self._value(ty.like("ptr", index.type), f"getelementptr inbounds {type_}, {base}, {index}")

    def behind(self, base: Value, count: Value) -> Value:
        """The address of so many bytes further on, which may lie outside of the memory that `base` is in: not to be read."""
        assert base.type == "ptr", base
        return self._value("ptr", f"getelementptr i8, {base}, {count}")

    def field(self, base: Value, record: str, number: int) -> Value:
        """The address of a field of a structure."""
        assert base.type == "ptr", base
        return self._value("ptr", f"getelementptr inbounds {record}, {base}, i32 0, i32 {number}")

    def address_as_int(self, a: Value) -> Value:
        assert a.type == "ptr", a
        return self._value("i64", f"ptrtoint {a} to i64")

    def assume_aligned(self, a: Value, align: int) -> None:
        """Tell LLVM that an address is a multiple of `align`."""
        self.declare.use("llvm.assume", "void", ["i1"], ())
        self.at.lines.append(f'call void @llvm.assume(i1 true) [ "align"({a}, i64 {align}) ]')

    def load(self, type_: str, address: Value, align: int) -> Value:
        assert address.type == "ptr", address
        return self._value(type_, f"load {type_}, {address}, align {align}")

    def store(self, value: Value, address: Value, align: int) -> None:
        assert address.type == "ptr", address
        self.at.lines.append(f"store {value}, {address}, align {align}")

    def flag(self, address: Value) -> Value:
        """An i32 that another thread may store at the same time."""
        assert address.type == "ptr", address
        return self._value("i32", f"load atomic i32, {address} monotonic, align 4")

    def raise_flag(self, status: Value, address: Value) -> None:
        """A store that another thread may do too."""
        fits = status.type == "i32" and address.type == "ptr"
        assert fits, (status, address)
        self.at.lines.append(f"store atomic {status}, {address} monotonic, align 4")

    # Calls.

    def call(self, name: str, returns: str, *args: Value, attributes: str = "", extend: Sequence[str] = ()) -> Value:
        """A call of a function, which is declared if it is not defined here.

        extend : for each argument "signext ", "zeroext " or ""; then the same for the result
        """
        self.declare.use(name, returns, [arg.type for arg in args], extend)
        if not name.startswith("llvm."):
            self.setups.disturb()
        marks = [*extend, *[""] * (len(args) + 1 - len(extend))]
        listed = ", ".join(f"{arg.type} {mark}{arg.ref}" for arg, mark in zip(args, marks, strict=False))
        text = f"call {marks[len(args)]}{returns} @{name}({listed}){attributes}"
        if returns == "void":
            self.at.lines.append(text)
            return Value("", "void")
        return self._value(returns, text)

    def intrinsic(self, name: str, returns: str, *args: Value) -> Value:
        """A call of one of LLVM's own functions; `name` has the suffixes of its types."""
        return self.call(f"llvm.{name}", returns, *args)
