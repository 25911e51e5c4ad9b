"""From a model or a file to a module: what `vtakit.compile` and `vtakit.load` are."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtakit.base.process import TIMEOUT_S
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.frontend.errors import LaterError, ModelError
from vtakit.compiler.graph.decisions import Given, ModelDecisions, read_decisions
from vtakit.compiler.graph.passes.base import Seen
from vtakit.runtime.cpu.evaluate import evaluator
from vtakit.runtime.images import graph_of, is_tflite, program_of, read_image, read_open, whole_image
from vtakit.runtime.inputs import check_threads, check_words
from vtakit.runtime.module import Module
from vtakit.runtime.placement import check_placed
from vtakit.runtime.signing import Trusted
from vtakit.runtime.source import Options
from vtakit.runtime.stages.dims import Dim, check_closed, dims_of
from vtakit.runtime.stages.module import OpenModule
from vtakit.runtime.stages.source import open_source
from vtakit.runtime.target import Image, Opening
from vtakit.runtime.targets import check_opening, find_target
from vtakit.runtime.tune.network import Network, read_tuned
from vtakit.sim.api import ConfigLike

if TYPE_CHECKING:
    import onnx
    import torch

    from vtakit.runtime.tune.records import Records


def compile(
    model: "str | Path | onnx.ModelProto | torch.export.ExportedProgram",
    target: Any = "llvm", *,
    shapes: Mapping[str, Sequence[int | Dim]] | None = None, batch: int | Dim | None = None,
    fixed: Mapping[str, Any] | None = None,
    name: str | None = None, integer: bool = True, winograd: bool = True, precision: str = "float32",
    decisions: Given | None = None, tuned: "str | Path | Records | None" = None, after: Seen | None = None,
    progress: Callable[[int, int], None] | None = None, cache: bool = True,
    config: ConfigLike | None = None, system: Any = None, isa: Any = None, core: Mapping[str, Any] | None = None,
    host: Any = None, device: Any = None, timeout_s: float = TIMEOUT_S, threads: int | None = None, **options: Any,
) -> Module:
    """Compile a model, or find what an earlier call has made of the same.

    For a CPU it becomes one native function; for the accelerator programs, with machine code for the rest.

    model    : an ONNX model, or the path of one; or what torch.export.export makes of a PyTorch module, or the path of a .pt2
               file with such; or the path of a TensorFlow Lite model (.tflite)
    target   : a name, one of `vtakit.targets()`: "llvm" for this machine, "vta" for the accelerator; or what `vtakit.target`
               makes. A module for a machine that this one cannot run is there to be saved and exported
    shapes   : of inputs whose shape the model leaves open: name -> shape, in which `vtakit.dim` stands for a size that stays open
    batch    : the size of a symbolic first dimension, or a `vtakit.dim`; 1 if no other size is symbolic, and else open, if None
    fixed    : inputs that become constants: name -> array
    name     : of the functions in C; that of the file or of the model's graph by default
    integer  : whether quantized models are computed in integers where they allow it, the same bytes on every target; else in
               floating point, as they are written
    winograd : whether 3 x 3 convolutions of float32 are computed by Winograd's way on a CPU where that is faster, with a relative
               error below 2e-5 (docs/winograd.md); else each is a sum of products
    precision : "float32"; or, on a CPU, "float16" or "bfloat16" for constant matrices, which are kept in 16 bits, and in bfloat16
               for convolutions that are faster so; sums are in float32 (docs/half_precision.md says how far results are off)
    decisions : values that are not the target's own choice: layer -> decision -> candidate (`vtakit.decisions` lists all)
    tuned    : file of records that `vtakit tune` wrote, or "shipped" for the records of this package: the decisions of the best
               candidates; `decisions` of a layer come before them. `Module.image.said` says which layers have records
               (docs/tuning.md)
    after    : sees each pass over the graph with the graph before and after it
    progress : is called with how much is done, and of how much: kernels, or for the accelerator nodes
    cache    : whether the module may be one that was kept, and is kept (`vtakit.runtime.kept_models`); not if `after` is given
    config, system, isa, core, host : options of target "vta". `config`: a VTAConfig, a name, a mapping of LOG_… keys, or the path
               of a JSON file, "default" if None. `system`: the memory for which tiles are chosen, and which devices "cycle" and
               "rtl" then have: a `vtakit.hw.system.System`, a name ("reference" if None), a mapping of fields, or the path of a
               JSON file. `isa`: "original" for programs in the published instruction set, with the abilities that its device is
               known to have, as in "original+mul" (docs/original.md). `core`: what makes the core smaller, for which tiles are
               chosen, and which these devices then have: fields of `vtakit.hw.params.CoreParams`, such as {"gemm_passes": 2}.
               `host`: the processor beside the accelerator, as a target; this machine if None
    threads  : of this processor that a run uses; as OpenMP has it if None: see `Module`
    device, timeout_s, options : what the accelerator's parts run on: see `Module`

    A model with a size that nobody gives, with inputs whose elements decide shapes, or with loops and sequences, is compiled when
    it runs, for the sizes of each run: `vtakit.runtime.stages.module.OpenModule` (docs/models.md).

    A model of which nothing runs on the accelerator gives a PlacementWarning and runs on the CPU; with a `device`, a TargetError.
    `Module.placement` says what runs where, and why.

    Raises UnsupportedError with all that is unsupported in the model, ModelError for a model that cannot be read or breaks a
    rule, GraphError for one whose run takes more memory than the machine has, TargetError for a target, a device or an option,
    DecisionError for a decision that does not exist or a value that is no candidate, TuneError for a file that holds no records,
    CodegenError for what has no code, VtaError
    for a configuration of other numbers than networks in integers have, InputError for a number of threads, a name or a flag that
    is none.
    """
    check_threads(threads)
    check_words(name, integer=integer, winograd=winograd, cache=cache)
    chosen = find_target(target, config=config, system=system, isa=isa, core=core, host=host)
    opening = Opening(device=device, timeout_s=timeout_s, threads=threads, options=options)
    check_opening(chosen, opening)
    asked = Options(integer=integer, winograd=winograd, precision=precision, decisions=read_decisions(decisions))
    chosen.check_options(asked)
    chosen = chosen.ready("compile")
    exported = program_of(model, shapes, batch, fixed)
    can_open = exported is None and not is_tflite(model)
    records = None if tuned is None else read_tuned(tuned)
    how: dict[str, Any] = {"tuned": records, "after": after, "progress": progress, "threads": threads, "cache": cache}
    image: Image | None = None
    if not dims_of(shapes, batch):
        try:
            image = whole_image(model, chosen, asked, (shapes, 1 if batch is None else batch, fixed, name), exported, **how)
        except LaterError:
            if not can_open:
                raise
    if image is not None:
        check_placed(image, device)
        return Module(image, device, timeout_s, threads=threads, **options)
    if not can_open:
        what = "a TensorFlow Lite model is compiled for one set of sizes" if exported is None else (
            "a PyTorch program has the shapes of its export")
        raise ModelError(f"{what}; vtakit.dim goes with ONNX models")
    source = open_source(model, chosen, asked, shapes=shapes, batch=batch, fixed=fixed, name=name, **how)
    opened = OpenModule(source, device, timeout_s, threads=threads, **options)
    opened.prepare_all()
    return opened


def decisions(
    model: "str | Path | onnx.ModelProto | torch.export.ExportedProgram",
    target: Any = "llvm", *,
    shapes: Mapping[str, Sequence[int]] | None = None, batch: int | None = None, fixed: Mapping[str, Any] | None = None,
    integer: bool = True, winograd: bool = True, precision: str = "float32", decisions: Given | None = None,
    config: ConfigLike | None = None, system: Any = None, isa: Any = None, core: Mapping[str, Any] | None = None,
    host: Any = None,
) -> ModelDecisions:
    """Return the decisions with which `compile` would compile a model: candidates, default, choice, and the rule that asks.

    Arguments as of `compile`. Decisions that are given may change which others there are.

    ::

        for layer, decision in vtakit.decisions("model.onnx"):
            print(layer, decision.name, decision.chosen, decision.candidates)

    Raises what `compile` raises for the model, the target and the decisions.
    """
    check_words(None, integer=integer, winograd=winograd)
    check_closed(shapes, batch, "decisions are made")
    chosen = find_target(target, config=config, system=system, isa=isa, core=core, host=host)
    asked = Options(integer=integer, winograd=winograd, precision=precision, decisions=read_decisions(decisions))
    chosen.check_options(asked)
    chosen = chosen.ready("compile")
    evaluate, exported = evaluator(chosen), program_of(model, shapes, batch, fixed)
    return chosen.decisions(graph_of(model, shapes, batch, fixed, None, evaluate, exported), asked, evaluate)


def network(
    model: "str | Path | onnx.ModelProto | torch.export.ExportedProgram",
    target: Any = "vta", *,
    shapes: Mapping[str, Sequence[int]] | None = None, batch: int | None = None, fixed: Mapping[str, Any] | None = None,
    integer: bool = True, winograd: bool = True, precision: str = "float32", decisions: Given | None = None,
    config: ConfigLike | None = None, system: Any = None, isa: Any = None, core: Mapping[str, Any] | None = None,
    host: Any = None, threads: int | None = None,
) -> Network:
    """Return a model with its tasks, for the tuner; arguments as of `compile`, but that None stands for one thread.

    Raises what `compile` raises for the model, the target and the decisions, and TargetError for a target without a tuner.
    """
    check_threads(threads)
    check_words(None, integer=integer, winograd=winograd)
    check_closed(shapes, batch, "a model is tuned")
    chosen = find_target(target, config=config, system=system, isa=isa, core=core, host=host)
    asked = Options(integer=integer, winograd=winograd, precision=precision, decisions=read_decisions(decisions))
    chosen.check_options(asked)
    chosen = chosen.ready("tune")
    evaluate, exported = evaluator(chosen), program_of(model, shapes, batch, fixed)
    return Network.of(graph_of(model, shapes, batch, fixed, None, evaluate, exported), chosen, asked, evaluate, threads)


def load(
    path: str | Path, device: Any = None, timeout_s: float = TIMEOUT_S, *, threads: int | None = None,
    trusted: "Trusted | None" = None, recompile: bool = False, progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Module:
    """Read a module that `Module.save` wrote.

    A module file holds machine code, which runs with the rights of this process. Load a file of somebody else's with `trusted`
    or `recompile` (docs/files.md).

    threads   : of this processor that a run uses; as OpenMP has it if None: see `Module`
    trusted   : public keys (paths of PEM files, or their text), one of which must have signed the file
    recompile : whether to build the code anew, for this machine, from the graph in the file; nothing executable is taken from it
    progress  : is called with how much is done, and of how much, while that is built
    device, timeout_s, options : what the accelerator's parts run on: see `Module`

    Raises PackageError for a file that is damaged, of another version of vtakit, or without a graph to build from, SignatureError
    for one that no trusted key has signed, CodegenError for code that this machine cannot run, TargetError or VtakitError for a
    device that the module's target does not have.
    """
    opened_ = read_open(path, trusted=trusted, recompile=recompile)
    if opened_ is not None:
        return OpenModule(opened_, device, timeout_s, threads=threads, **options)
    image = read_image(path, trusted=trusted, recompile=recompile, progress=progress)
    if why := image.target.misfit:
        raise CodegenError(f"module file {str(path)!r} is compiled for another machine: {why}: compile the model on this one, or "
                           "for it, or load it with recompile=True (--recompile)")
    return Module(image, device, timeout_s, threads=threads, **options)
