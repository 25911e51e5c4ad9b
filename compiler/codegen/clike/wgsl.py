"""WebGPU Shading Language (W3C, WebGPU Shading Language).

It has no integers of 64 bits, no 64-bit floats, and memory of 32-bit words only: an element of a narrower type takes a word of
its own. Indices of 64 bits are computed in 32: a buffer has less than 2**31 elements.
"""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from vtakit.compiler.codegen.clike.cfamily import digits
from vtakit.compiler.codegen.clike.dialect import Dialect, Memory, is_narrow, value_type
from vtakit.compiler.codegen.clike.places import Place
from vtakit.compiler.codegen.clike.text import indented
from vtakit.compiler.codegen.gpu.launches import Launch
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import INT32, DType, dtype

_UINT32 = dtype("uint32")
_WORDS = """
    alias break case const const_assert continue continuing default diagnostic discard else enable false fn for if let loop
    override requires return struct switch true var while array atomic bool f32 f16 i32 u32 vec2 vec3 vec4 mat2x2 mat3x3
    mat4x4 ptr sampler texture select bitcast min max abs clamp extractBits countOneBits countLeadingZeros workgroupBarrier
    storageBarrier group local_thread NULL Self abstract active alignas alignof as asm asm_fragment async attribute auto await
    become cast catch class co_await co_return co_yield coherent column_major common compile compile_fragment concept
    const_cast consteval constexpr constinit crate debugger decltype delete demote demote_to_helper do dynamic_cast enum
    explicit export extends extern external fallthrough filter final finally friend from fxgroup get goto groupshared highp
    impl implements import inline instanceof interface layout lowp macro match mediump meta mod module move mut mutable
    namespace new nil noexcept noinline nointerpolation non_coherent noncoherent noperspective null nullptr of operator
    package packoffset partition pass patch pixelfragment precise precision premerge priv protected pub public readonly ref
    regardless register reinterpret_cast resource restrict self set shared sizeof smooth snorm static static_assert
    static_cast std subroutine super target template this thread_local throw trait try type typedef typeid typename typeof
    union unless unorm unsafe unsized use using varying virtual volatile wgsl where with writeonly yield read write read_write
    storage uniform workgroup function private handle step mix dot cross sign fract modf frexp ldexp length distance normalize
    reflect round saturate transpose
"""
_SYMBOLS = {ir.Add: "+", ir.Sub: "-", ir.Mul: "*", ir.ShiftLeft: "<<"}


