"""LLVM itself: parse, check, optimise, emit. Nothing here touches a module that its verifier has not passed."""

from typing import Any

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target, target_machine


def _parsed(text: str, target: Target) -> Any:
    import llvmlite.binding as llvm  # loading LLVM takes a while, and only those who compile need it

    tool = target_machine(target)  # before parsing: it sets LLVM up
    module = llvm.parse_assembly(text, llvm.create_context())
    module.data_layout = str(tool.target_data)
    module.verify()
    return module


def _optimise(module: Any, target: Target) -> None:
    """LLVM's clean-up, without what would undo a schedule: it vectorises and unrolls nothing by itself."""
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.slp_vectorization = False
    options.loop_unrolling = False
    passes = llvm.create_pass_builder(target_machine(target), options)
    passes.getModulePassManager().run(module, passes)


def machine_code(text: str, target: Target, to: str) -> bytes:
    """A module as an "object" file, "assembly" text or "optimized" LLVM IR. Raises CodegenError if LLVM refuses it."""
    try:
        module = _parsed(text, target)
    except RuntimeError as error:
        raise CodegenError(f"LLVM refuses the module that was made, a defect of the code generator: {error}") from None
    _optimise(module, target)
    if to == "optimized":
        return str(module).encode()
    tool = target_machine(target)
    found = tool.emit_object(module) if to == "object" else tool.emit_assembly(module).encode()
    return bytes(found)
