"""Expressions as text. A vector is computed lane by lane; only accesses of memory move several lanes at once.

What is evaluated only under a condition (`IfThenElse`, the second operand of `And` and `Or`) becomes an operator of the language
if its text is one expression, else statements under an ``if``. An object that stands in several places is computed once.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vtakit.compiler.codegen.clike.accesses import Accesses
from vtakit.compiler.codegen.clike.dialect import Dialect, is_narrow, value_type
from vtakit.compiler.codegen.clike.helpers import DEFINITIONS
from vtakit.compiler.codegen.clike.indices import is_index, narrowed, non_negative, scalar_of
from vtakit.compiler.codegen.clike.text import Functions, Names, bare
from vtakit.compiler.codegen.clike.uses import harmless, uses
from vtakit.compiler.codegen.clike.values import SUMS
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.calls import FLOAT_MATH, FLOAT_PAIRS, FLOAT_TESTS
from vtakit.compiler.ir.dtypes import BOOL, FLOAT32, DType
from vtakit.compiler.ir.values import rounded, value_of

_DIVISIONS = {ir.FloorDiv: "floordiv", ir.FloorMod: "floormod", ir.TruncDiv: "truncdiv", ir.TruncMod: "truncmod"}
_TESTS = {ir.EQ: "==", ir.NE: "!=", ir.LT: "<", ir.LE: "<="}
_BITS = {ir.BitAnd: "&", ir.BitOr: "|", ir.BitXor: "^"}
_MATH = {*FLOAT_MATH, *FLOAT_PAIRS, *FLOAT_TESTS}
_LEAVES = (ir.Var, ir.IntImm, ir.FloatImm, ir.StringImm)


class Expressions(Accesses):
    """The translator of expressions.

    vars : names of variables; of a vector one a lane
    """

    def __init__(self, dialect: Dialect, names: Names, functions: Functions) -> None:
        super().__init__(dialect, names, functions)
        self.vars: dict[ir.Var, tuple[str, ...]] = {}
        self._uses: Counter[int] = Counter()

    def define(self, name: str, definition: str, kinds: tuple[DType, ...]) -> str:
        params = [ir.Var("abc"[at], kind) for at, kind in enumerate(kinds)]
        inner = Expressions(self.dialect, Names(self.dialect), self.functions)
        for param in params:
            inner.vars[param] = (inner.names.fresh(param.name),)
        result = DEFINITIONS[definition](*params)
        with inner.together(result):
            text = bare(inner.text(result))
        inner.line(f"return {text};")
        return self.dialect.function(name, [(p.name, p.dtype) for p in params], result.dtype, inner.lines)

    # One statement's expressions

    @contextmanager
    def together(self, *exprs: ir.Expr) -> Iterator[None]:
        """Within, an object that stands in several of the expressions is computed once: no memory changes meanwhile."""
        outer, self._known = self._known, [{}]
        counts, self._uses = self._uses, uses(exprs)
        try:
            yield
        finally:
            self._known, self._uses = outer, counts
            if len(outer) == 1 and not outer[0]:
                self._alive.clear()

    def text(self, e: ir.Expr, lane: int = 0) -> str:
        """Return the value of an expression, or of one lane, as an operand."""
        if isinstance(e, _LEAVES):
            return self._make(e, lane)
        key = id(e), lane
        self._alive.append(e)
        for known in reversed(self._known):
            if key in known:
                return str(known[key])
        found = self._make(e, lane)
        if self._uses[id(e)] > 1 and not found.isidentifier():
            found = self.named(found, e.dtype)
        self._known[-1][key] = found
        return found

    def named(self, text: str, dtype: DType, wanted: str = "t") -> str:
        """Return a name for a value, unless it is one or a constant."""
        if text.isidentifier() or text.isdigit():
            return text
        name = self.names.fresh(wanted)
        self.line(self.dialect.constant(name, dtype, bare(text)))
        return name

    def _make(self, e: ir.Expr, lane: int) -> str:
        make = _WAYS.get(type(e))
        if make is not None:
            return make(self, e, lane)
        if isinstance(e, ir.Binary):
            return self._binary(e, lane)
        raise CodegenError(f"{type(e).__name__} cannot be written in {self.dialect.name}: {e}; "
                           'run vtakit.compiler.passes.lower_late(f, "gpu") first')

    def _scalar(self, e: ir.Expr, lane: int) -> int:
        """Return the lane of an operand: that of a scalar is 0."""
        return lane if e.dtype.lanes > 1 else 0

    def _operand(self, e: ir.Expr, lane: int) -> str:
        return self.text(e, self._scalar(e, lane))

    @contextmanager
    def lazily(self) -> Iterator[list[str]]:
        """Collect the lines of what is evaluated under a condition; what is computed there is not known elsewhere."""
        self._known.append({})
        try:
            with self.aside() as lines:
                yield lines
        finally:
            self._known.pop()

    # Values

    def _var(self, e: ir.Var, lane: int) -> str:
        found = self.vars.get(e)
        if found is None:
            raise CodegenError(f"the variable {e.name} has no value here: it is neither a parameter, nor a loop's, nor a let's")
        return found[lane]

    def _let(self, e: ir.Let, lane: int) -> str:
        self.bind(e.var, e.value)
        return self.text(e.body, lane)

    def bind(self, var: ir.Var, value: ir.Expr) -> None:
        """Declare a let's variable."""
        if any((id(var), "bound") in known for known in self._known):
            return
        lanes = value.dtype.lanes
        texts = [self.text(value, lane) for lane in range(lanes)]
        names = tuple(self.names.fresh(var.name if lanes == 1 else f"{var.name}_{lane}") for lane in range(lanes))
        for name, text in zip(names, texts, strict=True):
            self.line(self.dialect.constant(name, value.dtype, bare(text)))
        self.vars[var] = names
        self._known[-1][id(var), "bound"] = var
        if is_index(value, self.indices) and non_negative(value, self.indices):
            self.indices.add(var)

    def _broadcast(self, e: ir.Broadcast, lane: int) -> str:
        return self._once(e.value)

    def _once(self, e: ir.Expr) -> str:
        """Return the value of a scalar that each lane uses, computed once."""
        if isinstance(e, _LEAVES):
            return self.text(e)
        key = id(e), "once"
        self._alive.append(e)
        for known in reversed(self._known):
            if key in known:
                return str(known[key])
        found = self._known[-1][key] = self.named(self.text(e), e.dtype)
        return found

    def _ramp(self, e: ir.Ramp, lane: int) -> str:
        base = self._once(e.base)
        stride = value_of(e.stride)
        if lane == 0:
            return base
        plain = is_index(e, self.indices)
        if isinstance(stride, int):
            step = self.dialect.integer(stride * lane, e.base.dtype)
        else:
            step = self.sum(ir.Mul, self._once(e.stride), self.dialect.integer(lane, e.base.dtype), e.base.dtype, plain=plain)
        return self.sum(ir.Add, base, step, e.base.dtype, plain=plain)

    # Operations

    def _binary(self, e: ir.Binary, lane: int) -> str:
        kind, dtype = type(e), e.a.dtype.scalar
        if isinstance(e, ir.And | ir.Or):
            return self._logic(e, lane)
        if kind in _TESTS and self._is_wide_index(e.a) and self._is_wide_index(e.b):
            e = e.replace(a=narrowed(e.a), b=narrowed(e.b))
        a, b = self._operand(e.a, lane), self._operand(e.b, lane)
        if kind in _TESTS:
            if dtype.is_bool and kind in (ir.LT, ir.LE):
                a, b = (self.from_bool(x) for x in (a, b))
            return f"({a} {_TESTS[kind]} {b})"
        if dtype.is_float:
            return self.float(kind, a, b, dtype, e)
        if dtype.is_bool:
            return self.bools(kind, a, b, e)
        if kind in _BITS:
            return f"({a} {_BITS[kind]} {b})"
        if kind is ir.ShiftRight:
            return self.dialect.shift_right(a, b, dtype)
        if kind is ir.ShiftLeft or kind in SUMS:
            return self.sum(kind, a, b, dtype, plain=kind in SUMS and is_index(e, self.indices))
        if kind in (ir.Min, ir.Max):
            test = f"({b} < {a})" if kind is ir.Min else f"({a} < {b})"
            if a.isidentifier() and b.isidentifier():
                return self.dialect.select(test, b, a)
            return self.call("min" if kind is ir.Min else "max", (a, b), (dtype, dtype), dtype)
        if kind in _DIVISIONS:
            return self._division(e, a, b, dtype)
        raise CodegenError(f"{e.symbol} of {dtype} has no meaning: {e}")

    def _division(self, e: ir.Binary, a: str, b: str, dtype: DType) -> str:
        kind, divisor = type(e), value_of(scalar_of(e.b))
        quotient = kind in (ir.FloorDiv, ir.TruncDiv)
        positive = isinstance(divisor, int) and divisor > 0
        if dtype.code == "uint" or (positive and (kind in (ir.TruncDiv, ir.TruncMod) or non_negative(e.a, self.indices))):
            return self.native(a, b, dtype, quotient=quotient)
        if positive and isinstance(divisor, int) and divisor & (divisor - 1) == 0:
            if quotient:
                return self.dialect.shift_right(a, self.dialect.integer(divisor.bit_length() - 1, dtype), dtype)
            return f"({a} & {self.dialect.integer(divisor - 1, dtype)})"
        return self.call(_DIVISIONS[kind], (a, b), (dtype, dtype), dtype)

    def _logic(self, e: ir.And | ir.Or, lane: int) -> str:
        is_and = isinstance(e, ir.And)
        a = self._operand(e.a, lane)
        with self.lazily() as lines:
            b = self._operand(e.b, lane)
        if not lines:
            return f"({a} {'&&' if is_and else '||'} {b})"
        name = self.names.fresh("holds")
        self.line(self.dialect.variable(name, BOOL))
        self.line(f"{name} = {bare(a)};")
        self._branch(f"if ({name if is_and else f'!{name}'}) {{", lines, f"{name} = {bare(b)};")
        self.line("}")
        return name

    def _branch(self, head: str, lines: list[str], last: str) -> None:
        self.line(head)
        self.lines += lines
        with self.indent():
            self.line(last)

    def _not(self, e: ir.Not, lane: int) -> str:
        return f"(!{self._operand(e.a, lane)})"

    def _select(self, e: ir.Select, lane: int) -> str:
        return self.dialect.select(*(self._operand(part, lane) for part in (e.condition, e.true, e.false)))

    def _if_then_else(self, e: ir.IfThenElse, lane: int) -> str:
        condition = self._operand(e.condition, lane)
        outer, self._masked = self._masked, self._masked or e.condition.dtype.lanes > 1
        sides: list[tuple[list[str], str]] = []
        for part in (e.true, e.false):
            with self.lazily() as lines:
                sides.append((lines, self._operand(part, lane)))
        self._masked = outer
        if not sides[0][0] and not sides[1][0] and (self.dialect.ternary or (harmless(e.true) and harmless(e.false))):
            return self.dialect.select(condition, *(value for _, value in sides))
        name = self.names.fresh("chosen")
        self.line(self.dialect.variable(name, e.dtype))
        for head, (lines, value) in zip((f"if ({bare(condition)}) {{", "} else {"), sides, strict=True):
            self._branch(head, lines, f"{name} = {bare(value)};")
        self.line("}")
        return name

    def _cast(self, e: ir.Cast, lane: int) -> str:
        of, to = e.value.dtype.scalar, e.dtype.scalar
        if "handle" in (of.code, to.code):
            raise CodegenError(f"an address cannot be converted: {e}")
        return self.converted(self._operand(e.value, lane), of, to)

    # Calls

    def _call(self, e: ir.Call, lane: int) -> str:
        args = tuple(self._operand(arg, lane) for arg in e.args)
        dtype, d = e.dtype.scalar, self.dialect
        kinds = tuple(value_type(arg.dtype) for arg in e.args)
        match e.name:
            case "reinterpret":
                return d.reinterpret(bare(args[0]), e.args[0].dtype, dtype)
            case "quotient" | "remainder":
                return self.native(args[0], args[1], dtype, quotient=e.name == "quotient")
            case "abs":
                if dtype.is_float:
                    return f"{d.functions['fabs']}({bare(args[0])})"
                return args[0] if dtype.code != "int" else self.call("absolute", args, (dtype,), dtype)
            case "popcount" | "clz":
                return self.count_bits(e, args[0])
            case "fma":
                return self.fma(args, dtype)
        if e.kind == "pure" and e.name in _MATH:
            if is_narrow(dtype) and e.name == "nextafter":
                return self.call("half_next" if dtype.code == "float" else "bfloat_next", args, kinds, FLOAT32)
            if e.name in d.functions:
                return self.rounded(f"{d.functions[e.name]}({', '.join(map(bare, args))})", dtype)
            if e.name in DEFINITIONS:
                return self.rounded(self.call(e.name, args, kinds, kinds[0]), dtype)
        if e.name in DEFINITIONS:
            return self.call(e.name, args, kinds, value_type(e.dtype))
        raise CodegenError(d.conversion(e))


_WAYS: dict[type[ir.Expr], Callable[[Expressions, Any, int], str]] = {
    ir.Var: Expressions._var, ir.Let: Expressions._let,
    ir.IntImm: lambda x, e, _: x.dialect.integer(e.value, e.dtype),
    ir.FloatImm: lambda x, e, _: x.dialect.floating(rounded(e.value, e.dtype), e.dtype),
    ir.Broadcast: Expressions._broadcast, ir.Ramp: Expressions._ramp, ir.Not: Expressions._not, ir.Select: Expressions._select,
    ir.IfThenElse: Expressions._if_then_else, ir.Cast: Expressions._cast, ir.Load: Expressions._load, ir.Call: Expressions._call,
}
