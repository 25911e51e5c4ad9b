"""A network as one native function: its kernels, called one after another on one arena.

The C functions of a network ``net`` are::

    int32_t net(const float *x, …, float *y, …, const void *params, void *arena);
    int32_t net_step(…the same…, int32_t step);

The first runs all steps and the second one of them, for profiles. `params` and `arena` are aligned to 64 bytes. The constant
``net_manifest`` is the digest of what they assume about these arguments (see `manifest`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vtakit.compiler.codegen.llvm.compile import translate, write_function
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.lowering import parallel
from vtakit.compiler.codegen.llvm.manifest import digest, manifest_symbol
from vtakit.compiler.codegen.llvm.signature import c_names, c_type, signature
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text.builder import Builder
from vtakit.compiler.codegen.llvm.text.module import Module
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant
from vtakit.compiler.codegen.llvm.text.reserved import is_taken, is_word
from vtakit.compiler.codegen.places import Place, Port, Region, Step
from vtakit.compiler.ir.stmt import Function


@dataclass(frozen=True, slots=True, eq=False)
class CompiledNetwork:
    """Machine code of a network.

    code     : the bytes of an object file
    text     : LLVM IR as this package wrote it
    messages : what status 1, 2, … says does not hold
    outside  : the C functions that it calls
    """

    name: str
    target: Target
    code: bytes
    text: str
    messages: tuple[str, ...]
    outside: tuple[str, ...]

    @property
    def symbols(self) -> tuple[str, ...]:
        """The functions that the code offers, and its manifest."""
        return self.name, f"{self.name}_step", manifest_symbol(self.name)

    @property
    def parallel(self) -> bool:
        """Return whether the code calls an OpenMP runtime."""
        return parallel.uses_threads(self.text)


def compile_network(
    name: str, kernels: Sequence[Function], steps: Sequence[Step], inputs: Sequence[Port], outputs: Sequence[Port],
    target: Target, params_bytes: int, arena_bytes: int,
) -> CompiledNetwork:
    """Make machine code of a network.

    kernels : in low form, with buffers of constant shapes as parameters and different names
    steps   : what runs, in order
    params_bytes, arena_bytes : memory that it is given

    Raises CodegenError for a name that C could not have, for what has no machine code, and for what LLVM refuses.
    """
    if not (name.isidentifier() and name.isascii()) or is_word(name) or is_taken(name):
        raise CodegenError(f"{name!r} cannot name a network's functions in C: use letters, digits and _, and no name that C has")
    module = Module(name, target)
    for function in kernels:
        write_function(module, function.name, function, signature(function), internal=True)
    if any(site for site in module.packed):
        raise CodegenError(f"network {name} calls Python ({module.packed[0].name}), which machine code of its own cannot")
    writer = _Writer(module, kernels, steps, len(inputs), len(outputs))
    writer.whole(name)
    writer.one(f"{name}_step")
    outside = tuple(sorted(found for found in module.declare.outside if not found.startswith("llvm.")))
    agreed = digest(
        target, name, inputs, outputs, params_bytes=params_bytes, arena_bytes=arena_bytes, steps=len(steps),
        messages=module.messages, outside=outside,
    )
    module.constant(manifest_symbol(name), agreed)
    text = module.text()
    code = translate(text, target, "object")
    return CompiledNetwork(name, target, code, text, tuple(module.messages), outside)


class _Writer:
    """Writes the functions that call the kernels."""

    def __init__(self, module: Module, kernels: Sequence[Function], steps: Sequence[Step], inputs: int, outputs: int) -> None:
        self.module, self.kernels, self.steps = module, kernels, steps
        self.params = [f"ptr %i{i}" for i in range(inputs)] + [f"ptr %o{i}" for i in range(outputs)]
        self.params += ["ptr %params", "ptr %arena"]

    def whole(self, name: str) -> None:
        b = self.module.function(name, "i32", self.params)
        for step in self.steps:
            self._step(b, step)
        b.ret(int_constant("i32", 0))
        self.module.finish(b)

    def one(self, name: str) -> None:
        b = self.module.function(name, "i32", [*self.params, "i32 %step"])
        for number, step in enumerate(self.steps):
            chosen, other = b.block("chosen"), b.block("other")
            b.branch(b.icmp("eq", Value("%step", "i32"), int_constant("i32", number)), chosen, other)
            b.place(chosen)
            self._step(b, step)
            b.ret(int_constant("i32", 0))
            b.place(other)
        b.ret(int_constant("i32", 0))
        self.module.finish(b)

    def _step(self, b: Builder, step: Step) -> None:
        args = [self._pointer(b, arg) for arg in step.args]
        if step.kernel < 0:
            source, to = args
            size, plain = int_constant("i64", step.copied_bytes), int_constant("i1", 0)
            b.intrinsic("memcpy.p0.p0.i64", "void", to, source, size, plain)
            return
        status = b.call(self.kernels[step.kernel].name, "i32", *args)
        bad, good = b.block("bad"), b.block("good")
        b.branch(b.icmp("eq", status, int_constant("i32", 0)), good, bad, likely=True)
        b.place(bad)
        b.ret(status)
        b.place(good)

    def _pointer(self, b: Builder, place: Place) -> Value:
        match place.region:
            case Region.INPUT:
                return Value(f"%i{place.at}", "ptr")
            case Region.OUTPUT:
                return Value(f"%o{place.at}", "ptr")
            case _:
                return b.address(Value(f"%{place.region.value}", "ptr"), "i8", int_constant("i64", place.at))


def c_header(
    name: str, inputs: Sequence[Port], outputs: Sequence[Port], messages: tuple[str, ...], params_bytes: int, arena_bytes: int
) -> str:
    """C text that declares the functions of a network."""
    names = c_names([*(port.name for port in (*inputs, *outputs)), "params", "arena"])
    args, lines = [], []
    for number, (port, called) in enumerate(zip((*inputs, *outputs), names, strict=False)):
        const = "const " if number < len(inputs) else ""
        args.append(f"{const}{c_type(port.dtype)} *{called}")
        lines.append(f" * {called}: {port}")
    args += [f"const void *{names[-2]}", f"void *{names[-1]}"]
    big = name.upper()
    statuses = ["0 on success", "-1 if memory ran out", *(f"{i} if not: {text}" for i, text in enumerate(messages, 1))]
    listed = ",\n    ".join(args)
    body = "\n".join([
        f"#ifndef VTAKIT_{big}_H", f"#define VTAKIT_{big}_H", "#include <stdint.h>", "",
        f"#define {big}_PARAMS_BYTES {params_bytes}", f"#define {big}_ARENA_BYTES {arena_bytes}", "",
        "#ifdef __cplusplus", 'extern "C" {', "#endif", "", "/*", *lines,
        f" * {names[-2]}: the parameters, {big}_PARAMS_BYTES bytes, aligned to 64",
        f" * {names[-1]}: memory for what lies between, {big}_ARENA_BYTES bytes, aligned to 64; one for each thread that calls",
        " * Arrays are row-major; what is written overlaps nothing else.",
        " * Returns " + ",\n *         ".join(statuses) + ".", " */",
        f"int32_t {name}(\n    {listed});", "",
        "/* Only step number `step` of it, to see how long each takes. */",
        f"int32_t {name}_step(\n    {listed},\n    int32_t step);",
        "", "#ifdef __cplusplus", "}", "#endif", "#endif",
    ])
    return f"{body}\n"
