"""Time to simplify index expressions as lowering makes them: fresh expressions, and ones that were seen before.

    python benchmarks/arith_speed.py [--repeat N] [--profile]

new   : an analyzer that knows the loop variables and has seen nothing yet
fresh : the expression is built anew (building is not counted), the analyzer has seen its like
again : the same object
Each is a median.
"""

import argparse
import cProfile
import statistics
import time
from collections.abc import Callable

from vtakit.compiler.arith.analyzer import Analyzer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import all_of, if_then_else, minimum, select
from vtakit.compiler.ir.values import wrap
from vtakit.compiler.ir.walk import subexpressions

EXTENTS = {"n": 1, "co": 8, "ho": 7, "wo": 7, "ci": 16, "hi": 8, "wi": 8, "rc": 64, "rh": 3, "rw": 3, "f": 4096}
V = {name: Var(name) for name in EXTENTS}
SIZE = Var("m", size=True)


def cases() -> dict[str, Callable[[], Expr]]:
    """Expressions by name, each made by a call."""
    co, ho, wo, ci, hi, wi = (V[name] for name in ("co", "ho", "wo", "ci", "hi", "wi"))
    rc, rh, rw, f = (V[name] for name in ("rc", "rh", "rw", "f"))
    return {
        "flat index": lambda: (((co * 16 + ci) * 56 + (ho * 8 + hi)) * 56 + (wo * 8 + wi)) + 0,
        "split of a fuse": lambda: ((f * 8 + hi) // 64) * 64 + (f * 8 + hi) % 64 // 8 * 8 + (f * 8 + hi) % 8,
        "padded read": lambda: if_then_else(
            all_of(ho * 8 + hi + rh >= 1, ho * 8 + hi + rh < 57, wo * 8 + wi + rw >= 1, wo * 8 + wi + rw < 57),
            ((rc * 56 + (ho * 8 + hi + rh - 1)) * 56 + (wo * 8 + wi + rw - 1)), 0),
        "blocked layout": lambda: ((((co * 16 + ci) // 16 * 56 + ho * 8 + hi) * 56 + wo * 8 + wi) * 16 + (co * 16 + ci) % 16),
        "tail guard": lambda: f * 8 + hi < SIZE,
        "tail extent": lambda: minimum(SIZE - f * 8, 8) + select(co < 8, ci, hi),
        "symbolic row": lambda: ((f * SIZE + ho) * 4 + rh) // 4,
    }


def analyzer() -> Analyzer:
    """One that knows the loops."""
    found = Analyzer()
    for name, extent in EXTENTS.items():
        found.bind(V[name], Range(wrap(0), wrap(extent)))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=300, metavar="N", help="expressions of each kind (default 300)")
    parser.add_argument("--profile", action="store_true", help="print where the time goes as well")
    args = parser.parse_args()
    profile = cProfile.Profile()
    print(f"{'expression':18} {'nodes':>5} {'new µs':>9} {'fresh µs':>9} {'again µs':>9}")
    for name, make in cases().items():
        known = analyzer()
        times: dict[str, list[float]] = {"new": [], "fresh": [], "again": []}
        for _ in range(args.repeat):
            e = make()
            for kind, one in (("new", analyzer()), ("fresh", known), ("again", known)):
                if args.profile and kind == "new":
                    profile.enable()
                start = time.perf_counter()
                one.simplify(e)
                times[kind].append(1e6 * (time.perf_counter() - start))
                profile.disable()
        nodes = sum(1 for _ in subexpressions(make()))
        medians = "".join(f" {statistics.median(values):9.1f}" for values in times.values())
        print(f"{name:18} {nodes:5}{medians}")
    if args.profile:
        profile.print_stats("tottime")


if __name__ == "__main__":
    main()
