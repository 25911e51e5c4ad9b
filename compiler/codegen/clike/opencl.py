"""OpenCL C, versions 1.2 to 3.0 (Khronos, The OpenCL C Specification)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from vtakit.compiler.codegen.clike.cfamily import CFamily
from vtakit.compiler.codegen.clike.dialect import Memory, is_narrow
from vtakit.compiler.codegen.clike.places import Place
from vtakit.compiler.codegen.clike.text import indented
from vtakit.compiler.codegen.gpu.launches import Launch
from vtakit.compiler.ir.dtypes import DType

_WORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register restrict
    return short signed sizeof static struct switch typedef union unsigned void volatile while bool half uchar ushort uint ulong
    size_t ptrdiff_t intptr_t uintptr_t global local constant private generic kernel read_only write_only read_write true false
    uniform pipe image event_t sampler_t main NULL INFINITY NAN barrier get_group_id get_local_id as_int as_uint as_float as_long
    as_ulong as_double popcount clz complex imaginary cond quad min max abs select clamp mix step sign dot cross any all
"""


@dataclass(frozen=True)
class OpenCL(CFamily):
    """OpenCL C. 64-bit floats need cl_khr_fp64, which the source asks for where it uses them.

    contract : whether a product and a sum may become one operation, rounded once
    """

    contract: bool = True

    name: ClassVar[str] = "OpenCL C"
    widths: ClassVar[tuple[int, ...]] = (16, 8, 4, 2)
    inline: ClassVar[str] = "static "
    functions: ClassVar[Mapping[str, str]] = {
        name: name for name in (
            "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan", "asin",
            "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "trunc", "round", "pow",
            "atan2", "hypot", "copysign", "nextafter", "fabs", "fmod", "fma", "isnan", "isinf", "isfinite",
        )
    } | {"nearbyint": "rint"}
    reserved: ClassVar[frozenset[str]] = frozenset({*_WORDS.split(), *functions.values()})

    def barrier(self) -> str:
        return "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"

    def place(self, name: str, dtype: DType, space: str = "", *, wide: bool = True) -> Place:
        """Return the place of elements."""
        if dtype.code == "float" and dtype.bits == 16:
            return Halves(name, dtype, "half", space, wide, direct=True)
        return Vectors(name, dtype, self.element(dtype), space, wide)

    def parameter(self, name: str, kinds: Sequence[DType], *, written: bool, number: int) -> Memory:
        const = "" if written else "const "
        if len(kinds) == 1:
            kind = self.element(kinds[0])
            return Memory(f"__global {const}{kind} *restrict {name}", {kinds[0]: self.place(name, kinds[0], "__global")})
        union = f"union {name}_views"
        places = {kind: self.place(f"{name}->as_{kind}", kind, "__global", wide=False) for kind in kinds}
        return Memory(f"__global {const}{union} *restrict {name}", places, (f"{union} {{ {self.views(kinds, 0)} }};",))

    def scalar(self, name: str, dtype: DType) -> tuple[str, str]:
        if dtype.is_bool:  # no argument of a kernel
            return f"const uchar {name}", f"({name} != 0)"
        return f"const {self.value(dtype)} {name}", name

    def shared(self, name: str, kinds: Sequence[DType], size: int) -> Memory:
        if len(kinds) == 1:
            elements = max(1, size // kinds[0].bytes)
            places = {kinds[0]: self.place(name, kinds[0], "__local")}
            return Memory(f"__local {self.element(kinds[0])} {name}[{elements}];", places)
        places = {kind: self.place(f"{name}.as_{kind}", kind, "__local", wide=False) for kind in kinds}
        return Memory(f"__local union {{ {self.views(kinds, size)} }} {name};", places)

    def own(self, name: str, dtype: DType, elements: int) -> Memory:
        kind = "float" if is_narrow(dtype) else self.element(dtype)  # values, which no other type shares
        return Memory(f"{kind} {name}[{elements}];", {dtype: Vectors(name, dtype, kind, wide=True, direct=is_narrow(dtype))})

    def thread_index(self, tag: str) -> str:
        return f"(int)get_{'group' if tag.startswith('block') else 'local'}_id({'xyz'.index(tag[-1])})"

    def kernel(self, name: str, launch: Launch, params: Sequence[str], scalars: Sequence[str], shared: Sequence[str],
               body: Sequence[str]) -> str:
        size = ", ".join(map(str, launch.block))
        head = f"__kernel __attribute__((reqd_work_group_size({size})))\nvoid {name}({', '.join([*params, *scalars])}) {{"
        return "\n".join([head, *indented(shared), *indented(body), "}"])

    def source(self, types: Sequence[str], functions: Sequence[str], kernels: Sequence[str], used: frozenset[DType]) -> str:
        doubles = any(each.is_float and each.bits == 64 for each in used)
        pragmas = ["EXTENSION cl_khr_fp64 : enable"] * doubles + ["FP_CONTRACT OFF"] * (not self.contract)
        head = "\n".join(f"#pragma OPENCL {pragma}" for pragma in pragmas)
        return "\n\n".join([part for part in (head, *types, *functions, *kernels) if part]) + "\n"


class Vectors(Place):
    """Elements that vload and vstore move: these need no more alignment than an element."""

    __slots__ = ()

    def read_run(self, name: str, index: str, width: int) -> str:
        return f"const {self.kind}{width} {name} = vload{width}(0, &{self.name}[{index}]);"

    def lane(self, name: str, lane: int) -> str:
        return f"{name}.s{lane:x}"

    def write_run(self, index: str, texts: Sequence[str]) -> str:
        width = len(texts)
        whole = texts[0][:-3]
        if not (whole.isidentifier() and all(text == f"{whole}.s{lane:x}" for lane, text in enumerate(texts))):
            whole = ""  # else a vector that was read as it is
        value = whole or f"({self.kind}{width})({', '.join(dict.fromkeys(texts) if len({*texts}) == 1 else texts)})"
        return f"vstore{width}({value}, 0, &{self.name}[{index}]);"


class Halves(Place):
    """Elements of float16, kept as ushort: a pointer to half is all that OpenCL C needs no extension for."""

    __slots__ = ()

    def _at(self, index: str, const: str = "const ") -> str:
        return f"({self.space} {const}half *)&{self.name}[{index}]"

    def cells(self) -> Place:
        return Vectors(self.name, self.dtype, "ushort", self.space, self.wide)

    def read(self, index: str) -> str:
        return f"vload_half(0, {self._at(index)})"

    def write(self, index: str, text: str) -> str:
        return f"vstore_half_rte({text}, 0, {self._at(index, '')});"

    def read_run(self, name: str, index: str, width: int) -> str:
        return f"const float{width} {name} = vload_half{width}(0, {self._at(index)});"

    def lane(self, name: str, lane: int) -> str:
        return f"{name}.s{lane:x}"

    def write_run(self, index: str, texts: Sequence[str]) -> str:
        width = len(texts)
        return f"vstore_half{width}_rte((float{width})({', '.join(texts)}), 0, {self._at(index, '')});"
