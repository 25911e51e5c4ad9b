"""Export a model as C source, header, weights and programs, for a program of your own.

  vtakit export MODEL.onnx -o DIR                       for this machine's processor
  vtakit export MODEL.onnx --target vta -o DIR --rtl    for the accelerator, with its RTL for a trial without a board
  vtakit export MODEL.vtak -o DIR                       from a module that `vtakit compile` wrote

`make -C DIR` then builds an example that runs the model on files. DIR/README.txt describes the files (docs/c_runtime.md).

With --target vta, --host and --cpu name the processor beside the accelerator, such as --host aarch64-linux-gnu --cpu cortex-a53
for a Zynq UltraScale+. The C code reaches the accelerator through a driver of five functions. The export includes a driver for
memory-mapped registers and one for the RTL.

DIR holds one export. The command replaces or deletes the files of an earlier export, and refuses if one was changed since. No C
compiler is needed.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vtakit.base.errors import VtakitError
from vtakit.base.text import counted, one_line
from vtakit.runtime.commands._arguments import core_of
from vtakit.runtime.commands._models import MODULE_SUFFIX, add_model, add_module, compiled, refuse_module_options, say_placement
from vtakit.runtime.terminal import say

if TYPE_CHECKING:
    from vtakit.runtime.target import Image


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model(parser, "module (.vtak)")
    add_module(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write to, new or old")
    parser.add_argument("--name", metavar="NAME", help="name of the functions and files (default: the model's)")
    parser.add_argument("--host", metavar="TRIPLE",
                        help="with --target vta: the processor beside the accelerator (default: this machine's)")
    parser.add_argument("--embed", default="incbin", metavar="WAY",
                        help="how a program includes the weights: incbin, by the assembler (default), or c, as an array in C")
    parser.add_argument("--rtl", action="store_true",
                        help="also build the accelerator's RTL, as a shared library (about a minute)")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from vtakit.runtime.placement import placement_of

    image = _image(args)
    files = image.target.export_c(image, args.output, embed=args.embed, rtl=args.rtl)
    total = sum((args.output / name).stat().st_size for name in files)
    where = one_line(str(args.output))
    say(f"{image.name}: {counted(len(files), 'file')}, {total:,} bytes, in {where}; README.txt there describes them")
    say_placement(placement_of(image))
    return 0


def _image(args: argparse.Namespace) -> "Image":
    """The compiled model: that of a module file, or of a model that is compiled now."""
    if args.model.suffix != MODULE_SUFFIX:
        refuse_module_options(args)
        module = compiled(args, host=args.host, **({} if args.name is None else {"name": args.name}))
        if args.dump_images is not None:
            module.dump_images(args.dump_images)
        return module.image
    given = {"--target": args.target != "llvm", "--cpu": args.cpu, "--host": args.host, "--shape": args.shape,
             "--batch": args.batch is not None, "--ahead": args.ahead, "--config": args.config, "--system": args.system,
             "--isa": args.isa, "--arch": args.arch, "a smaller core": core_of(args), "--precision": args.precision != "float32",
             "--decisions": args.decisions, "--tuned": args.tuned, "--name": args.name, "--machine": args.machine,
             "--dump-images": args.dump_images}
    if option := next((option for option, value in given.items() if value), None):
        raise VtakitError(f"{str(args.model)!r} is compiled already: {option} goes with an ONNX model")
    from vtakit.runtime.images import read_image

    image = read_image(args.model, trusted=args.trusted or None, recompile=args.recompile)
    image.target.check_code(image)
    return image
