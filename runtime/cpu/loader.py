"""Machine code into this process."""

import ctypes
import functools
import itertools
from typing import Any, Protocol

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target, target_machine
from vtakit.runtime.cpu import openmp
from vtakit.runtime.cpu.elf import check_object

_numbers = itertools.count()
# C functions that LLVM itself calls, for what a processor has no instruction for.
_MATH = (
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "exp", "exp2", "exp10", "log", "log2", "log10",
    "pow", "fmod", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven", "fma", "fmin", "fmax", "sqrt", "ldexp",
)
_OF_LLVM = (
    "memcpy", "memset", "memmove", "bcmp", *_MATH, *(f"{name}f" for name in _MATH),
    "__extendhfsf2", "__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__truncdfbf2", "__powisf2", "__powidf2",
    "__udivti3", "__umodti3", "__divti3", "__modti3", "__multi3",
)


@functools.cache
def _jit() -> Any:
    import llvmlite.binding as llvm  # loading LLVM takes a while, and only those who compile need it

    target_machine(Target.host())  # sets LLVM up
    # The JIT takes the machine over, so it gets one of its own.
    host = Target.host()
    own = llvm.Target.from_triple(host.triple).create_target_machine(
        cpu=host.cpu, features=",".join(host.features), opt=2, reloc="pic", codemodel="default", jit=True
    )
    return llvm.create_lljit_compiler(own, use_jit_link=False, suppress_errors=True)


class Code(Protocol):
    """Machine code with the names of what it offers and calls."""

    @property
    def name(self) -> str: ...
    @property
    def code(self) -> bytes: ...
    @property
    def symbols(self) -> tuple[str, ...]: ...
    @property
    def outside(self) -> tuple[str, ...]: ...


def check_code(compiled: Code, target: Target) -> None:
    """Raise CodegenError for an object that the code generator does not make for a target, as far as `check_object` knows it."""
    known = frozenset({*compiled.outside, *_OF_LLVM})
    check_object(compiled.code, target, compiled.symbols, known, compiled.name)


class Loaded:
    """Code in memory; it is freed with this object.

    addresses : of the functions that it offers
    """

    def __init__(self, compiled: Code, libraries: tuple[ctypes.CDLL, ...], own: dict[str, int]) -> None:
        import llvmlite.binding as llvm

        check_code(compiled, Target.host())
        builder = llvm.JITLibraryBuilder().add_object_img(compiled.code).add_current_process()
        for name in compiled.symbols:
            builder.export_symbol(name)
        for name in compiled.outside:
            found = own.get(name) or _address(name, libraries)
            if found is None:
                raise CodegenError(
                    f"{compiled.name} calls the C function {name}, which neither this process nor a given library has: "
                    "give build(libraries=(path, …))"
                )
            builder.import_symbol(name, found)
        try:
            self._tracker = builder.link(_jit(), f"{compiled.name}.{next(_numbers)}")
        except RuntimeError as error:
            raise CodegenError(f"{compiled.name} could not be loaded: {error}") from None
        self.addresses = {name: int(self._tracker[name]) for name in compiled.symbols}


def _address(name: str, libraries: tuple[ctypes.CDLL, ...]) -> int | None:
    if name in openmp.ENTRIES:
        return openmp.address(name)
    for library in (*libraries, _process()):
        if hasattr(library, name):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    return None


@functools.cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)
