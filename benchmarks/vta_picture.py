"""Draw where the cycles of ResNet-18 go on the accelerator: the picture of README.md, docs/resnet18.svg.

    python benchmarks/vta_picture.py                 print the total
    python benchmarks/vta_picture.py --write         draw the picture
    python benchmarks/vta_picture.py --device rtl    either of them with the RTL's run, not the cycle model's

The network of benchmarks/vta_networks.py on the reference system: the default configuration, one 64-bit AXI4 port, 40 cycles of
read latency. Every cycle of the compute stage is counted for one layer and one cause.
"""

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from matplotlib.ticker import StrMethodFormatter

from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.runtime.module import Module
from vtakit.runtime.report import Report
from vtakit.runtime.report.charts import COLOURS, LABELS, STAGE, draw
from vtakit.sim.confirmed import DEVICES

NETWORKS = import_module("vta_networks")
NAME = "ResNet-18, 224x224"
PICTURE = Path(__file__).parents[1] / "docs" / "resnet18.svg"


def measured(device: str) -> Report:
    """Run the network on a device, with a trace, and return its one launch."""
    graph = NETWORKS.NETWORKS[NAME]()
    with Module(NETWORKS.SUPPORT.vta_image(graph), device) as module:
        (launch,) = module.profile(NETWORKS.NETS.inputs_of(graph), repeat=1).launches
    return launch


def title(report: Report) -> str:
    """Return the total in one line."""
    total = report.total
    return f"{NAME}, int8: {total.cycles:,} cycles, {total.share_of_peak:.1%} of {total.peak} MACs a cycle"


def picture(report: Report) -> bytes:
    """Return an SVG with a bar for each layer, on a background of its own: it reads on light and dark pages alike."""
    def paint(figure: Any) -> None:
        figure.patch.set_facecolor("#ffffff")
        axes = figure.subplots()
        names = [f"{at}  {layer.name}" for at, layer in enumerate(report.layers, 1)]
        starts = [0] * len(names)
        for cause in CYCLE_CAUSES:
            cycles = [layer.stages[STAGE][cause] for layer in report.layers]
            axes.barh(range(len(names)), cycles, left=starts, color=COLOURS[cause], label=LABELS[cause])
            starts = [start + spent for start, spent in zip(starts, cycles, strict=True)]
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.invert_yaxis()
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.set(xlabel=f"cycles of the {STAGE} stage, by cause", title=title(report))
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", ncols=len(CYCLE_CAUSES), frameon=False, fontsize=8)
    return draw((9, 5.2), "svg", paint)


def main() -> None:
    """Parse the arguments, measure, print or draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=DEVICES, default="cycle", help="which device counts the cycles (cycle)")
    parser.add_argument("--write", action="store_true", help="draw the picture")
    args = parser.parse_args()
    report = measured(args.device)
    print(title(report))
    if args.write:
        PICTURE.write_bytes(picture(report))


if __name__ == "__main__":
    main()
