"""Launches become PTX, and machine code where ptxas is installed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from vtakit.compiler.codegen.gpu import Launch
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.lowering.floats import from_bits
from vtakit.compiler.codegen.llvm.passes import machine_code
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.module import Module
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant
from vtakit.compiler.codegen.nvptx import library
from vtakit.compiler.codegen.nvptx.arch import MOST_THREADS, STATIC_BYTES, VECTOR_BYTES, Arch
from vtakit.compiler.codegen.nvptx.builder import KernelBuilder
from vtakit.compiler.codegen.nvptx.kernel import Kernel
from vtakit.compiler.codegen.nvptx.ptxas import Assembled, Resources, assemble
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.depth import deep
from vtakit.compiler.ir.expr import Var
from vtakit.compiler.ir.layouts import ALIGNMENT

_GLOBAL, _SHARED = "addrspace(1)", "addrspace(3)"


@dataclass(frozen=True, slots=True, eq=False)
class Kernels:
    """Code of several kernels, which are functions of one module.

    ptx       : its text
    cubin     : machine code for `arch`, b"" if no assembler made it
    llvm      : LLVM IR as this package wrote it
    dynamic   : bytes of shared memory that a launch asks for, by kernel; none where the kernel declares its own
    resources : registers and memory of each kernel, as the assembler says
    warnings  : of the assembler
    """

    arch: Arch
    ptx: str
    cubin: bytes
    llvm: str
    dynamic: Mapping[str, int]
    resources: Mapping[str, Resources] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@deep()
def compile_launches(launches: Sequence[Launch], arch: Arch, *, cubin: bool = True) -> Kernels:
    """Make the code of launches with different names.

    cubin : whether ptxas assembles it, if one is installed

    Raises CodegenError for what has no code on a GPU, and for what ptxas refuses.
    """
    module = Module("kernels", arch.llvm)
    for launch in launches:
        _write(module, launch, arch)
    define_library(module)
    text = module.text()
    ptx = _bounded(machine_code(text, arch.llvm, "assembly").decode(), launches)
    made = assemble(ptx, arch) if cubin else Assembled(b"", {}, ())
    dynamic = {launch.name: launch.shared_bytes for launch in launches if launch.shared_bytes > STATIC_BYTES}
    return Kernels(arch, ptx, made.cubin, text, dynamic, made.resources, made.warnings)


def _write(module: Module, launch: Launch, arch: Arch) -> None:
    if launch.threads > MOST_THREADS:
        raise CodegenError(f"{launch.name} has blocks of {launch.threads} threads, and a block has at most {MOST_THREADS}: split "
                           "the axes bound to threadIdx by smaller factors")
    if launch.shared_bytes > arch.shared_bytes:
        raise CodegenError(f"{launch.name} needs {launch.shared_bytes} bytes of shared memory for a block, and {arch.name} has "
                           f"{arch.shared_bytes}: split the axes of its shared tiles by smaller factors")
    write_kernel(module, launch, lambda params: KernelBuilder(
        f"define ptx_kernel void @{launch.name}({params}) nounwind", module.declare))


def write_kernel(
    module: Module, launch: Launch, begin: Callable[[str], KernelBuilder], static_bytes: int = STATIC_BYTES
) -> None:
    """Add a launch's kernel to a module.

    begin        : makes the builder of a function with these parameters
    static_bytes : most shared memory that a kernel declares itself
    """
    kinds, names = [], [f"%p{i}" for i in range(len(launch.params))]
    for param, name in zip(launch.params, names, strict=True):
        if isinstance(param, Buffer):
            writes = "" if param.data in launch.writes else " readonly"
            kinds.append(f"ptr {_GLOBAL} noalias{writes} align {max(VECTOR_BYTES, param.align)} {name}")
        else:
            kinds.append(f"{passed(param)} {name}")
    b = begin(", ".join(kinds))
    module.declare.defined.add(launch.name)
    x = Kernel(module, b, launch)
    for param, name in zip(launch.params, names, strict=True):
        if isinstance(param, Buffer):
            x.memory[param.data] = b.generic(Value(name, f"ptr {_GLOBAL}"))
        else:
            bind(x, param, Value(name, passed(param)))
    share(x, module, launch, static_bytes)
    x.read_indices()
    x.run(launch.body)
    b.ret()
    module.finish(b)


def passed(param: Var) -> str:
    """Return the LLVM type of a scalar argument."""
    if param.dtype.lanes > 1 or param.dtype.code == "handle":
        raise CodegenError(f"parameter {param.name} has type {param.dtype}: a scalar is a number of one lane")
    return "i8" if param.dtype.is_bool else "i16" if ty.is_narrow(param.dtype) else ty.value_type(param.dtype)


def bind(x: Kernel, param: Var, given: Value) -> None:
    """Make a scalar parameter stand for an argument."""
    if param.dtype.is_bool:
        given = x.b.icmp("ne", given, int_constant("i8", 0))
    elif ty.is_narrow(param.dtype):
        given = from_bits(x.b, x.target, param.dtype, given)
    if param.dtype.code == "int" and param.dtype.bits >= 32 and param in x.launch.sizes:
        x.indices[param] = given
    else:
        x.values[param] = given


def share(x: Kernel, module: Module, launch: Launch, static_bytes: int) -> None:
    """Give shared buffers their places in one array of the block; beyond `static_bytes` the launch sets its size."""
    if not launch.shared:
        return
    name = f"{launch.name}_shared"
    size = launch.shared_bytes
    align = ALIGNMENT if any(each.buffer.swizzle for each in launch.shared) else VECTOR_BYTES
    if size > static_bytes:
        module.globals[name] = f"@{name} = external {_SHARED} global [0 x i8], align {align}"
    else:
        module.globals[name] = f"@{name} = internal {_SHARED} global [{size} x i8] undef, align {align}"
    start = Value(f"addrspacecast (ptr {_SHARED} @{name} to ptr)", "ptr")
    for each in launch.shared:
        at = int_constant("i32", each.offset)
        x.memory[each.buffer.data] = x.b.address(start, "i8", at) if each.offset else start


def define_library(module: Module) -> None:
    """Add the functions of C's math library that kernels call."""
    done: set[str] = set()
    while todo := sorted(name for name in module.declare.outside if not name.startswith("llvm.") and name not in done):
        for name in todo:
            text = library.define(name, module.declare)
            if text is None:
                raise CodegenError(f"the function {name} has no code on a GPU: compute the stage for a processor, or convert its "
                                   f"values to float32")
            module.functions.append(text)
            done.add(name)
    for name in done:
        module.declare.outside.pop(name)


def _bounded(ptx: str, launches: Sequence[Launch]) -> str:
    """Return PTX whose kernels say how many threads a block has: the assembler gives each as many registers as then fit.

    LLVM has attributes for it, of other names in each version.
    """
    for launch in launches:
        head, found, rest = ptx.partition(f".entry {launch.name}(")
        assert found, launch.name
        params, brace, body = rest.partition("\n{")
        ptx = f"{head}{found}{params}\n.reqntid {', '.join(map(str, launch.block))}{brace}{body}"
    return ptx
