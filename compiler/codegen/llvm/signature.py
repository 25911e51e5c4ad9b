"""Signature of a compiled function: the order and types of its C arguments, and its C header."""

from collections.abc import Iterable
from dataclasses import dataclass

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.text.reserved import is_taken, is_word
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import is_address
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.expr import Call, Load, StringImm, Var
from vtakit.compiler.ir.walk import expressions, statements, subexpressions


@dataclass(frozen=True, slots=True)
class Signature:
    """The C arguments of a function: its parameters in order, then the sizes that are none of them, each an int64_t.

    params  : buffers, of which an argument is the address of the first element, and scalar variables
    sizes   : variables in the buffers' shapes, strides and offsets, in order of appearance
    written : the `data` of each buffer that the function may write to
    requires: what the sizes must keep; the function checks it first
    """

    name: str
    params: tuple[Buffer | Var, ...]
    sizes: tuple[Var, ...]
    written: frozenset[Var]
    requires: tuple[st.Requirement, ...] = ()

    def writes(self, buffer: Buffer) -> bool:
        return buffer.data in self.written


def signature(function: st.Function) -> Signature:
    """The signature of a function in low form. Raises CodegenError for a name or parameter that C could not have."""
    if not (function.name.isidentifier() and function.name.isascii()):
        raise CodegenError(f"{function.name!r} cannot name a compiled function: use letters, digits and _")
    given = {param for param in function.params if isinstance(param, Var)}
    sizes: dict[Var, None] = {}
    for param in function.params:
        if isinstance(param, Buffer):
            for e in (*param.shape, *param.strides, param.offset):
                sizes |= {v: None for v in subexpressions(e) if isinstance(v, Var) and v not in given}
        elif param.dtype.lanes > 1 or param.dtype.code == "handle":
            raise CodegenError(
                f"parameter {param.name} of {function.name} has type {param.dtype}: a scalar is a number of one lane"
            )
    return Signature(function.name, function.params, tuple(sizes), frozenset(_written(function.body)), function.requires)


def _written(body: st.Stmt) -> set[Var]:
    found = {s.buffer.data for s in statements(body) if isinstance(s, st.Store)}
    for e in expressions(body):
        for node in subexpressions(e):
            if is_address(node):
                assert isinstance(node, Call)
                assert isinstance(node.args[0], Load)
                assert isinstance(node.args[2], StringImm)
                if "w" in node.args[2].value:
                    found.add(node.args[0].buffer.data)
    return found


def c_type(dtype: DType) -> str:
    """The C type of an element: the bits of float16 and bfloat16 as uint16_t, a bool and those of 8 or 4 bits as uint8_t."""
    scalar = dtype.scalar
    if scalar.is_bool or scalar.is_storage:
        return "uint8_t"
    if scalar.bits < 8:
        return f"{scalar.code}8_t"
    if scalar.is_float:
        return {16: "uint16_t", 32: "float", 64: "double"}[scalar.bits]
    return f"{scalar}_t"


def c_names(given: Iterable[str]) -> list[str]:
    """The names, made different and legal in C."""
    names: list[str] = []
    for wanted in given:
        name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in wanted)
        name = f"arg_{name}" if not name or name[0].isdigit() or is_word(name) else name
        count = 0
        while (found := name if not count else f"{name}_{count}") in names:
            count += 1
        names.append(found)
    return names


def header(s: Signature, messages: tuple[str, ...]) -> str:
    """The C header of a compiled function. Raises CodegenError for a name that C or C++ keeps for itself."""
    if is_word(s.name) or is_taken(s.name):
        raise CodegenError(f"{s.name!r} has a meaning of its own in C or C++ and names no new function there: give the function "
                           "another name")
    names, lines, args = c_names(param.name for param in (*s.params, *s.sizes)), [], []
    for param, name in zip((*s.params, *s.sizes), names, strict=True):
        if isinstance(param, Buffer):
            const = "" if s.writes(param) else "const "
            args.append(f"{const}{c_type(param.dtype)} *{name}")
            shape = ", ".join(map(str, param.shape))
            strides = f", strides ({', '.join(map(str, param.strides))})" if param.strides else ""
            align = f", aligned to {param.align} bytes" if param.align > param.dtype.scalar.bytes else ""
            lines.append(f" * {name}: {param.dtype}[{shape}]{strides}{align}")
        else:
            args.append(f"{'int64_t' if param in s.sizes else c_type(param.dtype)} {name}")
            if param in s.sizes:
                lines.append(f" * {name}: a size, at least 0")
    statuses = ["0 on success", "-1 if memory ran out", *(f"{i} if not: {text}" for i, text in enumerate(messages, 1))]
    guard = f"VTAKIT_{s.name}_H"  # in its own case: another function may differ in nothing else
    lines += [" * Buffers are row-major and do not overlap unless neither is written to.",
              " * Returns " + ",\n *         ".join(statuses) + "."]
    comment = "\n".join(["/*", *(line.replace("*/", "* /").replace("/*", "/ *") for line in lines), " */"])
    return (
        f"#ifndef {guard}\n#define {guard}\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n{comment}\n"
        f"int32_t {s.name}({', '.join(args) or 'void'});\n\n#ifdef __cplusplus\n}}\n#endif\n#endif\n"
    )
