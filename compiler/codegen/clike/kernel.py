"""Kernels of a program as one source text."""

from collections.abc import Sequence
from dataclasses import dataclass

from vtakit.compiler.codegen.clike.dialect import Dialect
from vtakit.compiler.codegen.clike.statements import Statements
from vtakit.compiler.codegen.clike.text import Functions, Names
from vtakit.compiler.codegen.gpu.launches import Launch, Program
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.depth import deep
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.expr import Load, Var
from vtakit.compiler.ir.stmt import Allocate, LetStmt, Stmt, Store
from vtakit.compiler.ir.walk import expressions, statements, subexpressions


@dataclass(frozen=True, slots=True)
class Source:
    """Kernels in a language.

    kernels : name of the kernel of each launch, in order
    uses    : types of values and elements
    """

    language: str
    text: str
    kernels: tuple[str, ...]
    uses: frozenset[DType]


def source(program: Program, dialect: Dialect) -> Source:
    """Return the kernels of a program in a language. Raises CodegenError for what the language cannot say."""
    return source_of(program.launches, dialect)


@deep()
def source_of(launches: Sequence[Launch], dialect: Dialect) -> Source:
    """Return the kernels of launches; see `source`."""
    functions, types, texts = Functions(), dict[str, None](), list[str]()
    used: set[DType] = set()
    taken = Names(dialect)
    names = tuple(taken.fresh(launch.name) for launch in launches)
    for launch, name in zip(launches, names, strict=True):
        inside = taken if dialect.module_scope else Names(dialect, names)
        texts.append(_kernel(launch, name, Statements(dialect, inside, functions), types))
        used |= types_in(launch.body)
    uses = frozenset(used)
    return Source(dialect.name, dialect.source([*types], functions.texts, texts, uses), names, uses)


def _kernel(launch: Launch, name: str, body: Statements, types: dict[str, None]) -> str:
    dialect = body.dialect
    views = views_of(launch.body)
    params, scalars, shared = list[str](), list[str](), list[str]()
    for number, param in enumerate(launch.params):
        called = body.names.fresh(param.name)
        if isinstance(param, Buffer):
            kinds = views.get(param.data) or [param.dtype.scalar]
            memory = dialect.parameter(called, kinds, written=param.data in launch.writes, number=number)
            body.hold(param.data, memory)
            params.append(memory.declaration)
            types |= dict.fromkeys(memory.types)
        else:
            declaration, value = dialect.scalar(called, param.dtype)
            scalars.append(declaration)
            body.vars[param] = (value,)
            if param.size or (param.dtype.code == "int" and param in _sizes(launch)):
                body.indices.add(param)
    for each in launch.shared:
        kinds = views.get(each.buffer.data) or [each.buffer.dtype.scalar]
        memory = dialect.shared(body.names.fresh(each.buffer.name), kinds, each.bytes)
        body.hold(each.buffer.data, memory)
        shared.append(memory.declaration)
        types |= dict.fromkeys(memory.types)
    for var, tag in launch.indices.items():
        called = body.names.fresh(var.name)
        body.line(dialect.constant(called, var.dtype, dialect.thread_index(tag)))
        body.vars[var] = (called,)
        body.indices.add(var)
    body.run(launch.body)
    return dialect.kernel(name, launch, params, scalars, shared, body.lines)


def _sizes(launch: Launch) -> set[Var]:
    """Return the variables in the shapes of a launch's buffers, which are at least 0."""
    found = set[Var]()
    for param in launch.params:
        if isinstance(param, Buffer):
            found |= {x for extent in param.shape for x in subexpressions(extent) if isinstance(x, Var)}
    return found


def views_of(body: Stmt) -> dict[Var, list[DType]]:
    """Return the types of elements as which each memory is read, written or allocated, in order of their names."""
    found: dict[Var, set[DType]] = {}
    for s in statements(body):
        if isinstance(s, Store | Allocate):
            found.setdefault(s.buffer.data, set()).add(s.buffer.dtype.scalar)
    for e in expressions(body):
        for x in subexpressions(e):
            if isinstance(x, Load):
                found.setdefault(x.buffer.data, set()).add(x.buffer.dtype.scalar)
    return {data: sorted(kinds, key=str) for data, kinds in found.items()}


def types_in(body: Stmt) -> set[DType]:
    """Return the scalar types of values and elements in a statement."""
    found = {x.dtype.scalar for e in expressions(body) for x in subexpressions(e)}
    found |= {s.var.dtype.scalar for s in statements(body) if isinstance(s, LetStmt)}
    return found | {s.buffer.dtype.scalar for s in statements(body) if isinstance(s, Store | Allocate)}
