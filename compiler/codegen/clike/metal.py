"""Metal Shading Language, version 2.1 and later (Apple, Metal Shading Language Specification): text only."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from vtakit.compiler.codegen.clike.cfamily import CFamily
from vtakit.compiler.codegen.clike.dialect import Memory, is_narrow, value_type
from vtakit.compiler.codegen.clike.places import Place
from vtakit.compiler.codegen.clike.text import indented
from vtakit.compiler.codegen.gpu.launches import Launch
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.text.reserved import is_word
from vtakit.compiler.ir.dtypes import DType

_WORDS = """
    half uchar ushort uint ulong size_t device constant thread threadgroup kernel vertex fragment metal precise fast main group
    lane local_thread NAN INFINITY as_type simd_shuffle simd_shuffle_down threadgroup_barrier mem_flags popcount clz sampler
    texture atomic array
    int2 int3 int4 float2 float3 float4 bool2 vec matrix ray packed_float4 buffer min max abs clamp mix select step dot
"""
_PRECISE = (
    "exp", "exp2", "exp10", "log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "asinh", "acosh", "atanh", "floor", "ceil", "trunc", "round", "rint", "pow", "atan2", "fabs", "fmod",
)
_SIMD = 32  # threads of a SIMD group on Apple's GPUs


class Metal(CFamily):
    """Metal's C++. It has no 64-bit floats. Math functions are those of ``metal::precise``, within 4 ulp."""

    name: ClassVar[str] = "Metal"
    widths: ClassVar[tuple[int, ...]] = (4, 2)
    functions: ClassVar[Mapping[str, str]] = {
        **{name: f"precise::{name}" for name in _PRECISE if name != "rint"}, "nearbyint": "precise::rint",
        **{name: name for name in ("copysign", "fma", "isnan", "isinf", "isfinite")},
    }
    reserved: ClassVar[frozenset[str]] = frozenset({*_WORDS.split(), *_PRECISE, "copysign", "fma", "isnan", "isinf", "isfinite"})

    def taken(self, name: str) -> bool:
        return name in self.reserved or is_word(name)

    def value(self, dtype: DType) -> str:
        if value_type(dtype).is_float and dtype.bits == 64:
            raise self.missing(dtype, "use float32")
        return super().value(dtype)

    def element(self, dtype: DType) -> str:
        return "half" if dtype.code == "float" and dtype.bits == 16 else super().element(dtype)

    def round_half(self, text: str) -> str:
        return f"((float)(half){text})"

    def reinterpret(self, text: str, of: DType, to: DType) -> str:
        return f"as_type<{self.value(to)}>({text})"

    def barrier(self) -> str:
        return "threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);"

    def shuffle(self, name: str, value: str, by: str, width: int, dtype: DType) -> str:
        if dtype.bits == 64 or width > _SIMD or _SIMD % width:
            raise CodegenError(f"Metal moves no {dtype} between groups of {width} threads: lower with shuffles=False")
        if name == "shuffle":
            return f"simd_shuffle({value}, (lane & ~{width - 1}u) + (ushort){by})"
        # A function's arguments are all evaluated: every thread takes part in the shuffle.
        return f"select({value}, simd_shuffle_down({value}, (ushort){by}), (lane & {width - 1}u) + (uint){by} < {width}u)"

    def place(self, name: str, dtype: DType, space: str, *, wide: bool = True) -> Place:
        """Return the place of elements."""
        if dtype.code == "float" and dtype.bits == 16:
            return Halves(name, dtype, "half", space, direct=True)
        return Packed(name, dtype, self.element(dtype), space, wide)

    def parameter(self, name: str, kinds: Sequence[DType], *, written: bool, number: int) -> Memory:
        const = "" if written else "const "
        where = f"[[buffer({number})]]"
        if len(kinds) == 1:
            places = {kinds[0]: self.place(name, kinds[0], f"device {const}".strip())}
            return Memory(f"device {const}{self.element(kinds[0])} *{name} {where}", places)
        places = {kind: self.place(f"{name}->as_{kind}", kind, "device", wide=False) for kind in kinds}
        definition = f"union {name}_views {{ {self.views(kinds, 0)} }};"
        return Memory(f"device {const}{name}_views *{name} {where}", places, (definition,))

    def scalar(self, name: str, dtype: DType) -> tuple[str, str]:
        if dtype.is_bool:
            return f"constant uchar &{name}", f"({name} != 0)"
        return f"constant {self.value(dtype)} &{name}", name

    def shared(self, name: str, kinds: Sequence[DType], size: int) -> Memory:
        if len(kinds) == 1:
            elements = max(1, size // kinds[0].bytes)
            places = {kinds[0]: self.place(name, kinds[0], "threadgroup")}
            return Memory(f"threadgroup {self.element(kinds[0])} {name}[{elements}];", places)
        places = {kind: self.place(f"{name}.as_{kind}", kind, "threadgroup", wide=False) for kind in kinds}
        definition = f"union {name}_views {{ {self.views(kinds, size)} }};"
        return Memory(f"threadgroup {name}_views {name};", places, (definition,))

    def own(self, name: str, dtype: DType, elements: int) -> Memory:
        kind = "float" if is_narrow(dtype) else self.element(dtype)  # values, which no other type shares
        return Memory(f"{kind} {name}[{elements}];", {dtype: Packed(name, dtype, kind, "thread", direct=is_narrow(dtype))})

    def thread_index(self, tag: str) -> str:
        return f"(int){'group' if tag.startswith('block') else 'local_thread'}.{tag[-1]}"

    def kernel(self, name: str, launch: Launch, params: Sequence[str], scalars: Sequence[str], shared: Sequence[str],
               body: Sequence[str]) -> str:
        first = len(params)
        numbered = [f"{each} [[buffer({at})]]" for at, each in enumerate(scalars, first)]
        builtin = ["uint3 group [[threadgroup_position_in_grid]]", "uint3 local_thread [[thread_position_in_threadgroup]]",
                   "uint lane [[thread_index_in_simdgroup]]"]
        threads = " x ".join(map(str, launch.block))
        given = ",\n    ".join([*params, *numbered, *builtin])
        most = f"[[max_total_threads_per_threadgroup({launch.threads})]]"
        head = f"// {threads} threads\n{most}\nkernel void {name}(\n    {given}) {{"
        return "\n".join([head, *indented(shared), *indented(body), "}"])

    def source(self, types: Sequence[str], functions: Sequence[str], kernels: Sequence[str], used: frozenset[DType]) -> str:
        head = "#include <metal_stdlib>\nusing namespace metal;"
        return "\n\n".join([head, *types, *functions, *kernels]) + "\n"


class Packed(Place):
    """Elements that are moved as packed vectors, which need no more alignment than an element."""

    __slots__ = ()

    def read_run(self, name: str, index: str, width: int) -> str:
        kind = f"packed_{self.kind}{width}"
        return f"const {kind} {name} = *({self.space} {kind} *)&{self.name}[{index}];"

    def lane(self, name: str, lane: int) -> str:
        return f"{name}[{lane}]"

    def write_run(self, index: str, texts: Sequence[str]) -> str:
        kind = f"packed_{self.kind}{len(texts)}"
        return f"*({self.space} {kind} *)&{self.name}[{index}] = {kind}({', '.join(texts)});"


class Halves(Packed):
    """Elements of half, which become float32 values."""

    __slots__ = ()

    def cells(self) -> Place:
        return Packed(self.name, self.dtype, "half", self.space, wide=True)

    def read(self, index: str) -> str:
        return f"((float){self.name}[{index}])"

    def write(self, index: str, text: str) -> str:
        return f"{self.name}[{index}] = (half)({text});"
