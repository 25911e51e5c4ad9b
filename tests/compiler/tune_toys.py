"""Tasks whose costs are known, for tests of searches and sessions."""

import numpy as np

from vtakit.compiler.schedule.decisions import DecisionError
from vtakit.compiler.tune.space import listed
from vtakit.compiler.tune.table import Table

SIZES = [1, 2, 4, 8, 16, 32]


class Toy:
    """Four sizes and a form. The cost has one least value, near which neighbours are cheap too; the estimate is coarse."""

    def __init__(self, name="toy", best=(4, 16, 2, 8), scale=100.0, table=False):
        self.name, self.want, self.scale = name, best, scale
        self.key = {"target": "toy", "name": name, "best": list(best)}
        if table:
            rows = [*listed(self)]
            features = np.stack([self.features(each) for each in rows])
            self.table = Table(features, np.array([self.estimate(each) for each in rows]), lambda at: dict(rows[at]))

    def decide(self, decisions):
        product = 1
        for name in "abcd":
            product *= decisions.choose(name, SIZES, 1, "toy")
        form = decisions.choose("form", ["plain", "keep"], "plain", "toy")
        if form == "keep" and product > 1 << 12:
            raise DecisionError("what is kept does not fit")

    def lower(self, given):
        raise NotImplementedError

    def cost(self, given):
        off = sum(abs(np.log2(given[name] / want)) ** 1.5 for name, want in zip("abcd", self.want, strict=True))
        return self.scale * (1 + 0.2 * off + (0.1 if given["form"] == "plain" else 0))

    def estimate(self, given):
        return self.scale * (1 + abs(np.log2(given["a"] / self.want[0])))

    def features(self, given):
        logs = [np.log2(given[name]) for name in "abcd"]
        return np.array([*logs, given["form"] == "keep", sum(logs)], np.float32)


def tasks():
    """Two tasks of different cost."""
    return [Toy("a"), Toy("b", best=(2, 2, 32, 1), scale=300.0)]


class Measured:
    """A measurer by `Toy.cost` that notes what it was asked; some candidates fail, and `ends` trials later it is interrupted."""

    def __init__(self, fails=lambda given: False, ends=None):
        self.asked, self.fails, self.ends = [], fails, ends

    def measure(self, task, candidates):
        from vtakit.runtime.tune.outcome import Outcome

        for at, given in enumerate(candidates):
            if self.ends is not None and len(self.asked) >= self.ends:
                raise KeyboardInterrupt
            self.asked.append((task.name, given))
            yield at, Outcome(None, error="refused: it is one of those") if self.fails(given) else Outcome(task.cost(given))

    def close(self):
        pass
