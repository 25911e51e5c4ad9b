"""Real networks on the accelerator: quantized, compiled, run, and compared with this processor.

    python examples/vta_networks.py                             ResNet-18, MobileNet v1 and v2, DCGAN, on the functional simulator
    python examples/vta_networks.py mobilenet_v1 --size 64      one of them, on small images
    python examples/vta_networks.py dcgan --device rtl          on the hardware in Verilator, with cycles

The weights are random (`vtakit.models`), so what the networks say means nothing; their layers and sizes are those published.
"""

import argparse
import sys
import time

import numpy as np

import vtakit
from vtakit import models
from vtakit.runtime.vta.part import VtaPart

NAMES = ("resnet18", "mobilenet_v1", "mobilenet_v2", "dcgan")
SAMPLES = 4  # that scales are chosen from


def show(name: str, size: int | None, device: str) -> None:
    """Quantize a network, compile it for both, run it on both, and say where it ran. Exits if they give other bytes."""
    network = models.find(name)
    size = size if network.resizable else None
    float_model = models.build(name, size=size)
    samples = models.inputs(name, SAMPLES, size=size, seed=2)
    quantized = vtakit.quantize(float_model, samples, evaluation=samples)
    begin = time.perf_counter()
    module = vtakit.compile(quantized.model, target="vta", device=device, name=name)
    seconds = time.perf_counter() - begin
    inputs = models.inputs(name, size=size)
    with module:
        begin = time.perf_counter()
        found = module.run(inputs)
        took, launches = time.perf_counter() - begin, module.counters
    wanted, real = (vtakit.compile(model, name=name).run(inputs) for model in (quantized.model, float_model))
    there = sum(len(part.layers) for part in module.image.parts_of(VtaPart))
    print(f"{network.title}: {there} layers on the accelerator in {len(launches)} launch{'es' * (len(launches) != 1)}, "
          f"compiled in {seconds:.1f} s, run on {device} in {took:.2f} s")
    cycles = sum(counters.get("cycles", 0) for counters in launches)
    macs = sum(layer.macs for part in module.image.parts_of(VtaPart) for layer in part.layers)
    if cycles:
        print(f"  {cycles:,} cycles for {macs / 1e6:,.1f} million multiplications: {macs / cycles / 256:.1%} of 256 a cycle")
    for output, array in found.items():
        if array.tobytes() != wanted[output].tobytes():
            raise SystemExit(f"{name}: {device} gives other bytes than this processor for {np.sum(array != wanted[output])} of "
                             f"{array.size} values of {output}")
        noise = np.sum((array - real[output]) ** 2)
        decibels = 10 * np.log10(np.sum(real[output] ** 2) / noise) if noise else np.inf
        print(f"  {output} {list(array.shape)}: the same bytes as this processor; {decibels:.1f} dB above the noise of int8")
    for left in module.placement.left:
        print(f"  {left.op} {left.name!r} is on the CPU: {left.reason}")


def main() -> int:
    """Run the example; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(models.NETWORKS)} ({', '.join(NAMES)})")
    parser.add_argument("--size", type=int, metavar="N", help="pixels of a side of the images, where there is a choice")
    parser.add_argument("--device", choices=("fsim", "rtl"), default="fsim", help="what runs the programs (fsim)")
    args = parser.parse_args()
    for name in args.networks or NAMES:
        show(name, args.size, args.device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
