"""The accelerator as the scheduling core sees it: memory scopes, what they hold, and tensor intrinsics."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property, partial
from numbers import Integral
from pathlib import Path
from typing import Any

from vtakit.base.errors import one_of
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.requant import looked_up, requantized
from vtakit.compiler.intrin.tensor_intrin import TensorIntrin, decl_tensor_intrin, hardware_intrin
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.ops import binary
from vtakit.compiler.ir.stmt import Evaluate, For, Stmt, Store, seq
from vtakit.compiler.lower import Limits
from vtakit.compiler.te import reduce
from vtakit.compiler.te.compose import decl_buffer
from vtakit.compiler.te.language import compute, placeholder, reduce_axis
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.config import DEFAULT, VTAConfig, load_config
from vtakit.hw.isa.exhaustive import for_each
from vtakit.hw.isa.insns import REQUANT_WORDS, AluOp, Feature, usable
from vtakit.hw.isa.published import VTAKIT, Isa
from vtakit.hw.params import CoreParams
from vtakit.hw.system import REFERENCE, System, load_system

# The expression that an ALU operation leaves in the accumulator `a`; `b` is the other operand.
_VALUES: dict[AluOp, Callable[[Expr, Expr], Expr]] = for_each(AluOp, {
    AluOp.MIN: partial(binary, ir.Min), AluOp.MAX: partial(binary, ir.Max), AluOp.ADD: partial(binary, ir.Add),
    AluOp.SHR: partial(binary, ir.ShiftRight), AluOp.MUL: partial(binary, ir.Mul),
}, __name__)
SCOPES = ("inp", "wgt", "acc")
DWCONV = "vta.dwconv"
GEMM, RESET, REQUANT, REQUANT_LOOKUP = "vta.gemm", "vta.reset", "vta.requant", "vta.requant_lookup"
INSIDE = "vta.gemm_inside"  # a GEMM of which products with pads are left out
REQUANT_BETWEEN, REQUANT_LOOKUP_BETWEEN = "vta.requant_between", "vta.requant_lookup_between"  # REQUANTs that go among products
REQUANTS = REQUANT, REQUANT_LOOKUP, REQUANT_BETWEEN, REQUANT_LOOKUP_BETWEEN
NOTHING = Feature(0)
MOST_COPIES = 64  # of a buffer; two hide one stage's time behind another's, few more than that help


@dataclass(frozen=True)
class Target:
    """An accelerator to make programs for.

    config : its shape
    copies : how many copies of a buffer in a scratchpad there are at most, so that one is filled while others are used
    without : what the device lacks of the abilities that its configuration can have
    system : its memory, for which tiles are chosen; programs run with any other
    isa : the instructions that programs may use: ours, or those of the published instruction set
    core : what makes it smaller, fields of `vtakit.hw.params.CoreParams` that are not the default: a mapping, or pairs. Tiles are
           chosen for it; what it does not have is not used

    Raises VtaError for a field, ConfigError for a core that cannot be, and for a configuration that the published instruction set
    does not place in words.
    """

    config: VTAConfig = DEFAULT
    copies: int = 2
    without: Feature = NOTHING
    system: System = REFERENCE
    isa: Isa = VTAKIT
    core: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.copies, Integral) or isinstance(self.copies, bool) or not 1 <= self.copies <= MOST_COPIES:
            raise VtaError(f"copies is {self.copies!r} and must be a whole number from 1 to {MOST_COPIES}")
        object.__setattr__(self, "copies", int(self.copies))
        if not isinstance(self.system, System):
            raise VtaError(f"system is {self.system!r:.40} and must be a System: `vta` takes names")
        if not isinstance(self.without, Feature):
            raise VtaError(f"without is {self.without!r:.40} and must be a Feature of vtakit.hw.isa.insns, or more joined by |")
        if not isinstance(self.isa, Isa):
            raise VtaError(f"isa is {self.isa!r:.40} and must be an Isa: `vta` takes names")
        self.isa.check_config(self.config)
        given: Any = dict(self.core) if isinstance(self.core, tuple) else self.core
        known = CoreParams.of(self.config, self.system.bus_bits, given)
        plain = CoreParams(cfg=self.config, bus_bits=self.system.bus_bits)
        pairs = [(name, getattr(known, name)) for name in sorted(given or {}) if getattr(known, name) != getattr(plain, name)]
        object.__setattr__(self, "core", tuple(pairs))

    def has(self, feature: Feature) -> bool:
        """Return whether programs may use an ability beyond the smallest device."""
        return feature in usable(self.isa.features(self.params.features) & ~self.without)

    @cached_property
    def params(self) -> CoreParams:
        """The parameters of its core."""
        return CoreParams.of(self.config, self.system.bus_bits, dict(self.core))

    @property
    def simulated(self) -> dict[str, Any]:
        """Options of devices that simulate its memory and its core."""
        return {"system": self.system, "core": dict(self.core)}

    @property
    def scopes(self) -> tuple[str, ...]:
        return SCOPES

    def depth(self, scope: str) -> int:
        """Elements that a scratchpad holds."""
        return int(getattr(self.config, f"{scope}_depth"))

    def element(self, scope: str) -> tuple[int, int]:
        """The last two dimensions of a tensor in a scope: those of one memory element."""
        return (self.config.block if scope == "wgt" else self.config.batch, self.config.block)

    def lanes(self, scope: str) -> int:
        """Values of one memory element."""
        rows, columns = self.element(scope)
        return rows * columns

    def dtype(self, scope: str) -> str:
        """The type of values in a scope; "out" is what a store makes of those in acc."""
        return f"int{getattr(self.config, f'{scope}_bits')}"

    @property
    def limits(self) -> Limits:
        """Limits that the verifier checks: no buffer is larger than its scratchpad.

        Buffers may share memory, so their sum is checked where programs are emitted. Values of less than a byte count as bytes,
        as in the IR.
        """
        return Limits(buffer_bytes={
            scope: self.depth(scope) * self.lanes(scope) * dtype(self.dtype(scope)).bytes for scope in SCOPES})

    @cached_property
    def gemm(self) -> TensorIntrin:
        """``acc[batch, block] += inp[batch, block] x transpose(wgt[block, block])``, with its reset."""
        return self._gemm(GEMM)

    @cached_property
    def gemm_inside(self) -> TensorIntrin:
        """The same, with products of zeros that a LOAD has filled in left out."""
        return self._gemm(INSIDE)

    def _gemm(self, name: str) -> TensorIntrin:
        rows, block = self.element("inp")
        inp = placeholder((rows, block), self.dtype("inp"), name="inp")
        wgt = placeholder((block, block), self.dtype("wgt"), name="wgt")
        k, acc = reduce_axis((0, block), name="k"), self.dtype("acc")
        out = compute((rows, block), lambda i, j: reduce.sum(inp[i, k].astype(acc) * wgt[j, k].astype(acc), axis=k), name="acc")

        def code(ins: list[Buffer], outs: list[Buffer]) -> Any:
            multiply = hardware_intrin(name, outs[0].access_ptr("rw"), ins[0].access_ptr("r"), ins[1].access_ptr("r"))
            reset = hardware_intrin(RESET, outs[0].access_ptr("w"))
            return seq(Evaluate(reset), Evaluate(multiply)), reset, multiply
        return decl_tensor_intrin(out.op, code, name=name, binds={t: self._bound(t, t.name) for t in (inp, wgt, out)})

    def dwconv(self, rows: int, columns: int) -> TensorIntrin:
        """``acc[b, j] += sum over r, c of inp[r, c, b, j] * wgt[j, tap]``, with its reset.

        rows, columns : of the window, at most the device's, `config.window`; the taps are the device's last ones: tap
                        ``(R - rows + r) * C + C - columns + c`` of R x C

        Raises VtaError for a window that the device does not have.
        """
        most, (batch, block), acc = self.config.window, self.element("inp"), self.dtype("acc")
        if not self.has(Feature.DWCONV) or not (1 <= rows <= most[0] and 1 <= columns <= most[1]):
            raise VtaError(f"a window of {rows} x {columns} taps: this device has "
                           f"{f'at most {most[0]} x {most[1]}' if self.has(Feature.DWCONV) else 'no DWCONV'}")
        inp = placeholder((rows, columns, batch, block), self.dtype("inp"), name="inp")
        wgt = placeholder((block, block), self.dtype("wgt"), name="wgt")
        r, c = reduce_axis((0, rows), name="r"), reduce_axis((0, columns), name="c")
        out = compute((batch, block), lambda i, j: reduce.sum(
            inp[r, c, i, j].astype(acc) * wgt[j, (most[0] - rows + r) * most[1] + most[1] - columns + c].astype(acc),
            axis=[r, c]), name="acc")
        pitches = Var("row_pitch"), Var("column_pitch")
        window = decl_buffer(inp.shape, inp.dtype, inp.name, strides=[*pitches, block, 1], scope="inp")

        def code(ins: list[Buffer], outs: list[Buffer]) -> Any:
            add = hardware_intrin(DWCONV, outs[0].access_ptr("rw"), ins[0].access_ptr("r"), ins[1].access_ptr("r"),
                                  *ins[0].strides[:2], rows, columns)
            reset = hardware_intrin(RESET, outs[0].access_ptr("w"))
            return seq(Evaluate(reset), Evaluate(add)), reset, add
        return decl_tensor_intrin(
            out.op, code, name=DWCONV, binds={inp: window, wgt: self._bound(wgt, "wgt"), out: self._bound(out, "acc")})

    @cached_property
    def requant(self) -> TensorIntrin:
        """``out[batch, block] = requantized(acc[batch, block], words)``, on its way to DRAM; the words of each lane are three
        accumulator elements, one after another.
        """
        return self._requant(REQUANT)

    @cached_property
    def requant_lookup(self) -> TensorIntrin:
        """`requant`, and the results looked up in a table: the elements behind the words."""
        return self._requant_lookup(REQUANT_LOOKUP)

    @cached_property
    def requant_between(self) -> TensorIntrin:
        """`requant`, for instructions that are to be among the products of their tile and the next."""
        return self._requant(REQUANT_BETWEEN)

    @cached_property
    def requant_lookup_between(self) -> TensorIntrin:
        """`requant_lookup`, for instructions that are to be among the products of their tile and the next."""
        return self._requant_lookup(REQUANT_LOOKUP_BETWEEN)

    def _requant(self, name: str) -> TensorIntrin:
        shape, acc = self.element("acc"), self.dtype("acc")
        value = placeholder(shape, acc, name="value")
        words = [placeholder(shape, acc, name=f"word{at}") for at in range(REQUANT_WORDS)]
        out = compute(shape, lambda i, j: requantized(
            self.config, value[i, j], [word[i, j] for word in words]).astype(self.dtype("out")), name="out")

        binds = {tensor: self._bound(tensor, "acc") for tensor in (value, *words)}

        def code(_: list[Buffer], outs: list[Buffer]) -> Any:
            return hardware_intrin(name, outs[0].access_ptr("w"), *[buffer.access_ptr("r") for buffer in binds.values()])
        return decl_tensor_intrin(out.op, code, name=name, binds=binds | {out: self._bound(out, "global")})

    def _requant_lookup(self, name: str) -> TensorIntrin:
        shape, acc = self.element("acc"), self.dtype("acc")
        value = placeholder(shape, acc, name="value")
        words = [placeholder(shape, acc, name=f"word{at}") for at in range(REQUANT_WORDS)]
        table = placeholder((self.config.table_elements, *shape), acc, name="table")
        out = compute(shape, lambda i, j: looked_up(
            requantized(self.config, value[i, j], [word[i, j] for word in words]), lambda *at: table[at], *shape,
        ).astype(self.dtype("out")), name="out")

        binds = {tensor: self._bound(tensor, "acc") for tensor in (value, *words, table)}

        def code(_: list[Buffer], outs: list[Buffer]) -> Any:
            read = [buffer.access_ptr("r") for buffer in binds.values()]
            return hardware_intrin(name, outs[0].access_ptr("w"), *read)
        return decl_tensor_intrin(out.op, code, name=name, binds=binds | {out: self._bound(out, "global")})

    def alu(self, op: AluOp, *, immediate: bool = False) -> TensorIntrin:
        """``acc = op(acc, acc)`` on one element, or with a number in place of the second operand."""
        value, kind = _VALUES[op], self.dtype("acc")
        a, b = (placeholder(self.element("acc"), kind, name=name) for name in "ab")
        number = Var("number", dtype(kind))
        out = compute(a.shape, lambda i, j: value(a[i, j], number if immediate else b[i, j]), name="acc")
        read = out.op.input_tensors

        def code(ins: list[Buffer], outs: list[Buffer], params: tuple[Expr, ...] = ()) -> Stmt:
            i, j = Var("i"), Var("j")
            given = dict(zip(read, ins, strict=True))
            first, second = (given.get(tensor, outs[0])[i, j] for tensor in (a, b))  # one that is not read may be any
            rows, columns = outs[0].shape
            return For(i, rows, For(j, columns, Store(outs[0], (i, j), value(first, params[0] if immediate else second))))
        name = f"vta.{op.name.lower()}{'_imm' if immediate else ''}"
        return decl_tensor_intrin(
            out.op, code, name=name, scalar_params=[number] if immediate else None,
            binds={tensor: self._bound(tensor, "acc") for tensor in (*read, out)},
        )

    def _bound(self, tensor: Tensor, scope: str) -> Buffer:
        return decl_buffer(tensor.shape, tensor.dtype, tensor.name, scope=scope)


def vta(config: VTAConfig | str | Path | dict[str, object] = "default", **options: Any) -> Target:
    """The target for a configuration: a VTAConfig, a name, a mapping of LOG_… keys, or the path of a JSON file of them.

    options : the other fields of `Target`; system may also be a name, a mapping of fields, or the path of a JSON file, and isa a
              text such as "original" (`vtakit.hw.isa.published`)

    Raises ConfigError for a configuration, EncodingError for an unknown instruction set, VtaError for an option.
    """
    known = [field.name for field in fields(Target) if field.name != "config"]
    for name in options:
        if name not in known:
            raise VtaError(f"{name!r} is no option of a target for the accelerator; {one_of(known, name)}")
    if "system" in options:
        options["system"] = load_system(options["system"])
    if "isa" in options:
        options["isa"] = Isa.parse(options["isa"])
    return Target(load_config(config), **options)
