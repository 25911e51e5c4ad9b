"""Compare a network on every target: onnxruntime, NumPy, this processor, and the accelerator in its simulators.

Bytes must be equal:

- This processor and onnxruntime, for networks whose recipe is exact. These have one right result (`networks.scales`). onnxruntime
  computes it in floating point, or every other seed, with its optimisations, in integers.
- This processor and NumPy, for networks of arbitrary scales. Runtimes differ there by 1 in any layer: a result in the middle of
  two integers is rounded up here and to the even one by onnxruntime, and factors of 16 bits are not exact. NumPy computes the
  network's integer form by `vtakit.compiler.graph.reference`, and what stays in floating point by `FLOATS`.
- This processor and onnxruntime, for the same network without its quantizations, to within `FLOAT_ERROR`: float32 has layouts,
  kernels and groups of its own, and so another plan of memory.
- The accelerator and this processor: each launch on fsim, in the order of the program and in other interleavings of the stages,
  and on the RTL if asked for.
"""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from quantized_support import onnxruntime_of

import vtakit
from networks.accelerators import accelerator
from networks.decided import changed, random_decisions
from networks.emit import model_of
from networks.recipe import Array, Recipe
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.ir import Node
from vtakit.compiler.graph.passes.quantized.form import integer_form
from vtakit.compiler.graph.reference import reference
from vtakit.compiler.schedule.decisions import DecisionError
from vtakit.runtime.module import Module
from vtakit.runtime.placement import PlacementWarning
from vtakit.runtime.vta.part import VtaPart

FLOATS: Mapping[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "abs": np.abs,
    "neg": np.negative,
    "relu": lambda x: np.maximum(x, np.float32(0)), "leaky_relu": lambda x, alpha: np.where(x < 0, x * np.float32(alpha), x),
    "clip": lambda x, low, high: np.clip(x, low, high),
    "reduce_mean": lambda x, axes, keepdims=True: np.mean(x, tuple(axes), np.float64, keepdims=keepdims),
}
FLOAT_ERROR = 2e-5  # of the largest value, that one layer of floating-point numbers may add (docs/winograd.md)
REFUSED = "cannot be compiled with", "no correct program was found"  # decisions that the verifier refuses
FAULTS = "static checker", "verif"  # in the reason why a layer is on the CPU: the compiler's own fault, not a lack of room


class Difference(Exception):
    """Two results that must be equal and are not, or a step that failed.

    between : what was compared, or what failed: the same fault in a smaller network has the same words here
    detail  : the first difference
    """

    def __init__(self, between: str, detail: str) -> None:
        super().__init__(between, detail)
        self.between, self.detail = between, detail

    def __str__(self) -> str:
        return f"{self.between}: {self.detail}"


@dataclass(slots=True)
class Tally:
    """Count networks, and their layers by operator and place."""

    networks: int = 0
    exact: int = 0
    launches: int = 0
    vectors: int = 0  # of random decisions
    decided: Counter[str] = field(default_factory=Counter)  # that are not the default, by name
    refused: Counter[str] = field(default_factory=Counter)  # vectors of decisions, by the reason
    layers: Counter[str] = field(default_factory=Counter)  # on the accelerator, by operator
    left: Counter[str] = field(default_factory=Counter)    # reasons for the CPU

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*[getattr(self, each.name) + getattr(other, each.name) for each in fields(Tally)])


@dataclass(frozen=True, slots=True)
class Check:
    """Compare a network on a device's accelerator.

    config : the accelerator's; one of the seed's choice if None
    orders : random interleavings of the stages on fsim, beside the extreme ones
    decide : compile with random decisions
    """

    config: str | None = None
    device: str = "fsim"
    orders: int = 1
    decide: bool = False

    def __call__(self, recipe: Recipe) -> Tally:
        """Raises Difference for what is not equal."""
        proto, given = model_of(recipe), recipe.inputs()
        names = [output.name for output in proto.graph.output]
        wanted = _step("onnxruntime", lambda: onnxruntime_of(proto, optimised=bool(recipe.seed % 2)).run(names, given))
        if not recipe.exact:
            wanted = _step("NumPy", lambda: _by_numpy(proto, given))
        tally = Tally(1)
        module = self._compiled(proto, "llvm", recipe.seed, tally)
        if module is not None:
            on_cpu: dict[str, Array] = _step("running on the CPU", lambda: module.run(given))
            _compare("the CPU and " + ("onnxruntime" if recipe.exact else "NumPy"), names, wanted, on_cpu)
        target = accelerator(recipe.seed, self.config, self.device)
        module = self._compiled(proto, target, recipe.seed, tally)
        if module is None:
            return tally
        tally += _tally(recipe, module)
        if not tally.launches:
            return tally
        runs: list[tuple[str, dict[str, Any]]] = [("fsim", {})]
        runs += [("fsim", {"order": order}) for order in ("eager", "lazy", *range(recipe.seed, recipe.seed + self.orders))]
        runs += [("rtl", {"latency": recipe.seed % 40})] if self.device == "rtl" else []
        for device, options in runs:
            with Module(module.image, device, threads=1, **options) as opened:
                got = _step(f"running on {device}", lambda opened=opened: opened.run(given))
            what = f"the accelerator ({device}) and the CPU"
            _compare(what, names, wanted, got, " ".join(f"{key} {value}" for key, value in options.items()))
        return tally

    def _compiled(self, proto: Any, target: Any, seed: int, tally: Tally) -> Module | None:
        """Return a network's module; None if its decisions are refused, which counts with the reason."""
        what = f"compiling for {'the CPU' if target == 'llvm' else 'the accelerator'}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PlacementWarning)  # the smallest networks have nothing for it
            given = _step(f"drawing decisions for {target}", lambda: random_decisions(proto, target, seed)) if self.decide else {}
            if given:
                tally.vectors += 1
                tally.decided.update(changed(proto, target, given))
            try:
                return vtakit.compile(proto, target, threads=1, cache=False, decisions=given)
            except (DecisionError, GraphError) as error:
                if not given or not any(words in str(error) for words in REFUSED):
                    raise _failed(what, error) from error
                tally.refused[re.sub(r"\d+|\b\w+__?\w+", "#", str(error).rpartition("}: ")[2])] += 1
                return None
            except Exception as error:  # of any type: a compiler's own error is what is looked for
                raise _failed(what, error) from error


