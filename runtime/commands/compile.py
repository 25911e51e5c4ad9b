"""Compile a model into one file, or into a shared library.

  vtakit compile MODEL.onnx -o MODEL.vtak
  vtakit compile MODEL.onnx --library MODEL.so
  vtakit compile INT8.onnx --target vta -o MODEL.vtak

`vtakit run` and vtakit.load read the .vtak file. A shared library has a C header and a file of parameters beside it.

With --target vta the accelerator runs the layers in int8, and the CPU the others. The command lists what is left to the CPU,
and why. A float model must be quantized first: `vtakit quantize`.

--precision float16 or bfloat16 keeps constant matrices in 16 bits on a CPU, with sums in float32 (docs/half_precision.md).
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vtakit.base.errors import VtakitError
from vtakit.base.text import counted, one_line
from vtakit.runtime.commands._arguments import check_outputs
from vtakit.runtime.commands._models import add_model, compiled, model_files, say_placement
from vtakit.runtime.terminal import say

if TYPE_CHECKING:
    from vtakit.compiler.graph.ir import Graph
    from vtakit.compiler.graph.passes.base import GraphPass, Seen
    from vtakit.runtime.stages.module import OpenModule


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.vtak", help="module to write")
    parser.add_argument("--no-graph", action="store_true",
                        help="leave the model's graph out of the module: a smaller file, which --recompile cannot take")
    parser.add_argument("--library", type=Path, metavar="FILE.so",
                        help="shared library to write, with FILE.h and FILE.params beside it")
    parser.add_argument("--dump", type=Path, metavar="DIR", help="folder for the graph after each pass, as text")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.output is None and args.library is None:
        raise VtakitError("give -o FILE.vtak, --library FILE.so, or both")
    library = [args.library, args.library.with_suffix(".h"), args.library.with_suffix(".params")] if args.library else []
    reads = model_files(args.model, [args.output, *library])
    check_outputs(
        ("--output", "the module", args.output), *(("--library", "the library", path) for path in library), reads=reads,
    )
    from vtakit.runtime.stages.module import OpenModule

    module = compiled(args, _dumper(args.dump) if args.dump else None)
    if args.dump_images is not None:
        module.dump_images(args.dump_images)
    if args.output is not None:
        module.save(args.output, graph=not args.no_graph)
    if args.library is not None:
        module.export(args.library)
    if isinstance(module, OpenModule):
        _say_open(module)
        return 0
    image = module.image
    sizes = f"{image.params_bytes:,} bytes of parameters, {image.arena_bytes:,} of arena"
    say(f"{image.name}: {counted(len(image.layers), 'layer')}, {sizes}")
    say_placement(module.placement)
    if image.said:
        say(one_line(image.said))
    for kind, ports in (("input", image.inputs), ("output", image.outputs)):
        for port in ports:
            say(f"{kind:6}  {one_line(port.name)}: {port}")
    return 0


def _say_open(module: "OpenModule") -> None:
    """Say what stays open, and for which sizes there is code already."""
    for name, port in module.inputs.items():
        say(f"input   {one_line(name)}: {port}")
    for name, port in module.outputs.items():
        say(f"output  {one_line(name)}: {port}")
    say_placement(module.placement)
    found = list(module.sizes())
    say(f"{module.name}: compiled for {counted(len(found), 'set')} of sizes; others when they are first run")
    for line in found:
        say(f"  {one_line(line)}")


def _dumper(folder: Path) -> "Seen":
    from vtakit.base.writing import make_folder, write_bytes

    make_folder(folder)
    count = 0

    def write(step: "GraphPass", before: "Graph", after: "Graph") -> None:
        nonlocal count
        if not count:
            write_bytes(folder / "00_imported.txt", f"{before}\n".encode(), "graph")
        count += 1
        write_bytes(folder / f"{count:02}_{step.name}.txt", f"{after}\n".encode(), "graph")
    return write
