"""The figures of `cpu_suite.py` as text for the terminal, as tables of docs/cpu.md, and as a picture.

    python benchmarks/cpu_page.py    writes the documents anew from the kept results, without measuring
"""

import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from page_parts import write_between

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "cpu_results"
PAGE, PICTURE = ROOT / "docs" / "cpu.md", ROOT / "docs" / "cpu.svg"
BEGIN, END = "<!-- begin: python benchmarks/cpu_suite.py --write -->\n", "<!-- end -->\n"
OURS = "vtakit"
COLOURS = {OURS: "#1f5fa8", "onnxruntime": "#d98e04", "OpenVINO": "#2a7f62"}
Results = Mapping[str, Any]
Row = Sequence[str]


def table(head: Row, rows: Iterable[Row]) -> str:
    """A table in Markdown; all columns but the first are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def label(row: Results, key: str) -> str:
    """A network's name for people."""
    kind = key.partition(" ")[2]
    return str(row["title"]) if kind == "float32" else f"{row['title']}, {kind}"


def networks(results: Results, threads: str) -> str:
    """The networks on so many threads."""
    peers = [*results["peers"]]
    head = ["network", *[f"{name}, ms" for name in (OURS, *peers)], "faster by"]
    rows = []
    for key, row in results["networks"].items():
        found = row["threads"].get(threads)
        if found is None:
            continue
        best = f"{found['best']:.2f}" if "best" in found else ""
        cells = [label(row, key), *[f"{found['ms'][name]:.2f}" if name in found["ms"] else "" for name in (OURS, *peers)], best]
        share = f"{found['share_of_peak']:.0%}" if "share_of_peak" in found else ""
        rows.append([*cells, f"{row['macs'] / 1e6:,.0f}", share, f"{row['difference']:.0e}"])
    return table([*head, "MMAC", "of peak", "difference"], rows)


def processes(results: Results) -> str:
    """Memory and compile time."""
    peers = [*results["peers"]]
    head = ["network", "compiled in, s", "weights, MB", "arena, MB", "by largest live set",
            *[f"{name} held, MB" for name in (OURS, *peers)], *[f"{name} most, MB" for name in (OURS, *peers)]]
    rows = []
    for key, row in results["networks"].items():
        own, found = row["memory"], row["processes"]
        held = [f"{found[name][kind] / 1e6:.0f}" if name in found else ""
                for kind in ("held_bytes", "most_bytes") for name in (OURS, *peers)]
        share = f"{own['arena'] / own['live']:.2f}" if own["live"] else ""
        rows.append([label(row, key), f"{found[OURS]['compile_s']:.1f}", f"{own['weights'] / 1e6:.1f}",
                     f"{own['arena'] / 1e6:.1f}", share, *held])
    return table(head, rows)


def layers(results: Results) -> str:
    """The layers, and the geometric means that the targets are of."""
    packages = [package for package in ("onnxruntime", "openvino") if _has(results, package)]
    head = ["layer", "pixels, channels, kernel", "in blocks, ms", "GFLOP/s", "of peak", "alone, ms",
            *[f"{package}, ms" for package in packages], "in blocks faster by", "alone faster by"]
    rows = []
    for name, row in results["layers"].items():
        best = [f"{row[key]:.2f}" if key in row else "" for key in ("fastest_by_ours", "fastest_by_alone")]
        alone = f"{row['alone_ms']:.3f}" if "alone_ms" in row else ""
        rows.append([name, row["shape"], f"{row['ours_ms']:.3f}", f"{row['gflops']:.0f}", f"{row['share_of_peak']:.0%}", alone,
                     *[f"{row[key]:.3f}" if key in row else "" for key in [f"{package}_ms" for package in packages]], *best])
    text = table(head, rows)
    for key, form in (("fastest_by_ours", "in blocks"), ("fastest_by_alone", "alone")):
        for what, kind in (("C2 to C12", "C"), ("D1 to D9", "D")):
            ratios = [row[key] for name, row in results["layers"].items() if name[0] == kind and name != "C1" and key in row]
            if ratios:
                mean = statistics.geometric_mean(ratios)
                text += f"\nGeometric mean of the faster peer's time by ours, {form}, {what}: {mean:.2f}.\n"
    return text


