"""Base of every operator for the accelerator: inputs, accumulators, an epilogue, and the stored result."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from math import prod
from numbers import Integral
from typing import Any

from vtakit.compiler.codegen.vta.alu import HIGHEST, LOWEST
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta.arguments import check_schedule, check_target
from vtakit.compiler.nn.vta.epilogue import PLAIN, Epilogue, shape_of
from vtakit.compiler.nn.vta.tail import Residual, Tail
from vtakit.compiler.schedule.decisions import Chooser
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.insns import Feature


@dataclass(frozen=True, eq=False, kw_only=True)
class Layer(ABC):
    """An operator as a tensor expression and a schedule for it.

    epilogue : what is done to accumulators before they are stored
    name     : of the result, and what the names of its stages begin with
    """

    target: Target
    epilogue: Epilogue = PLAIN
    name: str = "layer"

    def __post_init__(self) -> None:
        check_target("an operator", self.target)
        if not isinstance(self.name, str):
            raise VtaError(f"an operator's name is {self.name!r:.40} and must be text")
        if not isinstance(self.epilogue, Epilogue):
            raise VtaError(f"{self.name}: the epilogue is {self.epilogue!r:.40} and must be an Epilogue")
        for one in fields(self):  # NumPy's numbers become Python's, which do not overflow
            given = getattr(self, one.name)
            if isinstance(given, Integral):
                object.__setattr__(self, one.name, int(given))
            elif isinstance(given, tuple) and all(isinstance(number, Integral) for number in given):
                object.__setattr__(self, one.name, tuple(map(int, given)))

    @property
    @abstractmethod
    def sums(self) -> Tensor:
        """The accumulators that the epilogue begins with: [images, groups, out blocks, rows, columns, batch, block]."""

    @property
    @abstractmethod
    def operands(self) -> tuple[Tensor, ...]:
        """Return the operands besides those of the epilogue."""

    @property
    def phases(self) -> tuple[int, int] | None:
        """(down, across) where the groups are phases of one result."""
        return None

    @property
    def numbers_by_phase(self) -> bool:
        """Return whether the requantization has numbers for each phase."""
        return False

    @property
    def blocks_first(self) -> bool:
        """Return whether the accumulators' first and third dimensions are out blocks and images."""
        return False

    @property
    def begun(self) -> bool:
        """Return whether the sums begin with the residual."""
        return False

    @property
    def stores_between(self) -> bool:
        """Return whether REQUANTs go among the products of their tile and the next."""
        return False

    @cached_property
    def tail(self) -> Tail:
        """The stages after the sums. Raises VtaError for tensors of the epilogue that do not go with them."""
        self._check_epilogue()
        return Tail(target=self.target, name=self.name, epilogue=self.epilogue, sums=self.sums, phases=self.phases,
                    blocks_first=self.blocks_first, residual=self.residual, begun=self.begun,
                    by_phase=self.numbers_by_phase, between=self.stores_between)

    @cached_property
    def residual(self) -> Residual | None:
        """Return the epilogue's residual as accumulators. Raises VtaError where a configuration cannot load it."""
        return Residual.of(self.target, self.name, self.epilogue)

    @property
    def lifted_residuals(self) -> int:
        """Return 1 if GEMM brings the residual to ACC: it needs an element of INP each, and one of WGT for all; otherwise 0."""
        return int(self.residual is not None and self.residual.lifted is not None)

    def _check_epilogue(self) -> None:
        images, groups, outs, rows, columns, *element = shape_of(self.sums)
        images, outs = (outs, images) if self.blocks_first else (images, outs)
        channels = groups * outs // (self.phases[0] * self.phases[1] if self.phases else 1)
        whole = [images, channels, rows, columns, *element]
        if self.phases:
            whole[3:4] = [self.phases[0], columns, self.phases[1]]
        bits = self.target.config.acc_bits
        for name in ("bias", "scale", "add_scale", "low", "high"):
            number = getattr(self.epilogue, name)
            if isinstance(number, int) and not -(1 << bits - 1) <= number < 1 << bits - 1:
                raise VtaError(f"{self.name}: the epilogue's {name} is {number}, and accumulators of this configuration have "
                               f"{bits} bits: give {-(1 << bits - 1)} to {(1 << bits - 1) - 1}")
            if isinstance(number, int) and not LOWEST <= number <= HIGHEST:
                cure = "" if name in ("low", "high") else ", or a tensor with a number for each channel"
                raise VtaError(f"{self.name}: the epilogue's {name} is {number}, and ALU instructions hold numbers of "
                               f"{LOWEST} to {HIGHEST}: give one of those{cure}")
        for name in ("bias", "scale", "shift", "add_scale", "add"):
            tensor = getattr(self.epilogue, name)
            if not isinstance(tensor, Tensor):
                continue
            given = tuple(shape_of(tensor)), str(tensor.dtype)
            kinds = [] if name == "add" else [((channels, *element), self.target.dtype("acc"))]
            kinds += [(tuple(whole), self.target.dtype("out"))] if name in ("add", "scale") else []
            if given not in kinds:
                cure = " or ".join(f"{shape} of {kind}" for shape, kind in kinds)
                raise VtaError(f"{self.name}: the epilogue's {name}, {tensor.name}, is {given[0]} of {given[1]}, but must be "
                               f"{cure}")
        requantize = self.epilogue.requantize
        if requantize is not None and (
                requantize.target.config != self.target.config or requantize.on_store > self.target.has(Feature.REQUANT)):
            raise VtaError(f"{self.name}: the requantization is for another device than the operator: make both with one target")
        numbered = channels * (prod(self.phases) if self.phases and self.numbers_by_phase else 1)
        if requantize is not None and -(-requantize.channels // element[1]) != numbered:
            raise VtaError(f"{self.name}: the requantization is for {requantize.channels} channels, but the result has "
                           f"{numbered} blocks of {element[1]}")

    @property
    def result(self) -> Tensor:
        """Return the stored tensor."""
        return self.tail.result

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Return the tensors that the operator reads, once each."""
        return tuple(dict.fromkeys((*self.operands, *self.epilogue.tensors)))

    def stage(self, s: Schedule) -> Stage:
        """Return the stage of the result, which has the decisions. Raises VtaError for what is no schedule."""
        check_schedule(self.name, s)
        return s[self.result]

    @abstractmethod
    def decide(self, stage: Chooser) -> Any:
        """Make the decisions of `schedule`, and return what it follows. Raises VtaError if no part of the operator fits.

        stage : of the result, or whoever else chooses
        """

    @abstractmethod
    def schedule(self, s: Schedule) -> None:
        """Schedule its stages in a schedule that has them, as should be fastest. Raises VtaError if no part of it fits."""


def check_activations(target: Target, what: str, data: Tensor) -> None:
    """Raise VtaError unless a tensor is [images, blocks, height, width, batch, block] of a configuration's inputs."""
    _check_tensor(what, "data", data)
    shape, element = shape_of(data), target.element("inp")
    if len(shape) != 6 or tuple(shape[4:]) != element:
        raise VtaError(f"{what}: {data.name} has the shape {tuple(shape)}, but activations of this configuration are "
                       f"[images, blocks, height, width, {element[0]}, {element[1]}]")
    if min(shape[1:]) < 1:
        raise VtaError(f"{what}: {data.name} has the shape {tuple(shape)}, of no values: give at least one block and one pixel")
    if str(data.dtype) != target.dtype("inp"):
        raise VtaError(f"{what}: {data.name} is of {data.dtype}, but activations of this configuration are {target.dtype('inp')}")


def check_weights(target: Target, what: str, weights: Tensor, outer: str) -> None:
    """Raise VtaError unless a tensor is weights of a configuration with so many outer dimensions, named for the message."""
    _check_tensor(what, "weights", weights)
    shape, element = shape_of(weights), target.element("wgt")
    if len(shape) != outer.count(",") + 3 or tuple(shape[-2:]) != element:
        raise VtaError(f"{what}: {weights.name} has the shape {tuple(shape)}, but weights of this configuration are "
                       f"[{outer}, {element[0]}, {element[1]}]")
    if min(shape) < 1:
        raise VtaError(f"{what}: {weights.name} has the shape {tuple(shape)}, of no values: give at least one block and one tap")
    if str(weights.dtype) != target.dtype("wgt"):
        raise VtaError(f"{what}: {weights.name} is of {weights.dtype}, but weights of this configuration are "
                       f"{target.dtype('wgt')}")


def check_element(target: Target, what: str, weights: Tensor) -> None:
    """Raise VtaError unless a tensor is one element of a configuration's weights."""
    _check_tensor(what, "weights", weights)
    if tuple(shape_of(weights)) != target.element("wgt") or str(weights.dtype) != target.dtype("wgt"):
        raise VtaError(f"{what}: weights are {tuple(shape_of(weights))} of {weights.dtype}, but one element "
                       f"of this configuration is {target.element('wgt')} of {target.dtype('wgt')}")


def _check_tensor(what: str, name: str, given: object) -> None:
    if not isinstance(given, Tensor):
        raise VtaError(f"{what}: {name} is {given!r:.40} and must be a tensor: a placeholder, or an operator's result")
