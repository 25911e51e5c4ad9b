"""Real networks on this processor: compiled, run, and where their time goes.

    python examples/networks.py                      all networks, at their published sizes
    python examples/networks.py resnet18 --size 64   one of them, on small images

The weights are random (`vtakit.models`), so what the networks say means nothing; their layers and sizes are those published.
"""

import argparse
import sys
import time

import vtakit
from vtakit import models

SHOWN = 5  # layers of a profile: those that take longest


def show(name: str, size: int | None, batch: int) -> None:
    """Compile a network, run it on random inputs, and print its slowest layers."""
    network = models.find(name)
    size = size if network.resizable else None
    start = time.perf_counter()
    module = vtakit.compile(models.build(name, size=size), batch=batch, name=name)
    compiled = time.perf_counter() - start
    inputs = models.inputs(name, batch, size=size)
    for output, array in module.run(inputs).items():
        print(f"{network.title}: {module.inputs} -> {output} {list(array.shape)} from {array.min():.2f} to {array.max():.2f}")
    profile = module.profile(inputs)
    image = module.image
    print(f"made and compiled in {compiled:.1f} s; {image.params_bytes / 1e6:.1f} MB of parameters, "
          f"{image.arena_bytes / 1e6:.1f} MB of arena; {len(profile.layers)} layers in {profile.seconds * 1e3:.2f} ms:")
    for timed in sorted(profile.layers, key=lambda each: -each.seconds)[:SHOWN]:
        rate = f"{timed.layer.macs / timed.seconds / 1e9:6.1f} GMAC/s" if timed.layer.macs else ""
        print(f"  {timed.seconds * 1e3:8.3f} ms  {timed.name:36} {timed.ops[:40]:40} {rate}".rstrip())


def main() -> int:
    """Run the example; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(models.NETWORKS)} (all)")
    parser.add_argument("--size", type=int, metavar="N", help="pixels of a side of the images, where there is a choice")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="images at once (1)")
    args = parser.parse_args()
    for name in args.networks or models.NETWORKS:
        show(name, args.size, args.batch)
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
