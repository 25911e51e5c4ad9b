"""Instructions that only kernels of AMD's GPUs have (LLVM, User Guide for AMDGPU Backend)."""

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.text.operands import Value
from vtakit.compiler.codegen.nvptx.builder import KernelBuilder

_PRIVATE = "addrspace(5)"
REGISTERS = {
    **{f"threadIdx.{axis}": f"amdgcn.workitem.id.{axis}" for axis in "xyz"},
    **{f"blockIdx.{axis}": f"amdgcn.workgroup.id.{axis}" for axis in "xyz"},
}


class AmdBuilder(KernelBuilder):
    """One kernel being written. Memory of a thread has an address space of its own."""

    def special(self, name: str, end: int) -> Value:
        """Return the index of a thread or block as an i32, at least 0 and below `end`."""
        if name not in REGISTERS:
            raise CodegenError(f"{name} is no register that kernels of AMD's GPUs ask for: lower with shuffles=False")
        found = f"llvm.{REGISTERS[name]}"
        self.declare.use(found, "i32", [], ())
        return self._value("i32", f"call range(i32 0, {end}) i32 @{found}()")

    def alloca(self, type_: str, align: int, count: int = 1) -> Value:
        """Memory of the thread, made on entry."""
        self.count += 1
        name = f"%v{self.count}"
        self.allocas.append(f"{name}.own = alloca {type_}, i64 {count}, align {align}, {_PRIVATE}")
        self.allocas.append(f"{name} = addrspacecast ptr {_PRIVATE} {name}.own to ptr")
        return Value(name, "ptr")

    def barrier(self) -> None:
        """All threads of the block arrive, and see each other's stores, before any goes on."""
        self.at.lines.append('fence syncscope("workgroup") release')
        self.intrinsic("amdgcn.s.barrier", "void")
        self.at.lines.append('fence syncscope("workgroup") acquire')

    def warp_barrier(self) -> None:
        """Raises CodegenError: waves have 64 threads, and the IR's warps 32."""
        raise CodegenError("a barrier of a warp has no code for AMD's GPUs, whose waves have 64 threads: synchronise the block")

    def shuffle_lanes(self, mode: str, value: Value, by: Value, clamp: int, mask: Value) -> Value:
        """Raises CodegenError; see `warp_barrier`."""
        raise CodegenError("shuffles have no code for AMD's GPUs yet: lower with shuffles=False")
