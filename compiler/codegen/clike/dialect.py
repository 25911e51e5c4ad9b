"""The interface of a language that kernels are written in: `Dialect`. The emitter asks it for every spelling.

A *value* is what an expression gives; an *element* is a cell of memory. float16 and bfloat16 values are float32 numbers that the
narrow type can hold; their elements are 16 bits.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from vtakit.compiler.codegen.clike.places import Place
from vtakit.compiler.codegen.gpu.launches import Launch
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import FLOAT32, DType


def value_type(dtype: DType) -> DType:
    """Return the type in which values of a scalar type are computed: float32 for narrower floats."""
    return FLOAT32 if is_narrow(dtype) else dtype.scalar


def is_narrow(dtype: DType) -> bool:
    """Return whether a type is float16 or bfloat16."""
    return dtype.is_float and dtype.bits == 16


class Memory(NamedTuple):
    """Memory as a kernel declares it.

    declaration : a line, or a parameter
    places      : of its elements, by type: memory may be used as several
    types       : definitions that the declaration needs, before the kernel
    """

    declaration: str
    places: dict[DType, Place]
    types: tuple[str, ...] = ()


class Dialect(ABC):
    """A language. Texts that it returns are operands: a name, a literal, a call, or in parentheses.

    name         : for people
    reserved     : names that a program must not give to its own things
    ternary      : whether ``c ? a : b`` exists, which evaluates one side only
    wide_ints    : whether there are integers of 64 bits; else indices of that type are computed in 32
    module_scope : whether memory is declared outside of kernels, so that its names differ in the whole source
    widths       : numbers of lanes that one access can move
    functions    : math functions of float32: IR name -> the language's
    """

    name: ClassVar[str]
    reserved: ClassVar[frozenset[str]]
    ternary: ClassVar[bool] = True
    wide_ints: ClassVar[bool] = True
    module_scope: ClassVar[bool] = False
    widths: ClassVar[tuple[int, ...]] = ()
    functions: ClassVar[Mapping[str, str]]

    def taken(self, name: str) -> bool:
        """Return whether a name is the language's."""
        return name in self.reserved

    # Types

    @abstractmethod
    def value(self, dtype: DType) -> str:
        """Return the name of the type of a value. Raises CodegenError if the language has none."""

    @abstractmethod
    def element(self, dtype: DType) -> str:
        """Return the name of the type of an element in memory."""

    def missing(self, dtype: DType, cure: str) -> CodegenError:
        """Return the error for a type that the language lacks."""
        return CodegenError(f"{self.name} has no {dtype}: {cure}")

    # Expressions

    @abstractmethod
    def integer(self, value: int, dtype: DType) -> str:
        """Return an integer or bool constant."""

    @abstractmethod
    def floating(self, value: float, dtype: DType) -> str:
        """Return a floating-point constant, infinity and NaN too."""

    @abstractmethod
    def convert(self, text: str, of: DType, to: DType) -> str:
        """Return a value in another type: integers by their low bits, floats by rounding to zero or to nearest. Never to bool."""

    @abstractmethod
    def reinterpret(self, text: str, of: DType, to: DType) -> str:
        """Return the bits of a value as another type of as many."""

    def round_half(self, text: str) -> str:
        """Return a float32 rounded to float16, still as a float32; "" if the language has no way but the bits."""
        return ""

    @abstractmethod
    def wrapping(self, node: type[ir.Binary], a: str, b: str, dtype: DType) -> str:
        """Return Add, Sub, Mul or ShiftLeft of two integers, which wrap in the type."""

    @abstractmethod
    def shift_right(self, a: str, b: str, dtype: DType) -> str:
        """Return an arithmetic or logical shift by 0 to bits - 1."""

    @abstractmethod
    def select(self, condition: str, true: str, false: str) -> str:
        """Return one of two values; both may be evaluated."""

    @abstractmethod
    def count(self, name: str, text: str, dtype: DType) -> str:
        """Return ``popcount`` or ``clz`` of a uint32 or uint64, in that type."""

    def conversion(self, e: ir.Expr) -> str:
        """Return why a call cannot be made, for an error."""
        return f"{self.name} has no way to make the call {e}"

    # Statements

    @abstractmethod
    def constant(self, name: str, dtype: DType, value: str) -> str:
        """Return the declaration of a name for a value that does not change."""

    @abstractmethod
    def variable(self, name: str, dtype: DType) -> str:
        """Return the declaration of a variable, not initialised."""

    @abstractmethod
    def loop(self, name: str, dtype: DType, extent: str) -> str:
        """Return the head of ``for name in range(extent)``, up to the opening brace."""

    @abstractmethod
    def barrier(self) -> str:
        """Return a barrier of a block's threads that orders shared and global memory."""

    @abstractmethod
    def function(self, name: str, params: Sequence[tuple[str, DType]], returns: DType, body: Sequence[str]) -> str:
        """Return the definition of a function of values."""

    @abstractmethod
    def held(self, name: str, dtype: DType, text: str) -> str:
        """Return the declaration of a name for an element that is stored later."""

    def shuffle(self, name: str, value: str, by: str, width: int, dtype: DType) -> str:
        """Return the value of another thread in a group of `width`; see the interpreter. Raises CodegenError if there is none."""
        raise CodegenError(f"{self.name} has no {name} between threads here: lower with shuffles=False")

    # Kernels

    @abstractmethod
    def parameter(self, name: str, kinds: Sequence[DType], *, written: bool, number: int) -> Memory:
        """Return the memory of a buffer that is a parameter; `kinds` are the types of its elements."""

    @abstractmethod
    def scalar(self, name: str, dtype: DType) -> tuple[str, str]:
        """Return the declaration of a scalar parameter, and its value."""

    @abstractmethod
    def shared(self, name: str, kinds: Sequence[DType], size: int) -> Memory:
        """Return so many bytes of memory that the threads of a block share."""

    @abstractmethod
    def own(self, name: str, dtype: DType, elements: int) -> Memory:
        """Return memory of one thread."""

    @abstractmethod
    def thread_index(self, tag: str) -> str:
        """Return the int32 index of a block or thread, by a tag such as "blockIdx.x"."""

    @abstractmethod
    def kernel(self, name: str, launch: Launch, params: Sequence[str], scalars: Sequence[str], shared: Sequence[str],
               body: Sequence[str]) -> str:
        """Return the definition of a kernel.

        params, scalars, shared : declarations
        """

    @abstractmethod
    def source(self, types: Sequence[str], functions: Sequence[str], kernels: Sequence[str], used: frozenset[DType]) -> str:
        """Return the whole source; `used` are the types that values or elements in it have."""
