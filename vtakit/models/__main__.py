"""Write a network with random weights as an ONNX model.

  python -m vtakit.models resnet18 -o resnet18.onnx
  python -m vtakit.models                             list the networks
"""

import argparse
import sys
from pathlib import Path

from vtakit.base.errors import VtakitError
from vtakit.base.writing import write_bytes
from vtakit.models.networks import NETWORKS, build, parameter_count

_ERROR = 2


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m vtakit.models", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("network", nargs="?", help="its name; without one, the networks are listed")
    parser.add_argument("-o", "--output", type=Path, metavar="MODEL.onnx", help="where to write the model (NETWORK.onnx)")
    parser.add_argument("--size", type=int, metavar="N", help="pixels of a side of the images (that of the publication)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the weights (0)")
    args = parser.parse_args(argv)
    if args.network is None:
        for name, network in NETWORKS.items():
            print(f"{name:14}{network.title}")
        return 0
    try:
        model = build(args.network, size=args.size, seed=args.seed)
        path = args.output or Path(f"{args.network}.onnx")
        write_bytes(path, model.SerializeToString(), "the model")
    except VtakitError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return _ERROR
    print(f"{path}: {NETWORKS[args.network].title}, {parameter_count(model):,} parameters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
