"""A traced graph with code for each set of sizes, made at their first use."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from vtakit.base.errors import VtakitError
from vtakit.base.text import counted
from vtakit.compiler.frontend.torch.quiet import quiet
from vtakit.compiler.frontend.torch.traced import UnreadError, import_traced
from vtakit.runtime.torch_backend import parts
from vtakit.runtime.torch_backend.code import Run, runner
from vtakit.runtime.torch_backend.notices import say
from vtakit.runtime.torch_backend.settings import Settings
from vtakit.runtime.torch_backend.weights import Packed, is_weight

_ROUNDS = 8  # of splits of one graph; each finds nodes that the round before could not see
_MOST_MADE = 4  # times the kept sets of sizes are compiled in all, before further ones run in PyTorch; of changed weights too


class Specialized:
    """A graph of ATen operators, on arguments in a list, as PyTorch calls what a backend returns.

    Whole numbers among the arguments are the sizes. What has no code is run by PyTorch, with the reason said.
    """

    _boxed_call = True  # the caller hands over the list, so that tensors can be freed

    def __init__(self, module: torch.fx.GraphModule, settings: Settings, mutated: Sequence[int] = ()) -> None:
        self.module, self.settings = module, settings
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        self.numbers = [at for at, node in enumerate(placeholders) if not isinstance(node.meta.get("val"), torch.Tensor)]
        self.open = bool(self.numbers)
        self.passed = set(mutated)  # weights that are inputs, because they change
        self.made = self.renewed = 0  # compilations for sizes, and for weights that changed
        self._kept: OrderedDict[tuple[Any, ...], tuple[Packed, Run]] = OrderedDict()
        self._lock = threading.RLock()

    def __call__(self, args: list[Any]) -> Any:
        key = tuple([args[at] for at in self.numbers]) if self.open else ()
        found = self._kept.get(key)
        if found is None or found[0].changed(args):
            found = self._renewed(key, args)
        elif self.open:
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
        result = found[1](args)
        args.clear()
        return result

    def _renewed(self, key: tuple[Any, ...], args: Sequence[Any]) -> tuple[Packed, Run]:
        """Return the code of a set of sizes for the weights as they are."""
        with self._lock:
            found = self._kept.get(key)
            changed = found[0].changed(args) if found is not None else ()
            if found is not None and not changed:
                return found  # another thread made it
            if self.settings.weights == "auto":
                self.passed |= set(changed)
            found = self._kept[key] = self._made(args, renewed=found is not None)
            self._kept.move_to_end(key)
            while len(self._kept) > self.settings.specializations:
                self._kept.popitem(last=False)
            return found

    def _made(self, args: Sequence[Any], *, renewed: bool) -> tuple[Packed, Run]:
        """Compile for arguments; `renewed` if there was code for their sizes, and a weight of it changed."""
        most = _MOST_MADE * self.settings.specializations
        if not renewed and self.made >= most:
            say(f"a graph has run with {self.made} sets of sizes and numbers; further ones run in PyTorch: give what changes "
                "with every call as a tensor, or raise options={'specializations': …}")
            return Packed({}), self._eager
        if renewed and self.renewed >= most and self.settings.weights == "packed":
            say(f"a graph has been compiled {self.renewed} times because its weights changed; it runs in PyTorch now: give "
                "options={'weights': 'passed'}, with which weights are inputs")
            return Packed({}), self._eager
        self.renewed, self.made = self.renewed + renewed, self.made + (not renewed)
        weights = {} if self.settings.weights == "passed" else {
            at: each for at, each in enumerate(args) if at not in self.passed and is_weight(each)}
        try:
            with quiet():
                run, notice = self._compiled(args, weights)
        except VtakitError as error:
            run, notice, weights = self._eager, f"a graph runs in PyTorch: {error}", {}
        if notice:
            say(notice)
        return Packed(weights), run

    def _eager(self, args: Sequence[Any]) -> Any:
        return self.module(*args)

    def _compiled(self, args: Sequence[Any], weights: dict[int, torch.Tensor]) -> tuple[Run, str]:
        """Return what runs the graph, and a notice of what PyTorch runs."""
        module = self._fixed(args) if self.open else self.module
        try:
            return runner(import_traced(module, weights), self.settings), ""
        except UnreadError as error:
            return self._split(self._fixed(args) if module is self.module else module, weights, error)

    def _fixed(self, args: Sequence[Any]) -> torch.fx.GraphModule:
        """Return the graph with the values of these arguments' sizes."""
        module = torch.fx.GraphModule(self.module, torch.fx.Graph())
        module.graph = torch.fx.Graph()
        copied: dict[Any, Any] = {}
        output = module.graph.graph_copy(self.module.graph, copied)
        module.graph.output(output)
        module.recompile()
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        with torch.no_grad():
            FakeTensorProp(module, mode).propagate(*args)
        return module

    def _split(self, module: torch.fx.GraphModule, weights: dict[int, torch.Tensor], error: UnreadError) -> tuple[Run, str]:
        """Compile the parts of a graph between the nodes that cannot be; raise the error if none is worth it."""
        left, reasons = {node.name for node in error.nodes}, dict.fromkeys(error.reasons)
        for _ in range(_ROUNDS):
            made, worth = parts.split(module, left)
            more = set()
            runs = {}
            for name in worth:
                part = made.get_submodule(name)
                single = parts.single_output(part)
                try:
                    traced = import_traced(part, parts.constants_of(made, name, weights))
                    runs[name] = parts.Compiled(runner(traced, self.settings), single)
                except UnreadError as found:
                    more |= {node.name for node in found.nodes}
                    reasons |= dict.fromkeys(found.reasons)
            if more <= left:
                break
            left |= more
        else:
            raise error
        if not runs:
            raise error
        for name, run in runs.items():
            setattr(made, name, run)
        return lambda given: made(*given), (
            f"{counted(len(runs), 'part')} of a graph compiled, the rest runs in PyTorch: {'; '.join(reasons)}")
