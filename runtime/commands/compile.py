"""Compile a model into one file that `vtakit run` and `vtakit.load` take.

  vtakit compile MODEL.onnx -o model.vtak
  vtakit compile MODEL.onnx --library model.so          a shared library, with a C header and the parameters beside it

  vtakit compile MODEL.onnx --target vta -o model.vtak --dump-images DIR

With --target vta a quantised model runs on the accelerator as far as it can; DIR gets the DRAM before each launch, inputs being
zero, as NNN.bin and NNN.json for `vtakit sim --image`.

--precision float16 or bfloat16 keeps matrices of floating-point numbers in 16 bits, with sums in float32; what it did is said
(docs/half_precision.md).

--dump writes the graph after each pass as text, numbered in order.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vtakit.hw.isa.errors import VtakitError
from vtakit.runtime.commands._arguments import check_outputs
from vtakit.runtime.commands._models import add_model, compiled, model_files

if TYPE_CHECKING:
    from vtakit.compiler.graph.ir import Graph
    from vtakit.compiler.graph.passes.base import GraphPass, Seen
    from vtakit.runtime.image import Image


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.vtak", help="where to write the module")
    parser.add_argument("--library", type=Path, metavar="FILE.so", help="where to write a shared library")
    parser.add_argument("--dump", type=Path, metavar="DIR", help="folder for the graph after each pass")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.output is None and args.library is None:
        raise VtakitError("give -o FILE.vtak, --library FILE.so, or both")
    library = [args.library, args.library.with_suffix(".h"), args.library.with_suffix(".params")] if args.library else []
    reads = model_files(args.model, [args.output, *library])
    check_outputs(
        ("--output", "the module", args.output), *(("--library", "the library", path) for path in library), reads=reads,
    )
    module = compiled(args, _dumper(args.dump) if args.dump else None)
    if args.output is not None:
        module.save(args.output)
    if args.library is not None:
        module.export(args.library)
    if args.dump_images is not None:
        module.dump_images(args.dump_images)
    image = module.image
    sizes = f"{image.params_bytes:,} bytes of parameters, {image.arena_bytes:,} of arena"
    print(f"{image.name}: {len(image.layers)} layers, {sizes}")
    if args.target == "vta":
        _print_placement(image)
    elif image.said:
        print(image.said)
    for kind, ports in (("input", image.inputs), ("output", image.outputs)):
        for port in ports:
            print(f"{kind:6}  {port.name}: {port}")
    return 0


def _print_placement(image: "Image") -> None:
    """What runs where."""
    done = sum(len(part.layers) for part in image.vta_parts)
    print(f"accelerator: {done} of these layers, in {len(image.vta_parts)} launches")
    for line in image.graph.splitlines():
        if line.startswith("# "):
            print(line[2:])


def _dumper(folder: Path) -> "Seen":
    from vtakit.hw.isa.file import make_folder, write_bytes

    make_folder(folder)
    count = 0

    def write(step: "GraphPass", before: "Graph", after: "Graph") -> None:
        nonlocal count
        if not count:
            write_bytes(folder / "00_imported.txt", f"{before}\n".encode(), "graph")
        count += 1
        write_bytes(folder / f"{count:02}_{step.name}.txt", f"{after}\n".encode(), "graph")
    return write
