"""Measure candidates for tuning sessions on other machines.

  dask scheduler --port 8786                                            on one machine
  vtakit worker --scheduler tcp://HOST:8786 --resource cpu=1            on each machine that measures
  vtakit tune MODEL.onnx --target llvm --workers tcp://HOST:8786 …      anywhere

The worker ends when its scheduler does. Trials run in processes of their own, so that a candidate that crashes or hangs does not
end it. Whoever reaches the scheduler runs code on its workers: keep it within a network that you trust.

It needs: pip install 'vtakit[tune]'
"""

import argparse
import math

from vtakit.base.errors import VtakitError
from vtakit.runtime.terminal import complain, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--scheduler", required=True, metavar="ADDRESS", help="such as tcp://host:8786")
    parser.add_argument("--resource", action="append", metavar="NAME=NUMBER", help="what this worker offers (cpu=1)")
    parser.add_argument("--wait", type=float, default=30.0, metavar="SECONDS", help="for the scheduler to answer (30)")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from vtakit.runtime.tune.workers import serve

    resources = dict(map(resource, args.resource or ["cpu=1"]))
    if not 0 < args.wait < 86400:
        raise VtakitError(f"--wait {args.wait:g}: give seconds, more than 0 and less than a day")
    offered = ", ".join(f"{name}={count:g}" for name, count in resources.items())
    complain(f"vtakit worker: works for {args.scheduler} with {offered}")
    serve(args.scheduler, resources, args.wait)
    say("the scheduler went away")
    return 0


def resource(text: str) -> tuple[str, float]:
    """Return a resource and its number. Raises VtakitError for anything else."""
    name, _, count = text.partition("=")
    try:
        number = float(count)
    except ValueError:
        number = math.nan
    if not name or not 0 < number < math.inf:
        raise VtakitError(f"--resource {text[:40]!r}: give a name and a number, such as cpu=1")
    return name, number
