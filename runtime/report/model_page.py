"""The page of a model on this processor."""

from vtakit.runtime.grid import Grid, share
from vtakit.runtime.profile import Profile
from vtakit.runtime.report.ceilings import Ceilings, other_way
from vtakit.runtime.report.charts import Roofline, inline, paint_roofline, paint_sequence
from vtakit.runtime.report.page import Page, Section, facts
from vtakit.runtime.target import Summary
from vtakit.runtime.timed import Timed

_WIDE = 11.0  # inches
_GIGA = 1e9
_NOTES = {  # on operators that do not multiply what MACs count
    "conv_winograd": "Layers with conv_winograd multiply 2.25 or 4 times less than their MACs, which count plain sums of "
                     "products: they can be above 100% of the roof.",
    "conv_bits": "Layers with conv_bits count the bits of 32 channels at a time, while their MACs count plain sums of products: "
                 "they can be above 100% of the roof.",
}


def model_page(title: str, image: Summary, profile: Profile, ceilings: Ceilings) -> Page:
    """Layers, roofline, utilisation and the order of layers in time, of a module's image and its profile."""
    macs = sum(timed.layer.macs for timed in profile.layers)
    points = [
        (str(at), timed.layer.macs / timed.layer.bytes, timed.layer.macs / timed.seconds / _GIGA)
        for at, timed in enumerate(profile.layers, 1) if timed.layer.macs and timed.layer.bytes and timed.seconds
    ]
    peak = max(ceilings.macs, ceilings.int8_macs)
    peaks = f"{ceilings.macs / _GIGA:.1f} GMAC/s in floating point"
    if ceilings.int8_macs:
        peaks += f", {ceilings.int8_macs / _GIGA:.1f} in int8"
    roof = Roofline(
        f"roofline: {peak / _GIGA:.1f} GMAC/s, {ceilings.bytes / _GIGA:.1f} GB/s", peak / _GIGA, ceilings.bytes / _GIGA, points,
        "MACs a byte read or written", "GMAC/s",
    )
    steps = [(_kind(timed), timed.seconds * 1e3) for timed in profile.layers]
    return Page(title, facts(
        ("device", f"this processor, {image.target.processor}"), ("time", f"{profile.seconds * 1e3:.3f} ms"),
        ("MACs", f"{macs:,}"), ("rate", f"{macs / profile.seconds / _GIGA:.1f} GMAC/s" if macs and profile.seconds else None),
        ("layers", str(len(profile.layers))), ("parameters", f"{image.params_bytes:,} bytes"),
        ("arena", f"{image.arena_bytes:,} bytes"),
    ), (
        Section(
            "Layers", "A layer is one kernel, with the nodes of the model that it computes; its time is the least of several "
            "runs. Side: the roof that bounds the layer. Of roof: its rate against that roof.",
            grid=layers_grid(profile, ceilings),
        ),
        Section(
            "Roofline", f"Each layer by its number. The roofs are measured with the model's number of threads: the fastest of a "
            f"matrix product or convolution in caches and of the layers themselves ({peaks}), and a sum of vectors in memory "
            f"({ceilings.bytes / _GIGA:.1f} GB/s). A layer whose data lie in caches can stand above the slope.",
            inline((8, 4.5), "roofline", lambda axes: paint_roofline(axes, roof)),
        ),
        Section("Time by operator", grid=_kinds(profile)),
        Section("Timeline", "", inline((_WIDE, 2.2), "timeline", lambda axes: paint_sequence(axes, steps, "milliseconds"))),
    ))


def layers_grid(profile: Profile, ceilings: Ceilings) -> Grid:
    """Return the table of layers with the roof that bounds each: compute or memory.

    A layer that moves bytes faster than memory can reads them from caches: "cache". Its roof is the peak.
    """
    grid, rows, notes = profile.grid, [], list[str]()
    for at, (row, timed) in enumerate(zip(grid.rows, profile.layers, strict=True), 1):
        layer = timed.layer
        if not (layer.macs and layer.bytes and timed.seconds):
            rows.append((str(at), *row, "", ""))
            continue
        rate, peak, slope = layer.macs / timed.seconds, ceilings.of(layer), layer.macs / layer.bytes * ceilings.bytes
        side, roof = ("compute", peak) if slope >= peak else ("cache", peak) if rate > slope else ("memory", slope)
        if (way := other_way(layer)) and _NOTES[way] not in notes:
            notes.append(_NOTES[way])
        rows.append((str(at), *row, side, share(rate / roof)))
    return Grid(grid.title, ("", *grid.columns, "side", "of roof"), tuple(rows), grid.labels + 1, tuple(notes))


def _kinds(profile: Profile) -> Grid:
    """Time of layers with the same main operator, the longest first."""
    found: dict[str, list[float]] = {}
    for timed in profile.layers:
        found.setdefault(_kind(timed), []).append(timed.seconds)
    order = sorted(found, key=lambda kind: -sum(found[kind]))
    return Grid("kinds", ("operator", "layers", "ms", "of all"), tuple([
        (kind, str(len(found[kind])), f"{sum(found[kind]) * 1e3:.3f}", share(sum(found[kind]) / (profile.seconds or 1)))
        for kind in order
    ]))


def _kind(timed: Timed) -> str:
    """The operator that a layer is named for."""
    return timed.layer.ops[0] if timed.layer.ops else "copy"
