"""Instruction selection for loop nests, by the memories that a statement touches and what it computes."""

from collections.abc import Mapping
from dataclasses import replace

from vtakit.compiler.codegen.vta.actions import Operand, Passes, Product, Requantized, Transfer
from vtakit.compiler.codegen.vta.alu import passes
from vtakit.compiler.codegen.vta.errors import UnfitError
from vtakit.compiler.codegen.vta.forms import Guard, form, guards
from vtakit.compiler.codegen.vta.places import Site
from vtakit.compiler.codegen.vta.published import published_row
from vtakit.compiler.codegen.vta.target import (
    DWCONV,
    GEMM,
    INSIDE,
    REQUANT_BETWEEN,
    REQUANT_LOOKUP_BETWEEN,
    REQUANTS,
    RESET,
    Target,
)
from vtakit.compiler.codegen.vta.tree import Nest
from vtakit.compiler.codegen.vta.windows import AnyAction, Windows
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import is_address
from vtakit.compiler.ir.expr import Call, Expr, Load, Var
from vtakit.compiler.ir.values import int_value, value_of
from vtakit.compiler.passes.affine import linear
from vtakit.hw.isa.insns import ALU_FEATURES, REQUANT_WORDS, Feature, MemType

_LOADED = {"inp": MemType.INP, "wgt": MemType.WGT, "acc": MemType.ACC}