class Wgsl(Dialect):
    """WGSL. An implementation may assume that floats are neither infinite nor NaN."""

    name: ClassVar[str] = "WGSL"
    ternary: ClassVar[bool] = False
    wide_ints: ClassVar[bool] = False
    module_scope: ClassVar[bool] = True
    functions: ClassVar[Mapping[str, str]] = {
        **{name: name for name in (
            "exp", "exp2", "log", "log2", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh",
            "acosh", "atanh", "floor", "ceil", "trunc", "pow", "atan2", "fma",
        )},
        "rsqrt": "inverseSqrt", "nearbyint": "round", "fabs": "abs",
    }
    reserved: ClassVar[frozenset[str]] = frozenset({*_WORDS.split(), *functions.values()})

    def value(self, dtype: DType) -> str:
        kind = value_type(dtype)
        if kind.is_bool:
            return "bool"
        if kind.bits == 64:
            raise self.missing(dtype, f"use {kind.code}32")
        if kind.is_float:
            return "f32"
        return "i32" if kind.code == "int" else "u32"

    def element(self, dtype: DType) -> str:
        return "u32" if is_narrow(dtype) or dtype.is_bool else self.value(dtype)

    # Expressions

    def integer(self, value: int, dtype: DType) -> str:
        if dtype.is_bool:
            return "true" if value else "false"
        kind = self.value(dtype)
        if kind == "u32":
            return f"{value}u"
        if value == INT32.min:
            return f"(-{-value - 1} - 1)"
        return str(value) if value >= 0 else f"({value})"

    def floating(self, value: float, dtype: DType) -> str:
        self.value(dtype)
        if not math.isfinite(value):  # a constant expression must not be either
            return f"vt_float({'0x7fc00000u' if math.isnan(value) else '0x7f800000u' if value > 0 else '0xff800000u'})"
        text = digits(value, 32)
        return f"({text})" if text[0] == "-" else text

    def convert(self, text: str, of: DType, to: DType) -> str:
        kind, into = self.value(to), value_type(to)
        if into.is_float:
            return f"f32({text})"
        if into.bits == 32:
            return f"{kind}({text})"
        if of.is_float:
            text = f"i32({text})"
        if into.code == "int":
            return f"extractBits(i32({text}), 0u, {into.bits}u)"
        return f"(u32({text}) & {(1 << into.bits) - 1}u)"

    def reinterpret(self, text: str, of: DType, to: DType) -> str:
        return f"bitcast<{self.value(to)}>({text})"

    def wrapping(self, node: type[ir.Binary], a: str, b: str, dtype: DType) -> str:
        found = f"({a} {_SYMBOLS[node]} {f'u32({b})' if node is ir.ShiftLeft else b})"
        if dtype.bits == 32:
            return found
        return self.convert(found, INT32 if dtype.code == "int" else _UINT32, dtype)

    def shift_right(self, a: str, b: str, dtype: DType) -> str:
        return f"({a} >> u32({b}))"

    def select(self, condition: str, true: str, false: str) -> str:
        return f"select({false}, {true}, {condition})"

    def count(self, name: str, text: str, dtype: DType) -> str:
        return f"{'countOneBits' if name == 'popcount' else 'countLeadingZeros'}({text})"

    # Statements

    def constant(self, name: str, dtype: DType, value: str) -> str:
        return f"let {name}: {self.value(dtype)} = {value};"

    def held(self, name: str, dtype: DType, text: str) -> str:
        return f"let {name}: {self.element(dtype)} = {text};"

    def variable(self, name: str, dtype: DType) -> str:
        return f"var {name}: {self.value(dtype)};"

    def loop(self, name: str, dtype: DType, extent: str) -> str:
        return f"for (var {name}: {self.value(dtype)} = 0; {name} < {extent}; {name}++) {{"

    def barrier(self) -> str:
        return "workgroupBarrier(); storageBarrier();"

    def function(self, name: str, params: Sequence[tuple[str, DType]], returns: DType, body: Sequence[str]) -> str:
        given = ", ".join(f"{param}: {self.value(dtype)}" for param, dtype in params)
        return "\n".join([f"fn {name}({given}) -> {self.value(returns)} {{", *indented(body), "}"])

    # Kernels

    def parameter(self, name: str, kinds: Sequence[DType], *, written: bool, number: int) -> Memory:
        word, places = self._places(name, kinds)
        access = "read_write" if written else "read"
        return Memory("", places, (f"@group(0) @binding({number}) var<storage, {access}> {name}: array<{word}>;",))

    def _places(self, name: str, kinds: Sequence[DType]) -> tuple[str, dict[DType, Place]]:
        words = [self.element(kind) for kind in kinds]
        word = words[0] if len({*words}) == 1 else "u32"
        return word, {kind: Words(name, kind, self.element(kind), "" if self.element(kind) == word else word) for kind in kinds}

    def scalar(self, name: str, dtype: DType) -> tuple[str, str]:
        kind = "u32" if dtype.is_bool else self.value(dtype)
        return f"{name}: {kind}", f"({{args}}.{name} != 0u)" if dtype.is_bool else f"{{args}}.{name}"

    def shared(self, name: str, kinds: Sequence[DType], size: int) -> Memory:
        word, places = self._places(name, kinds)
        elements = max(1, *(size // kind.bytes for kind in kinds))
        return Memory("", places, (f"var<workgroup> {name}: array<{word}, {elements}>;",))

    def own(self, name: str, dtype: DType, elements: int) -> Memory:
        kind = "f32" if is_narrow(dtype) else self.element(dtype)  # values, which no other type shares
        place = Words(name, dtype, kind, direct=is_narrow(dtype))
        return Memory(f"var {name}: array<{kind}, {elements}>;", {dtype: place})

    def thread_index(self, tag: str) -> str:
        return f"i32({'group' if tag.startswith('block') else 'local_thread'}.{tag[-1]})"

    def kernel(self, name: str, launch: Launch, params: Sequence[str], scalars: Sequence[str], shared: Sequence[str],
               body: Sequence[str]) -> str:
        args = f"{name}_args"
        lines = [line.replace("{args}", args) for line in body]
        head = []
        if scalars:
            head = [f"struct {name}_scalars {{ {', '.join(scalars)} }}",
                    f"@group(0) @binding({len(params)}) var<uniform> {args}: {name}_scalars;"]
        size = ", ".join(map(str, launch.block))
        entry = (f"@compute @workgroup_size({size})\nfn {name}(@builtin(workgroup_id) group: vec3<u32>, "
                 "@builtin(local_invocation_id) local_thread: vec3<u32>) {")
        return "\n".join([*head, entry, *indented(lines), "}"])

    def source(self, types: Sequence[str], functions: Sequence[str], kernels: Sequence[str], used: frozenset[DType]) -> str:
        own = ["fn vt_float(bits: u32) -> f32 {\n  return bitcast<f32>(bits);\n}"]
        own = own if any("vt_float(" in text for text in (*functions, *kernels)) else []
        return "\n\n".join(["\n".join(types), *own, *functions, *kernels]) + "\n"


class Words(Place):
    """Elements of 32 bits; `space` is the type of the words if it is another one."""

    __slots__ = ()

    def read(self, index: str) -> str:
        text = f"{self.name}[{index}]"
        return f"bitcast<{self.kind}>({text})" if self.space else text

    def write(self, index: str, text: str) -> str:
        return f"{self.name}[{index}] = {f'bitcast<{self.space}>({text})' if self.space else text};"

    def read_run(self, name: str, index: str, width: int) -> str:
        raise AssertionError("no width is offered")

    def lane(self, name: str, lane: int) -> str:
        raise AssertionError("no width is offered")

    def write_run(self, index: str, texts: Sequence[str]) -> str:
        raise AssertionError("no width is offered")
