"""Compile a lowered function to a program of the accelerator."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import gcd

from vtakit.compiler.codegen.vta.actions import Output, Requantized, Transfer
from vtakit.compiler.codegen.vta.ahead import weights_ahead
from vtakit.compiler.codegen.vta.between import stores_between
from vtakit.compiler.codegen.vta.early import clear_early, load_early
from vtakit.compiler.codegen.vta.errors import UnfitError, VtaError
from vtakit.compiler.codegen.vta.forms import evaluate
from vtakit.compiler.codegen.vta.inside import leave_out_pads
from vtakit.compiler.codegen.vta.overwrite import overwrite
from vtakit.compiler.codegen.vta.parts import Parts
from vtakit.compiler.codegen.vta.places import Site
from vtakit.compiler.codegen.vta.pools import stored_maxima
from vtakit.compiler.codegen.vta.published import ZEROS, refreshed, zeros_bytes
from vtakit.compiler.codegen.vta.residency import load_kernels
from vtakit.compiler.codegen.vta.rows_ahead import rows_ahead
from vtakit.compiler.codegen.vta.scratch import share_scratch
from vtakit.compiler.codegen.vta.select import Selector
from vtakit.compiler.codegen.vta.sites import place
from vtakit.compiler.codegen.vta.stream import Step
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.codegen.vta.tokens import with_tokens
from vtakit.compiler.codegen.vta.tree import Branch, Let, Loop, Memory, Nest, Node, Row, nests, tree
from vtakit.compiler.codegen.vta.windows import AnyAction
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Var
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.passes.base import Pass, run_passes
from vtakit.compiler.passes.blocks import inline_blocks
from vtakit.compiler.passes.flatten import flatten
from vtakit.compiler.passes.simplify import simplify
from vtakit.compiler.passes.virtual_threads import virtual_threads
from vtakit.hw.isa.codec import encode
from vtakit.hw.isa.errors import EncodingError
from vtakit.hw.isa.insns import FORMATS, MEMORIES, Feature, Opcode, Stage
from vtakit.hw.isa.program import UOPS, BufferKind, Program, Relocation
from vtakit.hw.isa.program import Buffer as ProgramBuffer

# Lower the block form to statements on flat buffers; each virtual thread gets its own copy of its memory, as a dimension.
PASSES = (
    Pass("inline_blocks", inline_blocks), Pass("virtual_threads", virtual_threads), Pass("flatten", flatten),
    Pass("simplify", simplify),
)


Progress = Callable[[int, int], None]
_TOLD = 100  # progress reports while instructions are emitted, and as many units for the steps after that
_AFTER = 4  # steps after emission


def compile_for(function: Function, target: Target, progress: Progress | None = None) -> Program:
    """Compile a function in block form with constant shapes; buffers have the names of its parameters.

    progress : called with the work done and the whole, in the same unit

    Raises VtaError for a nest that the accelerator cannot run, with the program and the place in it.
    """
    for param in function.params:
        if not isinstance(param, Buffer):
            raise VtaError(f"{param} is a parameter of {function.name!r}, and a program for the accelerator takes only tensors: "
                           "make it a number")
    low = run_passes(function, PASSES)
    with _collector_paused():
        return _Maker(low, target, progress or (lambda done, of: None)).program()


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector: it took a third of the time, and the many small objects of a program have no cycles."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class _Maker:
    def __init__(self, function: Function, target: Target, progress: Progress) -> None:
        self.function, self.target, self.cfg, self.progress = function, target, target.config, progress
        self.root = tree(function)
        self.sites: dict[Var, Site] = place(self.root, target)
        self.owners = {id(site): data for data, site in reversed(self.sites.items())}  # which allocation takes the next copy
        self.buffers = {param.data: param for param in function.params if isinstance(param, Buffer)}
        self.scratch = [m.buffer for m in _memories(self.root) if m.buffer.data not in self.sites]
        self.buffers |= {buffer.data: buffer for buffer in self.scratch}
        self.symbols = _names(self.buffers)
        selector = Selector(target, self.sites, self.symbols)
        self.actions = {nest: self._action(selector, nest) for nest in nests(self.root)}
        self.parts = Parts(self.root, self.actions)
        self.unit_bytes = gcd(*(memory.bytes_in(self.cfg) for memory in MEMORIES.values()))
        self.env: dict[Var, int] = {}
        self.turns = _turns(self.root)
        self.done = 0

    def _action(self, selector: Selector, nest: Nest) -> AnyAction:
        try:
            return selector.action(nest)
        except UnfitError as error:
            raise VtaError(str(error), self.function, nest.leaf) from None

    def program(self) -> Program:
        """Emit the instructions, place scratch memory, tokens and micro-ops, and encode."""
        sizes = {scope: self.target.depth(scope) for scope in self.target.scopes}
        tracked, units = self._tracked()
        published = self.target.isa.published
        out = Output(self.cfg, tracked, self.target.isa)
        self._run(self.root, out)
        made = stored_maxima(out.steps, self.cfg) if self.target.has(Feature.POOL) else out.steps
        made = leave_out_pads(made, self.cfg)
        made = overwrite(made, self.cfg) if self.target.has(Feature.OVERWRITE) else made
        made = stores_between(made, self.cfg)
        made = made if published else clear_early(made)
        made = rows_ahead(weights_ahead(load_early(made), self.target))
        made = refreshed(made, self.cfg) if published else made
        shared = share_scratch(made, self._scratch_bytes(), self.symbols.values(), self.cfg, self.unit_bytes)
        self._tell_after(1)
        units[shared.name] = shared.size_bytes // self.unit_bytes
        ordered = with_tokens(shared.steps, sizes | units, to_the_end=published)
        self._tell_after(2)
        steps, uops = load_kernels(ordered, self.cfg.uop_depth)
        steps.append(Step(Opcode.FINISH, {}, Stage.COMPUTE))
        self._tell_after(3)
        words = tuple([self._word(step) for step in steps])
        self._tell_after(_AFTER)
        buffers = [buffer for buffer in self._buffers() if buffer.kind is not BufferKind.SCRATCH]
        if shared.name:
            buffers.append(ProgramBuffer(name=shared.name, size_bytes=shared.size_bytes, kind=BufferKind.SCRATCH))
        if zeros := zeros_bytes(steps, {kind: memory.bytes_in(self.cfg) for kind, memory in MEMORIES.items()}):
            buffers.append(ProgramBuffer(name=ZEROS, size_bytes=zeros, kind=BufferKind.CONST, data=bytes(zeros)))
        return Program(
            config=self.cfg, insns=words, uops=uops, buffers=tuple(buffers), parts=self.parts.ends(steps),
            relocations=tuple([Relocation(at, step.symbol, step.value) for at, step in enumerate(steps) if step.symbol]),
        )

    def _scratch_bytes(self) -> dict[str, int]:
        return {buffer.name: buffer.size_bytes for buffer in self._buffers() if buffer.kind is BufferKind.SCRATCH}

    def _tell_after(self, step: int) -> None:
        self.progress(_TOLD + _TOLD * step // _AFTER, 2 * _TOLD)

    def _tell_turn(self) -> None:
        self.done += 1
        if self.done * _TOLD // self.turns > (self.done - 1) * _TOLD // self.turns and self.done <= self.turns:
            self.progress(self.done * _TOLD // self.turns, 2 * _TOLD)

    def _word(self, step: Step) -> int:
        try:
            return encode(self.cfg, FORMATS[step.op].name, **step.fields)
        except EncodingError as error:
            raise VtaError(f"{self.function.name!r} needs an instruction that there is not: {error}; tile smaller") from None

    def _run(self, node: Node, out: Output) -> None:
        out.part = self.parts.number(node, out.part)
        match node:
            case Nest():
                try:
                    self.actions[node].emit(self.env, out)
                except (UnfitError, EncodingError) as error:
                    raise VtaError(str(error), self.function, node.leaf) from None
                self._tell_turn()
            case Row():
                for part in node.parts:
                    self._run(part, out)
            case Loop():
                for turn in range(evaluate(node.extent, self.env)):
                    self.env[node.var] = turn
                    self._run(node.body, out)
            case Branch():
                self._run(node.then if evaluate(node.condition, self.env) else node.otherwise, out)
            case Let():
                self.env[node.var] = evaluate(node.value, self.env)
                self._run(node.body, out)
            case Memory():
                site = self.sites.get(node.buffer.data)
                if site is not None and self.owners[id(site)] is node.buffer.data:
                    site.enter()
                self._run(node.body, out)

    def _transfers(self) -> Iterator[tuple[str, Transfer | Requantized]]:
        for action in self.actions.values():
            if isinstance(action, Transfer | Requantized) and action.symbol:
                yield action.symbol, action

    def _tracked(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the buffers in DRAM whose accesses need order, with the bytes of one unit of an access, and their units.

        These are the buffers that are both written and read, and all scratch buffers, since those share memory.
        """
        stored = {name for name, action in self._transfers() if MEMORIES[action.kind].stage is Stage.STORE}
        loaded = {name for name, action in self._transfers() if MEMORIES[action.kind].stage is not Stage.STORE}
        sizes = {b.name: b.size_bytes for b in self._buffers()
                 if b.kind is BufferKind.SCRATCH or b.name in stored & loaded}
        return dict.fromkeys(sizes, self.unit_bytes), {name: -(-size // self.unit_bytes) for name, size in sizes.items()}

    def _buffers(self) -> Iterator[ProgramBuffer]:
        stored = {name for name, action in self._transfers() if MEMORIES[action.kind].stage is Stage.STORE}
        bits = {name: self._bits(action) for name, action in self._transfers()}
        inside = {buffer.data for buffer in self.scratch}
        for data, buffer in self.buffers.items():
            name = self.symbols[data]
            values = 1
            for extent in buffer.shape:
                values *= int_value(extent) or 0
            size = -(-values * bits.get(name, buffer.dtype.bits) // 8)
            kind = BufferKind.SCRATCH if data in inside else BufferKind.OUTPUT if name in stored else BufferKind.INPUT
            yield ProgramBuffer(name=name, size_bytes=size, kind=kind)

    def _bits(self, action: Transfer | Requantized) -> int:
        """Return the bits in DRAM of one value that a transfer moves."""
        return MEMORIES[action.kind].bytes_in(self.cfg) * 8 // action.lanes


def _turns(node: Node) -> int:
    """Count the iterations of all nests, every condition taken as true."""
    match node:
        case Nest():
            return 1
        case Row():
            return sum(map(_turns, node.parts))
        case Loop():
            return (int_value(node.extent) or 1) * _turns(node.body)
        case Branch():
            return _turns(node.then) + _turns(node.otherwise)
        case Let() | Memory():
            return _turns(node.body)


def _memories(node: Node) -> Iterator[Memory]:
    match node:
        case Memory():
            yield node
            yield from _memories(node.body)
        case Row():
            for part in node.parts:
                yield from _memories(part)
        case Branch():
            yield from _memories(node.then)
            yield from _memories(node.otherwise)
        case Loop() | Let():
            yield from _memories(node.body)
        case Nest():
            return


def _names(buffers: Mapping[Var, Buffer]) -> dict[Var, str]:
    """Choose a unique name for each buffer: its own if that is a free identifier."""
    found: dict[Var, str] = {}
    for data, buffer in buffers.items():
        name = "".join(c if c.isidentifier() or c.isdigit() else "_" for c in buffer.name)
        if not name.isidentifier() or name in (UOPS, ZEROS):
            name = f"_{name}"
        count = sum(other == name or other.startswith(f"{name}_") for other in found.values())
        found[data] = name if name not in found.values() else f"{name}_{count}"
    return found