def _has(results: Results, package: str) -> bool:
    return any(f"{package}_ms" in row for row in results["layers"].values())


def machine(results: Results) -> str:
    """What was measured where, in a sentence."""
    m = results["machine"]
    peers = "".join(f", {name} {version.split('-')[0]}" for name, version in results["peers"].items())
    return (f"{m['date']}, commit {m['commit']}: {processor(results)}; {m['processors']} processors, {m['system']}, "
            f"Python {m['python']}, NumPy {m['numpy']}{peers}. Medians of {results['repeat']} turns.\n")


def processor(results: Results) -> str:
    """Its name, and the features that matter."""
    return f"{results['machine']['processor']} ({', '.join(results['machine']['features'])})"


def file_of(results: Results) -> Path:
    """Where the results of a processor are kept: one file for a name and what it has at best, since many are called alike."""
    words = re.findall(r"[a-z0-9]+", " ".join([results["machine"]["processor"], *results["machine"]["features"][-1:]]).lower())
    return RESULTS / f"{'-'.join(words) or 'processor'}.json"


def kept() -> list[Results]:
    """The results of all processors, the last ones first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    return sorted(found, key=lambda results: str(results["machine"]["date"]), reverse=True)


def page(every: Sequence[Results]) -> str:
    """A section for each processor."""
    return "\n".join(f"## On {each['machine']['processor']}\n\n{text(each)}" for each in every)


def text(results: Results) -> str:
    """All tables of a processor."""
    parts = [machine(results)]
    if results["networks"]:
        counts = list(dict.fromkeys(count for row in results["networks"].values() for count in row["threads"]))
        parts += [f"### Networks, {_threads(count)}\n\n{networks(results, count)}" for count in counts]
        parts.append(f"### Memory and compile time\n\n{processes(results)}")
    if results["layers"]:
        parts.append(f"### Layers, one thread\n\n{layers(results)}")
    return "\n".join(parts)


def _threads(count: str) -> str:
    return "one thread" if count == "1" else f"{count} threads"


def keep(results: Results) -> None:
    """In the place of former ones of the same processor."""
    file_of(results).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def write() -> None:
    """Write the tables of the page and the picture of the last results."""
    every = kept()
    write_between(PAGE, BEGIN, page(every), END)
    PICTURE.write_bytes(picture(every[0]))


def picture(results: Results) -> bytes:
    """Times of the networks and the layers by those of the faster peer, as SVG: shorter is faster."""
    from matplotlib.figure import Figure

    from vtakit.runtime.report.charts import draw

    times = {
        label(row, key): {OURS: 1.0, **{name: row["threads"]["1"]["ratios"].get(name, 0.0) for name in results["peers"]}}
        for key, row in results["networks"].items()
    }
    of_layers = {
        name: {OURS: 1.0, **{peer: row[f"{peer.lower()}_by_ours"] for peer in results["peers"]}}
        for name, row in results["layers"].items()
    }

    def paint(figure: Figure) -> None:
        for axes, (title, rows) in zip(figure.subplots(1, 2), (("networks", times), ("layers", of_layers)), strict=True):
            height = 0.8 / (1 + len(results["peers"]))
            for at, name in enumerate((OURS, *results["peers"])):
                places = [number + at * height for number in range(len(rows))]
                axes.barh(places, [each[name] for each in rows.values()], height, color=COLOURS[name], label=name)
            axes.set_yticks([number + 0.4 - height / 2 for number in range(len(rows))], list(rows))
            axes.invert_yaxis()
            axes.axvline(1, color="black", linewidth=0.6)
            axes.set(title=f"{title}, one thread", xlabel="time by that of vtakit: shorter is faster")
        figure.axes[0].legend(loc="lower right", fontsize=8)
    return draw((12, 7), "svg", paint)


if __name__ == "__main__":
    write()
