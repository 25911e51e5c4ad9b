"""List the decisions of a model's compilation: what each layer can choose from, and what is chosen.

  vtakit decisions MODEL.onnx
  vtakit decisions INT8.onnx --target vta --config CFG -o DECISIONS.json
  vtakit compile INT8.onnx --target vta --config CFG --decisions DECISIONS.json -o MODEL.vtak

A decision is a choice of a graph pass or of a schedule rule, such as the tile of a convolution. The rule's estimate gives the
default. The file of -o has what is chosen, by layer: change it, and give it to `vtakit compile` or `vtakit run` with --decisions.
No code is made. With --decisions the list is that of the changed compilation. docs/tuning.md explains each decision.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vtakit.base.text import counted, one_line
from vtakit.runtime.commands._arguments import check_outputs
from vtakit.runtime.commands._models import add_model, decisions_of, model_files, refuse_other_files, target_of
from vtakit.runtime.commands._sizes import shapes_of
from vtakit.runtime.terminal import console, say

if TYPE_CHECKING:
    from vtakit.compiler.graph.decisions import ModelDecisions

_SHOWN = 6  # candidates in the table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_model(parser, makes_code=False)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.json", help="file to write: what is chosen, for --decisions")
    parser.add_argument("--json", action="store_true", help="print everything as JSON, all candidates included")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from vtakit.base.writing import write_bytes
    from vtakit.runtime.model import decisions

    refuse_other_files(args.model)
    check_outputs(("--output", "the decisions", args.output), reads=model_files(args.model, [args.output]))
    found = decisions(
        args.model, target_of(args, None), shapes=shapes_of(args.shape), batch=args.batch, precision=args.precision,
        decisions=decisions_of(args))
    if args.output is not None:
        chosen: dict[str, dict[str, object]] = {}
        for layer, decision in found:
            chosen.setdefault(layer, {})[decision.name] = decision.chosen
        write_bytes(args.output, f"{json.dumps(chosen, indent=1)}\n".encode(), "decisions")
        say(f"{args.output}: {counted(len([*found]), 'decision')} of {counted(len(chosen), 'layer')}")
    elif args.json:
        say(json.dumps([{"layer": layer, **decision.to_dict()} for layer, decision in found], indent=1))
    else:
        _print(found)
    return 0


def _print(found: "ModelDecisions") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in ("layer", "decision", "chosen", "default", "candidates", "rule"):
        table.add_column(title, overflow="fold")
    before = None
    for layer, decision in found:
        cells = [
            one_line(layer) if layer != before else "", decision.name, _short(decision.chosen),
            "" if decision.is_default else _short(decision.default), _candidates(decision.candidates), decision.rule]
        table.add_row(*map(Text, cells))
        before = layer
    console().print(table)
    say(counted(len([*found]), "decision"))


def _candidates(values: Sequence[object]) -> str:
    if len(values) <= _SHOWN:
        return ", ".join(map(_short, values))
    return f"{', '.join(map(_short, values[:_SHOWN - 1]))}, … {_short(values[-1])} ({len(values)})"


def _short(value: object) -> str:
    return " x ".join(map(str, value)) if isinstance(value, list) else str(value)
