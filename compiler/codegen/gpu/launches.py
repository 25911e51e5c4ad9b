"""Launches of a function in low "gpu" form: what one thread runs, over which grid, with which arguments and shared memory.

`split` is the seam between the loop IR and every code generator and run time of GPUs:

- Each outermost nest of THREAD loops becomes one `Launch`. Statements around it become steps of the host.
- In the body of a launch no THREAD loop is left. Its indices are variables that `Launch.indices` maps to tags.
- Shared allocations become entries of `Launch.shared`. Those in branches of which a block takes one lie at the same offset.
- Statements of a block outside of its thread loops are run by its first thread, with barriers before and after them.

A launch depends on nothing but its parameters, so equal launches have equal texts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vtakit.compiler.codegen.gpu.steps import Bind, Check, Choose, Repeat, Run, Step
from vtakit.compiler.codegen.gpu.strip import THREADS, Kernel, is_thread_loop
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.depth import deep
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Call, Expr, IntImm, Let, Load, StringImm, Var
from vtakit.compiler.ir.ops import maximum
from vtakit.compiler.ir.stmt import Function, Stmt
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import expressions, free_vars, statements, subexpressions

_GRID = ("blockIdx.x", "blockIdx.y", "blockIdx.z")


@dataclass(frozen=True, slots=True)
class Shared:
    """Shared memory of a block: `buffer` begins `offset` bytes after the start, and has `bytes`."""

    buffer: Buffer
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """A kernel and its grid.

    name    : C identifier, unique in the program
    grid    : blocks in x, y and z, in terms of `params` and of the function's sizes; 0 blocks are no launch
    block   : threads in x, y and z
    indices : loop variables of the body, each with its tag, as "blockIdx.x"; of a tag that the body does not read there is none
    params  : arguments in order: buffers of the device's memory, then scalars that the body reads
    sizes   : those scalars in `params` that are sizes, or loop variables of the host: at least 0, and indices do not overflow
    writes  : the `data` of each buffer in `params` that the body may write to
    shared  : shared memory
    body    : what one thread runs, in low form without THREAD loops; Allocates in it are the thread's own
    """

    name: str
    grid: tuple[Expr, Expr, Expr]
    block: tuple[int, int, int]
    indices: Mapping[Var, str]
    params: tuple[Buffer | Var, ...]
    sizes: frozenset[Var]
    writes: frozenset[Var]
    shared: tuple[Shared, ...]
    body: Stmt

    @property
    def shared_bytes(self) -> int:
        """Size in bytes of the shared memory of a block."""
        return max((each.offset + each.bytes for each in self.shared), default=0)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A function as steps of the host and launches.

    sizes      : variables in the shapes, strides and offsets of the function's buffers that are no parameters, in order
    workspaces : memory of the device that launches pass to one another; its shape is in terms of sizes and scalar parameters
    steps      : what the host does, in order; first the function's requirements
    """

    function: Function
    sizes: tuple[Var, ...]
    launches: tuple[Launch, ...]
    workspaces: tuple[Buffer, ...]
    steps: tuple[Step, ...]


@deep()
def split(function: Function) -> Program:
    """Return the launches of a function in low "gpu" form. Raises CodegenError for what neither host nor threads can do."""
    return _Splitter(function).program()