class Selector:
    """Chooses the instructions for nests.

    symbols : the name of each buffer in DRAM, by its `data`
    """

    def __init__(self, target: Target, sites: Mapping[Var, Site], symbols: Mapping[Var, str]) -> None:
        self.target, self.sites, self.symbols = target, sites, symbols

    def action(self, nest: Nest) -> AnyAction:
        """The action of a nest; raises UnfitError if no instruction does what its statement does."""
        if isinstance(nest.leaf, st.Evaluate):
            return self._call(nest, nest.leaf.value)
        if self._scope(nest.leaf.buffer) == "global":
            return self._store(nest, nest.leaf)
        copied = self._load(nest, nest.leaf)
        return copied if copied is not None else self._arithmetic(nest, nest.leaf)

    def _scope(self, buffer: Buffer) -> str:
        site = self.sites.get(buffer.data)
        return site.scope if site is not None else "global"

    def operand(self, nest: Nest, buffer: Buffer, index: Expr) -> Operand:
        """A value of a buffer in terms of the nest's loops."""
        site = self.sites.get(buffer.data)
        return Operand(site if site is not None else self.symbols[buffer.data], form(index, nest.vars))

    def _typed(self, buffer: Buffer, *kinds: str) -> None:
        wanted = [self.target.dtype(kind) for kind in kinds]
        if str(buffer.dtype) not in wanted:
            raise UnfitError(f"{buffer.name} is of {buffer.dtype}, and the accelerator has {' or '.join(wanted)} there")

    # Transfers

    def _load(self, nest: Nest, leaf: st.Store) -> Transfer | None:
        """The LOAD of a copy from DRAM, with a number where a condition does not hold; None if it is no copy."""
        value, inside, pad = leaf.value, tuple[Guard, ...](), 0
        scope = self._scope(leaf.buffer)
        if isinstance(value, ir.Select | ir.IfThenElse):
            pad = self._pad(scope, value.false)
            inside, value = guards(value.condition, nest.vars), value.true
        if scope != "acc" and value_of(value) is not None:
            to = self.operand(nest, leaf.buffer, leaf.indices[0])
            return Transfer(nest, _LOADED[scope], self.target.lanes(scope), to, None, pad=self._pad(scope, value))
        narrow = isinstance(value, ir.Cast)
        if isinstance(value, ir.Cast):
            value = value.value
        if not isinstance(value, Load) or self._scope(value.buffer) != "global":
            if inside:
                raise UnfitError(f"a condition chooses between {value} and {pad}, which only a LOAD from DRAM can")
            return None
        self._typed(leaf.buffer, scope)
        kind = _LOADED[scope]
        if narrow:
            self._typed(value.buffer, "out")
            if scope != "acc" or not self.target.has(Feature.ACC_8BIT):
                raise UnfitError(f"a LOAD to {scope} of this configuration does not widen values of {value.buffer.dtype}")
            kind = MemType.ACC_8BIT
        else:
            self._typed(value.buffer, scope)
        return Transfer(
            nest, kind, self.target.lanes(scope), self.operand(nest, leaf.buffer, leaf.indices[0]),
            self.operand(nest, value.buffer, value.indices[0]), inside, pad,
        )

    def _pad(self, scope: str, value: Expr) -> int:
        """Return the number that a LOAD fills up with. Raises UnfitError for one that it cannot."""
        number = value_of(value)
        if number != 0 and (number is None or scope != "inp" or not self.target.has(Feature.PAD_VALUE)):
            raise UnfitError(f"a LOAD to {scope} of this device fills up with zeros, not with {value}")
        return int(number)

    def _store(self, nest: Nest, leaf: st.Store) -> Transfer:
        """The STORE of a copy from the accumulator, which keeps the low bits of each value."""
        value = leaf.value.value if isinstance(leaf.value, ir.Cast) else leaf.value
        if not isinstance(value, Load) or self._scope(value.buffer) != "acc":
            raise UnfitError(f"what is written to DRAM is a copy of accumulators, not {leaf.value}: "
                             "compute it in a stage of scope acc")
        self._typed(leaf.buffer, "out")
        self._typed(value.buffer, "acc")
        return Transfer(
            nest, MemType.OUT, self.target.lanes("acc"), self.operand(nest, value.buffer, value.indices[0]),
            self.operand(nest, leaf.buffer, leaf.indices[0]),
        )

    # Arithmetic

    def _arithmetic(self, nest: Nest, leaf: st.Store) -> Passes:
        """The ALU passes of an expression over accumulators."""
        scope = self._scope(leaf.buffer)
        if scope != "acc":
            raise UnfitError(f"{leaf.buffer.name} in {scope} is made of {leaf.value}; only the accumulator can be computed in, "
                             f"and {scope} only be loaded: store the values and read them back with cache_read")
        self._typed(leaf.buffer, "acc")
        return self._passes(nest, leaf.buffer, leaf.indices[0], leaf.value)

    def _passes(self, nest: Nest, buffer: Buffer, index: Expr, value: Expr) -> Passes:
        dst, site = self.operand(nest, buffer, index), self.sites[buffer.data]
        own = linear(index)

        def is_own(load: Load) -> bool:
            return self.sites.get(load.buffer.data) is site and linear(load.indices[0]) == own
        row = tuple(published_row(passes(value, is_own), self.target.isa))
        loads: list[Operand | None] = []
        for one in row:
            if one.op is not None and not self.target.has(ALU_FEATURES[one.op]):
                raise UnfitError(f"this device's ALU has no {one.op.name}: use other operations, such as shifts")
            if one.load is not None:
                if self._scope(one.load.buffer) != "acc":
                    raise UnfitError(f"{one.load} is in {self._scope(one.load.buffer)}, and the ALU works on accumulators: "
                                     "read it with cache_read into acc")
                if self.sites[one.load.buffer.data] is site and not is_own(one.load):
                    raise UnfitError(f"{one.load} is another element of what is written")
                self._typed(one.load.buffer, "acc")
            loads.append(None if one.load is None else self.operand(nest, one.load.buffer, one.load.indices[0]))
        return Passes(nest, self.target.lanes("acc"), dst, row, tuple(loads))

    def _call(self, nest: Nest, call: Expr) -> AnyAction:
        """Return the action of a tensor intrinsic's call."""
        names = GEMM, INSIDE, RESET, *REQUANTS, DWCONV
        if not isinstance(call, Call) or call.name not in names:
            raise UnfitError(f"{call} is no operation of the accelerator, whose calls are {', '.join(names)}")
        operands = []
        for arg in call.args[:3] if call.name == DWCONV else call.args:
            assert is_address(arg)
            load = arg.children()[0]
            assert isinstance(load, Load)
            operands.append(self.operand(nest, load.buffer, load.indices[0]))
        if call.name == DWCONV:
            return self._windows(nest, operands, [int_value(arg) for arg in call.args[3:]])
        if call.name in REQUANTS:
            found = self._requantized(nest, *operands)
            return replace(found, between=call.name in (REQUANT_BETWEEN, REQUANT_LOOKUP_BETWEEN))
        lanes = tuple([self.target.lanes(scope) for scope in ("acc", "inp", "wgt")])
        dst, src, wgt = [*operands, None, None][:3]
        assert dst is not None
        return Product(nest, lanes, dst, src, wgt, inside=call.name == INSIDE)

    def _windows(self, nest: Nest, operands: list[Operand], numbers: list[int | None]) -> Windows:
        """The DWCONV of rows and columns of windows."""
        row_pitch, column_pitch, rows, columns = numbers
        if row_pitch is None or column_pitch is None:
            raise UnfitError("the rows and columns of its window are not a constant distance apart")
        assert rows is not None, numbers
        assert columns is not None, numbers
        lanes = self.target.lanes("acc"), self.target.lanes("inp"), self.target.lanes("wgt")
        dst, src, wgt = operands
        return Windows(nest, lanes, dst, src, wgt, (row_pitch, column_pitch), (rows, columns))

    def _requantized(self, nest: Nest, dram: Operand, sram: Operand, *words: Operand) -> Requantized:
        """The REQUANT of accumulators on their way to DRAM; its parameters, and a table, must be elements one after another."""
        lookup = len(words) > REQUANT_WORDS
        if not self.target.has(Feature.LOOKUP if lookup else Feature.REQUANT):
            raise UnfitError(f"this device has no REQUANT{' with a table' if lookup else ''}: compute what is stored in stages "
                             "of scope acc")
        lanes = self.target.lanes("acc")
        follows = [replace(words[0], form=replace(words[0].form, constant=words[0].form.constant + at * lanes))
                   for at in range(REQUANT_WORDS + lookup)]
        if list(words) != follows:
            raise UnfitError("the words of its parameters are not three elements one after another, and its table behind them: "
                             "keep them in one tensor of shape […, 3, batch, block] and read that with cache_read into acc")
        if not isinstance(dram.memory, str):
            raise UnfitError("what it makes is stored to DRAM: leave that stage without a scope")
        return Requantized(nest, MemType.OUT, lanes, sram, dram, words[0], lookup)