@dataclass(frozen=True, slots=True)
class CheckFloats:
    """Compare a network without its quantizations on this processor with onnxruntime."""

    def __call__(self, recipe: Recipe) -> Tally:
        """Raises Difference for what is farther apart than rounding."""
        proto, given = model_of(recipe, real=True), recipe.inputs(real=True)
        names = [output.name for output in proto.graph.output]
        wanted = _step("onnxruntime", lambda: onnxruntime_of(proto, optimised=bool(recipe.seed % 2)).run(names, given))
        got = _step("compiling floats for the CPU", lambda: vtakit.compile(proto, threads=1, cache=False).run(given))
        for name, want, (value, _) in zip(names, wanted, recipe.outputs, strict=True):
            largest = max(float(np.abs(want).max()), 50 * float(recipe.steps[value].scale))
            off = np.abs(got[name] - want)
            if got[name].shape != want.shape or not (off <= FLOAT_ERROR * recipe.layers * largest).all():
                raise Difference("the CPU and onnxruntime, in floating point",
                                 f"{name} is up to {off.max()} off, with values up to {np.abs(want).max()}")
        return Tally(1)


def describe(target: Target) -> str:
    """An accelerator in a line."""
    lacks = f", without {target.without.name}" if target.without else ""
    return f"{target.config}, copies {target.copies}{lacks}, {target.system}"


def _by_numpy(proto: Any, given: Mapping[str, Array]) -> list[Array]:
    def floats(node: Node, operands: Sequence[Array]) -> list[Array]:
        return [np.asarray(FLOATS[node.op](*operands, **node.attrs), np.float32)]
    graph = integer_form(import_model(proto))
    return list(reference(graph, *[given[value.name] for value in graph.inputs], nodes=floats))


def _step(what: str, make: Callable[[], Any]) -> Any:
    """Return the result of a step. Raises Difference for any exception in it."""
    try:
        return make()
    except Exception as error:  # of any type: a compiler's own error is what is looked for
        raise _failed(what, error) from error


def _failed(what: str, error: Exception) -> Difference:
    words = str(error).strip().splitlines() or [""]
    return Difference(f"{what} raised {type(error).__name__}", words[0][:500])


def _compare(what: str, names: Sequence[str], wanted: Sequence[Array], got: Mapping[str, Array], note: str = "") -> None:
    for name, want in zip(names, wanted, strict=True):
        have = got[name]
        if have.shape != want.shape or have.dtype != want.dtype:
            raise Difference(what, f"{name} is {have.dtype}{[*have.shape]}, want {want.dtype}{[*want.shape]}")
        wrong = np.argwhere((have != want) & ~(np.isnan(have) & np.isnan(want)))
        if len(wrong):
            at = tuple(wrong[0].tolist())
            more = f" ({note})" if note else ""
            raise Difference(what, f"{name}{[*at]} is {have[at]}, want {want[at]}; {len(wrong)} of {want.size} differ{more}")


def _tally(recipe: Recipe, module: Module) -> Tally:
    found = Tally(0, int(recipe.exact), len(module.image.parts_of(VtaPart)))
    for part in module.image.parts_of(VtaPart):
        for layer in part.layers:
            found.layers["+".join(layer.ops)] += 1
    for each in module.image.left:
        if any(word in each.reason for word in FAULTS):
            raise Difference("the compiler refuses its own program", each.reason)
        found.left[f"{each.op}: {each.reason}"] += 1
    return found