class _Splitter:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.sizes = sizes_of(function)
        self.launches: list[Launch] = []
        self.workspaces: list[Buffer] = []
        self.host: list[Var] = []  # variables of host loops and lets around
        self.loops: set[Var] = set()  # of host loops
        self.carried: list[st.Allocate] = []  # shared and local allocations around launches
        self.holders: dict[Var, int] = {}

    def program(self) -> Program:
        checks = tuple(Check(each.condition, each.reason) for each in self.function.requires)
        steps = (*checks, *self.steps(self.function.body))
        return Program(self.function, self.sizes, tuple(self.launches), tuple(self.workspaces), steps)

    def steps(self, s: Stmt) -> tuple[Step, ...]:
        """Return what the host does for a statement outside of any thread."""
        if is_thread_loop(s) or isinstance(s, st.Store | st.While) or self._alone(s):
            return (Run(self.launch(s)),)
        match s:
            case st.Seq():
                return tuple(step for part in s.stmts for step in self.steps(part))
            case st.For():
                self._on_host(s.extent, f"the extent of the loop over {s.var.name}")
                self.host.append(s.var)
                self.loops.add(s.var)
                inner = self.steps(s.body)
                self.host.pop()
                return (Repeat(s.var, s.extent, inner),) if inner else ()
            case st.LetStmt():
                self._on_host(s.value, s.var.name)
                self.host.append(s.var)
                inner = self.steps(s.body)
                self.host.pop()
                return (Bind(s.var, s.value, inner),) if inner else ()
            case st.If():
                self._on_host(s.condition, "a condition")
                then = self.steps(s.then)
                otherwise = () if s.otherwise is None else self.steps(s.otherwise)
                return (Choose(s.condition, then, otherwise),) if then or otherwise else ()
            case st.Attr():
                return self.steps(s.body)
            case st.Allocate():
                return self._allocate(s)
            case st.Evaluate():
                return self._evaluate(s)
        raise CodegenError(f"{type(s).__name__} has no place in launches of {self.function.name}: run lower_late(f, 'gpu') first")

    def _alone(self, s: Stmt) -> bool:
        """Return whether a statement is work of a single thread: it stores, and has neither thread loops nor workspaces."""
        inside = [*statements(s)]
        workspace = any(isinstance(x, st.Allocate) and x.buffer.scope == "global" for x in inside)
        return any(isinstance(x, st.Store) for x in inside) and not workspace and not any(map(is_thread_loop, inside))

    def _evaluate(self, s: st.Evaluate) -> tuple[Step, ...]:
        e = s.value
        if isinstance(e, Call) and e.name == "assert_that":
            condition, reason = e.args
            assert isinstance(reason, StringImm), e
            self._on_host(condition, "an assertion")
            return (Check(condition, reason.value),)
        if isinstance(e, Call) and e.name in ("call_packed", "prefetch"):
            raise CodegenError(f"{self.function.name} calls {e} outside of any thread: a GPU's host code only launches kernels; "
                               "compute the stage by an expression, or build for a processor")
        if isinstance(e, Call) and e.kind == "effect":
            return (Run(self.launch(s)),)
        return ()

    def _allocate(self, s: st.Allocate) -> tuple[Step, ...]:
        buffer = s.buffer
        if buffer.scope != "global":
            self.carried.append(s)
            found = self.steps(s.body)
            self.carried.pop()
            return found
        around = sorted(var.name for size in buffer.shape for var in free_vars(size) if var in self.host)
        if around:
            raise CodegenError(f"{buffer.name} of {self.function.name} has the size {buffer.shape[0]}, which changes with "
                               f"{around[0]} from launch to launch: compute it outside of that loop")
        self.workspaces.append(buffer)
        return self.steps(s.body)

    def _on_host(self, e: Expr, what: str) -> None:
        read = next((x.buffer.name for x in subexpressions(e) if isinstance(x, Load)), None)
        if read is not None:
            raise CodegenError(f"{what} of {self.function.name} reads {read}, which is in the device's memory, outside of any "
                               "thread: bind an axis around it to blockIdx or threadIdx")

    # One launch

    def launch(self, s: Stmt) -> int:
        """Add the launch of a statement and return its number."""
        number = len(self.launches)
        touched = set(addresses(s))
        for around in reversed(self.carried):
            if around.buffer.data in touched:
                self._hold(around.buffer, number)
                s = around.replace(body=s)
        kernel = Kernel(self.function, s)
        body = kernel.body
        buffers = [b for b in (*self.function.params, *self.workspaces) if isinstance(b, Buffer) and b.data in touched]
        read = read_variables(body)
        scalars = [v for v in (*self.function.params, *self.sizes, *self.host) if isinstance(v, Var) and v in read]
        written = frozenset(addresses(body, written=True))
        self.launches.append(Launch(
            f"{self.function.name}_kernel{number}", self._grid(kernel), self._block(kernel),
            {var: tag for var, tag in kernel.indices.items() if var in read}, (*buffers, *scalars),
            frozenset(var for var in scalars if var.size or var in self.sizes or var in self.loops),
            frozenset(b.data for b in buffers if b.data in written), tuple(Shared(*each) for each in kernel.shared), body,
        ))
        return number

    def _hold(self, buffer: Buffer, launch: int) -> None:
        if self.holders.setdefault(buffer.data, launch) != launch:
            raise CodegenError(f"{buffer.name} of {self.function.name} is {buffer.scope} memory, which ends with a launch, and "
                               "two launches touch it: leave its scope global, or compute it within the launch that reads it")

    def _grid(self, kernel: Kernel) -> tuple[Expr, Expr, Expr]:
        x, y, z = (self._extent(kernel, tag) for tag in _GRID)
        return x, y, z

    def _extent(self, kernel: Kernel, tag: str) -> Expr:
        found: Expr | None = None
        for extent in kernel.extents.get(tag, ()):
            self._on_host(extent, f"the extent of {tag}")
            inside = sorted(v.name for v in free_vars(extent) if v not in (*self.function.params, *self.sizes, *self.host))
            if inside:
                raise CodegenError(f"{tag} of {self.function.name} has the extent {extent}, in which {inside[0]} is not known "
                                   "before the launch: split that axis by a constant, or leave it unbound")
            found = extent if found is None else maximum(found, extent)
        return IntImm(1, INT32) if found is None else found

    def _block(self, kernel: Kernel) -> tuple[int, int, int]:
        sizes = []
        for tag in THREADS:
            extents = [int_value(extent) for extent in kernel.extents.get(tag, ())]
            if None in extents:
                raise CodegenError(f"{tag} of {self.function.name} has the extent {kernel.extents[tag][0]}, which is no "
                                   "constant: split the axis and bind the inner one")
            sizes.append(max((extent for extent in extents if extent is not None), default=1))
        x, y, z = sizes
        return x, y, z


