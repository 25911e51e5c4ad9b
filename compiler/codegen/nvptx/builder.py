"""Instructions that only kernels have: special registers, shuffles, barriers, PTX written out."""

from collections.abc import Sequence

from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.builder import Builder
from vtakit.compiler.codegen.llvm.text.declarations import Declarations
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant
from vtakit.compiler.ir.expr import Expr, Var

REGISTERS = {
    **{f"threadIdx.{axis}": f"nvvm.read.ptx.sreg.tid.{axis}" for axis in "xyz"},
    **{f"blockIdx.{axis}": f"nvvm.read.ptx.sreg.ctaid.{axis}" for axis in "xyz"},
    "lane": "nvvm.read.ptx.sreg.laneid",
}
EVERY_LANE = 0xFFFFFFFF


class KernelBuilder(Builder):
    """One kernel being written.

    has_products : whether warpgroups make products in it, whose operands descriptors name
    held_sums    : registers of such products: (buffer, element) -> address, number, type and constraint
    """

    def __init__(self, header: str, declare: Declarations) -> None:
        super().__init__(header, declare)
        self.has_products = False
        self.held_sums: dict[tuple[Var, int], tuple[Expr, int, str, str]] = {}

    def special(self, name: str, end: int) -> Value:
        """Return a special register as an i32, at least 0 and below `end`."""
        found = f"llvm.{REGISTERS[name]}"
        self.declare.use(found, "i32", [], ())
        return self._value("i32", f"call range(i32 0, {end}) i32 @{found}()")

    def generic(self, address: Value) -> Value:
        """Return an address of one kind of memory as one of any kind; LLVM finds the kind again where it is used."""
        return self._value("ptr", f"addrspacecast {address} to ptr")

    def barrier(self) -> None:
        """All threads of the block arrive before any goes on."""
        self.intrinsic("nvvm.barrier0", "void")

    def warp_barrier(self) -> None:
        """All lanes of the warp arrive before any goes on, and see each other's stores."""
        self.intrinsic("nvvm.bar.warp.sync", "void", int_constant("i32", EVERY_LANE))

    def shuffle_lanes(self, mode: str, value: Value, by: Value, clamp: int, mask: Value) -> Value:
        """Return the value of another lane; `mode`, `by` and `clamp` as PTX's shfl.sync has them (a, b and c)."""
        assert ty.bits(value.type) == 32, value
        word = self.bitcast(value, "i32")
        found = self.intrinsic(f"nvvm.shfl.sync.{mode}.i32", "i32", mask, word, by, int_constant("i32", clamp))
        return self.bitcast(found, value.type)

    def ptx(self, text: str, constraints: str, returns: str, *args: Value, effect: bool = False) -> Value:
        """Return what PTX computes: `text` with $0 for the result and $1 … for the arguments, as LLVM writes it.

        constraints : of LLVM: "=f,f" for a float of a float; with `effect` "~{memory}" too, where it touches memory
        effect      : whether it stays where it is, even if nothing reads its result
        """
        listed = ", ".join(str(arg) for arg in args)
        line = f'call {returns} asm{" sideeffect" if effect else ""} "{text}", "{constraints}"({listed})'
        if returns == "void":
            self.at.lines.append(line + " convergent" if effect else line)
            return Value("", "void")
        return self._value(returns, line)

    def fields(self, record: Value, types: Sequence[str]) -> list[Value]:
        """Return the parts of a structure that an instruction returned."""
        return [self._value(type_, f"extractvalue {record}, {number}") for number, type_ in enumerate(types)]
