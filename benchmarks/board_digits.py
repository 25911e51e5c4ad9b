"""The digits of `make demo` on a simulated board, with every byte through the pins of its serial line or USB.

    python benchmarks/board_digits.py [--board ulx3s] [--config blk8] [--link usb] [--images 2]

The network is trained and quantized as examples/digits does it, runs one image at a time, and its results are compared byte by
byte with those of the same integer model in NumPy.
"""

import argparse
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

import vtakit
from vtakit.boards.known import BOARDS, LINKS, find_board
from vtakit.hw.isa.config import NAMED
from vtakit.runtime.module import Module
from vtakit.runtime.vta import connect
from vtakit.runtime.vta.board import SimulatedBoard
from vtakit.runtime.vta.link.port import LinkPort

EXAMPLE = Path(__file__).parents[1] / "examples" / "digits"


def example() -> Any:
    """The example as a module."""
    sys.path.insert(0, str(EXAMPLE))
    spec = spec_from_file_location("digits_example", EXAMPLE / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Parse the arguments, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--board", choices=sorted(BOARDS), default="ulx3s")
    parser.add_argument("--config", choices=sorted(NAMED), default="blk8")
    parser.add_argument("--link", choices=LINKS, default=LINKS[0])
    parser.add_argument("--images", type=int, default=2)
    args = parser.parse_args()
    digits = example()
    to_learn, to_test = digits.digits()
    quantized = digits.quantize(digits.export(digits.learn(to_learn, digits.EPOCHS)), to_learn)
    module = vtakit.compile(quantized, "vta", batch=1, config=args.config, system=find_board(args.board).system())
    images = to_test.images[: args.images]
    wanted = digits.computed_by_numpy(quantized, images)
    begin = time.monotonic()
    with connect(f"sim:{args.board}", args.config, link=args.link) as board:
        assert isinstance(board.device, SimulatedBoard)
        assert isinstance(board.device.port, LinkPort)
        port, model = board.device.port, board.device.model
        print(f"sim:{args.board}, link {args.link}, {args.config}: built and tested itself in {time.monotonic() - begin:.0f} s",
              flush=True)
        runner = Module(module.image, board)
        for number, image in enumerate(images):
            begin, before = time.monotonic(), model.counts()
            found = runner.run({"image": image[None]})["logits"]
            if not np.array_equal(found[0], wanted[number]):
                sys.exit(f"image {number}: {np.sum(found[0] != wanted[number])} of {found[0].size} results differ")
            after = model.counts()
            print(f"image {number}: all results equal; {after.cycles - before.cycles:,} cycles of the board in all, "
                  f"{port.sent_bytes:,} bytes of memory sent so far, {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