def sizes_of(function: Function) -> tuple[Var, ...]:
    """Return the variables in the shapes, strides and offsets of a function's buffers that are no parameters, in order."""
    given = {param for param in function.params if isinstance(param, Var)}
    found: dict[Var, None] = {}
    for param in function.params:
        if isinstance(param, Buffer):
            for e in (*param.shape, *param.strides, param.offset):
                found |= {v: None for v in subexpressions(e) if isinstance(v, Var) and v not in given}
    return tuple(found)


def addresses(s: Stmt, *, written: bool = False) -> Iterator[Var]:
    """Yield the `data` of each buffer that a statement reads or writes; only those it may write to if `written`."""
    for node in statements(s):
        if isinstance(node, st.Store):
            yield node.buffer.data
    for e in expressions(s):
        yield from _addressed(e, written=written)


def _addressed(e: Expr, *, written: bool) -> Iterator[Var]:
    for x in subexpressions(e):
        if isinstance(x, Load) and not written:
            yield x.buffer.data
        elif isinstance(x, Call) and x.name == "address_of":
            load, _, mask = x.args
            assert isinstance(load, Load), x
            assert isinstance(mask, StringImm), x
            if not written or "w" in mask.value:
                yield load.buffer.data


def read_variables(s: Stmt) -> set[Var]:
    """Return the variables that a statement reads and does not bind itself."""
    read: set[Var] = set()
    bound: set[Var] = set()
    for node in statements(s):
        if isinstance(node, st.For | st.LetStmt):
            bound.add(node.var)
    for e in _sized(s):
        for x in subexpressions(e):
            if isinstance(x, Var):
                read.add(x)
            elif isinstance(x, Let):
                bound.add(x.var)
    return read - bound


def _sized(s: Stmt) -> Iterator[Expr]:
    yield from expressions(s)
    for node in statements(s):
        if isinstance(node, st.Allocate):
            yield from node.buffer.shape

