"""Operations on texts of values, in the IR's meaning: wrapping integers, floor division, NaN passed on by min and max."""

from abc import abstractmethod

from vtakit.compiler.codegen.clike.dialect import Dialect, is_narrow, value_type
from vtakit.compiler.codegen.clike.helpers import UINT64
from vtakit.compiler.codegen.clike.math import UINT32
from vtakit.compiler.codegen.clike.text import Functions, Lines, Names, bare
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import FLOAT32, INT32, DType

SUMS = {ir.Add: "+", ir.Sub: "-", ir.Mul: "*"}
_FLOATING = {**SUMS, ir.Div: "/"}
_ONE_TYPE = {"half_value", "half_bits", "half_round", "bfloat_value", "bfloat_bits", "bfloat_round", "to_odd", "narrow_fma",
             "half_next", "bfloat_next"}


class Values(Lines):
    """Operations in a dialect. Texts are operands; see `Dialect`."""

    def __init__(self, dialect: Dialect, names: Names, functions: Functions) -> None:
        super().__init__(names)
        self.dialect, self.functions = dialect, functions

    @abstractmethod
    def define(self, name: str, definition: str, kinds: tuple[DType, ...]) -> str:
        """Return the text of a function under a name, from `DEFINITIONS`, for parameters of these types."""

    def call(self, name: str, args: tuple[str, ...], kinds: tuple[DType, ...], returns: DType) -> str:
        """Return a call of a function of ours; it is defined where it is not yet."""
        wanted = f"vt_{name}" if name in _ONE_TYPE else f"vt_{name}_{kinds[0]}"
        called = self.functions.name((name, kinds), wanted, lambda found: self.define(found, name, kinds))
        return f"{called}({', '.join(map(bare, args))})"

    def sum(self, node: type[ir.Binary], a: str, b: str, dtype: DType, *, plain: bool) -> str:
        if plain and dtype.bits >= 32:
            if node is not ir.Mul and _is_sum(a):
                a = bare(a)
            return f"({a} {SUMS[node]} {b})"
        return self.dialect.wrapping(node, a, b, dtype)

    def native(self, a: str, b: str, dtype: DType, *, quotient: bool) -> str:
        """Return the language's own quotient or remainder of integers."""
        text = f"({a} {'/' if quotient else '%'} {b})"
        return text if dtype.bits >= 32 or dtype.code == "uint" else self.dialect.convert(text, INT32, dtype)

    def float(self, kind: type[ir.Binary], a: str, b: str, dtype: DType, e: ir.Expr) -> str:
        wide = value_type(dtype)
        if kind in (ir.Min, ir.Max):
            return self.call("min" if kind is ir.Min else "max", (a, b), (wide, wide), wide)
        if kind in _FLOATING:
            return self.rounded(f"({a} {_FLOATING[kind]} {b})", dtype)
        if kind is ir.TruncMod:
            own = self.dialect.functions.get("fmod")
            args = (a, b)
            return self.rounded(f"{own}({bare(a)}, {bare(b)})" if own else self.call("fmod", args, (wide, wide), wide), dtype)
        if kind is ir.FloorMod:
            return self.rounded(self.call("floormod", (a, b), (wide, wide), wide), dtype)
        raise CodegenError(f"{kind.__name__} of {dtype} has no meaning: {e}")

    def bools(self, kind: type[ir.Binary], a: str, b: str, e: ir.Expr) -> str:
        if kind in (ir.BitAnd, ir.Min):
            return f"({a} && {b})"
        if kind in (ir.BitOr, ir.Max):
            return f"({a} || {b})"
        if kind is ir.BitXor:
            return f"({a} != {b})"
        raise CodegenError(f"{kind.__name__} of bool has no meaning: {e}")

    def rounded(self, text: str, dtype: DType) -> str:
        """Return a float32 as float16 or bfloat16 can hold it; any other value as it is."""
        if not is_narrow(dtype):
            return text
        if dtype.code == "float" and (found := self.dialect.round_half(text)):
            return found
        return self.call("half_round" if dtype.code == "float" else "bfloat_round", (text,), (FLOAT32,), FLOAT32)

    def converted(self, text: str, of: DType, to: DType) -> str:
        """Return a value in another type, as the IR's `Cast` means it."""
        if to.is_bool:
            return text if of.is_bool else f"({text} != {self.dialect.integer(0, of) if of.is_int else '0.0'})"
        if of.is_bool:
            return self.dialect.convert(self.from_bool(text), UINT32, to)
        if of.is_float and of.bits == 64 and is_narrow(to):
            odd = self.call("to_odd", (text,), (of,), FLOAT32) if to.code == "float" else self.dialect.convert(text, of, FLOAT32)
            return self.rounded(odd, to)
        exact = of.is_float and of.code == to.code and of.bits <= to.bits
        if value_type(of) is not value_type(to):
            text = self.dialect.convert(text, of, to)
        return text if exact else self.rounded(text, to)

    def from_bool(self, text: str) -> str:
        return self.dialect.select(text, self.dialect.integer(1, UINT32), self.dialect.integer(0, UINT32))

    def from_element(self, text: str, dtype: DType) -> str:
        """Return the value of an element."""
        if dtype.is_bool:
            return f"({text} != 0)"
        if is_narrow(dtype):
            return self.call("half_value" if dtype.code == "float" else "bfloat_value", (text,), (UINT32,), FLOAT32)
        return text

    def to_element(self, text: str, dtype: DType) -> str:
        """Return a value as an element."""
        if dtype.is_bool:
            return self.from_bool(text)
        if is_narrow(dtype):
            return self.call("half_bits" if dtype.code == "float" else "bfloat_bits", (text,), (FLOAT32,), UINT32)
        return text

    def count_bits(self, e: ir.Call, text: str) -> str:
        of = e.args[0].dtype.scalar
        wide = UINT64 if of.bits == 64 else UINT32
        mask = self.dialect.integer((1 << of.bits) - 1, wide)
        whole = self.dialect.convert(text, of, wide)
        whole = f"({whole} & {mask})" if of.bits < wide.bits else whole
        found = self.dialect.count(e.name, bare(whole), wide)
        if e.name == "clz" and of.bits < wide.bits:
            found = f"({found} - {self.dialect.integer(wide.bits - of.bits, wide)})"
        return self.dialect.convert(found, wide, e.dtype.scalar)

    def fma(self, args: tuple[str, ...], dtype: DType) -> str:
        if not dtype.is_float:
            return self.dialect.wrapping(ir.Add, self.dialect.wrapping(ir.Mul, args[0], args[1], dtype), args[2], dtype)
        if is_narrow(dtype):
            return self.rounded(self.call("narrow_fma", args, (FLOAT32,) * 3, FLOAT32), dtype)
        return f"{self.dialect.functions['fma']}({', '.join(map(bare, args))})"



def _is_sum(text: str) -> bool:
    """Return whether an operand is a plain sum or product, which another sum may follow."""
    inner = bare(text)
    return inner is not text and not any(c in inner for c in "<>=&|^?!") and not inner.startswith("(int)(")
