"""Print the reference of the instruction set for a configuration, in Markdown.

  vtakit isa
  vtakit isa --config blk8
  vtakit isa --list

The reference has the layout of every instruction, limits of the scratchpads, faults and host registers.
"""

import argparse
import json

from vtakit.hw.isa.config import NAMED, load_config
from vtakit.hw.isa.docs import reference
from vtakit.runtime.commands._arguments import add_config
from vtakit.runtime.terminal import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_config(parser)
    parser.add_argument("--list", action="store_true", help="list the named configurations instead")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.list:
        for name, config in NAMED.items():
            say(f"{name:12} {json.dumps(config.to_dict())}")
        return 0
    say(reference(load_config("default" if args.config is None else args.config)), end="")
    return 0
